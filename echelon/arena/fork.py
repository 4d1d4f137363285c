"""Replays of a recorded battle that changes at a chosen time."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from echelon.arena.batch_arena import BatchArena, Battle
from echelon.arena.branches import ALL_INTERVENTIONS, EDITS, Fork, ForkedBatch, Intervention, batches_made_by
from echelon.arena.config import ArenaConfig
from echelon.arena.resolve import place_of
from echelon.arena.whatif import BattleSetup, arena_of, check_same, check_time, commander_of, of_replay
from echelon.env.arguments import one_seed, whole_within
from echelon.replay.battle import Battle as Recorded
from echelon.replay.battle import Replay
from echelon.replay.file import read
from echelon.replay.recorder import Recorder
from echelon.rules.config import EnvConfig
from echelon.runtime.errors import require
from echelon.runtime.files import expect
from echelon.runtime.limits import Limits, path_text, typed
from echelon.world.splits import placed_seed


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
    """Replay a recorded battle up to the time `at_s`, and continue it with changes.

    Args:
        battle: a replay, or its file.
        index: index of the battle in the replay.
        at_s: time of the changes in seconds.
        blue, red: new commanders from that time on, if any; they start with empty memory.
        seed: seed of all random numbers from that time on; by default the seed of the battle.
        mech, intervention: index of a mech, blue first, and the intervention on that mech.
        changes: values to set at that time: the index of a mech, blue first, one of `hp`, `leg_hp`, `heat`,
            `stability`, `x`, `y`, `z` (vox, of the hull's centre) and `yaw` (rad), and the value.
        device: by default a GPU if there is one.

    Returns:
        A replay of two battles: the original, and the changed one.

    Raises:
        ConfigError, FileError: see `whatif`.
    """
    replay = battle if isinstance(battle, Replay) else read(Path(path_text(battle)))
    setup = of_replay(replay, index)
    edits = checked_changes(setup.config, mech, intervention, changes)
    forked_setup = replace(setup, blue=blue or setup.blue, red=red or setup.red)
    arena, battle_again = arena_of(setup, ArenaConfig(place_of(None, device), 1), forked_setup)
    (result,) = arena.play([battle_again]).results
    check_same(setup, result)
    check_time(at_s, result, setup)
    chance = battle_again.seed if seed is None else placed_seed(one_seed(seed), setup.config.split)
    after = Battle(commander_of(forked_setup.blue).id, commander_of(forked_setup.red).id, chance)
    change = Fork(int(at_s / setup.config.rules.decision_s), after, mech, intervention, edits)
    return with_fork(replay, index, change, record_fork(arena, battle_again, change, setup, forked_setup))


def checked_changes(
    config: EnvConfig, mech: Any, intervention: Any, changes: Sequence[Any]
) -> tuple[tuple[int, str, float], ...]:
    """Check the arguments of `fork` that change a mech; return `changes` as `Fork.edits`."""
    whole_within("mech", mech, Limits(0, config.num_mechs - 1))
    is_intervention = intervention is None or intervention in ALL_INTERVENTIONS
    require(is_intervention, "intervention", f"one of {', '.join(ALL_INTERVENTIONS)}", intervention)
    is_possible = config.command.enabled or intervention != "follow_order"
    require(
        is_possible,
        "intervention",
        "an intervention other than following an order, because this battle has no orders",
        intervention,
    )
    return tuple(checked_edit(config, edit) for edit in changes)


def checked_edit(config: EnvConfig, edit: Any) -> tuple[int, str, float]:
    """Check one of the `changes` of a fork; return its mech, field name and value."""
    is_triple = isinstance(edit, Sequence) and not isinstance(edit, str) and len(edit) == 3
    require(is_triple, "changes", "triples (mech, field, value)", edit)
    mech, name, value = edit
    mech = whole_within("changes: mech", mech, Limits(0, config.num_mechs - 1))
    require(name in EDITS, "changes", f"of {', '.join(EDITS)}", name)
    number = float(typed(float, value, f"changes: {name}"))
    require(abs(number) < 1e9, f"changes: {name}", "a number", value)
    return mech, name, number


def record_fork(arena: BatchArena, battle: Battle, change: Fork, known: BattleSetup, successor: BattleSetup) -> Replay:
    """Record a battle with the changes of a fork; a replaced commander is named `OLD, then NEW`."""
    recorder = Recorder([0])
    with batches_made_by(arena, partial(ForkedBatch, fork=change)):
        arena.play([battle], recorder)
    blue, red = (
        old if old == new else f"{old}, then {new}"
        for old, new in ((known.blue, successor.blue), (known.red, successor.red))
    )
    return recorder.finish([blue], [red])


def with_fork(replay: Replay, index: int, change: Fork, forked: Replay) -> Replay:
    """Combine a recorded battle and its fork in one replay."""
    original, (replayed,) = replay.battles[index], forked.battles
    check_same_before(original, replayed, change.decision)
    return Replay(replay.about, [original, replayed])


def check_same_before(was: Recorded, became: Recorded, decision: int) -> None:
    """Raise `FileError` if a replayed battle differs from the recorded one before the decision of the fork."""
    for name in ("pos", "yaw", "hp", "heat"):
        recorded, replayed = (getattr(battle, name)[: decision + 1] for battle in (was, became))
        limit = f"as recorded in the first {decision} decisions"
        expect(np.array_equal(recorded, replayed), f"{name} of the replayed battle", limit, "other values")
