"""All opponents of the learner in a curriculum stage, and the battles assigned to them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor

from echelon.learn.checkpoint.provenance import SELF, Provenance, provenance_of
from echelon.learn.config import PAST, TrainConfig
from echelon.learn.curriculum import SCRIPTED, Curriculum, Stage
from echelon.learn.models.actor_critic import ActorCritic
from echelon.learn.opponents.assignment import OpponentGroup, PolicyAssignment, count_readers
from echelon.learn.opponents.frozen import FrozenOpponents
from echelon.learn.opponents.named import NamedOpponents, OpponentOf
from echelon.learn.opponents.snapshot_pool import MixedPool
from echelon.rules.config import EnvConfig
from echelon.runtime.tensor_files import Stateful

ITSELF, FROZEN = "itself", "frozen"


class StageOpponents:
    """The opponents of a stage: named commanders, the learner itself and frozen policies; see `PolicyAssignment`.

    Args:
        config: config of the run, with the number of battles per kind of opponent.
        curriculum: the curriculum; its current stage names the first commander, and later stages may name others.
    """

    def __init__(
        self,
        learner: ActorCritic,
        config: TrainConfig,
        env: EnvConfig,
        curriculum: Curriculum,
        pool: MixedPool,
        seed: int,
        opponent_of: OpponentOf,
    ) -> None:
        device = next(learner.parameters()).device
        compiled = device.type == "cuda" and config.compile_policy != "off"
        self.pool, self.battle = pool, provenance_of(env)
        self.named: NamedOpponents | None = None
        self.frozen: FrozenOpponents | None = None
        if config.scripted_battles > 0:
            names, stage = [s.opponent for s in curriculum.stages], curriculum.stage
            newest = stage.opponent, stage.weapon_use
            self.named = NamedOpponents(env, names, *newest, device, opponent_of, compiled)
        if config.past_battles > 0:
            self.frozen = FrozenOpponents(learner, config.past_blocks, config.past_slots, pool, seed, compiled)
        opponents = {SCRIPTED: self.named, PAST: self.frozen}
        self.slotted = {name: opponent for name, opponent in opponents.items() if opponent is not None}
        groups = [
            OpponentGroup(SCRIPTED, self.named, config.scripted_battles),
            OpponentGroup(ITSELF, None, config.self_battles),
            OpponentGroup(PAST, self.frozen, config.past_battles),
        ]
        self.assignment = PolicyAssignment(learner, [group for group in groups if group.battles > 0], config.side)

    def curriculum_results(self, report: Mapping[str, list[float]]) -> tuple[float, float]:
        """Return the number of finished and won battles against the opponent that decides the curriculum."""
        reference = PAST if self.named is None else SCRIPTED
        battles, won = (report.get(f"{name}_{reference}", [0.0])[0] for name in ("battles", "won"))
        return battles, won

    def provenance(self) -> Provenance:
        """Return the provenance of the current battles: their config and opponents."""
        itself = {SELF} if ITSELF in self.assignment.battles else set()
        named = set() if self.named is None else self.named.opponents_seen()
        blocks = [] if self.frozen is None else self.frozen.names
        opponents = itself | named | {self.pool.identity_of(name) for block in blocks for name in block}
        return dataclasses.replace(self.battle, opponents=tuple(sorted(opponents)))

    def parts(self) -> dict[str, Stateful]:
        """Return the opponents whose state belongs to the running battles, keyed by checkpoint component."""
        return {FROZEN if name == PAST else name: opponent for name, opponent in self.slotted.items()}

    def description(self) -> dict[str, Any]:
        """Return what must be equal in the run and in the checkpoint to resume running battles."""
        frozen, named = self.frozen, self.named
        return {
            "met": {name: [battles.start, battles.stop] for name, battles in self.assignment.battles.items()},
            **({} if named is None else named.description()),
            **({} if frozen is None else {"past_blocks": frozen.blocks, "past_slots": frozen.num_slots}),
        }

    def set_opponent(self, stage: Stage) -> None:
        """Use the stage's commander in new battles."""
        if self.named is not None:
            self.named.set_opponent(stage.opponent, stage.weapon_use)

    def readers(self, td: TensorDictBase) -> dict[str, Tensor]:
        """Return `readers_NAME [K * S]`, the number of battles in `td` that use each slot of an opponent."""
        counts = {}
        for name, opponent in self.slotted.items():
            views = self.assignment.views(td, name)
            slot_counts = [count_readers(view.get("memory"), opponent.blocks, opponent.num_slots) for view in views]
            counts[f"readers_{name}"] = torch.stack(slot_counts).sum(0)
        return counts

    def refresh(self, report: Mapping[str, list[float]]) -> None:
        """Refill unused slots, given the counts of `readers` in a report."""
        for name, opponent in self.slotted.items():
            counts, slots = [int(count) for count in report[f"readers_{name}"]], opponent.num_slots
            opponent.refresh([counts[start : start + slots] for start in range(0, len(counts), slots)])
