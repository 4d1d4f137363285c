"""Policies of a team whose packs are given orders: what gives them, and what plays the mechs.

A match shows such a policy a `Question` for each of its battles whenever orders are due, and sends what it answers to
the packs (`echelon.arena.pack_commanders`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch
from tensordict import TensorDictBase
from torchrl.data import Composite

from echelon.agents.names import Commander, resolve
from echelon.agents.team_policy import TeamPolicy, draws_actions, memory_spec_of, reads_action_mask, reads_factor_mask
from echelon.command.report import Report
from echelon.rules.config import EnvConfig
from echelon.rules.orders import CommandConfig
from echelon.runtime.errors import require

MECHS = "heuristic:hard"
"""What plays the mechs by default."""
Orders = list[dict[str, Any]]
"""Orders to packs of one battle, as `echelon.command.reply.order_row` takes them, without `battle`."""


class Seat(NamedTuple):
    """What orders may name in a battle."""

    packs: int
    """Packs of the team."""
    enemies: Sequence[str]
    """Names of the enemy's mechs."""
    size: Sequence[float]
    """vox, the map along x and y."""


class Question(NamedTuple):
    """A battle in which orders are due."""

    key: Hashable
    """Identifies the battle and the side between two decisions."""
    report: Report
    seat: Seat


class OrderGiver(Protocol):
    """Gives orders in many battles at once."""

    def begin(self, keys: Iterable[Hashable]) -> None:
        """Forget what is remembered of these battles, which begin."""

    def orders(self, questions: Sequence[Question]) -> list[Orders]:
        """Return the orders that are given now, for each question."""

    def facts(self) -> dict[str, Any]:
        """Return what a result tells, as JSON values."""


class PackPolicy:
    """A policy of a team whose packs are given orders.

    Args:
        mechs: what plays the mechs.
        giver: gives the orders.
        command: what of orders its battles need; None for any.
    """

    def __init__(self, mechs: TeamPolicy, giver: OrderGiver, command: CommandConfig | None) -> None:
        self.mechs, self.giver, self.command = mechs, giver, command
        self.draws_actions, self.reads_action_mask = draws_actions(mechs), reads_action_mask(mechs)
        self.reads_factor_mask = reads_factor_mask(mechs)

    def __call__(self, team: TensorDictBase, /) -> TensorDictBase:
        """Decide for the mechs. Orders reach them through the battle."""
        return self.mechs(team)

    def memory_spec(self) -> Composite:
        """Spec of what a mech remembers."""
        return memory_spec_of(self.mechs)


@dataclass(frozen=True)
class PackName(Commander):
    """A resolved commander that gives orders to packs."""

    mechs: str = MECHS
    """What plays the mechs."""
    command: CommandConfig | None = None
    """What of orders its battles need; None for any."""

    @property
    @abstractmethod
    def giver(self) -> OrderGiver:
        """What gives the orders."""

    @property
    def gives_orders(self) -> bool:
        """True."""
        return True

    @property
    def env(self) -> EnvConfig | None:
        """Environment config that its mechs were trained with; None for scripted ones."""
        return resolve(self.mechs).env

    def policy(self, env: EnvConfig, device: torch.device) -> TeamPolicy:
        """Its policy for battles of `env`, which must have orders."""
        require(env.command.enabled, f"{self.name}: config.command.enabled", "True for a commander of packs", False)
        return PackPolicy(resolve(self.mechs).policy(env, device), self.giver, self.command)


def require_mechs(mechs: Any) -> None:
    """Refuse mechs that are imported or give orders themselves: a file may name neither."""
    is_plain = isinstance(mechs, str) and mechs.partition(":")[0] in ("heuristic", "style", "trained")
    require(is_plain, "mechs", "heuristic:TIER, style:NAME or trained:NAME", mechs)


PREFIXES = ("llm", "recorded", "orders")
"""Of the names of commanders of packs."""


def names_orders(policy: object) -> bool:
    """Whether a policy is named as a commander of packs is."""
    return isinstance(policy, str) and policy.partition(":")[0] in PREFIXES
