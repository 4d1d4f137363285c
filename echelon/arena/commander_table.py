"""A round robin of commanders: win rates, and number and cost (tokens, seconds) of their orders."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from echelon.arena.config import ArenaConfig
from echelon.arena.match import Match, Result, win_rate_interval
from echelon.arena.pack_commanders import with_orders
from echelon.arena.resolve import common_env, resolve
from echelon.command.pack_policy import PackCommander, PackPolicy
from echelon.env.outcome import Winner
from echelon.rules.config import EnvConfig
from echelon.runtime.errors import require

ORDERS = ("given", "late", "refused", "fallback", "tokens_per_battle", "seconds_per_battle")
"""Columns about orders, from the summary of a pack commander; None for commanders without orders."""


@dataclass(frozen=True)
class CommanderTable:
    """Result of a round robin."""

    results: Mapping[tuple[str, str], Result]
    """Results keyed by the names of X and Y; each pair occurs once."""
    facts: Mapping[str, Any]
    """Results of `OrderGiver.facts`, keyed by the name of the pack commander."""
    setup: Mapping[str, Any]
    """Settings of the computation."""

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys(name for pair in self.results for name in pair))

    def shares_by_seed(self, name: str) -> list[float]:
        """Return a commander's win rate on each seed, over all opponents."""
        shares: dict[int, list[float]] = defaultdict(list)
        for (x, y), result in self.results.items():
            if name in (x, y):
                for battle, outcome in enumerate(result.outcomes):
                    own_side = (Winner.BLUE, Winner.RED)[(battle + (name == y)) % 2]
                    shares[battle // 2].append(float(outcome.winner == own_side))
        return [sum(won) / len(won) for won in shares.values()]

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per commander, best first.

        A row has the number of battles, the win rate over all opponents with its 95 % interval over seeds, and the
        columns `ORDERS`.
        """
        rows = []
        for name in self.names:
            shares = self.shares_by_seed(name)
            low, high = win_rate_interval(shares)
            summary = self.facts.get(name, {}).get("summary", {})
            battles = sum(result.battles for pair, result in self.results.items() if name in pair)
            share = {"win_rate": sum(shares) / len(shares), "low": low, "high": high}
            rows.append(
                {
                    "commander": name,
                    "battles": battles,
                    **{key: round(value, 3) for key, value in share.items()},
                    **{key: summary.get(key) for key in ORDERS},
                }
            )
        return sorted(rows, key=lambda row: -row["win_rate"])

    def as_json(self) -> dict[str, Any]:
        """Return the table as JSON values: rows, results of every pair, facts about the commanders, and settings."""
        pairs = [{"x": x, "y": y, **result.as_json()} for (x, y), result in self.results.items()]
        return {"rows": self.rows(), "commanders": dict(self.facts), "pairs": pairs, "setup": dict(self.setup)}


def commander_table(
    names: Sequence[str],
    env: EnvConfig | None,
    seeds: int,
    seed: int,
    settings: ArenaConfig,
    on_battles: Callable[[float], None] | None = None,
) -> CommanderTable:
    """Play a round robin between commanders, with every seed once per side.

    Args:
        names: two or more names of commanders, in the format of `resolve`.
        env: config of the battles; None for the config that the trained commanders share.
        seeds: number of seeds per pair.
        seed: root seed, from which the seeds are derived.
        on_battles: called regularly with the number of battles played since the last call.

    Raises:
        ConfigError: if there are fewer than two commanders or duplicates, or if two commanders require different report
            periods or order delays.
        FileError: if a name is not the name of a commander.
    """
    require(len(names) >= 2, "commanders", "two or more", list(names))
    commanders = {name: resolve(name) for name in names}
    ids = {name: one.name if isinstance(one, PackCommander) else one.id for name, one in commanders.items()}
    require(len(set(ids.values())) == len(names), "commanders", "unique names", list(names))
    env = with_orders(common_env(list(commanders.values())) if env is None else env, commanders.values())
    policies = {name: one.policy(env, settings.device) for name, one in commanders.items()}
    results: dict[tuple[str, str], Result] = {}
    setup: Mapping[str, Any] = {}
    for index, x in enumerate(names[:-1]):
        others = {ids[y]: policies[y] for y in names[index + 1 :]}
        match = Match((ids[x], policies[x]), others, env, 2 * seeds, settings)
        match.arena.on_progress = on_battles
        played, setup = match.play(seed), match.arena.setup
        results |= {(x, y): played[ids[y]] for y in names[index + 1 :]}
    facts = {name: policy.giver.facts() for name, policy in policies.items() if isinstance(policy, PackPolicy)}
    return CommanderTable(results, facts, setup)
