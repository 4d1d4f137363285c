"""A port to command batches of battles through: reports out, orders in, from a script, a language model or a person."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from echelon.command.joystick import NUM_DRIVEN, Joystick, read_joystick
from echelon.command.reply import order_row, read_reply
from echelon.command.report import Report, in_words, reports
from echelon.env.observation.layout import GROUPS
from echelon.runtime.errors import ConfigError, require
from echelon.views.commanders import GROUP, CommandersView

PORTS = ("stdio", "ws", "human", "llm")
"""Who commands packs from outside."""


def named_over(port: str, mechs: str) -> str:
    """The name of a team that one of `PORTS`, or one with the name of a model behind it, commands and `mechs` plays."""
    return f"{port} over {mechs}"


def mechs_of(name: str) -> str:
    """What plays the mechs of a team of a name, whoever commands it."""
    port, separator, mechs = name.rpartition(" over ")
    return mechs if separator and port.partition(" ")[0] in PORTS else name


class CommandPort:
    """All battles of a `CommandersView`, commanded by data; a script needs no other process::

        port = CommandPort(echelon.commanders(config, num_envs=1000))
        while not all(port.ended):
            port.order([{"battle": r["battle"], "kind": "hold"} for r in port.reports() if r["time_s"] < 8])
            port.step()

    Args:
        view: the battles; it is reset.
    """

    def __init__(self, view: CommandersView) -> None:
        self.view = view
        self._seen = view.reset()
        count, is_red = view.num_envs, view.team.is_red
        self.is_red = [is_red] * count if isinstance(is_red, bool) else is_red.tolist()
        self.action = torch.zeros(view.full_action_spec[GROUP, "action"].shape, device="cpu")
        """`[B, P, D]` the orders of the step to come; nothing where nobody spoke."""
        self.ended = [False] * count
        """By battle, whether its first one has ended."""
        self.winners: list[str | None] = [None] * count
        """By battle who won its first one: `own`, `enemy`, `nobody`, or None while it goes on."""
        self.stick: Joystick | None = None
        """What drives one mech in place of its policy; None: nobody drives."""
        view.override_actions = self._driven

    @property
    def num_packs(self) -> int:
        """Packs of the commanded team."""
        return self.view.n_agents

    def reports(self) -> list[Report]:
        """A report of every battle: see `docs/COMMAND.md`. Reads the device."""
        return reports(self.view.env.state, self.view.env.sim_model, self.is_red, self.view.env.agent_names)

    def words(self, report: Report) -> str:
        """A report as a page of plain English."""
        return in_words(report)

    def order(self, orders: Sequence[Any]) -> list[str]:
        """Give orders in the step to come; a later one to the same pack replaces an earlier one.

        Args:
            orders: as `echelon.command.reply.order_row` reads them.

        Returns:
            One line for each that was refused; the others are given.
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
        """Give the orders of a reply in the step to come, and drive as it says.

        Args:
            text: as a language model writes it; `echelon.command.reply.read_reply` tells what is read.

        Returns:
            One line for each order that was refused, for unknown fields, or for a reply that cannot be read: for the
            next prompt. The other orders are given.
        """
        try:
            message, refused = read_reply(text, ("orders", "drive"))
            if "drive" in message:
                self.drive(message["drive"])
        except ConfigError as error:
            return [str(error)]
        return refused + self.order(message["orders"])

    def drive(self, drive: Any) -> None:
        """Drive one mech until this is called again; the actions of all others stay those of their policy.

        Args:
            drive: as `echelon.command.joystick.read_joystick` reads it; None lets go.

        Raises:
            ConfigError: one line that says what would be right; then nothing changes.
        """
        if drive is None:
            self.stick = None
            return
        stick = read_joystick(drive, self.view.num_envs, *self._teams_of(drive), self.view.config.world.size[:2])
        require(self._lives(stick), "drive.mech", "one that lives", stick.mech)
        self.stick = stick

    def _teams_of(self, drive: Any) -> tuple[list[str], list[str]]:
        """Names of the mechs of the commander and of its enemy, in the battle that is named, else in the first."""
        battle = drive.get("battle", 0) if isinstance(drive, dict) else 0
        is_battle = type(battle) is int and 0 <= battle < self.view.num_envs
        own_group, enemy_group = GROUPS[::-1] if self.is_red[battle if is_battle else 0] else GROUPS
        return self.view.env.group_map[own_group], self.view.env.group_map[enemy_group]

    def driven(self) -> Report | None:
        """The mech that somebody drives and where it faces, degrees from +x to the left; None if nobody does. Lets go
        of a mech that has died. Reads the device."""
        if self.stick is not None and not self._lives(self.stick):
            self.stick = None
        if self.stick is None:
            return None
        battle, mech = self.stick.battle, self._index(self.stick)
        yaw = float(self.view.env.state.mechs.yaw[battle, mech])
        return {"battle": battle, "mech": self.stick.mech, "facing_deg": round(math.degrees(yaw), 1)}

    def _index(self, stick: Joystick) -> int:
        """The place of the driven mech among all."""
        return self.view.env.agent_names.index(stick.mech)

    def _lives(self, stick: Joystick) -> bool:
        return bool(self.view.env.state.mechs.alive[stick.battle, self._index(stick)])

    def _driven(self, action: Tensor) -> Tensor:
        """`[B, A, D]` what the commanded mechs do, of which one may be driven."""
        if self.stick is None:
            return action
        env, stick = self.view.env, self.stick
        action, group = action.clone(), GROUPS[int(self.is_red[stick.battle])]
        mech = env.group_map[group].index(stick.mech)
        action[stick.battle, mech, :NUM_DRIVEN] = stick.action(env.state, env.sim_model, env.agent_names)
        return action

    def step(self) -> list[int]:
        """Play on until the commander is heard again; battles that ended begin anew.

        Returns:
            The battles that ended.
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
                self.winners[battle] = "own" if is_own_win[battle] else "enemy" if winner[battle] > 0 else "nobody"
        return done_battles
