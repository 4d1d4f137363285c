"""The content of a training run's report as plain values: results, curves, evaluations, statistics and config."""

from __future__ import annotations

import functools
import math
import os
import platform
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import torch

from echelon.arena.evaluator import BEST, RIVAL
from echelon.arena.skills import PROFILE
from echelon.env.reward import TERMS
from echelon.learn.callbacks.base import TrainingRun
from echelon.learn.callbacks.warning_signs import RECENT, warning_signs
from echelon.learn.config import TRAIN_PRESETS, TrainConfig
from echelon.learn.opponents.assignment import LEARNER
from echelon.reports.plots import stage_changes
from echelon.reports.run_groups import plain, with_changes
from echelon.rules.catalog import Hull
from echelon.rules.config_json import as_json, flat
from echelon.rules.versions import RULES_VERSION
from echelon.runtime.device import total_memory
from echelon.runtime.errors import one_line
from echelon.runtime.files import parse_json, read_file
from echelon.runtime.version import VERSION, version_of

Rows = Sequence[Mapping[str, str]]
GIB = 2**30
POINTS = 300
"""Maximum number of points of a curve; rows of `metrics.csv` between two points are averaged."""
BEST_TOLD = (
    f"{BEST}: this run's own policy, frozen at the evaluation with the highest mean win rate against the named "
    "commanders so far (the latest among equal ones); at first the untrained policy."
)
FOLDERS = ("run_dir", "resume", "profile")
"""Settings that are folders of one machine; a report omits them, because it may be shared."""
LONGEST = 400
"""Maximum number of characters shown of a setting."""
CHARTS = (
    ("win rate in training", ("win_rate", "past_win_rate", "stage_win_rate"), True),
    ("return", ("return",), False),
    ("stage", ("stage",), False),
    ("losses", ("loss_policy", "loss_value"), False),
    ("KL divergence", ("kl",), False),
    ("entropy", ("entropy",), False),
    ("explained variance", ("explained_variance",), False),
    ("share clipped, share dead", ("clip_fraction", "dead_share"), True),
    ("gradient norm", ("gradient_norm",), False),
    ("kills and deaths a battle", ("kills", "deaths"), False),
    ("damage a battle, hp", ("damage",), False),
    ("time in the zone a battle, mech-s", ("zone_s",), False),
    ("length of a battle, decisions", ("battle_decisions",), False),
    ("learning rate", ("learning_rate",), False),
    ("speed, agent steps/s", ("agent_steps_per_s",), False),
    ("time of an iteration, s", ("env_s", "act_s", "learn_s"), False),
)
"""For each panel of curves: title, columns of `metrics.csv`, and whether they are shares."""
SCORED = (
    ("kill_ratio", "kills per death"),
    ("damage", "damage, hp"),
    ("zone_s", "zone, mech-s"),
    ("enemy_zone_s", "enemy's zone, mech-s"),
)
"""Displayed columns of `evaluations.csv`, with their titles."""
DEEDS = {
    "damage": "damage dealt, hp",
    "kills": "kills",
    "deaths": "deaths",
    "assists": "assists",
    "team_kills": "comrades killed",
    "zone_s": "time in the zone, mech-s",
    "shutdowns": "own shutdowns",
    "vent_s": "venting, mech-s",
    "knockdowns": "knockdowns inflicted",
    "leggings": "legs shot off",
    "paints": "paints laid",
    "intercepts": "missiles intercepted",
}
"""Displayed statistics of a team, with their titles."""


def report_of(
    trainer: TrainingRun,
    metrics: Sequence[Mapping[str, float | None]],
    evaluations: Rows,
    behaviour: Rows,
    state: str,
    distances: Sequence[Mapping[str, Any]] = (),
    battle: str = "",
) -> dict[str, Any]:
    """Return the content of a run's report as JSON values.

    Args:
        metrics: rows of `metrics.csv`.
        evaluations, behaviour: rows of `evaluations.csv` and of `behaviour.csv`.
        distances: distances of the hits in the recorded battle, see `echelon.viewer.pages.hit_distances`.
    """
    axes: dict[str, list[float | None]] = {}
    charts = [evaluation_chart(evaluations, axes), *metric_charts(metrics, axes)]
    return {
        "name": one_line(trainer.folder.resolve().name),
        "state": state,
        "told": run_summary(trainer),
        "progress": trainer.progress,
        "made": f"written {time.strftime('%Y-%m-%d %H:%M:%S')}",
        "origin": [[name, one_line(value)] for name, value in origin_of(trainer.device).items()],
        "signs": signs_of(trainer, metrics),
        "stages": stage_changes(metrics),
        "best": BEST_TOLD,
        "tiles": [*tiles(evaluations), *speed_and_stage(trainer, metrics)],
        "charts": charts,
        "evaluations": {"columns": SCORED, "rows": [scored(row) for row in evaluations]},
        "skills": skills_of(trainer.folder / PROFILE),
        "behaviour": {**deeds_of(behaviour, trainer, axes), "distances": list(distances)},
        "battle": battle,
        "config": config_of(trainer.config, trainer.changes),
        "axes": axes,
    }


