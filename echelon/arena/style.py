"""The fighting style of a policy as numbers, by which two policies can be compared."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor

from echelon.agents.team_policy import TeamPolicy
from echelon.agents.view import View, column, look
from echelon.arena.batch_arena import Battle
from echelon.arena.evaluate import Evaluation, evaluate
from echelon.env.arguments import check_further
from echelon.env.observation.layout import EGO, GROUPS
from echelon.env.tasks.task import Task, find_task, latest
from echelon.rules.config import EnvConfig
from echelon.rules.scenario import Scenario
from echelon.runtime import exact
from echelon.runtime.errors import require
from echelon.runtime.geometry import dot, length, to_body, unit

TASK = "small-5v5"
"""Task on which a style is measured by default, in its newest version."""
BATTLES = 16
"""Battles against each opponent."""
HOW = (
    *("seeds", "split", "env", "device", "batch", "precision", "compiled", "cuda_graph"),
    *("arena", "cluster", "recorder", "watch"),
)
"""Arguments of `style` that are passed on to `evaluate`."""
CONTACT_VOX = 20.0
"""A mech is in contact if its nearest enemy is within this distance. Before contact all teams walk alike."""
SHARE = "share"
"""The measure of the columns `share_WEAPON`."""


@dataclass(frozen=True)
class Measure:
    """Definition of one number of a style. Except for shares of damage, the number is a mean over the time in which the
    team's mechs are alive.
    """

    unit: str
    scale: float
    """Scale of the number: its standard deviation over the scripted commanders, tiers and styles."""
    meaning: str


MEASURES = {
    SHARE: Measure("share", 0.38, "of its team's damage, by each weapon"),
    "dealt": Measure("share", 0.12, "of the damage of both teams, its own part"),
    "range": Measure("vox", 2.0, "over the ground to the nearest enemy, in contact"),
    "advance": Measure("vox/s", 0.54, "walked towards the nearest enemy, in contact"),
    "spread": Measure("vox", 0.76, "from the middle of its team"),
    "zone": Measure("share", 0.19, "of the time, in the zone"),
    "under_fire": Measure("share", 0.038, "of the time, hit within the last second"),
    "heat": Measure("share", 0.1, "of the heat capacity"),
    "vent": Measure("share", 0.091, "of the time, shedding heat"),
    "emit": Measure("share", 0.063, "of the time, with an emitter on"),
    "clouds": Measure("1/min", 1.6, "laid by a mech"),
}
"""The measures, by name; the shares of all weapons together are one measure."""
WATCHED = ("mechs", "contacts", "range", "advance", "spread", "under_fire", "heat", "emit")
"""Quantities that `Watcher` sums over living mechs and decisions; the other measures come from statistics."""


@dataclass(frozen=True)
class Style:
    """The fighting style of a policy."""

    policy: str
    """Name of the policy; `policy` for a policy object."""
    task: str
    """Name of the task."""
    fingerprint: str
    """`Task.fingerprint`."""
    numbers: Mapping[str, float]
    """By name, in the units of `echelon.arena.style.MEASURES`; damage is `share_WEAPON` for each weapon."""
    response: Mapping[str, float]
    """Points per battle against each opponent: the policy's row of a payoff matrix."""
    seeds: tuple[int, ...]
    """Seeds of the battles; each was played once per side."""
    versions: Mapping[str, Any]
    """Versions of Echelon, rules, map generator and torch, and the processor or GPU."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the numbers, in the order of `vector`."""
        return tuple(sorted(self.numbers))

    @property
    def vector(self) -> tuple[float, ...]:
        """The numbers, each divided by the `scale` of its measure."""
        return tuple(self.numbers[name] / measure_of(name).scale for name in self.names)

    def distance(self, other: Style) -> float:
        """Return the root mean square over measures of the scaled differences between two styles.

        A distance of 1 is one standard deviation of the scripted commanders in every measure.

        Raises:
            ConfigError: if the other style was measured in other battles or against other opponents.
        """
        require(self.is_like(other), "the other style", f"measured in the same battles of {self.task}", other)
        return math.dist(self.vector, other.vector) / math.sqrt(len(MEASURES))

    def is_like(self, other: Any) -> bool:
        """Return whether another style was measured in the same battles, so that the two can be compared."""

        def battles(one: Style) -> tuple[Any, ...]:
            return one.fingerprint, one.seeds, one.numbers.keys(), one.response.keys()

        return isinstance(other, Style) and battles(self) == battles(other)

    def as_json(self) -> dict[str, Any]:
        """Return JSON values."""
        battles = {"task": self.task, "fingerprint": self.fingerprint, "seeds": list(self.seeds)}
        figures = {"numbers": dict(self.numbers), "response": dict(self.response)}
        return {"policy": self.policy, **battles, **figures, "versions": dict(self.versions)}

    def __str__(self) -> str:
        """Return one line per number, with its unit and meaning."""
        width = max(map(len, self.numbers))
        lines = [(name, value, measure_of(name)) for name, value in self.numbers.items()]
        return "\n".join(
            f"{name:<{width}}  {value:8.3f}  {figure.unit:<5}  {figure.meaning}" for name, value, figure in lines
        )


def measure_of(name: str) -> Measure:
    return MEASURES.get(name, MEASURES[SHARE])


