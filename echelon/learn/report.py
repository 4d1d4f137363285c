"""The report of an iteration: sums of all processes, read from the device at once, as a row of metrics."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from echelon.env.observation.layout import GROUPS
from echelon.learn.metrics import COLUMN_OF
from echelon.learn.ppo.update import REPORTED
from echelon.runtime.distributed import Ranks


def all_reduce_sums(sums: Mapping[str, Tensor], ranks: Ranks) -> dict[str, Tensor]:
    """Sum each tensor over all processes, in one all-reduce."""
    sizes = [value.numel() for value in sums.values()]
    parts = ranks.sum(torch.cat([value.flatten() for value in sums.values()])).split(sizes)
    return {name: part.view_as(sums[name]) for name, part in zip(sums, parts, strict=True)}


def read(values: Mapping[str, Tensor]) -> dict[str, list[float]]:
    """Copy tensors to the host in one transfer, flattened to lists of floats."""
    packed = torch.cat([value.detach().float().flatten() for value in values.values()]).cpu().tolist()
    found, at = {}, 0
    for name, value in values.items():
        found[name] = packed[at : at + value.numel()]
        at += value.numel()
    return found


def summarise(
    report: Mapping[str, list[float]], terms: Sequence[str], stat_names: Sequence[str], past: str
) -> dict[str, float | None]:
    """Columns of `metrics.csv`, with sums over battles divided by their number; None where no battle ended.

    Args:
        report: what `read` returned.
    """
    value = {name: numbers[0] for name, numbers in report.items()}
    stats = dict(zip(stat_names, report["stats"], strict=True))

    def mean(amount: float, battles: float) -> float | None:
        return amount / battles if battles > 0 else None

    battles = value["battles"]
    returns = {f"return_{term}": mean(paid, battles) for term, paid in zip(terms, report["returns"], strict=True)}
    plain = (*REPORTED, "epochs", "skipped", "battles", "dead_share", "target_mean", "target_std")
    return {
        **{COLUMN_OF.get(name, name): value[name] for name in (*plain, "explained_variance")},
        "win_rate": mean(value["won"], battles),
        "loss_rate": mean(value["lost"], battles),
        "battle_decisions": mean(value["decisions"], battles),
        "return": mean(math.fsum(report["returns"]), battles),
        **returns,
        **{name: mean(stats[name], battles) for name in ("damage", "kills", "deaths", "zone_s")},
        **{
            f"win_rate_{side}": mean(value[f"won_as_{side}"], value[f"battles_as_{side}"])
            for side in GROUPS
            if f"won_as_{side}" in value
        },
        "past_win_rate": mean(value.get(f"won_{past}", 0.0), value.get(f"battles_{past}", 0.0)),
    }
