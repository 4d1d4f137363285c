"""A custom callback: values for `metrics.csv`, a resumable state, and early stopping.

python pipelines/train.py --callbacks early_stop:EarlyStop
"""

from echelon.learn.callbacks.base import Callback
from echelon.runtime.tensor_files import StateDict


class EarlyStop(Callback):
    """End the run if the average return has not increased for `PATIENCE` iterations."""

    PATIENCE = 50

    def __init__(self):
        self.best, self.waited = -1e9, 0

    def on_iteration_end(self, trainer, metrics):
        value = metrics["return"] if metrics["return"] is not None else self.best
        self.best, self.waited = max(self.best, value), 0 if value > self.best else self.waited + 1
        metrics["best_return"], metrics["waited"] = self.best, self.waited
        if self.waited >= self.PATIENCE:
            trainer.stop()

    def state_dict(self):
        return StateDict(facts={"best": float(self.best), "waited": self.waited})

    def load_state_dict(self, state_dict):
        self.best, self.waited = state_dict.fact("best", float), state_dict.fact("waited", int)
