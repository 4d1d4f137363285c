"""Chooses the number of CPU threads of a run, and logs when other programs occupy the cores."""

from __future__ import annotations

import time
from collections import deque

from echelon.learn.callbacks.base import Callback, Metrics, TrainingRun

SOONEST, LATEST = 16, 256
"""Number of iterations between trials of another thread count; doubled after each trial that was not faster."""
TRIAL = 2
"""Number of iterations per trial; the fastest one counts."""
FASTER = 1.05
"""Speed-up that another thread count must reach to be chosen."""
PARTS = {"env_s": "the environment", "act_s": "acting", "learn_s": "learning"}
"""Parts of an iteration that `metrics.csv` times, and their names in the log."""
SHARE = 0.7
"""Least number of cores that a run uses on an otherwise idle machine: one thread always computes."""


class ThreadChoice(Callback):
    """Uses the number of CPU threads that measured fastest. Every run has this callback.

    A positive `TrainConfig.threads` fixes the number. If that setting is 0, the run starts with torch's number of
    threads and sometimes tries half or twice as many. The thread count affects only the speed, because threads share
    battles and parts of minibatches. The log reports a new thread count, cores occupied by other programs, and parts of
    an iteration that do not get faster with more threads.
    """

    def __init__(self) -> None:
        self.number, self.trial = 0, 0
        """Current number of threads, and the number under trial; 0 for none."""
        self.pause, self.waited = SOONEST, 0
        """Number of iterations between trials, and since the last trial."""
        self.rates: dict[int, deque[float]] = {}
        """Latest speeds by number of threads, agent-steps/s."""
        self.seconds: dict[int, dict[str, float]] = {}
        """Seconds of each of `PARTS` in the last iteration, by number of threads."""
        self.is_logged = False
        """Whether the log already lists the parts that do not get faster with threads."""
        self.shares: deque[float] = deque(maxlen=TRIAL)
        """Number of cores that each of the last iterations used."""
        self.is_busy = False
        """Whether other programs occupy the cores."""

    def setup(self, trainer: TrainingRun) -> None:
        """Start with torch's number of threads, or the number in the config."""
        self.most = trainer.config.threads or trainer.ppo.threads
        self.number = self.most

    def on_iteration_start(self, trainer: TrainingRun) -> None:
        """Set the number of threads again, because a new stage may have replaced the environment."""
        if trainer.device.type == "cpu":
            trainer.ppo.threads = self.trial or self.number
            trainer.env.engine.blocks.share(trainer.ppo.threads)
        self.began = time.perf_counter(), time.process_time()

    def on_iteration_end(self, trainer: TrainingRun, metrics: Metrics) -> None:
        """Record the speed, and start or finish a trial."""
        if trainer.device.type != "cpu":
            return
        self._detect_load(trainer)
        threads = self.trial or self.number
        self.rates.setdefault(threads, deque(maxlen=TRIAL)).append(metrics["agent_steps_per_s"] or 0.0)
        self.seconds.setdefault(threads, {}).update({name: metrics.get(name) or 0.0 for name in PARTS})
        self.waited += 1
        if self.trial and self.waited == TRIAL:
            self._judge(trainer)
        elif not self.trial and self.waited >= self.pause and trainer.config.threads == 0:
            self.trial, self.waited = self._other(), 0
            self.rates.pop(self.trial, None)

    def _other(self) -> int:
        """Return half or twice the thread count, preferably a number that was not tried yet; 0 if neither is
        allowed.
        """
        candidates = [count for count in (self.number // 2, self.number * 2) if 1 <= count <= self.most]
        return next((count for count in candidates if count not in self.rates), candidates[0] if candidates else 0)

    def _judge(self, trainer: TrainingRun) -> None:
        """Finish a trial: choose the faster thread count."""
        tried, current = max(self.rates[self.trial]), max(self.rates[self.number])
        self._log_parts_without_speedup(trainer)
        if tried > FASTER * current:
            trainer.log(f"{self.trial} threads: {tried:,.0f} agent-steps/s, with {self.number} {current:,.0f}")
            self.number, self.pause = self.trial, SOONEST
        else:
            self.pause = min(2 * self.pause, LATEST)
        self.trial, self.waited = 0, 0

    def _log_parts_without_speedup(self, trainer: TrainingRun) -> None:
        """Log once which parts of an iteration do not get faster with more threads, if the whole iteration does not."""
        fewer, more = sorted((self.trial, self.number))
        rates = max(self.rates[fewer]), max(self.rates[more])
        if self.is_logged or rates[1] > FASTER * rates[0]:
            return
        self.is_logged = True
        of_fewer, of_more = self.seconds[fewer], self.seconds[more]
        times = {name: of_fewer[name] / of_more[name] for name in PARTS if of_more[name] > 0}
        slow = [f"{PARTS[name]} (x{ratio:.2f})" for name, ratio in times.items() if ratio < FASTER]
        gained = f"{more} threads are no faster than {fewer}: {rates[1]:,.0f} and {rates[0]:,.0f} agent-steps/s"
        trainer.log(f"{gained}; no gain in {', '.join(slow) or 'any part'}")

    def _detect_load(self, trainer: TrainingRun) -> None:
        """Log when other programs start or stop occupying the cores. Runs with several processes skip this check."""
        wall, cpu = time.perf_counter() - self.began[0], time.process_time() - self.began[1]
        self.shares.append(cpu / max(wall, 1e-9))
        is_busy = max(self.shares) < SHARE
        if len(self.shares) < TRIAL or is_busy == self.is_busy or not trainer.ranks.is_alone:
            return
        self.is_busy, self.pause = is_busy, SOONEST
        if is_busy:
            message = f"other programs occupy the cores: this run gets {max(self.shares):.2f} of a core"
            trainer.log(f"{message}; threads no longer wait for each other, and thread counts are tried again")
        else:
            trainer.log("the cores are free again")