def signs_of(trainer: TrainingRun, metrics: Sequence[Mapping[str, float | None]]) -> list[str]:
    """Return signs in the last iterations that the run does not learn.

    The signs are those of `echelon.learn.callbacks.warning_signs`.
    """
    rows = [*metrics[:1], *metrics[-RECENT:]]
    return list(warning_signs(rows, trainer.config, trainer.progress).values()) if rows else []


def run_summary(trainer: TrainingRun) -> str:
    """Return one line about a run: its progress, battles, device and number of parameters."""
    counters, config = trainer.counters, trainer.config
    facts = [f"{counters.agent_steps:,} of {config.total_agent_steps:,} agent steps"]
    facts += [f"iteration {counters.iterations:,}", f"{duration(counters.seconds)} of collecting and learning"]
    if 0 < trainer.progress < 1:
        facts.append(f"about {duration(counters.seconds * (1 / trainer.progress - 1))} left")
    sizes = f"{config.num_envs * trainer.ranks.size:,} battles of {config.env.title} on {trainer.device}"
    return " · ".join([*facts, sizes, f"{trainer.policy.num_parameters():,} parameters"])


def duration(seconds: float) -> str:
    """Format a duration in seconds as hours, minutes and seconds, such as 1:02:03."""
    return str(timedelta(seconds=round(seconds)))


def tiles(evaluations: Rows) -> list[dict[str, str]]:
    latest = [row for row in evaluations if row["iteration"] == evaluations[-1]["iteration"]]
    cards = []
    for row in latest:
        rate, low, high = (float(row[name]) for name in ("win_rate", "low", "high"))
        detail = f"{percent(low)} to {percent(high)}, {row['battles']} battles"
        cards.append({"what": f"wins against {one_line(row['rival'])}", "value": percent(rate), "detail": detail})
    return cards


def speed_and_stage(trainer: TrainingRun, metrics: Sequence[Mapping[str, float | None]]) -> list[dict[str, str]]:
    """Return tiles with the run's speed (over the whole run and in the last iteration) and the curriculum's stage."""
    counters = trainer.counters
    if not metrics or counters.seconds <= 0:
        return []
    latest, stage = metrics[-1].get("agent_steps_per_s") or 0.0, metrics[-1].get("stage") or 0.0
    detail = f"agent steps/s of collecting and learning over the whole run; {latest:,.0f} in the last iteration"
    mean = f"{counters.agent_steps / counters.seconds:,.0f}"
    return [
        {"what": "speed", "value": mean, "detail": detail},
        {"what": "stage of the curriculum", "value": f"{stage:.0f}", "detail": ""},
        *memory_tiles(trainer.device),
    ]


def memory_tiles(device: torch.device) -> list[dict[str, str]]:
    """Return a tile with the peak of GPU memory in this process's tensors; no tile on a CPU."""
    if device.type != "cuda":
        return []
    peak, total = torch.cuda.max_memory_allocated(device), total_memory(device)
    detail = f"GiB of {total / GIB:.1f}: peak of tensors"
    return [{"what": "memory of the GPU", "value": f"{peak / GIB:.1f}", "detail": detail}]


def percent(share: float) -> str:
    """Format a share in whole percent; halves are rounded up, as in the page's script."""
    return f"{math.floor(100 * share + 0.5)} %"


def evaluation_chart(evaluations: Rows, axes: dict[str, list[float | None]]) -> dict[str, Any]:
    """Return the chart of win rates on held-out maps, with their 95 % intervals."""
    lines = []
    for rival in dict.fromkeys(row["rival"] for row in evaluations):
        rival_rows = [row for row in evaluations if row["rival"] == rival]
        axes[f"evaluations {rival}"] = [float(row["agent_steps"]) for row in rival_rows]
        values = {
            key: [float(row[name]) for row in rival_rows]
            for key, name in (("y", "win_rate"), ("low", "low"), ("high", "high"))
        }
        lines.append({"name": one_line(rival), "axis": f"evaluations {rival}", **values})
    return {"title": "win rate, held-out maps", "lines": lines, "percent": True, "range": [0, 1], "points": True}


