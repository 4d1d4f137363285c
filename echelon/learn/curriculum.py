"""How battles grow harder: stages, and when the next one begins."""

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
"""What is kept of older battles when a window is full."""


@dataclass(frozen=True)
class Stage:
    """What a stage sets; None leaves the run's own setting."""

    number: int
    tier: str
    weapon_use: float
    difficulty: float | None
    team_size: int | None
    enemies: int | None

    def env(self, base: EnvConfig, side: str) -> EnvConfig:
        """The battle of this stage."""
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
class Standing:
    """How far a run has come in its curriculum, as plain numbers."""

    stage: int = 0
    battles: float = 0.0
    """Battles of the stage that count, older ones less."""
    won: float = 0.0


class Curriculum:
    """The stages of a run, and where it stands.

    Args:
        config: the run.
        standing: where to go on.
    """

    def __init__(self, config: TrainConfig, standing: Standing | None = None) -> None:
        self.config: CurriculumConfig = config.curriculum
        self.stages = stages_of(config)
        standing = standing or Standing()
        limit = f"0..{len(self.stages) - 1}, a stage of the run's curriculum"
        require(0 <= standing.stage < len(self.stages), "curriculum.stage", limit, standing.stage)
        self.standing = standing

    @property
    def stage(self) -> Stage:
        """The one that battles are fought in now."""
        return self.stages[self.standing.stage]

    @property
    def win_rate(self) -> float | None:
        """Share of the stage's battles that were won; None before the first."""
        return self.standing.won / self.standing.battles if self.standing.battles > 0 else None

    def record(self, battles: float, won: float) -> bool:
        """Count battles of this stage. Returns whether the next one begins."""
        now = dataclasses.replace(self.standing, battles=self.standing.battles + battles, won=self.standing.won + won)
        is_full = now.battles >= self.config.window
        if is_full and now.stage + 1 < len(self.stages) and now.won >= self.config.step_up * now.battles:
            self.standing = Standing(stage=now.stage + 1)
            return True
        if is_full:
            now = dataclasses.replace(now, battles=now.battles * FADE, won=now.won * FADE)
        self.standing = now
        return False

    def reward_scale(self, progress: float) -> list[float]:
        """Factor on each of `TERMS` at `progress` of the run."""
        named = {"approach": self.config.approach, "zone": self.config.zone, "terminal": self.config.terminal}
        return [named.get(term, self.config.fight).at(progress) for term in TERMS]


def stages_of(config: TrainConfig) -> list[Stage]:
    """The stages that `CurriculumConfig` lists, checked."""
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
    """What a list says of a stage; its last entry stands for all later ones."""
    return values[min(stage, len(values) - 1)] if values else None
