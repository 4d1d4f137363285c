"""Warns about common signs that a run does not learn, and suggests settings to change."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence

from echelon.learn.callbacks.base import Callback, Metrics, TrainingRun
from echelon.learn.config import TrainConfig
from echelon.learn.curriculum import stages_of
from echelon.learn.metrics import read_metrics
from echelon.learn.ppo.nonfinite_dump import terms_message

Rows = Sequence[Mapping[str, float | None]]
RECENT = 20
"""Number of recent iterations that are checked; with fewer there is no warning."""
RANDOM_SHARE = 0.98
"""Fraction of the initial entropy above which actions count as random. All kinds of action must exceed it: a winning
policy may still fire as randomly as an untrained one, while its movement is more certain."""
POOR_VALUES = 0.1
"""Explained variance below which the critic is of no use to the policy."""
FEW_EPOCHS = 0.5
"""Fraction of the epochs below which the KL limit ends updates too early."""
SETTLED = 0.25
"""Fraction of a run before which random actions and poor values are normal."""
LATE = 0.75
"""Fraction of a run after which the first curriculum stage should be completed. Of the successful runs in
`benchmarks/results/sweep.jsonl`, the slowest won half of its battles after 0.69 of the run."""


def warning_signs(rows: Rows, config: TrainConfig, progress: float) -> dict[str, str]:
    """Return warnings about the last iterations, one line each, keyed by a short name.

    Args:
        rows: rows of `metrics.csv`: the first one, and at least the last `RECENT`.
        progress: completed fraction of the run, 0..1.
    """
    recent = rows[-RECENT:]
    if len(recent) < RECENT:
        return {}
    signs = {"not finite": _not_finite(recent), "KL at its limit": _kl_at_limit(recent, config)}
    if progress >= SETTLED:
        signs |= {"random actions": _random_actions(rows[0], recent), "poor values": _poor_values(recent)}
    if progress >= LATE:
        signs["first stage"] = _first_stage(recent, config)
    return {name: text for name, text in signs.items() if text}


def _mean(rows: Rows, name: str) -> float:
    """Return the mean of the finite numbers in a column; NaN if there are none."""
    values = [value for row in rows if (value := row.get(name)) is not None and math.isfinite(value)]
    return sum(values) / len(values) if values else math.nan


def _random_actions(first: Mapping[str, float | None], recent: Rows) -> str:
    kinds = []
    for kind in ("move", "turn", "fire"):
        initial, entropy = first.get(f"entropy_{kind}"), _mean(recent, f"entropy_{kind}")
        if initial is None or math.isnan(entropy):
            continue
        if entropy <= RANDOM_SHARE * initial:
            return ""
        kinds.append(f"{kind} {entropy:.2f}, initially {initial:.2f}")
    if not kinds:
        return ""
    return (
        f"actions are as random as before training (entropy of {'; '.join(kinds)}): try a lower "
        "--ppo.entropy-coef.first, a higher --ppo.learning-rate.first or an easier --opponent"
    )


def _poor_values(recent: Rows) -> str:
    explained = _mean(recent, "explained_variance")
    if not explained < POOR_VALUES:
        return ""
    return (
        f"the critic predicts nothing (explained variance {explained:.2f}): try a higher --ppo.value-coef or a lower "
        "--env.reward.gamma"
    )


def _kl_at_limit(recent: Rows, config: TrainConfig) -> str:
    epochs = _mean(recent, "epochs")
    if config.ppo.target_kl == 0 or not epochs <= FEW_EPOCHS * config.ppo.epochs:
        return ""
    return (
        f"updates end early ({epochs:.1f} of {config.ppo.epochs} epochs, KL {_mean(recent, 'kl'):.3f}, limit "
        f"{config.ppo.target_kl:g}): try a lower --ppo.learning-rate.first or a higher --ppo.target-kl"
    )


def _not_finite(recent: Rows) -> str:
    skipped = (recent[-1].get("skipped") or 0.0) - (recent[0].get("skipped") or 0.0)
    if skipped <= 0:
        return ""
    columns = [name for row in recent for name, value in row.items() if value is not None and not math.isfinite(value)]
    terms = [name.removeprefix("return_") for name in dict.fromkeys(columns) if name.startswith("return_")]
    hint = terms_message(terms) if terms else "try a lower --ppo.learning-rate.first or --precision fp32"
    return f"{skipped:.0f} steps were skipped because the loss or gradients were not finite: {hint}"


def _first_stage(recent: Rows, config: TrainConfig) -> str:
    stage, rate, threshold = (
        recent[-1].get("stage"),
        recent[-1].get("stage_win_rate"),
        config.curriculum.advance_at_win_rate,
    )
    if len(stages_of(config)) == 1 or stage != 1 or rate is None or rate >= threshold:
        return ""
    return (
        f"still in the first stage ({rate:.0%} of its battles won, {threshold:.0%} required): try a larger "
        "--total-agent-steps, a lower --curriculum.advance-at-win-rate or an easier first entry of "
        "--curriculum.opponents"
    )


class WarningSigns(Callback):
    """Logs each warning of `warning_signs` once, when it first appears."""

    def __init__(self) -> None:
        self.first: Metrics = {}
        """Metrics of the first iteration of the run."""
        self.recent: deque[Metrics] = deque(maxlen=RECENT)
        self.logged: set[str] = set()

    def on_run_start(self, trainer: TrainingRun) -> None:
        rows = read_metrics(trainer.folder / "metrics.csv") if trainer.counters.iterations > 0 else []
        self.first, self.recent = (dict(rows[0]) if rows else {}), deque(map(dict, rows[-RECENT:]), RECENT)

    def on_iteration_end(self, trainer: TrainingRun, metrics: Metrics) -> None:
        row = dict(metrics)
        self.first = self.first or row
        self.recent.append(row)
        for name, text in warning_signs([self.first, *self.recent], trainer.config, trainer.progress).items():
            if name not in self.logged:
                self.logged.add(name)
                trainer.log(f"warning: {text}")
