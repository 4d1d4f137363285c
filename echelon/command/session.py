"""A conversation about battles in JSON: reports out, replies with orders in, and what was wrong with them."""

from __future__ import annotations

from typing import Any

from echelon.command.pace import FIELDS as PACE_FIELDS
from echelon.command.pace import Pace
from echelon.command.parse import FIRE_NAMES, KIND_NAMES
from echelon.command.port import CommandPort
from echelon.command.reply import MOST_BYTES as MOST_BYTES
from echelon.command.reply import read_reply
from echelon.runtime.errors import ConfigError, require

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
