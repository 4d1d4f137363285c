"""A policy for a team whose packs receive orders: an order giver for the packs, and a policy for the mechs.

Whenever orders are due, a match passes one `OrderRequest` per battle to the order giver and applies the orders that it
returns (`echelon.arena.pack_commanders`).
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
from echelon.env.env import EchelonEnv
from echelon.env.observation.layout import GROUPS
from echelon.rules.config import EnvConfig
from echelon.rules.orders import CommandConfig
from echelon.runtime.errors import require

MECHS = "heuristic:hard"
"""Default policy of the mechs."""
Orders = list[dict[str, Any]]
"""Orders to the packs of one battle, in the format of `echelon.command.reply.order_row` without `battle`."""


class OrderTargets(NamedTuple):
    """The packs, enemies and positions that orders in a battle may name."""

    packs: int
    """Number of packs in the team."""
    enemies: Sequence[str]
    """Names of the enemy mechs."""
    size: Sequence[float]
    """Map size along x and y, in vox."""


def order_targets(env: EchelonEnv, side: int) -> OrderTargets:
    """Return the values that orders of a team may name; `side` is 0 for blue and 1 for red."""
    packs = list(env.command_map.values())[side]
    return OrderTargets(len(packs), env.group_map[GROUPS[1 - side]], env.config.world.size[:2])


class OrderRequest(NamedTuple):
    """A request for orders in one battle."""

    key: Hashable
    """Identifies the battle and the side across decisions."""
    report: Report
    seat: OrderTargets


class OrderGiver(Protocol):
    """Interface of order givers, which return orders for many battles at once."""

    def reset_battles(self, keys: Iterable[Hashable]) -> None:
        """Reset the memory of the battles that start anew."""

    def orders(self, questions: Sequence[OrderRequest]) -> list[Orders]:
        """Return, for each request, the orders that take effect now."""

    def facts(self) -> dict[str, Any]:
        """Return facts for a result file, as JSON values."""


class PackPolicy:
    """A team policy that also gives orders to its packs.

    Args:
        mechs: policy of the mechs.
        giver: object that returns the orders.
        command: required command settings of the battles; None if the policy works with any settings.
    """

    def __init__(self, mechs: TeamPolicy, giver: OrderGiver, command: CommandConfig | None) -> None:
        self.mechs, self.giver, self.command = mechs, giver, command
        self.draws_actions, self.reads_action_mask = draws_actions(mechs), reads_action_mask(mechs)
        self.reads_factor_mask = reads_factor_mask(mechs)

    def __call__(self, team: TensorDictBase, /) -> TensorDictBase:
        """Compute the actions of the team's mechs.

        Orders are not in the actions: they reach the mechs through the environment.
        """
        return self.mechs(team)

    def memory_spec(self) -> Composite:
        """Return the spec of the memory (recurrent state) of the mechs' policy."""
        return memory_spec_of(self.mechs)


@dataclass(frozen=True)
class PackCommander(Commander):
    """A resolved commander that gives orders to packs."""

    mechs: str = MECHS
    """Name of the mechs' policy."""
    command: CommandConfig | None = None
    """Required command settings of the battles; None if any settings work."""

    @property
    @abstractmethod
    def giver(self) -> OrderGiver:
        """The order giver."""

    @property
    def gives_orders(self) -> bool:
        """True, because a pack commander gives orders."""
        return True

    @property
    def env(self) -> EnvConfig | None:
        """Environment config that the mechs' policy was trained with; None for a scripted policy."""
        return resolve(self.mechs).env

    def policy(self, env: EnvConfig, device: torch.device) -> TeamPolicy:
        """Return the policy for battles of `env`, in which orders must be enabled."""
        require(env.command.enabled, f"{self.name}: config.command.enabled", "True for a commander of packs", False)
        return PackPolicy(resolve(self.mechs).policy(env, device), self.giver, self.command)


def require_mechs(mechs: Any) -> None:
    """Raise `ConfigError` for a mechs' policy that needs an import or gives orders.

    A file must not name such policies.
    """
    is_plain = isinstance(mechs, str) and mechs.partition(":")[0] in ("heuristic", "style", "trained")
    require(is_plain, "mechs", "heuristic:TIER, style:NAME or trained:NAME", mechs)


LLM, RECORDED, SCRIPTED = PREFIXES = ("llm", "recorded", "orders")
"""Prefixes of the names of pack commanders. `llm` calls the server for prompts that are not in the record, `recorded`
never calls it, `orders` runs a script."""


def names_orders(policy: object) -> bool:
    """Return whether a policy is given as the name of a commander that orders packs."""
    return isinstance(policy, str) and policy.partition(":")[0] in PREFIXES
