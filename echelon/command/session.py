"""A conversation about battles in JSON: reports out, replies with orders in, and the faults of replies.

Battles in real time run at a speed, pause, or advance one report at a time.
"""

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

from echelon.command.port import CommandPort
from echelon.command.reply import FIRE_NAMES, KIND_NAMES, number_of, read_reply
from echelon.command.reply import MOST_BYTES as MOST_BYTES
from echelon.runtime.errors import ConfigError, require

PACE_FIELDS = ("pause", "speed", "step")
SPEEDS = (0.1, 16.0)
"""Slowest and fastest, in battle seconds a second."""
MOST_STEPS = 1000
"""In one line."""


class Pace:
    """The clock of battles that go on in real time, as their commander sets it.

    Args:
        period_s: battle seconds between two reports.
        now: seconds, of a clock that never goes back.
    """

    def __init__(self, period_s: float, now: Callable[[], float] = time.monotonic) -> None:
        self.period_s, self.now = period_s, now
        self.speed, self.is_paused = 1.0, False
        self._steps = 0
        self._due = -math.inf

    def as_json(self) -> dict[str, Any]:
        """A message of type `pace`: how the battles go on."""
        return {"type": "pace", "paused": self.is_paused, "speed": self.speed}

    def set(self, settings: Mapping[str, Any]) -> None:
        """Take what a line says: `pause`, a bool; `speed`; `step`, pause and play on for so many reports.

        Raises:
            ConfigError: one line that says what would be right; then nothing is taken.
        """
        pause, step = settings.get("pause", self.is_paused), settings.get("step", 0)
        require(isinstance(pause, bool), "pause", "true or false", pause)
        speed = number_of(settings.get("speed", self.speed), "speed", *SPEEDS)
        require(type(step) is int and 0 <= step <= MOST_STEPS, "step", f"0..{MOST_STEPS}", step)
        self.speed = speed
        if step:
            self.is_paused, self._steps = True, step
        elif pause != self.is_paused:
            self.is_paused, self._steps = pause, 0
            self.skip_to_now()

    def reported(self) -> None:
        """A report was sent: the next one is due a period after this one was, or at once where that has passed."""
        now_s, period_s = self.now(), self.period_s / self.speed
        self._due = now_s + period_s if math.isinf(self._due) else max(self._due + period_s, now_s)

    def played(self) -> None:
        """The battles went on."""
        self._steps -= self._steps > 0

    def skip_to_now(self) -> None:
        """Count no time from before now."""
        self._due = max(self._due, self.now())

    @property
    def left_s(self) -> float:
        """Seconds until the battles go on; infinite while they are paused."""
        if self.is_paused:
            return 0.0 if self._steps else math.inf
        return self._due - self.now()


SCHEMA = 1
"""Raised when a message begins to mean something else."""


class Session:
    """What is said about the battles of a port, whatever carries the lines.

    Args:
        port: the battles.
        speaks: whether reports have a page of plain English besides.
        pace: of battles in real time, which lines may then set; None for others.
    """

    def __init__(self, port: CommandPort, speaks: bool = False, pace: Pace | None = None) -> None:
        self.port, self.speaks, self.pace = port, speaks, pace
        self._fields = ("orders", "number", "drive", *(PACE_FIELDS if pace else ()))
        self.number = 0
        """Of the report that was sent last; 0 before the first."""
        self.accepted = self.late = self.refused = 0
        """Orders so far: given, of those late, and refused."""

    def begin(self) -> dict[str, Any]:
        """The first message: what there is to command, and how."""
        view = self.port.view
        command, rules = view.config.command, view.config.rules
        return {
            "type": "begin",
            "schema": SCHEMA,
            "battles": view.num_envs,
            "packs": self.port.num_packs,
            "map": list(view.config.world.size[:2]),
            "kinds": list(KIND_NAMES),
            "fire": list(FIRE_NAMES),
            "period_s": command.period * rules.decision_s,
            "delay_s": command.delay_s,
            "ends_s": rules.max_episode_s,
        }

    def report(self) -> dict[str, Any]:
        """The next report, of the battles whose first one goes on."""
        self.number += 1
        if self.pace is not None:
            self.pace.reported()
        reports = [report for report in self.port.reports() if not self.port.ended[report["battle"]]]
        if self.speaks:
            reports = [{**report, "words": self.port.words(report)} for report in reports]
        message = {"type": "report", "number": self.number, "battles": reports}
        driven = self.port.driven()
        return message | ({"late": self.late} if self.late else {}) | ({"driven": driven} if driven else {})

    def left(self) -> None:
        """Whoever spoke has gone: nobody drives a mech any more."""
        self.port.drive(None)

    def receive(self, reply: str | bytes) -> dict[str, Any] | None:
        """Take in one reply, such as `{"orders": [{"pack": 0, "kind": "hold"}], "number": 3}`, as
        `echelon.command.reply.read_reply` reads it; `number` is that of the report that it answers, the last one by
        default. With `drive` it drives one mech, or lets it go with null. In real time it may set the pace besides.

        Returns:
            What was wrong with it, a message of type `refused`; where all of it was right one of type `pace` if it set
            the pace, else None.
        """
        try:
            message, unknown = read_reply(reply, self._fields, "a line")
            number, orders = message.get("number", self.number), message["orders"]
            is_report = type(number) is int and 0 <= number <= self.number
            require(is_report, "number", f"0..{self.number}, that of a report", number)
            is_paced = self.pace is not None and any(name in message for name in PACE_FIELDS)
            if self.pace is not None and is_paced:
                self.pace.set(message)
            if "drive" in message:
                self.port.drive(message["drive"])
        except ConfigError as error:
            return self._refuse([str(error)])
        refused = self.port.order(orders)
        accepted = len(orders) - len(refused)
        self.accepted += accepted
        self.late += accepted if number < self.number else 0
        if unknown or refused:
            return self._refuse(unknown + refused)
        return self.pace.as_json() if self.pace is not None and is_paced else None

    def _refuse(self, lines: list[str]) -> dict[str, Any]:
        self.refused += len(lines)
        return {"type": "refused", "errors": lines}

    def advance(self) -> list[dict[str, Any]]:
        """Play on until the commander is heard again: a message of type `end` for each battle that ended first now."""
        before = list(self.port.ended)
        done_battles = self.port.step()
        if self.pace is not None:
            self.pace.played()
        new = [battle for battle in done_battles if not before[battle]]
        return [{"type": "end", "battle": battle, "won_by": self.port.winners[battle]} for battle in new]

    @property
    def is_over(self) -> bool:
        """Whether the first battle in every place has ended."""
        return all(self.port.ended)

    def result(self) -> dict[str, Any]:
        """The last message: who won how many, and what became of the orders."""
        counts = {winner: self.port.winners.count(winner) for winner in ("own", "enemy", "nobody")}
        orders = {"given": self.accepted, "late": self.late, "refused": self.refused}
        return {"type": "result", "won_by": counts, "orders": orders}