def style(
    policy: Any,
    task: str | Task | Scenario | None = None,
    opponents: Sequence[str] | Mapping[str, TeamPolicy] | None = None,
    battles: int = BATTLES,
    **how: Any,
) -> Style:
    """Measure a policy's style in battles on maps that training never uses, every seed once per side.

    Only styles from the same battles can be compared.

    Args:
        policy: a name or a policy, as in `echelon.evaluate`.
        task: as in `echelon.evaluate`; by default the newest version of `small-5v5`.
        opponents: as in `echelon.evaluate`; by default the task's.
        battles: even number of battles against each opponent.
        how: further arguments of `echelon.evaluate`, such as `seeds`, `split`, `env`, `device`, `batch` and
            `precision`.

    Returns:
        The style.

    Raises:
        ConfigError: if the task does not exist, or an argument is out of range.
        FileError: if a name does not exist, or its checkpoint does not fit the task.
    """
    check_further(style, how, HOW)
    task_used = find_task(latest(TASK) if task is None else task)
    watcher = Watcher(task_used.evaluation_config)
    measured = evaluate(policy, task_used, opponents, battles, sink=watcher, **how)
    numbers = numbers_of(measured, watcher.totals(), task_used.evaluation_config)
    response = {name: result.x_points / result.battles for name, result in measured.results.items()}
    return Style(
        measured.policy, measured.task, measured.fingerprint, numbers, response, measured.seeds, measured.versions
    )


class Watcher:
    """Sums `WATCHED`, quantities that the statistics of a battle lack, per battle and team. Pass the object to
    `BatchArena.play` as `sink`.

    Args:
        config: config of the battles.
    """

    def __init__(self, config: EnvConfig) -> None:
        self.size = torch.tensor([config.world.size_x, config.world.size_y], dtype=torch.float32, device="cpu")
        self.longest_vox = float(config.world.longest_side)
        self.battles: list[Tensor] = []
        """`[battles, 2, WATCHED]` float64 per batch, blue and red."""

    def begin(self, battles: Sequence[Battle]) -> None:
        self.battles.append(torch.zeros(len(battles), len(GROUPS), len(WATCHED), dtype=torch.float64, device="cpu"))

    def step(self, stepped: TensorDictBase, running: Tensor) -> None:
        size = self.size.to(running.device)
        blue, red = (look(stepped.get(group), size, self.longest_vox) for group in GROUPS)
        egos = [stepped.get((group, "observation", "ego")) for group in GROUPS]
        emit = [torch.maximum(column(ego, EGO, "ecm"), column(ego, EGO, "eccm")) for ego in egos]
        watched_by_team = torch.stack((watched(blue, red, emit[0]), watched(red, blue, emit[1])), 1)
        total = self.battles[-1].to(running.device)
        self.battles[-1] = total + torch.where(running[:, None, None], watched_by_team, 0.0)[: len(total)]

    def end(self, outcome: TensorDictBase) -> None:
        """Do nothing: the sums are complete."""

    def totals(self) -> dict[str, float]:
        """Return the sums of `WATCHED` over all battles, for the policy that `evaluate` measures.

        The policy is blue in battles with an even index and red in the others.
        """
        battles = torch.cat(self.battles).cpu()
        rows = torch.cat((battles[::2, 0], battles[1::2, 1]))
        return dict(zip(WATCHED, rows.sum(0).tolist(), strict=True))


def watched(own: View, foe: View, emit: Tensor) -> Tensor:
    """Return the `WATCHED` quantities of a team, summed over living mechs, `[B, K]` float64."""
    is_alive = own.hp > 0
    offset = foe.position[:, None] - own.position[:, :, None]  # [B, A, E, 2]
    distances = torch.where((foe.hp > 0)[:, None], length(offset), torch.inf)
    nearest, index = distances.min(-1)
    near = (nearest < CONTACT_VOX).float()
    towards = unit(offset.gather(2, index[..., None, None].expand(*index.shape, 1, 2)).squeeze(2))
    advance = dot(to_body(towards, own.heading).unbind(-1), own.velocity.unbind(-1))
    mechs = exact.sum(is_alive, -1)[:, None]
    middle = exact.sum(torch.where(is_alive[..., None], own.position, 0.0), 1) / mechs.clamp_min(1)
    spread = length(own.position - middle[:, None])
    in_contact = (near, near * nearest.clamp_max(CONTACT_VOX), near * advance)
    quantities = (torch.ones_like(near), *in_contact, spread, own.under_fire.float(), own.heat, emit)
    return torch.stack([exact.sum(torch.where(is_alive, quantity, 0.0), -1) for quantity in quantities], -1).double()


def numbers_of(evaluation: Evaluation, totals: Mapping[str, float], config: EnvConfig) -> dict[str, float]:
    """Return the numbers of a style, by name.

    Args:
        totals: result of `Watcher.totals` after the evaluation's battles.
    """
    results, weapons = list(evaluation.results.values()), config.catalog.weapons
    own_stats, foe = ([result.mean_stats(x=x) for result in results] for x in (True, False))
    battles = results[0].battles
    sums = {name: battles * math.fsum(stats[name] for stats in own_stats) for name in own_stats[0]}
    suffered = battles * math.fsum(stats["damage"] for stats in foe)
    mechs, mech_s = totals["mechs"], totals["mechs"] * config.rules.decision_s
    means = {name: totals[name] / mechs for name in ("spread", "under_fire", "heat", "emit")}
    means |= {
        "range": share(totals["range"], totals["contacts"]) or CONTACT_VOX,
        "advance": share(totals["advance"], totals["contacts"]),
        "dealt": share(sums["damage"], sums["damage"] + suffered),
        "zone": sums["zone_s"] / mech_s,
        "vent": sums["vent_s"] / mech_s,
        "clouds": 60
        * math.fsum(sums[f"shots_{name}"] for name, weapon in weapons.items() if weapon.effect == "cloud")
        / mech_s,
    }
    shares = {f"{SHARE}_{name}": share(sums[f"damage_{name}"], sums["damage"]) for name in weapons}
    return {**shares, **{name: means[name] for name in MEASURES if name != SHARE}}


def share(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0
