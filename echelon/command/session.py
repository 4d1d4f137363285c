"""A session commands battles by JSON messages: it sends reports, receives replies with orders, and sends their errors.

Battles in real time run at a configurable speed; the commander may pause them or advance them report by report.
"""

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

from echelon.command.port import CommandPort
from echelon.command.reply import FIRE_NAMES, KIND_NAMES, number_of, read_reply
from echelon.command.reply import MOST_BYTES as MOST_BYTES
from echelon.command.report import WINNERS
from echelon.runtime.errors import ConfigError, require

PACE_FIELDS = ("pause", "speed", "step")
SPEEDS = (0.1, 16.0)
"""Minimum and maximum speed, in battle seconds per second."""
MOST_STEPS = 1000
"""Maximum value of `step` in a message."""


class Pace:
    """The clock of battles in real time, controlled by messages of their commander.

    Args:
        period_s: battle seconds between two reports.
        now: monotonic clock, in seconds.
    """

    def __init__(self, period_s: float, now: Callable[[], float] = time.monotonic) -> None:
        self.period_s, self.now = period_s, now
        self.speed, self.is_paused = 1.0, False
        self._steps = 0
        self._due = -math.inf

    def as_json(self) -> dict[str, Any]:
        """Return a message of type `pace`, which states the speed and whether the battles are paused."""
        return {"type": "pace", "paused": self.is_paused, "speed": self.speed}

    def set(self, settings: Mapping[str, Any]) -> None:
        """Apply the clock settings `pause`, `speed` and `step` in a message.

        `pause` is a bool, `speed` is in battle seconds per second, and `step` pauses the battles after that many
        reports.

        Raises:
            ConfigError: if a setting is invalid; the clock then stays as it was.
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
        """Schedule the next report: one period after the current one was due, or now if that time has passed."""
        now_s, period_s = self.now(), self.period_s / self.speed
        self._due = now_s + period_s if math.isinf(self._due) else max(self._due + period_s, now_s)

    def played(self) -> None:
        """Count one played step."""
        self._steps -= self._steps > 0

    def skip_to_now(self) -> None:
        """Discard the backlog of overdue reports: the next report is due now or later."""
        self._due = max(self._due, self.now())

    @property
    def left_s(self) -> float:
        """Seconds until the battles continue; 0 or less if they are due, infinite while they are paused."""
        if self.is_paused:
            return 0.0 if self._steps else math.inf
        return self._due - self.now()


SCHEMA = 1
"""Version of the messages; increased when a message changes its meaning."""


class Session:
    """The messages about the battles of a port, for any transport (WebSocket, stdin and stdout, ...).

    Args:
        port: port of the battles.
        speaks: whether reports also contain plain English text.
        pace: clock of battles in real time, which messages may change; None for battles that wait for each reply.
    """

    def __init__(self, port: CommandPort, speaks: bool = False, pace: Pace | None = None) -> None:
        self.port, self.speaks, self.pace = port, speaks, pace
        self._fields = ("orders", "number", "drive", *(PACE_FIELDS if pace else ()))
        self.number = 0
        """Number of the last report; 0 before the first report."""
        self.accepted = self.late = self.refused = 0
        """Counters of orders: accepted, late among the accepted ones, and refused."""

    def begin(self) -> dict[str, Any]:
        """Return the first message of the session: numbers of battles and packs, map size, valid orders, and timing."""
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
        """Return the next report; it omits batch slots whose first battle has ended."""
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
        """End manual control of a mech, because the client has disconnected."""
        self.port.drive(None)

    def receive(self, reply: str | bytes) -> dict[str, Any] | None:
        """Apply one reply of the commander, such as `{"orders":[{"pack": 0, "kind": "hold"}], "number": 3}`.

        `echelon.command.reply.read_reply` parses the reply. `number` is the number of the report that this reply
        answers, by default the last one. `drive` controls one mech manually; null ends the manual control. In real
        time, a reply may also change speed or pause the battles.

        Returns:
            A message of type `refused` if there are errors; otherwise one of type `pace` if the reply changed the
            clock; otherwise None.
        """
        try:
            message, unknown = read_reply(reply, self._fields, "a line")
            number, orders = message.get("number", self.number), message["orders"]
            is_report = type(number) is int and 0 <= number <= self.number
            require(is_report, "number", f"0..{self.number}, the number of a report that was sent", number)
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
        """Play until the next report; return a message of type `end` for each slot whose first battle has ended now."""
        before = list(self.port.ended)
        done_battles = self.port.step()
        if self.pace is not None:
            self.pace.played()
        new = [battle for battle in done_battles if not before[battle]]
        return [{"type": "end", "battle": battle, "won_by": self.port.winners[battle]} for battle in new]

    @property
    def is_over(self) -> bool:
        """Whether the first battle in every batch slot has ended."""
        return all(self.port.ended)

    def result(self) -> dict[str, Any]:
        """Return the last message of the session: the number of battles by winner, and the numbers of orders."""
        counts = {winner: self.port.winners.count(winner) for winner in WINNERS}
        orders = {"given": self.accepted, "late": self.late, "refused": self.refused}
        return {"type": "result", "won_by": counts, "orders": orders}
