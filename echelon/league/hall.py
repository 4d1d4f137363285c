"""The hall: any number of battles between any entries of a league, fought in batches and written down."""

from __future__ import annotations

import dataclasses
import json
import time
import zlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from tensordict import TensorDictBase
from torch import Tensor

from echelon import noise
from echelon.agents.heuristic import scripted
from echelon.config import ConfigError, EnvConfig, require
from echelon.env import layout
from echelon.env.env import EchelonEnv
from echelon.env.layout import GROUPS, STREAMS
from echelon.env.outcome import STATS, Reason
from echelon.league.claims import claiming
from echelon.league.library import Library
from echelon.league.match import first_outcomes
from echelon.league.schedule import Battle, batches
from echelon.league.seating import SEATS, Script, Seat, Seen, Stack
from echelon.league.store import MAP_SEED, Match, Store
from echelon.learn.policy import MechPolicy
from echelon.replay.recorder import Recorder
from echelon.roster import build_roster
from echelon.world.pool import make_pool

Precision = Literal["fp32", "bf16", "fp16"]
LOOK_S = 0.5
"""How often it looks whether what another process fights is done."""
COMPUTE = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True)
class Fought:
    """What a batch of battles told."""

    matches: list[Match]
    seconds: float


class Hall:
    """Where the entries of a league fight. The same battle ends the same way in every batch.

    Args:
        store: the league.
        library: whom it reads policies by; by default one of its own.
        batch: battles side by side at most.
        precision: numbers the networks are computed in.
        compiled: compile simulation and networks, which pays for thousands of battles.
    """

    def __init__(
        self,
        store: Store,
        device: torch.device,
        library: Library | None = None,
        batch: int = 256,
        precision: Precision = "fp32",
        compiled: bool = False,
    ) -> None:
        self.store, self.device, self.batch = store, device, batch
        self.precision, self.compiled = precision, compiled
        self.library = library or Library(store.vault)
        self.config = battle_of(store.env)
        self.recipe = json.dumps({"map_seed": MAP_SEED, "precision": precision})
        self.maps = make_pool(self.config, build_roster(self.config, device), device)

    def missing(self, battles: Sequence[Battle]) -> list[Battle]:
        """Those that were not fought yet, at whatever precision: a pair meets on a seed once."""
        known = self.store.fought()
        return [battle for battle in battles if battle not in known]

    def fight(self, battles: Sequence[Battle], recorder: Recorder | None = None, kept: bool = True) -> Iterator[Fought]:
        """Fight them batch by batch; each is in the league's file when it is told of.

        Of battles that count each is fought once, however many processes are told to: what another one fights at the
        moment is waited for at the end, and fought here if that process dies.

        Args:
            recorder: keeps some battles of the first batch.
            kept: whether they count: written into the league's file.

        Raises:
            ConfigError: a commander does not fit these battles.
        """
        scripts = {entry.id: entry.name for entry in self.store.entries() if entry.is_scripted}
        for some in self._claimed(battles) if kept else batches(battles, self.batch):
            began = time.perf_counter()
            table = Table(self, some, scripts)
            outcome = table.play(recorder)
            seconds = time.perf_counter() - began
            matches = self._matches(some, outcome, seconds / len(some))
            if kept:
                self.store.record(matches)
            recorder = None
            yield Fought(matches, seconds)

    def _claimed(self, battles: Sequence[Battle]) -> Iterator[Sequence[Battle]]:
        """Batches of those that are left, until all are in the league's file."""
        require(self.batch >= 1, "a batch", ">= 1 battles", self.batch)
        with claiming(self.store) as claims:
            while left := self.missing(battles):
                some = claims.take(left, self.batch)
                if some:
                    yield some
                else:
                    time.sleep(LOOK_S)

    def _matches(self, battles: Sequence[Battle], outcome: TensorDictBase, seconds: float) -> list[Match]:
        host = {name: value.tolist() for name, value in outcome.items()}
        found = []
        for b, battle in enumerate(battles):
            sides = [dict(zip(STATS, side, strict=True)) for side in host["stats"][b]]
            stats = json.dumps({"score": host["score"][b], "blue": sides[0], "red": sides[1]})
            winner, reason = int(host["winner"][b][0]), Reason(host["reason"][b][0]).name.lower()
            found.append(Match(*battle, self.recipe, winner, reason, host["decisions"][b][0], seconds, stats))
        return found


