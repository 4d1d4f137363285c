"""One battle that is commanded step by step, and that can be forked, played on from copies, and kept as a replay."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import torch

from echelon.arena.match import win_rate_interval
from echelon.arena.resolve import resolve
from echelon.command.chat_commander import read_orders, seat_of
from echelon.command.pack_policy import MECHS, Seat, require_mechs
from echelon.command.port import CommandPort, named_over
from echelon.command.report import Report
from echelon.env.arguments import one_seed, whole_within
from echelon.replay.file import save
from echelon.replay.recorder import Recorder
from echelon.rules.config import EnvConfig
from echelon.runtime import noise
from echelon.runtime.errors import ConfigError, require
from echelon.runtime.limits import Limits
from echelon.views.commanders import commanders

WON = {"own": 1.0, "enemy": 0.0, "nobody": 0.5}
"""Points by `CommandPort.winners`."""
BRANCHES = Limits(1, 1024, "branches")
STEPS = Limits(1, 10_000, "steps")


class OrderedBattle:
    """A battle whose packs are commanded from outside, a step of `CommandConfig.period` decisions at a time.

    A copy is the same battle with the same orders played again, so that it has the same bits.

    Args:
        config: of the battle; orders are switched on.
        side: the team that is commanded.
        mechs: what plays its mechs, a commander that ships with Echelon.
        opponent: what plays the other team, the same.
        seed: of the battle.
        records: keep a replay.

    Raises:
        ConfigError: an argument is out of range, or a name of a commander that does not ship.
    """

    def __init__(
        self,
        config: EnvConfig,
        side: Literal["blue", "red"] = "blue",
        mechs: str = MECHS,
        opponent: str = MECHS,
        seed: int = 0,
        records: bool = False,
    ) -> None:
        for name in (mechs, opponent):
            require_mechs(name)
        require(side in ("blue", "red"), "side", "blue or red", side)
        command = dataclasses.replace(config.command, enabled=True)
        self.config, self.side = dataclasses.replace(config, command=command), side
        self.mechs, self.opponent, self.seed = mechs, opponent, one_seed(seed)
        self.given: list[list[Any]] = []
        """By step the orders that were accepted."""
        self._next: list[Any] = []
        self.recorder = Recorder([0]) if records else None
        self.port = self._port(1, self.recorder)

    @torch.no_grad()
    def _port(self, count: int, recorder: Recorder | None = None) -> CommandPort:
        """`count` times the battle as it begins."""
        cpu = torch.device("cpu")
        mechs, opponent = (resolve(name).policy(self.config, cpu) for name in (self.mechs, self.opponent))
        seeds = noise.battle_seeds(self.seed, 1, cpu).expand(count).clone()
        return CommandPort(
            commanders(self.config, mechs, opponent, count, cpu, seeds, side=self.side, observer=recorder)
        )

    @property
    def winner(self) -> str | None:
        """Who won: `own`, `enemy` or `nobody`; None while the battle goes on."""
        return self.port.winners[0]

    @property
    def seat(self) -> Seat:
        """What orders may name."""
        return seat_of(self.port, 0)

    def report(self) -> Report:
        """The report of the battle, see `docs/COMMAND.md`.

        Raises:
            ConfigError: the battle has ended.
        """
        self._require_running()
        return self.port.reports()[0]

    def words(self) -> str:
        """The report in plain English."""
        return self.port.words(self.report())

    def order(self, orders: Sequence[Any]) -> list[str]:
        """Give orders in the step to come.

        Returns:
            One line for each order that was refused.
        """
        self._require_running()
        refused = []
        for order in orders:
            lines = self.port.order([order])
            refused += lines
            self._next += [] if lines else [order]
        return refused

    def reply(self, text: str) -> list[str]:
        """Give the orders of a reply of a language model in the step to come.

        Returns:
            One line for each order that was refused, or for a reply that cannot be read.
        """
        self._require_running()
        try:
            orders, refused = read_orders(text, self.seat)
        except ConfigError as error:
            return [str(error)]
        return refused + self.order(orders)

    def advantage(self, text: str, branches: int, seed: int = 0) -> float:
        """How much the orders of a reply change the share of battles that are won from here, -1 to 1, by `whatif` with
        the same chance with and without them. 0 for a reply that cannot be read."""
        try:
            orders, _ = read_orders(text, self.seat)
        except ConfigError:
            return 0.0
        with_orders, without = (self.whatif(given, branches, seed)["value"] for given in (orders, []))
        return float(with_orders - without)

    @property
    def points(self) -> float:
        """1 for a battle that was won, 0.5 for a draw, 0 for one that was lost or goes on."""
        return WON.get(str(self.winner), 0.0)

    @torch.no_grad()
    def step(self, count: int = 1) -> None:
        """Play until the next report, or for several; stops where the battle ends."""
        self._require_running()
        for _ in range(whole_within("steps", count, STEPS)):
            if self.winner is None:
                self.port.step()
                self.given.append(self._next)
                self._next = []

    def fork(self) -> OrderedBattle:
        """A copy of the battle as it is, to be played otherwise."""
        copied = OrderedBattle(self.config, self.side, self.mechs, self.opponent, self.seed, self.recorder is not None)
        for orders in self.given:
            copied.order(orders)
            copied.step()
        copied.order(self._next)
        return copied

    @torch.no_grad()
    def whatif(self, orders: Sequence[Any] = (), branches: int = 16, seed: int = 0) -> dict[str, Any]:
        """How often the battle is won from here, with fresh chance and without any order after these.

        Args:
            orders: given first, as by `order`.
            branches: copies that are played to their end.
            seed: of the chance.

        Returns:
            `value`, the share won (a draw counts half), `low` and `high`, the ends of its 95 % interval, `branches`,
            and `refused`, a line for each order that was.
        """
        self._require_running()
        count = whole_within("branches", branches, BRANCHES)
        port = self._port(count)
        for given in self.given:
            port.order([{**order, "battle": battle} for battle in range(count) for order in given])
            port.step()
        refused: list[str] = []
        for order in (*self._next, *orders):
            lines = port.order([order])
            refused += lines
            if not lines:
                port.order([{**order, "battle": battle} for battle in range(1, count)])
        env = port.view.env
        env.state = env.state.replace(seed=noise.battle_seeds(one_seed(seed), count, env.device))
        while not all(port.ended):
            port.step()
        points = [WON[str(winner)] for winner in port.winners]
        low, high = win_rate_interval(points)
        return {"value": sum(points) / count, "low": low, "high": high, "branches": count, "refused": refused}

    def save_replay(self, path: Path) -> None:
        """Write the battle so far as a replay.

        Raises:
            ConfigError: it was made without `records`.
            FileError: the file cannot be written.
        """
        require(self.recorder is not None, "records", "True for a replay", False)
        assert self.recorder is not None
        commander = named_over("llm", self.mechs)
        blue, red = (commander, self.opponent) if self.side == "blue" else (self.opponent, commander)
        save(self.recorder.finish(blue=[blue], red=[red]), path)

    def _require_running(self) -> None:
        require(self.winner is None, "the battle", "in progress", f"one that ended, won by {self.winner}")
