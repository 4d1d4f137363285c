"""Battles of five seconds between weak hulls, and what TorchRL's form tells of them: what every client must tell too.

In 200 decisions mechs die, and battles end by elimination, by the zone and by time.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
import torch

import echelon
from echelon.env.outcome import Reason
from echelon.rules.catalog import Catalog
from echelon.rules.config import EnvConfig, WorldConfig
from echelon.rules.physics import RulesConfig

STANDARD = Catalog()
WEAK = {name: dataclasses.replace(hull, hp=hull.hp / 10) for name, hull in STANDARD.hulls.items()}
ARENA = EnvConfig(
    world=WorldConfig(40, 40, 12),
    rules=RulesConfig(max_episode_s=5.0, zone_score_to_win_s=1.5),
    blue=("medium", "light"),
    red=("medium", "scout"),
    catalog=dataclasses.replace(STANDARD, hulls=WEAK),
    map_pool=8,
)
OPPONENT = "heuristic:expert"
DECISIONS, SEED, WIDTH = 200, 3, 26
SECONDS = 2.0
"""Of each measurement of speed."""
OUT = "ECHELON_CLIENTS"
"""The environment variable that names a file, to which each test adds a row of INTEGRATIONS' table."""


@dataclasses.dataclass
class Battle:
    """One battle as its mechs lived it; arrays have a row for each of n mechs."""

    paid: list[np.ndarray] = dataclasses.field(default_factory=list)
    """By decision, `[n]`."""
    alive: list[np.ndarray] = dataclasses.field(default_factory=list)
    """By decision, after it, `[n]` bool."""
    terminated: np.ndarray | None = None
    truncated: np.ndarray | None = None
    final: np.ndarray | None = None
    """`[n, F]` the last observations."""
    winner: int = -1
    won: np.ndarray | None = None
    reason: Reason = Reason.RUNNING

    @property
    def length(self) -> int:
        return len(self.paid)

    @property
    def returns(self) -> np.ndarray:
        return np.sum(np.asarray(self.paid, np.float64), 0)

    def lifetime(self, mech: int) -> int:
        """Decisions up to the one in which a mech died, that included, or to the end."""
        alive = [bool(step[mech]) for step in self.alive]
        return alive.index(False) + 1 if False in alive else len(alive)


def action_at(decision: int, mechs: int = 2) -> np.ndarray:
    """`[n, D]` what the mechs do in a decision, counted through all battles: forward, and the rest drawn."""
    action = np.random.default_rng(decision).uniform(-1, 1, (mechs, WIDTH)).astype(np.float32)
    action[:, 0] = 1
    return action


@functools.cache
def battles(opponent: str | None = OPPONENT, decisions: int = DECISIONS) -> tuple[Battle, ...]:
    """The battles that end within so many decisions, as `echelon.mechs` plays them; all kinds of ends occur."""
    view = echelon.mechs(ARENA, opponent, 1, "cpu", side="both" if opponent is None else "blue")
    view.set_seed(SEED)
    td, own, done = view.reset(), Battle(), []
    for decision in range(decisions):
        action = torch.from_numpy(action_at(decision, view.n_agents))[None]
        step, td = view.step_and_maybe_reset(td.set("action", action))
        after = step["next"][0]
        own.paid.append(after["reward"][:, 0].numpy())
        own.alive.append(after["mask"].numpy())
        if not after["done"].any():
            continue
        own.terminated, own.truncated = (after[flag][:, 0].numpy() for flag in ("terminated", "truncated"))
        own.final, own.winner = after["observation"].numpy(), int(after["outcome", "winner"][0])
        is_blue = np.arange(view.n_agents) < len(ARENA.blue)
        own.won = np.where(is_blue, own.winner == 1, own.winner == 2)
        own.reason = Reason(int(after["outcome", "reason"][0]))
        done.append(own)
        own = Battle()
    if opponent is None:
        return tuple(done)
    assert {battle.reason for battle in done} >= {Reason.ELIMINATION, Reason.ZONE, Reason.TIME_UP}
    deaths = [battle.lifetime(mech) < battle.length for battle in done for mech in range(view.n_agents)]
    assert any(deaths) and any(battle.won[0] for battle in done)
    assert {bool(battle.truncated[0]) for battle in done} == {True, False}
    return tuple(done)


def assert_same(client: Sequence[Battle], expected: Sequence[Battle], tolerance: float = 1e-6) -> None:
    """Returns, lengths, flags, last observation and outcome of each battle, mech by mech."""
    assert len(client) == len(expected) > 5
    for own, true in zip(client, expected, strict=True):
        assert own.length == true.length and own.winner == true.winner
        np.testing.assert_allclose(own.returns, true.returns, rtol=tolerance, atol=1e-5)
        for name in ("terminated", "truncated", "won", "final"):
            np.testing.assert_array_equal(getattr(own, name), getattr(true, name), name)


def agent_steps_per_s(step: Callable[[], Any], agents: int, clock: Callable[[], float] = time.process_time) -> float:
    """Agent-steps in a second of this process, or of another `clock` where other processes play."""
    for _ in range(5):
        step()
    begin, count = clock(), 0
    while clock() - begin < SECONDS:
        step()
        count += 1
    return count * agents / (clock() - begin)


@functools.cache
def own_rate(num_envs: int) -> float:
    """Of TorchRL's form of the same battles."""
    view = echelon.mechs(ARENA, OPPONENT, num_envs, "cpu", 0, side="blue")
    action = torch.zeros(view.full_action_spec["action"].shape)
    held = [view.reset()]

    def step() -> None:
        held[0] = view.step_and_maybe_reset(held[0].set("action", action))[1]

    return agent_steps_per_s(step, view.batch_size.numel())


def note(
    client: str,
    package: str,
    step: Callable[[], Any],
    agents: int,
    clock: Callable[[], float] = time.process_time,
    **told: Any,
) -> None:
    """Add what a client tells to the table's rows, where `OUT` names a file."""
    if OUT not in os.environ:
        return
    rate, own = agent_steps_per_s(step, agents, clock), own_rate(max(agents // 2, 1))
    row = {"client": client, "version": version(package), "rate": round(rate), "own": round(own), **told}
    row |= {"date": time.strftime("%Y-%m")}
    with open(os.environ[OUT], "a") as file:
        file.write(json.dumps(row) + "\n")