def metric_charts(
    metrics: Sequence[Mapping[str, float | None]], axes: dict[str, list[float | None]]
) -> list[dict[str, Any]]:
    """Return a panel of curves for each entry of `CHARTS`, and a panel for the terms of the reward."""
    if not metrics:
        return []
    row_bins = np.arange(len(metrics)) * min(POINTS, len(metrics)) // len(metrics)
    axes["metrics"] = means(metrics, "agent_steps", row_bins)
    # The chart lists custom reward terms after the terms of the reward config.
    terms = [name for name in metrics[-1] if name.startswith("return_")]
    default_terms = [f"return_{term}" for term in TERMS]
    panels = [*CHARTS, ("return by reward term", tuple(dict.fromkeys([*default_terms, *terms])), False)]
    charts = []
    for title, columns, is_share in panels:
        series = {name: means(metrics, name, row_bins) for name in columns}
        lines = [
            {"name": name.removeprefix("return_").replace("_", " "), "axis": "metrics", "y": y}
            for name, y in series.items()
            if any(value is not None for value in y)
        ]
        charts.append({"title": title, "lines": lines, "percent": is_share, **({"range": [0, 1]} if is_share else {})})
    return charts


def means(rows: Sequence[Mapping[str, float | None]], name: str, places: np.ndarray) -> list[float | None]:
    """Return the mean of a column over the rows of each bin; None for a bin without a finite value."""
    values = np.array([math.nan if row.get(name) is None else row[name] for row in rows], float)
    is_finite = np.isfinite(values)
    count = np.bincount(places, weights=is_finite)
    total = np.bincount(places, weights=np.where(is_finite, values, 0.0))
    # Adding zero turns -0.0 into 0.0.
    return [float(f"{t / c:.5g}") + 0.0 if c else None for t, c in zip(total, count, strict=True)]


def scored(row: Mapping[str, str]) -> dict[str, Any]:
    """Convert the cells of a row of `evaluations.csv` to numbers."""
    names = ("iteration", "agent_steps", "battles", "wins", "win_rate", "low", "high", *(name for name, _ in SCORED))
    return {"rival": one_line(row["rival"]), **{name: float(row[name]) for name in names}}


def skills_of(path: Path) -> list[dict[str, Any]]:
    """Return the rows of the run's results on the set pieces (its skill profile); empty if there is no profile."""
    if not path.exists():
        return []
    pieces = parse_json(path.name, read_file(path))["pieces"]
    names = ("skill", "battles", "wins", "win_rate", "low", "high")
    return [{"piece": one_line(name), **{key: row[key] for key in names}} for name, row in pieces.items()]


def deeds_of(behaviour: Rows, trainer: TrainingRun, axes: dict[str, list[float | None]]) -> dict[str, Any]:
    """Return both teams' statistics against one opponent, and the statistics' curves over the evaluations.

    The opponent is the last one of the last evaluation, without the run's own best policy.
    """
    empty: dict[str, Any] = {"columns": [], "rows": []}
    named_rows = [row for row in behaviour if row["rival"] != BEST]
    if not named_rows:
        return {"against": "", "weapons": empty, "deeds": empty, "charts": []}
    rival = named_rows[-1]["rival"]
    own_rows, rival_rows = (
        [row for row in named_rows if row["rival"] == rival and row["team"] == team_name]
        for team_name in (LEARNER, RIVAL)
    )
    weapons = [weapon for weapon in trainer.config.env.catalog.weapons if f"shots_{weapon}" in own_rows[-1]]
    hulls = [hull.name.lower() for hull in Hull if f"damage_{hull.name.lower()}" in own_rows[-1]]
    rows = [[title, number(own_rows[-1], name), number(rival_rows[-1], name)] for name, title in DEEDS.items()]
    rows += [
        [f"damage by {hull} mechs, hp", *(number(team[-1], f"damage_{hull}") for team in (own_rows, rival_rows))]
        for hull in hulls
    ]
    axes["behaviour"] = [float(row["agent_steps"]) for row in own_rows]
    kinds = {"damage by weapon, hp a battle": [(f"damage_{weapon}", weapon) for weapon in weapons]}
    kinds |= {f"{title}, a battle": [(name, title)] for name, title in DEEDS.items() if name in ("shutdowns", "zone_s")}
    charts = [chart_of(title, lines, own_rows) for title, lines in kinds.items()] if len(own_rows) > 1 else []
    return {
        "against": f"A battle of the last evaluation against {one_line(rival)}, on average.",
        "weapons": {
            "columns": ["weapon", "shots", "hits", "hit rate", "dealt, hp", "kills", "taken, hp"],
            "rows": [weapon_row(weapon, own_rows[-1], rival_rows[-1]) for weapon in weapons],
        },
        "deeds": {"columns": ["", "this policy", one_line(rival)], "rows": rows},
        "charts": charts,
    }


