"""Effect of ten copies of one policy on the ratings of a league: Glicko-2, Bradley-Terry, alpha-rank, Nash mixture.

python benchmarks/copies.py

The league: `rock`, `paper` and `scissors` beat each other in a circle, each beats `strong`, and `strong` beats `weak`.
Each pair plays 64 battles, and each entry scores exactly its expected points.
"""

from __future__ import annotations

import torch
from torch import Tensor

from echelon.league.mixture import nash
from echelon.league.ratings import Games, Ratings, advantage, bradley_terry, rate, ratings_of

NAMES = ("rock", "paper", "scissors", "strong", "weak")
POINTS = torch.tensor(
    [
        [0.5, 0.25, 0.75, 0.75, 1.0],
        [0.75, 0.5, 0.25, 0.75, 1.0],
        [0.25, 0.75, 0.5, 0.75, 1.0],
        [0.25, 0.25, 0.25, 0.5, 0.75],
        [0.0, 0.0, 0.0, 0.25, 0.5],
    ],
    dtype=torch.float64,
)
"""Expected points `[5, 5]` per game of the row against the column."""
BATTLES, COPIES, PERIODS = 64, 10, 8
POPULATION, SELECTION = 50, 100.0
"""Population size and selection intensity of alpha-rank."""


def glicko(points: Tensor) -> Tensor:
    """Return Glicko-2 ratings `[E]` after `PERIODS` periods, with `BATTLES` games per pair in total."""
    count, each = len(points), BATTLES // PERIODS
    x, y = torch.triu_indices(count, count, 1).unbind(0)
    won = (points[x, y] * each).round()
    score = (torch.arange(each)[:, None] < won[None, :]).double().flatten()
    games = Games(x.repeat(each), y.repeat(each), score)
    now: Ratings = ratings_of([(1500.0, 350.0, 0.06)] * count)
    for _ in range(PERIODS):
        now = rate(now, games)
    return now.rating


def alpha_rank(points: Tensor) -> Tensor:
    """Return the stationary distribution `[E]` of alpha-rank for one population (Omidshafiei et al. 2019, "alpha-Rank:
    Multi-Agent Evaluation by Evolution")."""
    count = len(points)
    lead = SELECTION * (points.T - points)  # of an invader (column) over the residents (row)
    even = lead.abs() < 1e-12
    safe = torch.where(even, 1.0, lead)
    fixation = torch.where(even, 1 / POPULATION, torch.expm1(-safe) / torch.expm1(-POPULATION * safe))
    fixation = torch.where(torch.isfinite(fixation), fixation, 0.0)
    moves = (fixation / (count - 1)).fill_diagonal_(0)
    moves = moves + torch.diag(1 - moves.sum(1))
    system = torch.vstack((moves.T - torch.eye(count, dtype=points.dtype), torch.ones(1, count, dtype=points.dtype)))
    right = torch.zeros(count + 1, 1, dtype=points.dtype)
    right[-1] = 1
    return torch.linalg.lstsq(system, right, driver="gelsd").solution[:, 0].clamp_min(0)


def figures(points: Tensor) -> dict[str, Tensor]:
    """Return each rating, `[E]`, keyed by name."""
    games = torch.full_like(points, BATTLES).fill_diagonal_(0)
    return {
        "Glicko-2": glicko(points),
        "Bradley-Terry": bradley_terry(points * games),
        "alpha-rank": alpha_rank(points),
        "Nash": nash(advantage(points * games, games)),
    }


def main() -> None:
    count = len(NAMES)
    before = figures(POINTS)
    print(f"| figure | {' | '.join(NAMES)} | largest change of a difference between two others |")
    print("|---" * (count + 2) + "|")
    for name, alone in before.items():
        print(row(name, alone))
        for entry in (0, 4):
            entries = [*range(count), *[entry] * COPIES]
            after = figures(POINTS[entries][:, entries])[name]
            shown = after[:count].clone()
            others = [other for other in range(count) if other != entry]
            changes = (shown - alone)[others]
            print(row(f"{name}, {COPIES} more of {NAMES[entry]}", shown, float(changes.max() - changes.min())))


def row(name: str, values: Tensor, change: float | None = None) -> str:
    """Return a row of the table."""
    digits = 0 if values.max() > 2 else 3
    cells = [f"{value:.{digits}f}" for value in values.tolist()]
    return f"| {name} | {' | '.join(cells)} | {'' if change is None else f'{change:.{digits}f}'} |"


if __name__ == "__main__":
    main()
