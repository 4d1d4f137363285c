"""Training callback that regularly adds the learner's policy to a league as a candidate and rates it."""

from dataclasses import replace
from pathlib import Path

import torch

from echelon.arena.config import ArenaConfig
from echelon.league import log
from echelon.league.league_arena import LeagueArena
from echelon.league.matchmaking import OpponentSampler
from echelon.league.rating_period import rate_entry
from echelon.league.records import Entry
from echelon.league.store import FILE, Store
from echelon.learn.callbacks.base import ELSEWHERE, Callback, Metrics, TrainingRun
from echelon.learn.config import TrainConfig
from echelon.rules.config_json import battle_difference
from echelon.runtime.distributed import Ranks
from echelon.runtime.errors import ConfigError, require
from echelon.runtime.tensor_files import StateDict


class LeagueCallback(Callback):
    """Adds checkpoints of a learner to a league, every `TrainConfig.league_every` iterations and at the end of a run.

    Only the first process plays the rating battles; all processes sample their opponents from the updated league.

    Args:
        sampler: sampler of opponents, which is updated after every entry that the learner adds.
        seeds: number of seeds per opponent, each played once per side.
    """

    name = "campaign"

    def __init__(self, arena: LeagueArena, sampler: OpponentSampler, seeds: int) -> None:
        self.arena, self.store, self.sampler, self.seeds = arena, arena.store, sampler, seeds

    def on_run_start(self, trainer: TrainingRun) -> None:
        """Add the learner's policy if the previous run stopped after saving a checkpoint and before adding it."""
        if not self.sampler.shares and trainer.config.past_battles > 0:
            trainer.log_plain(
                f"{trainer.config.league}: no policy in it has this architecture (--model): until then "
                f"{trainer.config.past_battles} of {trainer.config.num_envs} battles are against earlier selves"
            )
        if trainer.counters.iterations > 0 and self._is_due(trainer):
            self._submit(trainer, trainer.save())

    def on_iteration_end(self, trainer: TrainingRun, metrics: Metrics) -> None:
        trainer.requests.checkpoint |= self._is_due(trainer)

    def on_checkpoint(self, trainer: TrainingRun, path: Path) -> None:
        if trainer.counters.iterations > 0 and self._is_due(trainer):
            self._submit(trainer, path)

    def _is_due(self, trainer: TrainingRun) -> bool:
        return trainer.counters.iterations % trainer.config.league_every == 0 or trainer.ended

    def _submit(self, trainer: TrainingRun, path: Path) -> None:
        ranks, entry_id, error = trainer.ranks, "", None
        if ranks.is_first:
            try:
                entry_id = self.submit(path).id
            except Exception as failure:
                error = failure
        # Broadcast the entry's id even after a failure, because the other processes wait for it.
        entry_id = ranks.broadcast_text(entry_id)
        if not entry_id:
            raise error or ConfigError(ELSEWHERE)
        self.sampler.set_learner(entry_id)
        if ranks.is_first:
            trainer.log(f"in the league {self.standing()}")

    def submit(self, checkpoint: Path, kind: str = "candidate") -> Entry:
        """Add a checkpoint as an entry, rate it in battles against all active entries, and refresh the sampler.

        A checkpoint that an interrupted run has already rated is not played again.

        Returns:
            The entry.
        """
        parent = self.sampler.me
        entry = self.store.add(checkpoint, kind, parent.id if parent is not None else None)
        if entry.id not in self.store.rated():
            period = rate_entry(self.arena, entry, self.seeds)
            log.write_event(
                self.store, "submitted", name=entry.name, kind=kind, number=period, checkpoint=str(checkpoint)
            )
        self.sampler.set_learner(entry.id)
        return self.store.find(entry.id)

    def state_dict(self) -> StateDict:
        return StateDict(facts={"me": self.sampler.me.id if self.sampler.me is not None else ""})

    def load_state_dict(self, state_dict: StateDict) -> None:
        self.sampler.set_learner(state_dict.fact("me", str))

    def standing(self) -> str:
        """Return the rating and the rank of the learner's last entry in the league, as one line."""
        standings = self.store.standings()
        learner = self.sampler.me
        place, row = next((n, s) for n, s in enumerate(standings, 1) if learner is not None and s.id == learner.id)
        return f"{row.name} ({row.kind}): {row.rating:.0f} ± {2 * row.deviation:.0f}, place {place} of {len(standings)}"


def join_league(config: TrainConfig, device: torch.device, ranks: Ranks) -> LeagueCallback | None:
    """Create the callback for the league that `--opponent league:FOLDER` names; None for other opponents."""
    if not config.league:
        return None
    folder = Path(config.league)
    is_entry = not (folder / FILE).exists() and (folder.parent / FILE).exists()
    limit = "league:FOLDER; for one of its entries use --curriculum.opponents league:FOLDER/NAME"
    require(not is_entry, "--opponent", limit, config.opponent)
    store = Store(folder)
    difference = battle_difference(config.env.signature(), store.env.signature())
    require(
        difference is None,
        "--opponent",
        f"a league with the same battle config as this training ({difference})",
        config.league,
    )
    # `num_envs` may still be 0 here, which means that the device determines it later.
    steps = config.league_every * config.steps_an_iteration
    entries = config.total_agent_steps // steps if steps > 0 else 1
    battles = entries * 2 * config.league_seeds * len(store.active())
    arena = LeagueArena(store, replace(ArenaConfig.of_run(config, ranks.place(device)), battles=battles))
    sampler = OpponentSampler(store, config.model)
    return LeagueCallback(arena, sampler, config.league_seeds)