def chart_of(title: str, lines: Sequence[tuple[str, str]], rows: Rows) -> dict[str, Any]:
    """Return the curves of statistics over the evaluations; a statistic that is always 0 is left out."""
    curves = {label: [number(row, name) for row in rows] for name, label in lines}
    curves_shown = [
        {"name": label, "axis": "behaviour", "y": y} for label, y in curves.items() if len(lines) == 1 or any(y)
    ]
    return {"title": title, "lines": curves_shown, "points": True}


def weapon_row(weapon: str, dealt: Mapping[str, str], suffered: Mapping[str, str]) -> list[Any]:
    """Return a row about a weapon: a team's shots, hits, damage and kills with it, and the damage taken from it."""
    shots, hits, damage, kills = (number(dealt, f"{kind}_{weapon}") for kind in ("shots", "hits", "damage", "kills"))
    rate = percent(hits / shots) if shots else ""
    return [weapon.replace("_", " "), shots, hits, rate, damage, kills, number(suffered, f"damage_{weapon}")]


def number(row: Mapping[str, str], name: str) -> float:
    """Return a cell of a table as a number; 0 if the table has no such column."""
    return float(row.get(name, 0.0))


def config_of(config: TrainConfig, changes: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """Return every setting as a row of name, value and preset value; settings that differ from it come first.

    The preset is the one from which the fewest settings differ. If a setting was changed when the run was resumed, its
    row has all its values.
    """
    options = {key: value for key, value in flat(as_json(config)).items() if key not in FOLDERS}
    presets = {name: flat(as_json(make())) for name, make in TRAIN_PRESETS.items()}
    changed_keys = {
        name: [key for key in options if options[key] != preset.get(key)] for name, preset in presets.items()
    }
    nearest = min(changed_keys, key=lambda name: len(changed_keys[name]))
    changed, preset = set(changed_keys[nearest]), presets[nearest]
    changed |= {change["setting"] for change in changes}
    told = {key: as_text(with_changes(key, value, changes)) for key, value in options.items()}
    first = [[key, told[key], as_text(preset.get(key))] for key in options if key in changed]
    # Leave out unchanged catalog settings, because the catalog of hulls and weapons has hundreds of numbers.
    unchanged = [key for key in options if key not in changed and not key.startswith("env.catalog.")]
    rest = [[key, told[key], None] for key in unchanged]
    count = f"{len(first)} setting{'s' if len(first) != 1 else ''}"
    return {"told": f"{count} differ from the preset {nearest}:", "settings": [*first, *rest]}


def as_text(value: Any) -> str:
    text = one_line("none" if value in (None, "", []) else plain(value))
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


PACKAGES = ("torch", "torchrl", "tensordict", "numpy", "numba")
CLONE = Path(__file__).resolve().parents[2]
"""The git clone of this file, unless Echelon is installed."""


def origin_of(device: torch.device) -> dict[str, str]:
    """Return command, commit, host and versions of this process, each as one line; unknown values are left out."""
    versions = {"Python": platform.python_version(), **{name: version_of(name) for name in PACKAGES}}
    chip = torch.cuda.get_device_name(device) if device.type == "cuda" else f"{os.cpu_count()} CPUs"
    version_text = ", ".join(f"{name} {version}" for name, version in versions.items() if version)
    origin = {
        "command": command_of(sys.argv),
        "commit": commit_of(CLONE),
        "host": f"{platform.node()}, {platform.system()} {platform.machine()}, {chip}",
        "versions": f"Echelon {VERSION}, rules {RULES_VERSION}, {version_text}",
    }
    return {name: value for name, value in origin.items() if value}


def command_of(words: Sequence[str]) -> str:
    """Return a command line with only the last part of each absolute path, because folders belong to one machine."""

    def plain(word: str) -> str:
        flag, equals, value = word.partition("=") if word.startswith("-") else ("", "", word)
        return f"{flag}{equals}{Path(value).name}" if value.startswith("/") else word

    return shlex.join(plain(word) for word in words)


@functools.cache
def commit_of(clone: Path) -> str:
    """Return the commit of a git clone, and whether tracked files differ from it; empty without a clone or git."""
    if not (clone / ".git").exists():
        return ""
    try:
        commit, changes = (
            subprocess.run(["git", *words], cwd=clone, capture_output=True, text=True, check=True, timeout=10).stdout
            for words in (["rev-parse", "HEAD"], ["status", "--porcelain", "--untracked-files=no"])
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return commit.strip() + (", with changes" if changes.strip() else "")
