"""What decided a battle: how often it is won from each of its moments, and what each mech was worth then, by playing on
from copies of the moment with fresh chance.

The win rate of the branches from a moment estimates its value, without a critic; what it becomes when a mech does
otherwise is a counterfactual baseline as in COMA (Foerster et al. 2018) and in difference rewards (Wolpert and Tumer
2002).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor

from echelon.arena.batch_arena import BatchArena, Battle, BattleResult
from echelon.arena.branches import (
    ALL_INTERVENTIONS,
    EDITS,
    INTERVENTIONS,
    Branch,
    Fork,
    ForkedBatch,
    Intervention,
    Moment,
    batches_made_by,
    moments_of,
    play_branches,
)
from echelon.arena.match import Z_95, win_rate_interval
from echelon.arena.resolve import resolve
from echelon.env.arguments import number_of_battles, one_seed, whole_within
from echelon.env.outcome import Winner
from echelon.replay.battle import Replay
from echelon.replay.file import read
from echelon.replay.recorder import Recorder
from echelon.rules.config import EnvConfig, env_from_json
from echelon.runtime import noise
from echelon.runtime.device import resolve_device
from echelon.runtime.errors import require
from echelon.runtime.files import expect
from echelon.runtime.limits import Limits, check_number, path_text
from echelon.world.splits import placed_seed

BRANCHES, EVERY = 32, 4
"""Branches from a moment, and decisions between two moments."""
MOST_BRANCHES = 10**5
SHARE = {Winner.BLUE: 1.0, Winner.RED: 0.0, Winner.DRAW: 0.5}


@dataclass(frozen=True)
class WhatIf:
    """How a battle goes on from its moments."""

    blue: str
    """Name of its commander."""
    red: str
    """Name of its commander."""
    seed: int
    """Of the battle."""
    result: BattleResult
    """Of the battle itself."""
    decision_s: float
    """Length of a decision."""
    branches: int
    """Battles from each moment."""
    moments: TensorDict
    """Batch `[K]`: `decision` int64, and `blue`, the share of the branches from before it that blue wins (a draw counts
    half), with the ends `low` and `high` of its 95 % interval. The last row is the end of the battle itself."""
    mechs: TensorDict
    """Batch `[N]`, blue first; empty where `at_s` was not given: by name of what a mech does otherwise the difference
    that it makes to blue's share, `difference`, and the ends of its 95 % interval, `low` and `high`."""
    at_s: float | None = None
    """When the mechs did otherwise, s."""

    def swings(self, count: int = 3) -> list[tuple[float, float, float]]:
        """The spans of time in which blue's share moved most: begin and end, s, and by how much."""
        shares, times = self.moments["blue"].tolist(), (self.moments["decision"] * self.decision_s).tolist()
        steps = [(times[k], times[k + 1], shares[k + 1] - shares[k]) for k in range(len(times) - 1)]
        return sorted(steps, key=lambda step: -abs(step[2]))[:count]

    def as_json(self) -> dict[str, Any]:
        """JSON values; times in s."""
        names = ("blue", "low", "high")
        rows = zip(self.moments["decision"].tolist(), *(self.moments[name].tolist() for name in names), strict=True)
        mechs = {name: {key: leaf.tolist() for key, leaf in part.items()} for name, part in self.mechs.items()}
        return {
            **{"blue": self.blue, "red": self.red, "seed": self.seed, "branches": self.branches},
            "outcome": {
                "winner": self.result.winner.name.lower(),
                "reason": self.result.reason.name.lower(),
                "seconds": self.result.decisions * self.decision_s,
            },
            "moments": [{"s": row[0] * self.decision_s, **dict(zip(names, row[1:], strict=True))} for row in rows],
            "at_s": self.at_s,
            "mechs": mechs,
        }


@dataclass(frozen=True)
class BattleSetup:
    """A battle that was played, or is to be."""

    config: EnvConfig
    blue: str
    red: str
    """Names of commanders, as `resolve` takes them."""
    seed: int
    end: tuple[str, str, int] | None = None
    """Winner, reason and number of decisions that a replay tells."""


