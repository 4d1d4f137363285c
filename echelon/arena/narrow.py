"""Battles of a batch that have ended, dropped from it: those that still run go on alone, bit for bit as they would."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensordict import TensorDictBase
from torch import Tensor

from echelon.agents.seating import keeps_memory
from echelon.env.blocks import one_thread
from echelon.env.env import EchelonEnv
from echelon.runtime.jit import loops_on

if TYPE_CHECKING:
    from echelon.arena.batch_arena import MatchBatch


def can_narrow(batch: MatchBatch) -> bool:
    """Whether shapes may change, and all that commanders go on from is in their memories."""
    is_free = loops_on(batch.arena.device) and not batch.arena.settings.compiled and batch.recorder is None
    return is_free and not batch.runner.is_shared and all(map(keeps_memory, batch.runner.deciders.values()))


def narrow_to(batch: MatchBatch, left: Tensor) -> tuple[EchelonEnv, TensorDictBase]:
    """Let `batch` be that of its battles in places `left [R]` int64 alone, between two decisions.

    Returns:
        Their environment, and what is observed of them.
    """
    count, states = batch.env.num_envs, batch.env.get_state(left)
    memories = batch.runner.memories()
    with one_thread(batch.arena.device, batch.threads):
        rest = type(batch)(batch.arena, [batch.battles[b] for b in left.tolist()], None, batch.policy_of)
    running, places = len(left), left.tolist()
    rest.runner.remember(lambda row: memories[row // running * count + places[row % running]])
    batch.battles, batch.env, batch.seeds, batch.runner = rest.battles, rest.env, rest.seeds, rest.runner
    batch.action_masks = rest.action_masks
    return batch.env, batch.env.set_state(states)
