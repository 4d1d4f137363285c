"""One battle commanded step by step. The battle can be copied, evaluated by rollouts of copies, and saved as a
replay.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import torch

from echelon.arena.match import win_rate_interval
from echelon.arena.resolve import resolve
from echelon.command.chat_commander import read_orders
from echelon.command.pack_policy import MECHS, OrderTargets, order_targets, require_mechs
from echelon.command.port import CommandPort, named_over
from echelon.command.report import DRAW, Report
from echelon.env.arguments import one_seed, whole_within
from echelon.env.observation.layout import GROUPS
from echelon.replay.file import save
from echelon.replay.recorder import Recorder
from echelon.rules.config import EnvConfig
from echelon.runtime import noise
from echelon.runtime.errors import ConfigError, require
from echelon.runtime.limits import Limits
from echelon.views.commanders import commanders

WON = {"own": 1.0, "enemy": 0.0, DRAW: 0.5}
"""Points by winner, keyed by the values of `CommandPort.winners`."""
BRANCHES = Limits(1, 1024, "branches")
STEPS = Limits(1, 10_000, "steps")


class OrderedBattle:
    """A battle in which the caller gives orders to the packs (groups of mechs) of a team. One step is
    `CommandConfig.period` decisions.

    Args:
        config: config of the battle; orders are enabled in a copy of the config.
        side: the commanded team, `blue` or `red`.
        mechs: policy of the commanded mechs, the name of a commander that ships with Echelon.
        opponent: policy of the other team, also the name of such a commander.
        seed: seed of the battle.
        records: whether to record a replay.

    Raises:
        ConfigError: if an argument is out of range, or a commander does not ship with Echelon.
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
        self.recorder = Recorder([0]) if records else None
        cpu = torch.device("cpu")
        own, other = (resolve(name).policy(self.config, cpu) for name in (self.mechs, self.opponent))
        seeds = noise.battle_seeds(self.seed, 1, cpu)
        with torch.no_grad():
            view = commanders(self.config, own, other, 1, cpu, seeds, side=self.side, observer=self.recorder)
            self.port = CommandPort(view)

    @property
    def winner(self) -> str | None:
        """Winner of the battle, one of `report.WINNERS`; None while the battle runs."""
        return self.port.winners[0]

    @property
    def seat(self) -> OrderTargets:
        """Packs, enemies and map size that orders of the commanded team may refer to."""
        return order_targets(self.port.view.env, GROUPS.index(self.side))

    def report(self) -> Report:
        """Return the report of the battle, see `docs/COMMAND.md`.

        Raises:
            ConfigError: if the battle has ended.
        """
        self._require_running()
        return self.port.reports()[0]

    def words(self) -> str:
        """Return the report as plain English text."""
        return self.port.words(self.report())

    def order(self, orders: Sequence[Any]) -> list[str]:
        """Queue orders for the next step.

        Returns:
            One error line for each refused order.
        """
        self._require_running()
        return self.port.order(orders)

    def reply(self, text: str) -> list[str]:
        """Queue the orders of a language model's reply for the next step.

        Returns:
            One error line for each refused order, or for an unreadable reply.
        """
        self._require_running()
        try:
            orders, refused = read_orders(text, self.seat)
        except ConfigError as error:
            return [str(error)]
        return refused + self.order(orders)

    def advantage(self, text: str, branches: int, seed: int = 0) -> float:
        """Return by how much the orders in a reply change the win rate from the current state, -1 to 1.

        The win rates with and without the orders are estimated by `whatif` with common random numbers. The result is 0
        for an unreadable reply.
        """
        try:
            orders, _ = read_orders(text, self.seat)
        except ConfigError:
            return 0.0
        with_orders, without = (self.whatif(given, branches, seed)["value"] for given in (orders, []))
        return float(with_orders - without)

    @property
    def points(self) -> float:
        """Points of the battle: 1 for a win, 0.5 for a draw, 0 for a loss or a running battle."""
        return WON.get(str(self.winner), 0.0)

    @torch.no_grad()
    def step(self, count: int = 1) -> None:
        """Play `count` steps, at most until the battle ends."""
        self._require_running()
        for _ in range(whole_within("steps", count, STEPS)):
            if self.winner is None:
                self.port.step()

    @torch.no_grad()
    def fork(self) -> OrderedBattle:
        """Return a copy of the battle in its current state, which can continue with other orders."""
        self._require_running()
        copied = copy.copy(self)
        copied.port = self.port.fork(0, 1)
        if self.recorder is not None:
            copied.port.view.env.observer = copied.recorder = self.recorder.copy()
        return copied

    @torch.no_grad()
    def whatif(self, orders: Sequence[Any] = (), branches: int = 16, seed: int = 0) -> dict[str, Any]:
        """Estimate the win rate from the current state by rollouts with new random numbers and no later orders.

        Args:
            orders: orders of the first step, in the format of `order`.
            branches: number of copies that are played to the end.
            seed: seed of the random numbers.

        Returns:
            A dict with `value`, the win rate (a draw counts half); `low` and `high`, its 95 % interval; `branches`; and
            `refused`, one error line for each refused order.
        """
        self._require_running()
        count = whole_within("branches", branches, BRANCHES)
        ordered = self.port.fork(0, 1)
        refused = ordered.order(orders)
        port = ordered.fork(0, count)
        env = port.view.env
        env.state = env.state.replace(seed=noise.battle_seeds(one_seed(seed), count, env.device))
        while not all(port.ended):
            port.step()
        points = [WON[str(winner)] for winner in port.winners]
        low, high = win_rate_interval(points)
        return {"value": sum(points) / count, "low": low, "high": high, "branches": count, "refused": refused}

    def save_replay(self, path: Path) -> None:
        """Write a replay of the battle up to now.

        Raises:
            ConfigError: if the battle was created without `records`.
            FileError: if the file cannot be written.
        """
        require(self.recorder is not None, "records", "True for a replay", False)
        assert self.recorder is not None
        commander = named_over("llm", self.mechs)
        blue, red = (commander, self.opponent) if self.side == "blue" else (self.opponent, commander)
        save(self.recorder.finish(blue=[blue], red=[red]), path)

    def _require_running(self) -> None:
        require(self.winner is None, "the battle", "in progress", f"a battle that has ended, won by {self.winner}")