def whatif(
    battle: EnvConfig | Replay | str | os.PathLike[str],
    index: int = 0,
    *,
    blue: str = "hard",
    red: str = "hard",
    seed: int = 0,
    every: int = EVERY,
    branches: int = BRANCHES,
    at_s: float | None = None,
    interventions: Sequence[Intervention] = INTERVENTIONS,
    device: torch.device | str | None = None,
    batch: int = 256,
    on_progress: Callable[[int, int], object] = lambda done, of: None,
) -> WhatIf:
    """Play a battle again, then on from its moments with fresh chance, and count who wins.

    Args:
        battle: a replay, or its file; or the config of a battle between the commanders named `blue` and `red`.
        index: which battle of the replay.
        blue, red, seed: of a battle that is no replay's.
        every: decisions between two moments.
        branches: battles from each moment.
        at_s: seconds after which each mech does otherwise in turn, with the same chance in every turn; by default none
            does.
        interventions: what the mechs do or are then.
        device, batch: where, by default a GPU if there is one, and battles at once.
        on_progress: called with the number of branches played, and of all.

    Raises:
        ConfigError: an argument out of range.
        FileError: no such file or commander, or one that no longer plays the battle of the replay.
    """
    many = whole_within("branches", branches, Limits(2, MOST_BRANCHES, "battles"))
    step = whole_within("every", every, Limits(1, MOST_BRANCHES, "decisions"))
    for name in interventions:
        require(name in ALL_INTERVENTIONS, "interventions", f"of {', '.join(ALL_INTERVENTIONS)}", name)
    known = (
        BattleSetup(battle, blue, red, one_seed(seed)) if isinstance(battle, EnvConfig) else of_replay(battle, index)
    )
    arena, own = arena_of(known, device, number_of_battles(batch, "batch"))
    return count_wins(known, arena, own, step, many, at_s, interventions, on_progress)


def count_wins(
    known: BattleSetup,
    arena: BatchArena,
    own: Battle,
    every: int,
    branches: int,
    at_s: float | None,
    interventions: Sequence[Intervention],
    on_progress: Callable[[int, int], object],
) -> WhatIf:
    """`whatif`, of a battle in an arena that knows its commanders."""
    at = None if at_s is None else int(at_s / known.config.rules.decision_s)
    result, moments = moments_of(arena, own, lambda decision: decision % every == 0 or decision == at)
    check_same(known, result)
    if at_s is not None:
        check_time(at_s, result, known)
    turns: list[tuple[Moment, int, Intervention | None]] = [(moment, 0, None) for moment in moments]
    changed = [k for k, moment in enumerate(moments) if moment.decision == at]
    mechs = range(known.config.num_mechs if changed else 0)
    turns += [(moments[k], mech, name) for k in changed for name in interventions for mech in mechs]
    # Its own seed, so that the first branches of more are those of fewer.
    chances = noise.battle_seeds(own.seed, branches, torch.device("cpu")).tolist()
    plan = [Branch(moment, chance, mech, name) for moment, mech, name in turns for chance in chances]
    played = play_branches(arena, own, plan, lambda done: on_progress(done, len(plan)))
    blue_wins = torch.tensor([SHARE[each.winner] for each in played]).view(len(turns), branches)
    shares, others = blue_wins.split([len(moments), len(turns) - len(moments)])
    table = TensorDict(differences(others - shares[changed], interventions) if changed else {}, [len(mechs)])
    when = None if at is None else at * known.config.rules.decision_s
    lane = lane_of(moments, shares, result)
    return WhatIf(known.blue, known.red, own.seed, result, known.config.rules.decision_s, branches, lane, table, when)


def fork(
    battle: Replay | str | os.PathLike[str],
    index: int = 0,
    *,
    at_s: float,
    blue: str | None = None,
    red: str | None = None,
    seed: int | None = None,
    mech: int = 0,
    intervention: Intervention | None = None,
    changes: Sequence[tuple[int, str, float]] = (),
    device: torch.device | str | None = None,
) -> Replay:
    """Play a recorded battle again, and otherwise from a time on.

    Args:
        battle: a replay, or its file.
        index: which of its battles.
        at_s: seconds after which something is other.
        blue, red: who commands from there on, where it is another one. Who was not there remembers nothing.
        seed: of chance from there on; by default chance goes on as it did.
        mech, intervention: which mech does or is otherwise, blue first, and what.
        changes: what is set at that time: the number of a mech, blue first, one of `hp`, `leg_hp`, `heat`, `stability`,
            `x`, `y`, `z` (vox, of the hull's centre) and `yaw` (rad), and its value.
        device: by default a GPU if there is one.

    Returns:
        A replay of two battles: as it was, and as it became.

    Raises:
        ConfigError, FileError: as `whatif`.
    """
    replay = battle if isinstance(battle, Replay) else read(Path(path_text(battle)))
    known = of_replay(replay, index)
    edits = checked_changes(known.config, mech, intervention, changes)
    heirs = replace(known, blue=blue or known.blue, red=red or known.red)
    arena, own = arena_of(known, device, 1, heirs)
    (result,) = arena.play([own]).results
    check_same(known, result)
    check_time(at_s, result, known)
    chance = own.seed if seed is None else placed_seed(one_seed(seed), known.config.split)
    after = Battle(resolve(heirs.blue).id, resolve(heirs.red).id, chance)
    change = Fork(int(at_s / known.config.rules.decision_s), after, mech, intervention, edits)
    return Replay(replay.about, [replay.battles[index], *record_fork(arena, own, change, known, heirs).battles])


