"""Reference battles of five seconds between weak hulls, in TorchRL's form; every client must return the same values.

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
from builders import weak_catalog

import echelon
from echelon.env.outcome import Reason
from echelon.rules.config import EnvConfig, WorldConfig
from echelon.rules.physics import RulesConfig

ARENA = EnvConfig(
    world=WorldConfig(40, 40, 12),
    rules=RulesConfig(max_episode_s=5.0, zone_score_to_win_s=1.5),
    blue=("medium", "light"),
    red=("medium", "scout"),
    catalog=weak_catalog(),
    map_pool=8,
)
OPPONENT = "heuristic:expert"
DECISIONS, SEED, WIDTH = 200, 3, 26
SECONDS = 2.0
"""Duration of each speed measurement."""
OUT = "ECHELON_CLIENTS"
"""Environment variable with the file to which each test appends a row of the table in INTEGRATIONS."""


@dataclasses.dataclass
class Battle:
    """Results of one battle; arrays have one row per mech, n in all."""

    paid: list[np.ndarray] = dataclasses.field(default_factory=list)
    """Rewards by decision, `[n]`."""
    alive: list[np.ndarray] = dataclasses.field(default_factory=list)
    """Alive flags after each decision, `[n]` bool."""
    terminated: np.ndarray | None = None
    truncated: np.ndarray | None = None
    final: np.ndarray | None = None
    """Last observations `[n, F]`."""
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
        """Return the number of decisions up to and including the death of a mech, or to the end."""
        alive = [bool(step[mech]) for step in self.alive]
        return alive.index(False) + 1 if False in alive else len(alive)


def action_at(decision: int, mechs: int = 2) -> np.ndarray:
    """Return actions `[n, D]` for a decision, counted over all battles: forward, other columns random."""
    action = np.random.default_rng(decision).uniform(-1, 1, (mechs, WIDTH)).astype(np.float32)
    action[:, 0] = 1
    return action


@functools.cache
def battles(opponent: str | None = OPPONENT, decisions: int = DECISIONS) -> tuple[Battle, ...]:
    """Return the battles of `echelon.mechs` that end within the decisions; all kinds of ends occur."""
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
    """Assert equal returns, lengths, flags, last observations and outcomes for each battle and mech."""
    assert len(client) == len(expected) > 5
    for own, true in zip(client, expected, strict=True):
        assert own.length == true.length and own.winner == true.winner
        np.testing.assert_allclose(own.returns, true.returns, rtol=tolerance, atol=1e-5)
        for name in ("terminated", "truncated", "won", "final"):
            np.testing.assert_array_equal(getattr(own, name), getattr(true, name), name)


def agent_steps_per_s(step: Callable[[], Any], agents: int, clock: Callable[[], float] = time.process_time) -> float:
    """Return agent-steps per second by the CPU time of this process, or by another `clock`."""
    for _ in range(5):
        step()
    begin, count = clock(), 0
    while clock() - begin < SECONDS:
        step()
        count += 1
    return count * agents / (clock() - begin)


@functools.cache
def own_rate(num_envs: int) -> float:
    """Return the agent-steps per second of TorchRL's form of the same battles."""
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
    """Append the properties of a client to the table's rows, if `OUT` names a file."""
    if OUT not in os.environ:
        return
    rate, own = agent_steps_per_s(step, agents, clock), own_rate(max(agents // 2, 1))
    row = {"client": client, "version": version(package), "rate": round(rate), "own": round(own), **told}
    row |= {"date": time.strftime("%Y-%m")}
    with open(os.environ[OUT], "a") as file:
        file.write(json.dumps(row) + "\n")
