"""Curriculum: stages of increasing difficulty, and when to advance."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from echelon.agents.tiers import TIERS
from echelon.env.reward import TERMS
from echelon.learn.config import CURRICULUM, PAST, SELF, CurriculumConfig, TrainConfig
from echelon.rules.config import EnvConfig
from echelon.runtime.errors import require

V = TypeVar("V")
SCRIPTED = "heuristic"
FADE = 0.5
"""Factor on the counts of older battles whenever a window is full."""


@dataclass(frozen=True)
class Stage:
    """Settings of a stage; None for the run's own setting."""

    number: int
    tier: str
    weapon_use: float
    difficulty: float | None
    team_size: int | None
    enemies: int | None

    def env(self, base: EnvConfig, side: str) -> EnvConfig:
        """Env config of this stage, from that of the run."""
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
        parts = [f"stage {self.number + 1}", f"{SCRIPTED}:{self.tier}"]
        parts += [f"weapon use {self.weapon_use:.0%}"] if self.weapon_use < 1 else []
        parts += [f"difficulty {self.difficulty:g}"] if self.difficulty is not None else []
        parts += [f"{self.team_size} a team"] if self.team_size is not None else []
        parts += [f"{self.enemies} enemies"] if self.enemies is not None else []
        return ", ".join(parts)


@dataclass(frozen=True)
class CurriculumState:
    """Progress in the curriculum, as saved in a checkpoint."""

    stage: int = 0
    battles: float = 0.0
    """Discounted number of battles of the stage."""
    won: float = 0.0


class Curriculum:
    """The stages of a run and its progress through them.

    Args:
        config: config of the run.
        state: state to resume from.

    Raises:
        ConfigError: the state names a stage that the config does not have.
    """

    def __init__(self, config: TrainConfig, state: CurriculumState | None = None) -> None:
        self.config: CurriculumConfig = config.curriculum
        self.stages = stages_of(config)
        state = state or CurriculumState()
        limit = f"0..{len(self.stages) - 1}, a stage of the run's curriculum"
        require(0 <= state.stage < len(self.stages), "curriculum.stage", limit, state.stage)
        self.state = state

    @property
    def stage(self) -> Stage:
        """The current stage."""
        return self.stages[self.state.stage]

    @property
    def win_rate(self) -> float | None:
        """Discounted win rate of the stage; None before its first battle."""
        return self.state.won / self.state.battles if self.state.battles > 0 else None

    def record(self, battles: float, won: float) -> bool:
        """Count finished battles of this stage; returns whether the next stage begins."""
        now = dataclasses.replace(self.state, battles=self.state.battles + battles, won=self.state.won + won)
        is_full = now.battles >= self.config.window
        if is_full and now.stage + 1 < len(self.stages) and now.won >= self.config.step_up * now.battles:
            self.state = CurriculumState(stage=now.stage + 1)
            return True
        if is_full:
            now = dataclasses.replace(now, battles=now.battles * FADE, won=now.won * FADE)
        self.state = now
        return False

    def reward_scale(self, progress: float) -> list[float]:
        """Factor on each of `TERMS` at `progress` of the run."""
        named = {"approach": self.config.approach, "zone": self.config.zone, "terminal": self.config.terminal}
        return [named.get(term, self.config.fight).at(progress) for term in TERMS]


def stages_of(config: TrainConfig) -> list[Stage]:
    """Validated list of stages from `CurriculumConfig`.

    Raises:
        ConfigError: the opponent or a tier is unknown.
    """
    curriculum, tiers = config.curriculum, list(config.curriculum.opponents)
    if config.opponent not in (CURRICULUM, SELF, PAST) and not config.league:
        kind, _, tier = config.opponent.partition(":")
        names = f"{SCRIPTED}:{'|'.join(TIERS)}"
        fits = kind == SCRIPTED and (tier or "normal") in TIERS
        require(fits, "a scripted commander", f"{names} (or curriculum, self, past, league:FOLDER)", config.opponent)
        tiers = [tier or "normal"]
    for tier in (*tiers, *config.evaluation.tiers):
        require(tier in TIERS, "CurriculumConfig.opponents and EvalConfig.tiers", f"chosen from {tuple(TIERS)}", tier)
    lists: tuple[Sequence[object], ...] = (
        tiers,
        curriculum.weapon_use,
        curriculum.difficulty,
        curriculum.team_size,
        curriculum.enemies,
    )
    return [
        Stage(
            number=number,
            tier=tiers[min(number, len(tiers) - 1)],
            weapon_use=curriculum.weapon_use[min(number, len(curriculum.weapon_use) - 1)],
            difficulty=entry(curriculum.difficulty, number),
            team_size=entry(curriculum.team_size, number),
            enemies=entry(curriculum.enemies, number),
        )
        for number in range(max(len(values) for values in lists))
    ]


def entry(values: Sequence[V], stage: int) -> V | None:
    """Entry for a stage, the last one for all later stages; None for an empty list."""
    return values[min(stage, len(values) - 1)] if values else None
