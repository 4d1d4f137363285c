"""Curriculum: stages of increasing difficulty, and the rule for advancing."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from echelon.agents.heuristic import full_name, is_scripted
from echelon.learn.config import CURRICULUM, FROM_ZERO, PAST, SELF, CurriculumConfig, TrainConfig
from echelon.learn.extra_rewards import parse_extra_rewards
from echelon.learn.schedules import Schedule
from echelon.rules.config import EnvConfig
from echelon.runtime.errors import require
from echelon.runtime.limits import Settings

SCRIPTED = "heuristic"
SCHEDULES = {
    "approach": "approach",
    "zone": "zone",
    "damage": "fight",
    "kill": "fight",
    "assist": "fight",
    "death": "fight",
    "terminal": "terminal",
}
"""Field of `CurriculumConfig` with the schedule for each built-in reward term."""
CONSTANT = Schedule()
FADE = 0.5
"""Factor on the counts of older battles each time the window is full."""


@dataclass(frozen=True)
class Stage:
    """Settings of a curriculum stage; a field of None keeps the run's setting."""

    number: int
    opponent: str
    """Name of the stage's commander: `heuristic:TIER`, or another name that the run resolves."""
    weapon_use: float
    difficulty: float | None
    team_size: int | None
    enemies: int | None

    def env(self, base: EnvConfig, side: str) -> EnvConfig:
        """Return the env config of this stage, derived from the run's config."""
        blue, red = base.blue, base.red
        if self.team_size is not None:
            blue, red = blue[: self.team_size], red[: self.team_size]
        if self.enemies is not None:
            blue, red = (blue, red[: self.enemies]) if side == "blue" else (blue[: self.enemies], red)
        world = base.world
        if self.difficulty is not None:
            world = dataclasses.replace(world, difficulty=self.difficulty)
        return dataclasses.replace(base, world=world, blue=blue, red=red)

    def __str__(self) -> str:
        parts = [f"stage {self.number + 1}", self.opponent]
        parts += [f"weapon use {self.weapon_use:.0%}"] if self.weapon_use < 1 else []
        parts += [f"difficulty {self.difficulty:g}"] if self.difficulty is not None else []
        parts += [f"{self.team_size} a team"] if self.team_size is not None else []
        parts += [f"{self.enemies} enemies"] if self.enemies is not None else []
        return ", ".join(parts)


@dataclass(frozen=True)
class CurriculumState(Settings):
    """Progress in the curriculum, as stored in checkpoints."""

    stage: Annotated[int, FROM_ZERO] = 0
    battles: Annotated[float, FROM_ZERO] = 0.0
    """Discounted number of battles in the stage."""
    won: Annotated[float, FROM_ZERO] = 0.0


class Curriculum:
    """The stages of a run and the progress through them."""

    def __init__(self, config: TrainConfig, state: CurriculumState | None = None) -> None:
        self.config: CurriculumConfig = config.curriculum
        self.schedules: dict[str, Schedule] = {
            **{term: getattr(config.curriculum, field) for term, field in SCHEDULES.items()},
            **{reward.name: reward.schedule for reward in parse_extra_rewards(config.extra_rewards)},
        }
        """Factor on the weight of each reward term over the run; 1 for terms not listed."""
        self.stages = stages_of(config)
        state = state or CurriculumState()
        limit = f"0..{len(self.stages) - 1}, a stage of the run's curriculum"
        require(0 <= state.stage < len(self.stages), "curriculum.stage", limit, state.stage)
        self.state = state

    @property
    def stage(self) -> Stage:
        return self.stages[self.state.stage]

    @property
    def win_rate(self) -> float | None:
        """Discounted win rate in the stage; None before its first battle."""
        return self.state.won / self.state.battles if self.state.battles > 0 else None

    def record(self, battles: float, won: float) -> bool:
        """Count finished battles of this stage; return whether the next stage starts."""
        state = dataclasses.replace(self.state, battles=self.state.battles + battles, won=self.state.won + won)
        is_full = state.battles >= self.config.window
        if (
            is_full
            and state.stage + 1 < len(self.stages)
            and state.won >= self.config.advance_at_win_rate * state.battles
        ):
            self.state = CurriculumState(stage=state.stage + 1)
            return True
        if is_full:
            state = dataclasses.replace(state, battles=state.battles * FADE, won=state.won * FADE)
        self.state = state
        return False

    def reward_scale(self, progress: float, terms: Sequence[str]) -> list[float]:
        """Return the factor on the weight of each reward term in `terms`, at `progress` (0..1) of the run."""
        return [self.schedules.get(term, CONSTANT).at(progress) for term in terms]


def stages_of(config: TrainConfig) -> list[Stage]:
    """Return the stages of `CurriculumConfig`; the run resolves the opponents' names later."""
    curriculum, opponents = config.curriculum, [full_name(name) for name in config.curriculum.opponents]
    if config.opponent not in (CURRICULUM, SELF, PAST) and not config.league:
        opponents = [full_name(config.opponent)]
    settings = ("weapon_use", "difficulty", "team_size", "enemies")
    lists: list[Sequence[Any]] = [opponents, *(getattr(curriculum, name) for name in settings)]
    stages = [Stage(i, *(entry(values, i) for values in lists)) for i in range(max(map(len, lists)))]
    for stage in stages:
        limit = f"1 in a stage against {stage.opponent}, which is not a scripted commander"
        is_valid = is_scripted(stage.opponent) or stage.weapon_use == 1
        require(is_valid, "CurriculumConfig.weapon_use", limit, stage.weapon_use)
    return stages


def opponents_named(config: TrainConfig) -> list[str]:
    """Return the unique names of all commanders that a run may use in training or evaluation."""
    names = [stage.opponent for stage in stages_of(config)]
    return list(dict.fromkeys([*names, *map(full_name, config.evaluation.tiers)]))


def entry(values: Sequence[Any], stage: int) -> Any:
    """Return the entry of `values` for a stage: the last entry if there are fewer entries, None if there are none."""
    return values[min(stage, len(values) - 1)] if values else None