def checked_changes(
    config: EnvConfig, mech: Any, intervention: Any, changes: Sequence[Any]
) -> tuple[tuple[int, str, float], ...]:
    """The edits of a fork, once all that is other in it is checked."""
    whole_within("mech", mech, Limits(0, config.num_mechs - 1))
    is_known = intervention is None or intervention in ALL_INTERVENTIONS
    require(is_known, "intervention", f"one of {', '.join(ALL_INTERVENTIONS)}", intervention)
    return tuple(checked_edit(config, edit) for edit in changes)


def checked_edit(config: EnvConfig, edit: Any) -> tuple[int, str, float]:
    """A mech, what of it is set, and to what."""
    is_triple = isinstance(edit, Sequence) and not isinstance(edit, str) and len(edit) == 3
    require(is_triple, "changes", "each a mech, what of it is set, and its value", edit)
    mech, name, value = edit
    whole_within("changes: mech", mech, Limits(0, config.num_mechs - 1))
    require(name in EDITS, "changes", f"of {', '.join(EDITS)}", name)
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e9
    require(is_number, f"changes: {name}", "a number", value)
    return mech, name, float(value)


def record_fork(arena: BatchArena, own: Battle, change: Fork, known: BattleSetup, heirs: BattleSetup) -> Replay:
    """The replay of a battle that is other from a decision on, under the names of its commanders before and after."""
    recorder = Recorder([0])
    with batches_made_by(arena, partial(ForkedBatch, fork=change)):
        arena.play([own], recorder)
    blue, red = (
        old if old == new else f"{old}, then {new}" for old, new in ((known.blue, heirs.blue), (known.red, heirs.red))
    )
    return recorder.finish([blue], [red])


def of_replay(battle: Any, index: int) -> BattleSetup:
    """The battle of a replay."""
    replay = battle if isinstance(battle, Replay) else read(Path(path_text(battle)))
    place = whole_within("index", index, Limits(0, len(replay.battles) - 1))
    one = replay.battles[place]
    outcome = one.about["outcome"]
    end = outcome["winner"], outcome["reason"], one.decisions
    return BattleSetup(env_from_json(replay.about["env"]), one.about["blue"], one.about["red"], one.about["seed"], end)


def arena_of(
    known: BattleSetup, device: torch.device | str | None, batch: int, *others: BattleSetup
) -> tuple[BatchArena, Battle]:
    """An arena whose policies are the commanders of a battle, and of others; and the battle itself."""
    device = resolve_device("auto" if device is None else device)
    blue, red, *more = (resolve(name) for each in (known, *others) for name in (each.blue, each.red))
    policies = {commander.id: commander.policy(known.config, device) for commander in (blue, red, *more)}
    return BatchArena(known.config, policies.__getitem__, device, batch), Battle(blue.id, red.id, known.seed)


def check_time(at_s: float, result: BattleResult, known: BattleSetup) -> None:
    """Refuse a time at which no decision of the battle can be other."""
    last_s = (result.decisions - 1) * known.config.rules.decision_s
    check_number("at_s", at_s, Limits(0.0, last_s, "s, within the battle"))


def check_same(known: BattleSetup, result: BattleResult) -> None:
    """Raise `FileError` where a battle that was played again is not the one that was recorded."""
    again = result.winner.name.lower(), result.reason.name.lower(), result.decisions
    told = "{} by {} after {} decisions"
    same = known.end is None or known.end == again
    recorded = told.format(*known.end or again)
    limit = f"{known.blue} against {known.red}, seed {known.seed}, to end as recorded: {recorded}"
    expect(same, "the battle played again", limit, told.format(*again))


def lane_of(moments: Sequence[Moment], shares: Tensor, result: BattleResult) -> TensorDict:
    """`WhatIf.moments`, from the share of blue in each branch, `[K - 1, branches]`, and from how the battle ended."""
    known = SHARE[result.winner]
    intervals = torch.tensor([win_rate_interval(row) for row in shares.tolist()] + [(known, known)])
    decision = torch.tensor([moment.decision for moment in moments] + [result.decisions])
    blue = torch.cat([shares.mean(1), torch.tensor([known])])
    lane = {"decision": decision, "blue": blue, "low": intervals[:, 0], "high": intervals[:, 1]}
    return TensorDict(lane, [len(decision)])


def differences(changes: Tensor, interventions: Sequence[str]) -> dict[str, TensorDict]:
    """`WhatIf.mechs`, from what blue's share changes by in each branch, `[len(interventions) * N, branches]`."""
    of_each = changes.unflatten(0, (len(interventions), -1))
    mean, half = of_each.mean(-1), Z_95 * of_each.std(-1) / math.sqrt(of_each.shape[-1])
    columns = {"difference": mean, "low": mean - half, "high": mean + half}
    return {
        name: TensorDict({key: value[row] for key, value in columns.items()}, [mean.shape[1]])
        for row, name in enumerate(interventions)
    }
