"""Pack commanders in matches: policies that also give orders to packs (groups of mechs of their team)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from echelon.agents.runner import TeamSeat
from echelon.command.pack_policy import OrderGiver, OrderRequest, PackCommander, PackPolicy, order_targets
from echelon.command.reply import order_row
from echelon.command.report import Report, reports
from echelon.env.env import EchelonEnv
from echelon.env.leaves import Shown
from echelon.rules.config import EnvConfig
from echelon.rules.orders import CommandConfig
from echelon.runtime.errors import require


class CommandedTeam(NamedTuple):
    """A team with a pack commander, in a batch of battles."""

    battle: int
    side: int
    """0 for blue, 1 for red."""


class BatchOrders:
    """The pack commanders in a batch of battles. Use `of` to create them.

    Args:
        seats: pairs of an order giver and the teams that it commands.
    """

    def __init__(self, seats: Sequence[tuple[OrderGiver, list[CommandedTeam]]]) -> None:
        self.seats = seats
        self._first_tick: list[int] = []

    @staticmethod
    def of(policies: Mapping[str, Any], seats: Mapping[str, Sequence[TeamSeat]], count: int) -> BatchOrders | None:
        """Return the pack commanders among `policies`, or None if there are none.

        Args:
            seats: seats of each policy, keyed by its name; `row` b is the blue team of battle b, and b + `count` its
                red team. If several policies share a team, orders still reach all mechs of a pack.
        """
        found = [
            (policies[name].giver, [CommandedTeam(seat.row % count, seat.row // count) for seat in rows])
            for name, rows in seats.items()
            if isinstance(policies[name], PackPolicy)
        ]
        return BatchOrders(found) if found else None

    def write(self, env: EchelonEnv, td: Shown, decision: int) -> None:
        """Write the orders for a decision into `td`. If orders are due, this copies the state from the device to the
        host.
        """
        if decision % env.config.command.period:
            return
        ticks = [int(tick) for tick in env.state.tick.tolist()]
        if decision == 0:
            self._first_tick = ticks
            for commander, seats in self.seats:
                commander.reset_battles(seats)
        played = decision * env.config.rules.decision_repeat
        # A battle that finished was reset, so its tick is below `first + played`. It only pads the batch from now on.
        running = [tick == first + played for tick, first in zip(ticks, self._first_tick, strict=True)]
        told: dict[int, list[Report]] = {}
        actions = {
            group: torch.zeros(env.action_spec[group, "action"].shape, dtype=torch.float32, device="cpu")
            for group in env.command_map
        }
        for commander, seats in self.seats:
            asked, questions = [seat for seat in seats if running[seat.battle]], []
            for seat in asked:
                if seat.side not in told:
                    is_red = [bool(seat.side)] * env.num_envs
                    told[seat.side] = reports(env.state, env.sim_model, is_red, env.agent_names)
                questions.append(OrderRequest(seat, told[seat.side][seat.battle], order_targets(env, seat.side)))
            for seat, orders in zip(asked, commander.orders(questions), strict=True):
                action = actions[list(env.command_map)[seat.side]]
                for order in orders:
                    _, pack, row = order_row(order, 1, *order_targets(env, seat.side))
                    action[seat.battle, pack, : len(row)] = row
        for group, action in actions.items():
            td[group, "action"] = action.to(env.device)


def with_orders(config: EnvConfig, commanders: Iterable[object]) -> EnvConfig:
    """Return the config with the command settings that the pack commanders require: report period and order delay.

    Args:
        commanders: resolved commanders or policies; objects of other types have no requirements.

    Raises:
        ConfigError: if two commanders require different report periods or order delays.
    """
    found = [one.command for one in commanders if isinstance(one, PackCommander | PackPolicy)]
    if not found:
        return config
    needed = {command for command in found if command is not None} or {CommandConfig()}
    periods = [f"period {command.period}, delay_s {command.delay_s:g}" for command in needed]
    require(len(needed) == 1, "period and delay_s", "the same for all commanders of packs of a match", periods)
    (command,) = needed
    on = dataclasses.replace(config.command, enabled=True, period=command.period, delay_s=command.delay_s)
    return dataclasses.replace(config, command=on)
