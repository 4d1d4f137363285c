"""Chooses how many threads of a CPU a run computes with, and says when other programs hold the cores."""

from __future__ import annotations

import time
from collections import deque

from echelon.learn.callbacks.base import Callback, Metrics, TrainingRun

SOONEST, LATEST = 16, 256
"""Iterations between trials of another number of threads: doubled after each that was not faster."""
TRIAL = 2
"""Iterations of a trial, the faster of which counts."""
FASTER = 1.05
"""How many times as fast another number of threads must be to be taken."""
PARTS = {"env_s": "the environment", "act_s": "acting", "learn_s": "learning"}
"""Parts of an iteration whose seconds are in its metrics, and what a line of the log calls them."""
SHARE = 0.7
"""Cores that a run gets at least of a machine that nobody else uses: one thread computes all the time."""


class ThreadChoice(Callback):
    """On a CPU, takes the number of threads that measured fastest. Every run has one.

    `TrainConfig.threads` fixes the number; with 0 it begins with torch's, and half or twice as many are tried now and
    then. Threads share battles and parts of minibatches, so nothing but time depends on it. A line of the log says when
    the number changes, when other programs hold the cores, and which parts of an iteration gain nothing from threads
    where all of them together do not.
    """

    def __init__(self) -> None:
        self.number, self.trial = 0, 0
        """Number of threads, and another one that is tried; 0 for none."""
        self.pause, self.waited = SOONEST, 0
        """Iterations between trials, and since the last one."""
        self.rates: dict[int, deque[float]] = {}
        """The last rates with a number of threads, agent-steps/s."""
        self.seconds: dict[int, dict[str, float]] = {}
        """Seconds of each of `PARTS` in the last iteration with a number of threads."""
        self.is_told = False
        """Whether a line has named the parts that gain nothing from threads."""
        self.shares: deque[float] = deque(maxlen=TRIAL)
        """Cores that the last iterations got."""
        self.is_busy = False
        """Whether other programs hold the cores."""

    def setup(self, trainer: TrainingRun) -> None:
        """Begin with torch's number of threads, or what the config says."""
        self.most = trainer.config.threads or trainer.ppo.threads
        self.number = self.most

    def on_iteration_start(self, trainer: TrainingRun) -> None:
        """Set the number of threads, also for battles that a new stage has made."""
        if trainer.device.type == "cpu":
            trainer.ppo.threads = self.trial or self.number
            trainer.env.engine.blocks.share(trainer.ppo.threads)
        self.began = time.perf_counter(), time.process_time()

    def on_iteration_end(self, trainer: TrainingRun, metrics: Metrics) -> None:
        """Compare, and begin the next trial."""
        if trainer.device.type != "cpu":
            return
        self._look_for_load(trainer)
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
        """Half or twice as many threads, whichever was tried longer ago; 0 where there is neither."""
        candidates = [count for count in (self.number // 2, self.number * 2) if 1 <= count <= self.most]
        return next((count for count in candidates if count not in self.rates), candidates[0] if candidates else 0)

    def _judge(self, trainer: TrainingRun) -> None:
        """End a trial."""
        tried, current = max(self.rates[self.trial]), max(self.rates[self.number])
        self._tell_what_does_not_scale(trainer)
        if tried > FASTER * current:
            trainer.log(f"{self.trial} threads: {tried:,.0f} agent-steps/s, with {self.number} {current:,.0f}")
            self.number, self.pause = self.trial, SOONEST
        else:
            self.pause = min(2 * self.pause, LATEST)
        self.trial, self.waited = 0, 0

    def _tell_what_does_not_scale(self, trainer: TrainingRun) -> None:
        """Name, once, the parts of an iteration that take as long with more threads, where the run does too."""
        fewer, more = sorted((self.trial, self.number))
        rates = max(self.rates[fewer]), max(self.rates[more])
        if self.is_told or rates[1] > FASTER * rates[0]:
            return
        self.is_told = True
        of_fewer, of_more = self.seconds[fewer], self.seconds[more]
        times = {name: of_fewer[name] / of_more[name] for name in PARTS if of_more[name] > 0}
        slow = [f"{PARTS[name]} (x{ratio:.2f})" for name, ratio in times.items() if ratio < FASTER]
        gained = f"{more} threads are no faster than {fewer}: {rates[1]:,.0f} and {rates[0]:,.0f} agent-steps/s"
        trainer.log(f"{gained}; no gain in {', '.join(slow) or 'any part'}")

    def _look_for_load(self, trainer: TrainingRun) -> None:
        """Say when other programs begin or cease to hold the cores; processes of one run wait for each other."""
        wall, cpu = time.perf_counter() - self.began[0], time.process_time() - self.began[1]
        self.shares.append(cpu / max(wall, 1e-9))
        is_busy = max(self.shares) < SHARE
        if len(self.shares) < TRIAL or is_busy == self.is_busy or not trainer.ranks.is_alone:
            return
        self.is_busy, self.pause = is_busy, SOONEST
        if is_busy:
            message = f"other programs hold the cores: this run gets {max(self.shares):.2f} of one"
            trainer.log(f"{message}; its threads do not wait for each other, and how many are best is tried again")
        else:
            trainer.log("the cores are free again")