def battle_of(env: EnvConfig) -> EnvConfig:
    """The league's battle on its own maps."""
    if len(env.blue) != len(env.red):
        raise ConfigError(f"a league's battle must be of equal team sizes (both play both sides), got {env.blue}")
    return dataclasses.replace(env, map_seed=MAP_SEED)


def place_of(battle: Battle, side: int) -> int:
    """Where a side of a battle sits in its block: anywhere, but always there; blocks fill evenly."""
    return zlib.crc32(f"{battle.blue} {battle.red} {battle.seed} {side}".encode()) % SEATS


class Table:
    """One batch of battles: an environment, and everybody in their seats.

    Args:
        scripts: names of the scripted commanders by id; all others are policies of the vault.
    """

    def __init__(self, hall: Hall, battles: Sequence[Battle], scripts: dict[str, str]) -> None:
        self.hall, self.battles = hall, battles
        self.mechs = len(hall.config.blue)
        device = hall.device
        seeds = torch.tensor([battle.seed for battle in battles], dtype=torch.int64, device=device)
        self.seeds = noise.bits(seeds, 0, noise.Stream.BATTLE, 1)[:, 0]
        seats: dict[str, list[Seat]] = defaultdict(list)
        for b, battle in enumerate(battles):
            for side, who in enumerate((battle.blue, battle.red)):
                seats[who].append(Seat(b + side * len(battles), place_of(battle, side)))
        self.commanders: list[Script | Stack] = [
            Script(scripted(scripts[who], hall.config, device), own, self.mechs, device)
            for who, own in seats.items()
            if who in scripts
        ]
        self.commanders += self._stacks({who: own for who, own in seats.items() if who not in scripts})

    def _stacks(self, seats: dict[str, list[Seat]]) -> list[Stack]:
        """Networks of one architecture together."""
        hall = self.hall
        alike: dict[object, list[tuple[MechPolicy, list[Seat]]]] = defaultdict(list)
        for who, own in seats.items():
            policy = hall.library.policy(who)
            if policy.comm_dim != hall.config.comm_dim:
                raise ConfigError(f"{who[:12]}: comm_dim must be {hall.config.comm_dim}, got {policy.comm_dim}")
            alike[policy.model].append((policy, own))
        stacks = []
        for group in alike.values():
            policies, seated = [policy for policy, _ in group], [own for _, own in group]
            stacks.append(Stack(policies, seated, self.mechs, hall.device, COMPUTE[hall.precision], hall.compiled))
        return stacks

    def play(self, recorder: Recorder | None = None) -> TensorDictBase:
        """The outcome of every battle. Those that ended go on unnoticed until all have, so that no shape changes."""
        hall, count = self.hall, len(self.battles)
        env = EchelonEnv(
            hall.config,
            count,
            device=hall.device,
            seed=0,
            maps=hall.maps,
            compiled=hall.compiled,
            witness=recorder,
        )
        env.set_seed(self.seeds)
        with torch.inference_mode():
            return first_outcomes(env, self._decide)

    def _decide(self, now: TensorDictBase, decision: int) -> None:
        """Write every team's action."""
        width = layout.action_width(self.hall.config.comm_dim)
        shape = (len(self.battles), 2 * self.mechs, width)
        chance = noise.normal(self.seeds, decision, noise.Stream.ACTION, shape[1] * width).view(shape)
        streams = {name: torch.cat([now.get((group, "observation", name)) for group in GROUPS]) for name in STREAMS}
        telemetry = now.get("telemetry")
        seen = Seen(streams, torch.cat((telemetry, telemetry)), torch.cat(chance.split(self.mechs, 1)))
        action: Tensor = torch.zeros_like(seen.chance)
        for commander in self.commanders:
            action[commander.rows] = commander.decide(seen)
        for group, own in zip(GROUPS, action.split(len(self.battles)), strict=True):
            now.set((group, "action"), own)
