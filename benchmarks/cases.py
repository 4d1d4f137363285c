"""Cases of pytest-benchmark: environment, rollout, update, arena, checkpoint, league, memory."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from echelon import EchelonEnv, EnvConfig
from echelon.arena.batch_arena import BatchArena, Battle
from echelon.arena.config import ArenaConfig
from echelon.arena.resolve import policy_of
from echelon.env.form import Backend
from echelon.league.league_arena import LeagueArena
from echelon.league.matchmaking import round_robin
from echelon.league.store import Store
from echelon.learn.checkpoint.files import save_checkpoint
from echelon.learn.checkpoint.format import open_checkpoint
from echelon.learn.config import TrainConfig
from echelon.learn.models.lstm import LSTM
from echelon.learn.trainer import Trainer
from echelon.rules.physics import RulesConfig

BATTLES, DECISIONS = 32, 16
ROWS, HIDDEN = 80, 128
"""Number of mechs and width of a memory."""


@dataclasses.dataclass
class Case:
    """A function to time repeatedly.

    Args:
        work: does the work once, given `parts`.
        parts: all objects with tensors that it reads or replaces.
    """

    work: Callable[[list[Any]], object]
    parts: list[Any]

    def __call__(self) -> object:
        """Do the work once."""
        return self.work(self.parts)


def small(**changes: Any) -> EnvConfig:
    """Return a config with few maps."""
    return dataclasses.replace(EnvConfig.small(), map_pool=4, **changes)


def brief() -> EnvConfig:
    """Return the same config with battles of at most 40 decisions."""
    return small(rules=RulesConfig(max_episode_s=10.0))


def environment(device: torch.device, folder: Path, backend: Backend = "auto") -> Case:
    """One decision of each battle with random actions, restarts included."""
    env = EchelonEnv(small(), BATTLES, device=device, seed=0, backend=backend)

    def step(parts: list[Any]) -> None:
        env, actions, td = parts
        with torch.inference_mode():
            parts[2] = env.step_and_maybe_reset(td.update(actions))[1]

    return Case(step, [env, env.action_spec.rand(), env.reset()])


def trainer_of(device: torch.device, folder: Path, backend: Backend = "auto") -> Trainer:
    """Return a trainer of the quick preset with few battles and short rollouts; each epoch runs."""
    quick = TrainConfig.quick()
    ppo = dataclasses.replace(quick.ppo, rollout_decisions=DECISIONS, chunk_decisions=DECISIONS, target_kl=0.0)
    changes: dict[str, Any] = {
        "env": small(),
        "num_envs": BATTLES,
        "opponent": "heuristic:normal",
        "ppo": ppo,
        "backend": backend,
    }
    return Trainer(dataclasses.replace(quick, **changes, device=str(device)), folder / "run")


def rollout(device: torch.device, folder: Path, backend: Backend = "auto") -> Case:
    """Decisions of the learner against `normal`, acting and writing included."""
    return Case(lambda parts: parts[0].collector.collect(), [trainer_of(device, folder, backend)])


def update(device: torch.device, folder: Path, backend: Backend = "auto") -> Case:
    """All epochs of PPO over one rollout."""
    trainer = trainer_of(device, folder, backend)
    batch, memory = trainer.collector.collect(), trainer.collector.memory
    trainer.advantage(batch)
    return Case(lambda parts: parts[0].ppo.update(parts[1], parts[2]), [trainer, batch, memory])


def arena(device: torch.device, folder: Path) -> Case:
    """Short battles between two scripted commanders, in one batch."""
    names = ("heuristic:normal", "heuristic:hard")
    policies = {name: policy_of(name, brief(), device) for name in names}
    batch_arena = BatchArena(brief(), policies.__getitem__, ArenaConfig(device, BATTLES))
    return Case(lambda parts: parts[0].play([Battle(*names, seed) for seed in range(BATTLES)]), [batch_arena])


def checkpoint(device: torch.device, folder: Path) -> Case:
    """Save and load a policy, with its sha256 verified."""
    trainer, numbers = trainer_of(device, folder), itertools.count()

    def there_and_back(parts: list[Any]) -> None:
        (trainer,) = parts
        path = folder / f"checkpoint_{next(numbers)}"
        save_checkpoint(path, trainer.policy, trainer.norm, trainer.config.env, trainer.counters, {})
        open_checkpoint(path).policy(trainer.device)

    return Case(there_and_back, [trainer])


def league(device: torch.device, folder: Path) -> Case:
    """Play all pairs of the scripted tiers on a fresh seed and both sides, record and log them."""
    store = Store.create(folder / "league", brief())
    league_arena, seeds = LeagueArena(store, ArenaConfig(device, batch=BATTLES)), itertools.count()
    ids = [entry.id for entry in store.entries()]
    return Case(lambda parts: list(parts[0].play(round_robin(ids, [next(seeds)]))), [league_arena])


def sequence(device: torch.device) -> list[Any]:
    """Return an LSTM, a chunk of features, the state before the chunk, and the resets."""
    torch.manual_seed(0)
    features = torch.randn(DECISIONS, ROWS, HIDDEN, device=device)
    state = {name: torch.zeros(ROWS, HIDDEN, device=device) for name in ("h", "c")}
    keep = (torch.rand(DECISIONS, ROWS, 1, device=device) > 0.05).float()
    return [LSTM(HIDDEN, HIDDEN).to(device), features, state, keep]


def chunk_in_one_call(device: torch.device, folder: Path) -> Case:
    """An LSTM over a chunk as one call, and its gradients."""

    def run(parts: list[Any]) -> None:
        lstm, features, state, keep = parts
        lstm.unroll(features, state, keep).sum().backward()

    return Case(run, sequence(device))


def chunk_by_steps(device: torch.device, folder: Path) -> Case:
    """The same chunk step by step, and its gradients."""

    def run(parts: list[Any]) -> None:
        lstm, features, state, keep = parts
        embeddings = []
        for step_features, is_kept in zip(features.unbind(), keep.unbind(), strict=True):
            embedded, state = lstm.step(step_features, {name: value * is_kept for name, value in state.items()})
            embeddings.append(embedded)
        torch.stack(embeddings).sum().backward()

    return Case(run, sequence(device))


CASES: dict[str, Callable[..., Case]] = {
    make.__name__: make
    for make in (
        *(environment, rollout, update, arena, checkpoint, league),
        *(chunk_in_one_call, chunk_by_steps),
    )
}
"""Constructors of cases, keyed by name. Each creates its tensors on a device and its files in a folder. Cases of
environment and training also accept `backend="eager"`."""
