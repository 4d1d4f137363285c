"""A port for commanding batches of battles from a script, a language model or a person: reports out, orders in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from echelon.command.joystick import NUM_DRIVEN, Joystick, read_joystick
from echelon.command.reply import order_row, read_reply
from echelon.command.report import DRAW, Report, in_words, reports
from echelon.env.arguments import whole_within
from echelon.env.observation.layout import GROUPS
from echelon.runtime.errors import ConfigError, require
from echelon.runtime.limits import Limits
from echelon.views.commanders import GROUP, CommandersView

PORTS = ("stdio", "ws", "human", "llm")
"""Names of the external commanders of packs."""


def named_over(port: str, mechs: str) -> str:
    """Return the name of a commanded team: the kind of port, with an optional model name, and the mechs' policy."""
    return f"{port} over {mechs}"


def mechs_of(name: str) -> str:
    """Return the mechs' policy from the name of a team, which may start with the kind of port."""
    port, separator, mechs = name.rpartition(" over ")
    return mechs if separator and port.partition(" ")[0] in PORTS else name


class CommandPort:
    """All battles of a `CommandersView`, commanded with plain data, for example in the same process::

        port = CommandPort(echelon.commanders(config, num_envs=1000))
        while not all(port.ended):
            port.order([{"battle": r["battle"], "kind": "hold"} for r in port.reports() if r["time_s"] < 8])
            port.step()

    Args:
        view: the view of the battles.
        resets: whether to start new battles; False continues the battles of the view.
    """

    def __init__(self, view: CommandersView, resets: bool = True) -> None:
        self.view = view
        self._seen = view.reset() if resets else view.last_observation()
        count, is_red = view.num_envs, view.team.is_red
        self.is_red = [is_red] * count if isinstance(is_red, bool) else is_red.tolist()
        self.action = torch.zeros(view.full_action_spec[GROUP, "action"].shape, device="cpu")
        """Orders `[B, P, D]` of the next step; no new order for packs that did not receive one."""
        self.ended = [False] * count
        """Whether the first battle in each slot has ended, `B` values."""
        self.winners: list[str | None] = [None] * count
        """Winner of the first battle in each slot, one of `report.WINNERS`; None while that battle runs."""
        self.stick: Joystick | None = None
        """Manual control of one mech in place of its policy; None if all mechs follow their policy."""
        view.override_actions = self._driven

    @property
    def num_packs(self) -> int:
        """Number of packs in the commanded team."""
        return self.view.n_agents

    def reports(self) -> list[Report]:
        """Return a report about every battle; `docs/COMMAND.md` lists its fields.

        The call copies values from the device.
        """
        return reports(self.view.env.state, self.view.env.sim_model, self.is_red, self.view.env.agent_names)

    def words(self, report: Report) -> str:
        """Return a report as plain English text."""
        return in_words(report)

    def order(self, orders: Sequence[Any]) -> list[str]:
        """Queue orders for the next step; a later order to the same pack replaces the earlier one.

        Args:
            orders: orders in the format of `echelon.command.reply.order_row`.

        Returns:
            One error line for each refused order. Valid orders are queued even if others are refused.
        """
        batch, size = self.view.num_envs, self.view.config.world.size[:2]
        refused: list[str] = []
        for number, order in enumerate(orders if isinstance(orders, list | tuple) else [orders]):
            _, enemies = self._teams_of(order)
            try:
                battle, pack, row = order_row(order, batch, self.num_packs, enemies, size)
            except ConfigError as error:
                refused.append(f"order {number}: {error}")
            else:
                self.action[battle, pack] = row
        return refused

    def reply(self, text: str | bytes) -> list[str]:
        """Queue the orders in a reply for the next step, and apply the reply's `drive` message.

        Args:
            text: reply of a language model or a program, parsed by `echelon.command.reply.read_reply`.

        Returns:
            Error lines for the next prompt: one per refused order, one for unknown fields, or one for an unreadable
            reply. Valid orders are queued even if others are refused.
        """
        try:
            message, refused = read_reply(text, ("orders", "drive"))
            if "drive" in message:
                self.drive(message["drive"])
        except ConfigError as error:
            return [str(error)]
        return refused + self.order(message["orders"])

    def drive(self, drive: Any) -> None:
        """Control one mech manually until the next call of this method; all other mechs follow their policy.

        Args:
            drive: a message in the format of `echelon.command.joystick.read_joystick`; None ends manual control.

        Raises:
            ConfigError: if the message is invalid; the control then stays as it was.
        """
        if drive is None:
            self.stick = None
            return
        stick = read_joystick(drive, self.view.num_envs, *self._teams_of(drive), self.view.config.world.size[:2])
        require(self._is_alive(stick), "drive.mech", "a mech that is alive", stick.mech)
        self.stick = stick

    def _teams_of(self, drive: Any) -> tuple[list[str], list[str]]:
        """Return the mech names of the own team and of the enemy, in the battle that `drive` names, by default 0."""
        battle = drive.get("battle", 0) if isinstance(drive, dict) else 0
        is_battle = type(battle) is int and 0 <= battle < self.view.num_envs
        own_group, enemy_group = GROUPS[::-1] if self.is_red[battle if is_battle else 0] else GROUPS
        return self.view.env.group_map[own_group], self.view.env.group_map[enemy_group]

    def driven(self) -> Report | None:
        """Return the manually controlled mech and its heading, or None without one.

        The heading is in degrees, counterclockwise from +x. If the mech is dead, its manual control ends. The call
        copies values from the device.
        """
        if self.stick is not None and not self._is_alive(self.stick):
            self.stick = None
        if self.stick is None:
            return None
        battle, mech = self.stick.battle, self._index(self.stick)
        yaw = float(self.view.env.state.mechs.yaw[battle, mech])
        return {"battle": battle, "mech": self.stick.mech, "facing_deg": round(math.degrees(yaw), 1)}

    def _index(self, stick: Joystick) -> int:
        """Return the index of the manually controlled mech among all mechs."""
        return self.view.env.agent_names.index(stick.mech)

    def _is_alive(self, stick: Joystick) -> bool:
        return bool(self.view.env.state.mechs.alive[stick.battle, self._index(stick)])

    def _driven(self, action: Tensor) -> Tensor:
        """Return the actions `[B, A, D]` of the commanded mechs, including that of the manually controlled mech."""
        if self.stick is None:
            return action
        env, stick = self.view.env, self.stick
        action, group = action.clone(), GROUPS[int(self.is_red[stick.battle])]
        mech = env.group_map[group].index(stick.mech)
        action[stick.battle, mech, :NUM_DRIVEN] = stick.action(env.state, env.sim_model, env.agent_names)
        return action

    def fork(self, battle: int, times: int) -> CommandPort:
        """Return a port with `times` copies of a running battle.

        The copies keep the queued orders but not the manual control.

        Raises:
            ConfigError: if the battle does not exist or has ended, or `times` is below 1.
        """
        battle = whole_within("battle", battle, Limits(0, len(self.ended) - 1))
        require(not self.ended[battle], "battle", "in progress", f"battle {battle}, won by {self.winners[battle]}")
        port = CommandPort(self.view.fork(battle, times), resets=False)
        port.action[:] = self.action[battle]
        return port

    def step(self) -> list[int]:
        """Play until the next report is due; battles that end are reset automatically.

        Returns:
            Indices of the battles that ended in this step.
        """
        self._seen[GROUP, "action"] = self.action.to(self.view.device)
        stepped, self._seen = self.view.step_and_maybe_reset(self._seen)
        self.action.zero_()
        outcome = stepped["next", "outcome"]
        done = stepped["next", "done"][:, 0].tolist()
        is_own_win, winner = outcome["won"][:, 0].tolist(), outcome["winner"][:, 0].tolist()
        done_battles = [battle for battle, is_done in enumerate(done) if is_done]
        for battle in done_battles:
            if self.stick is not None and self.stick.battle == battle:
                self.stick = None
            if not self.ended[battle]:
                self.ended[battle] = True
                self.winners[battle] = "own" if is_own_win[battle] else "enemy" if winner[battle] > 0 else DRAW
        return done_battles
