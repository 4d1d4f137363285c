"""The five scores of protocol 2 with their intervals, computed from the battles' outcomes.

The unit of an interval is a training run. With several runs, runs are resampled with replacement together with all
their opponents and partners (a stratified bootstrap), because the scores of one policy against several opponents are
not independent. With one run, the unit is a seed, whose battles share a map; such an interval says nothing about other
runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from echelon.arena.match import bootstrap_interval, win_rate_interval

FOCAL, BESIDE, GAP, PIECES, WORST = "focal", "with_strangers", "self_play_gap", "pieces", "worst_case"
Of = Callable[[np.ndarray], np.ndarray]
"""A statistic of rows `[..., U, K]`."""


def scores_of(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Compute the scores from the `cases` and `pieces` of each run of a record."""
    tables = [tables_of(run) for run in runs]
    unit = "run" if len(runs) > 1 else "seed"
    joined = {name: joined_rows([table[name] for table in tables], unit) for name in tables[0]}
    opponents = list(dict.fromkeys(case["opponent"] for case in runs[0]["cases"] if not case["partner"]))
    own_counts = sorted({case["mine"] for case in shared_cases(runs[0])})
    partners = list(dict.fromkeys(case["partner"] for case in shared_cases(runs[0])))
    pieces = [piece["piece"] for piece in runs[0]["pieces"]]

    def estimate(name: str, parts: Sequence[Any], is_rate: bool = True) -> dict[str, Any]:
        rows = joined[name]
        by = {str(part): spread(rows[:, i : i + 1], mean, unit, is_rate) for i, part in enumerate(parts)}
        return {**spread(rows, mean, unit, is_rate), "by": by}

    focal = estimate(FOCAL, opponents)
    by_partner = {}
    for partner in partners:
        cases = [[case for case in run["cases"] if case["partner"] == partner] for run in runs]
        rows = joined_rows([by_seed(partner_cases)[1][:, None] for partner_cases in cases], unit)
        by_partner[partner] = spread(rows, mean, unit, True)
    return {
        "unit": unit,
        FOCAL: focal,
        BESIDE: {**estimate(BESIDE, own_counts), "by_partner": by_partner},
        GAP: estimate(GAP, own_counts, is_rate=False),
        **({PIECES: estimate(PIECES, pieces)} if pieces else {}),
        WORST: worst_of(focal["by"], joined[FOCAL], unit),
    }


def won(outcomes: Sequence[Mapping[str, Any]]) -> np.ndarray:
    """Return whether the policy won each battle, `[battles]`; a draw is not a win."""
    return np.array([outcome["winner"] == outcome["x_side"] for outcome in outcomes], float)


def shared_cases(run: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [case for case in run["cases"] if case["partner"]]


def tables_of(run: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return the win rates of a run as tables with a row per seed and a column per opponent, number of own mechs or set
    piece. The gap is the win rate of the whole team minus the win rate with a partner.
    """
    focal = np.stack([won(case["outcomes"]).reshape(-1, 2).mean(1) for case in run["cases"] if not case["partner"]], 1)
    own_counts = sorted({case["mine"] for case in shared_cases(run)})
    beside, gap = [], []
    for count in own_counts:
        seeds, shares = by_seed([case for case in shared_cases(run) if case["mine"] == count])
        beside.append(shares)
        gap.append(focal[seeds].mean(1) - shares)
    pieces = [won(piece["outcomes"]) for piece in run["pieces"]]
    none = np.zeros((1, 0))
    return {
        FOCAL: focal,
        BESIDE: np.stack(beside, 1),
        GAP: np.stack(gap, 1),
        PIECES: np.stack(pieces, 1) if pieces else none,
    }


def by_seed(cases: Sequence[Mapping[str, Any]]) -> tuple[list[int], np.ndarray]:
    """Return the sorted indices of the cases' seeds, and the win rate on each."""
    pairs: dict[int, list[float]] = {}
    for case in cases:
        for seed, share in zip(case["seeds"], won(case["outcomes"]).reshape(-1, 2).mean(1), strict=True):
            pairs.setdefault(seed, []).append(share)
    seeds = sorted(pairs)
    return seeds, np.array([np.mean(pairs[seed]) for seed in seeds])


def joined_rows(tables: Sequence[np.ndarray], unit: str) -> np.ndarray:
    """Join the tables of all runs to one row per unit (run or seed), `[U, K]`."""
    return tables[0] if unit == "seed" else np.stack([table.mean(0) for table in tables])


def mean(rows: np.ndarray) -> np.ndarray:
    return rows.mean((-2, -1))


def lowest(rows: np.ndarray) -> np.ndarray:
    """Return the mean of the column with the lowest mean."""
    return rows.mean(-2).min(-1)


def spread(rows: np.ndarray, of: Of, unit: str, is_rate: bool) -> dict[str, float]:
    """Return a statistic with its 95 % interval over units (runs or seeds).

    A win rate over seeds uses `win_rate_interval`, anything else bootstrap percentiles. A single unit yields the widest
    possible interval.
    """
    value = float(of(rows))
    if unit == "seed" and is_rate:
        low, high = win_rate_interval(rows.mean(1).tolist())
        return {"value": value, "low": low, "high": high}
    if len(rows) < 2:
        return {"value": value, "low": 0.0 if is_rate else -1.0, "high": 1.0}

    def drawn(index: np.ndarray, axis: int = -1) -> np.ndarray:
        return of(rows[index.astype(int)])

    ends = bootstrap_interval([np.arange(len(rows))], drawn)
    return {"value": value, "low": float(ends.low), "high": float(ends.high)}


def worst_of(by: Mapping[str, Mapping[str, float]], rows: np.ndarray, unit: str) -> dict[str, Any]:
    """Return the lowest win rate against an opponent. If the units are seeds, each end of its interval is the lowest
    such end of all opponents.
    """
    opponent = min(by, key=lambda name: by[name]["value"])
    if unit == "run":
        return {**spread(rows, lowest, unit, True), "opponent": opponent}
    ends = {end: min(share[end] for share in by.values()) for end in ("low", "high")}
    return {"value": by[opponent]["value"], **ends, "opponent": opponent}


def table_rows(scores: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return one row per score, followed by one for each of its parts."""
    rows: list[dict[str, Any]] = []
    for name in (FOCAL, BESIDE, GAP, PIECES, WORST):
        if name not in scores:
            continue
        score = scores[name]
        rows.append({"score": name, "of": score.get("opponent", ""), **ends_of(score)})
        template = "{} mine" if name in (BESIDE, GAP) else "{}"
        rows += [
            {"score": name, "of": template.format(key), **ends_of(value)} for key, value in score.get("by", {}).items()
        ]
        rows += [
            {"score": name, "of": f"beside {partner}", **ends_of(value)}
            for partner, value in score.get("by_partner", {}).items()
        ]
    return rows


def ends_of(one: Mapping[str, Any]) -> dict[str, float]:
    return {end: one[end] for end in ("value", "low", "high")}
