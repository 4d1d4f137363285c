"""Small leagues for tests: short battles on two maps, tiny networks."""

import dataclasses
import sqlite3
from contextlib import closing
from pathlib import Path

import torch

from echelon.league.ratings import DEVIATION, RATING, VOLATILITY, Ratings
from echelon.league.records import MatchRecord, match_recipe
from echelon.league.store import Store
from echelon.learn.checkpoint.files import save_checkpoint
from echelon.learn.checkpoint.format import Counters
from echelon.learn.checkpoint.provenance import UNKNOWN, Provenance
from echelon.learn.models.actor_critic import ActorCritic
from echelon.learn.models.lstm import LSTMConfig
from echelon.learn.models.registry import ModelConfig, PolicySpecs
from echelon.learn.models.value_normalizer import ValueNorm
from echelon.rules.config import EnvConfig
from echelon.rules.physics import RulesConfig

RECIPE = match_recipe(0, "fp32")
BRIEF = dataclasses.replace(EnvConfig.small(), rules=RulesConfig(max_episode_s=2.0), map_pool=2)
TINY = LSTMConfig(
    hidden=16, contact_width=8, squad_width=4, comm_width=4, map_width=4, telemetry_width=4, body_width=16
)


def policy_of(seed: int, model: ModelConfig = TINY) -> ActorCritic:
    """Return a new policy with random weights."""
    torch.manual_seed(seed)
    policy = model.build(PolicySpecs(BRIEF.comm_dim))
    policy.network.head.loc.weight.data.mul_(50)
    return policy.eval()


def checkpoint_of(
    folder: Path,
    seed: int,
    model: ModelConfig = TINY,
    env: EnvConfig = BRIEF,
    provenance: Provenance = UNKNOWN,
    ancestors: tuple[str, ...] = (),
) -> Path:
    """Return a checkpoint of such a policy."""
    path = folder / f"policy_{seed}"
    policy, counters = policy_of(seed, model), Counters(seed, seed, 1.0)
    save_checkpoint(path, policy, ValueNorm(), env, counters, {}, provenance=provenance, ancestors=ancestors)
    return path


def fought(blue: str, red: str, seed: int, winner: int = 1) -> MatchRecord:
    """Return a decided match."""
    return MatchRecord(blue, red, seed, RECIPE, winner, "zone", 20, 0.1, "{}", f"{seed % 2**64:016x}")


def fresh(folder: Path) -> Store:
    """Return a new league of the scripted tiers."""
    return Store.create(folder / "league", BRIEF)


def unrated(entries: int) -> Ratings:
    """Return ratings of entries without matches."""
    return Ratings(*(torch.full((entries,), value, dtype=torch.float64) for value in (RATING, DEVIATION, VOLATILITY)))


def recorded(league: Path) -> list[tuple[object, ...]]:
    """Return the matches of a league, without times."""
    with closing(sqlite3.connect(league / "league.sqlite")) as connection:
        columns = "key, blue, red, seed, winner, reason, decisions, stats, state_hash"
        return connection.execute(f"SELECT {columns} FROM matches ORDER BY key").fetchall()
