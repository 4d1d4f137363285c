"""Training loop: collect, estimate advantages, update, report, and call callbacks between iterations."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from echelon.agents.heuristic import scripted
from echelon.env import rehearsal
from echelon.env.env import EchelonEnv
from echelon.env.outcome import stat_names
from echelon.learn.callbacks.base import Callback, CallbackList, Metrics, Requests, TrainingRun
from echelon.learn.callbacks.loggers import usual_callbacks
from echelon.learn.checkpoint.files import checkpoint_path, prune_checkpoints, save_checkpoint
from echelon.learn.checkpoint.format import LEARNER, Checkpoint, Counters, RunState, descent
from echelon.learn.checkpoint.provenance import weight_hash
from echelon.learn.checkpoint.resume import EnvSnapshot, find_changes, optimizer_tensors, restore_optimizer
from echelon.learn.checkpoint.run_folder import check_folder, clear_unlearnt, locked
from echelon.learn.config import PAST, TrainConfig
from echelon.learn.curriculum import SCRIPTED, Curriculum
from echelon.learn.device_defaults import resolve_settings
from echelon.learn.extra_rewards import load_extra_rewards
from echelon.learn.footprint import require_training_memory
from echelon.learn.levels import LevelScores
from echelon.learn.metrics import all_reduce_sums, read, summarise
from echelon.learn.models import precision
from echelon.learn.models.actor_critic import configure_policy
from echelon.learn.opponents.named import OpponentOf
from echelon.learn.opponents.snapshot_pool import MixedPool, OpponentPool, SnapshotPool
from echelon.learn.opponents.stage_opponents import FROZEN, StageOpponents
from echelon.learn.padding import EXISTS, mean_of_existing
from echelon.learn.ppo.advantage import NormalizedGAE
from echelon.learn.ppo.collector import TeamCollector
from echelon.learn.ppo.nonfinite_dump import stop_with_dump
from echelon.learn.ppo.update import PATIENCE, PPO
from echelon.learn.startup import check_arguments, initial_policy, smoke_test_components
from echelon.rules.config_json import as_json, first_difference
from echelon.rules.versions import MAP_MAKER, MAP_MAKER_VERSION
from echelon.runtime import noise
from echelon.runtime.device import resolve_device
from echelon.runtime.distributed import ALONE, Ranks
from echelon.runtime.errors import require
from echelon.runtime.profiling import part
from echelon.runtime.tensor_files import Stateful

BATTLES = "battles"
BATTLE_PARTS = (BATTLES, SCRIPTED, FROZEN)
"""Components whose state belongs to the running battles."""
COMPONENTS = (*BATTLE_PARTS, PAST, "ppo")
"""All components with state in a checkpoint; other states there belong to callbacks."""
RANK_SEEDS = 1 << 52
"""Offset between the seeds of consecutive ranks."""


class Trainer(TrainingRun):
    """Trains one policy in a run folder.

    Args:
        config: config of the run; unset settings are resolved for the device, see `resolve_settings`.
        folder: folder of checkpoints and metrics; a run there that learnt nothing is replaced.
        start: checkpoint to resume from exactly. If the battles differ (number, maps, opponents), new battles start and
            `resume_note` explains the difference.
        opponent_pool: opponents for battles against frozen policies; by default snapshots of the learner.
        ranks: data-parallel processes, each with `TrainConfig.num_envs` battles.
        opponent_of: builds the commanders named in the config; the default supports only scripted ones, and
            `echelon.arena.resolve.policy_of` supports all.
        callbacks: callbacks in addition to `usual_callbacks`; a subclass instance replaces its base class there.
        init: checkpoint of the initial policy of a new run, which `TrainConfig.init_from` names.

    Raises:
        ConfigError: if an argument has a wrong type, `start` has another env or network, `init` another network, the
            folder contains a run that does not end at `start`, a commander's name is unknown, a callback's name is
            taken, or TorchRL is too old to train.
    """

    def __init__(
        self,
        config: TrainConfig,
        folder: str | os.PathLike[str],
        start: Checkpoint | None = None,
        opponent_pool: OpponentPool | None = None,
        ranks: Ranks = ALONE,
        opponent_of: OpponentOf = scripted,
        callbacks: Sequence[Callback] = (),
        init: Checkpoint | None = None,
    ) -> None:
        require(isinstance(config, TrainConfig), "config", "a TrainConfig", config)
        self.folder, callbacks = check_arguments(folder, start, opponent_pool, ranks, opponent_of, callbacks, init)
        self.ranks = ranks
        if start is None and ranks.is_first:
            clear_unlearnt(self.folder)
        ranks.barrier()
        check_folder("folder", self.folder, start)
        self.device = ranks.place(resolve_device(config.device))
        self.config = config = resolve_settings(config, self.device, start, ranks)
        self._is_computing = False
        """Whether the process is set up for training, see `_process`."""
        # Load custom reward terms before seeding, because loading may draw random numbers.
        self.extra_rewards = load_extra_rewards(config.extra_rewards)
        self.extra_weights = {name: term.weight for name, term in self.extra_rewards.items()}
        smoke_test_components(config, self.extra_rewards, self.device, opponent_of)
        self.opponent_of = opponent_of
        self.callbacks = CallbackList([*callbacks, *usual_callbacks(config, callbacks)], COMPONENTS)
        with self._process():
            self._set_up(start, init, opponent_pool)

    def _set_up(self, start: Checkpoint | None, init: Checkpoint | None, pool: OpponentPool | None) -> None:
        """Create all components of the run; arguments as in the class."""
        config = self.config
        torch.manual_seed(config.seed)
        self._make_learner(start, init)
        self.past = SnapshotPool(config.past_kept)
        self.past.add(f"iteration {self.counters.iterations}", self.policy)
        self.pool = MixedPool(pool, self.past)
        self.requests = Requests()
        self.stopped = False
        self.last = None
        self.pending_signal = lambda: 0
        self.run_interruptible = lambda work: work()
        self.best = None
        self.resume_note = ""
        self.changed = {}
        self.nonfinite: dict[str, None] = {}
        """Names of reward terms that were NaN or infinite."""
        self.changes = []
        self._enter_stage()
        if start is not None:
            self._resume(start)
        # Only the first process (rank 0) saves the states of callbacks in a checkpoint.
        self.callbacks.setup(self, {} if start is None else start.parts(0))

    def _make_learner(self, start: Checkpoint | None, init: Checkpoint | None) -> None:
        """Create policy, normaliser, optimiser, counters and curriculum, new or from a checkpoint."""
        self.resumed_from = start.path if start is not None else None
        config = self.config
        self.counters = Counters() if start is None else start.counters
        self.policy, self.norm, self.provenance = initial_policy(config, self.extra_weights, self.device, start, init)
        """`provenance`: training history of the weights, see `echelon.learn.checkpoint.provenance`."""
        source = init if start is None else start
        self.ancestors = () if source is None else source.lineage
        """sha256 of the weights of earlier checkpoints and of the initial policy, oldest first."""
        self.curriculum = Curriculum(config) if start is None else Curriculum(config, start.curriculum)
        configure_policy(self.policy, config.precision, config.compile_policy, self.device)
        captured, compiled = config.cuda_graphs == "on", config.compile_policy == "all"
        self.ppo = PPO(self.policy, config.ppo, self.ranks, compiled=compiled, cuda_graph=captured)
        if start is not None:
            restore_optimizer(self.policy, self.ppo.optimizer, start.tensors(LEARNER))

    def _enter_stage(self) -> None:
        """Create environment, opponents and collector for the curriculum's stage."""
        config = self.config
        env = self.curriculum.stage.env(config.env, config.side)
        require_training_memory(config, env, self.device)
        seed, opponent_of = config.seed + self.ranks.rank, self.opponent_of
        self.opponents = StageOpponents(self.policy, config, env, self.curriculum, self.pool, seed, opponent_of)
        self.env = EchelonEnv(
            env,
            config.num_envs,
            device=self.device,
            seed=self._battle_seeds(),
            memory=self.opponents.assignment.memory,
            backend=config.backend,
            extra_rewards=self.extra_rewards,
        )
        lengths = config.ppo.rollout_decisions, config.ppo.chunk_decisions
        captured = self._rehearse() if rehearsal.should_rehearse(self.env) else config.cuda_graphs == "on"
        self.collector = TeamCollector(self.env, self.opponents.assignment, *lengths, self.norm, cuda_graph=captured)
        self.ppo.drops_absent = self.ppo.is_shared and self.collector.has_absent
        self.levels = None
        if config.curriculum.map_sampling == "plr":
            self.levels = levels = LevelScores(self.env.sim_model.maps.seed, self.opponents.assignment)
            self.collector.on_decision.append(lambda at, state, after: levels.count(state.map_id, after))
        roster = self.env.sim_model.roster
        hulls = {group: roster.hull[span].expand(config.num_envs, -1) for group, span in roster.teams.items()}
        self.advantage = NormalizedGAE(
            gamma=config.env.reward.gamma,
            lmbda=config.ppo.gae_lambda,
            normalizer=self.norm,
            hull=self.opponents.assignment.mech_rows(hulls) if config.ppo.advantages_by_class else None,
            ranks=self.ranks,
        )

    def _rehearse(self) -> bool:
        """Check that the environment runs correctly on this device; return whether a rollout can be captured."""
        rehearsed = rehearsal.rehearse(self.env, self.config.cuda_graphs == "on")
        self.rehearsal_note = rehearsed.line
        self.log_plain(rehearsed.line)
        return rehearsed.captures

    def train(self, iterations: int | None = None) -> None:
        """Train until the run has ended.

        Args:
            iterations: stop after this number of iterations, with a checkpoint, unless the run ends before.

        Raises:
            FileError: if another process trains in the folder.
            Interrupted: if a signal ended the run, see `echelon.learn.callbacks.signals`. A checkpoint is saved.
            NotFinite: if loss or gradients are not finite.
        """
        with locked(self.folder) if self.ranks.is_first else contextlib.nullcontext(), self._process():
            self._train(iterations)

    def _train(self, iterations: int | None) -> None:
        self.last = None if iterations is None else self.counters.iterations + iterations
        self.requests, self.stopped = Requests(), False
        try:
            # Save the initial state, from which a killed run can be resumed.
            self.save()
            self.callbacks.on_run_start(self)
            # The first evaluation may use slow dense code while the numba loops compile; training needs the loops.
            self.env.engine.wait_for_loops()
            while not self.ended:
                self.callbacks.on_iteration_start(self)
                stage = self.curriculum.stage
                metrics = self.iterate()
                self.callbacks.on_iteration_end(self, metrics, is_new_stage=self.curriculum.stage != stage)
            self.callbacks.on_run_end(self)
        finally:
            self.callbacks.close()

    def iterate(self) -> Metrics:
        """Run one iteration, which collects T decisions of all battles and updates the policy. Only reading the report
        syncs with the device.

        Every iteration has its own seed, so a resumed run draws the same random numbers.

        Returns:
            A row of `metrics.COLUMNS`, which `train` writes.

        Raises:
            NotFinite: if the loss or gradients were not finite in `PATIENCE` consecutive steps.
        """
        with self._process():
            return self._iterate()

    @contextlib.contextmanager
    def _process(self) -> Iterator[None]:
        """Enter `training_process` as a context; nested calls enter it only once."""
        if self._is_computing:
            yield
            return
        with precision.training_process(self.config.deterministic, self.device):
            self._is_computing = True
            try:
                yield
            finally:
                self._is_computing = False

    def _iterate(self) -> Metrics:
        torch.manual_seed(self.config.seed * 1_000_003 + self.counters.iterations + self.ranks.rank * RANK_SEEDS)
        self.provenance = self.provenance.union(self.opponents.provenance())
        scheduled = self._anneal()
        watch = self.collector.watch
        watch.start()
        batch, memory = self.collector.collect(), self.collector.memory
        with part("learn"):
            self.advantage(batch)
            learnt = self.ppo.update(batch, memory)
        watch.lap("learn")
        ended = all_reduce_sums(
            {**self.collector.episode_stats, "nonfinite": self.collector.nonfinite_terms()}, self.ranks
        )
        dead = self.ranks.mean(1 - mean_of_existing(batch.get("mask").float(), batch.get(EXISTS, None)))
        diagnostics = {**learnt, **ended, **self.advantage.diagnostics, "dead_share": dead, "longest": self.ppo.longest}
        report = read({**diagnostics, **self.opponents.readers(self.collector.current)})
        times = watch.read()
        self.nonfinite |= {
            term: None for term, n in zip(self.env.reward_terms, report["nonfinite"], strict=True) if n > 0
        }
        if report["longest"][0] >= PATIENCE:
            written = self.folder, self.counters.iterations, self.policy, batch, memory
            stop_with_dump(*written, self.ranks.rank, tuple(self.nonfinite))

        # A coarse clock may not have advanced, so avoid a division by zero.
        seconds = max(self.ranks.max(sum(times.values())), 1e-9)
        steps = self.collector.frames_per_batch * self.ranks.size
        previous = self.counters
        self.counters = Counters(previous.iterations + 1, previous.agent_steps + steps, previous.seconds + seconds)
        metrics = {
            **summarise(report, self.env.reward_terms, stat_names(self.env.config.catalog), PAST),
            "stage_win_rate": self.curriculum.win_rate,
            **scheduled,
            "iteration": float(self.counters.iterations),
            "agent_steps": float(self.counters.agent_steps),
            "seconds": round(self.counters.seconds, 3),
            "agent_steps_per_s": round(steps / seconds, 1),
            # The times are unknown (None) if these parts run inside one CUDA graph.
            **{f"{name}_s": round(times[name], 4) if name in times else None for name in ("env", "act", "learn")},
        }
        self._after_update(report)
        return metrics

    def save(self) -> Path:
        path = checkpoint_path(self.folder, self.counters.iterations)
        if self.ranks.max(float(path.exists())) > 0:
            return path
        learner = optimizer_tensors(self.policy, self.ppo.optimizer)
        settings = {name: value for name, value in as_json(self.config).items() if name not in ("env", "model")}
        states = {name: owner.state_dict() for name, owner in self._parts().items()}
        extra = {c.name: c.state_dict() for c in self.callbacks.all if self.ranks.is_first}
        extra = {name: state for name, state in extra.items() if state.tensors or state.facts}
        run = RunState(settings, self._battles(), {**states, **extra}, self.extra_weights, self.changes)
        env, stage = self.config.env, self.curriculum.state
        metadata = self.counters, learner, stage, run, self.ranks, self.provenance, self.ancestors
        save_checkpoint(path, self.policy, self.norm, env, *metadata)
        self.ancestors = descent(self.ancestors, weight_hash(self.policy.state_dict()))
        if self.ranks.is_first:
            prune_checkpoints(self.folder, self.config.keep_checkpoints, self.best)
        self.callbacks.on_checkpoint(self, path)
        return path

    def _resume(self, start: Checkpoint) -> None:
        """Restore the state of all components from a checkpoint."""
        self.changed, self.changes = find_changes(self.config, start)
        loaded = start.parts(self.ranks.rank)
        difference = first_difference(self._battles(), start.metadata["battles"], "battles")
        if start.specs.columns != start.specs.today:
            difference = "the observation has columns here that it does not have there"
        if difference:
            self.resume_note = f"battles start anew: {difference}, in the checkpoint"
        for name, owner in self._parts().items():
            if name in loaded and not (difference and name in BATTLE_PARTS):
                owner.load_state_dict(loaded[name])
        # The opponent of the curriculum stage overrides the one in the checkpoint.
        self.opponents.set_opponent(self.curriculum.stage)

    def _parts(self) -> dict[str, Stateful]:
        """Return the components with state, except weights, optimiser, normaliser and counters."""
        return {
            BATTLES: EnvSnapshot(self.collector, self.levels),
            **self.opponents.parts(),
            PAST: self.past,
            "ppo": self.ppo,
        }

    def _battles(self) -> dict[str, Any]:
        """Describe the battles; running battles are resumed only if the description is equal."""
        return {
            "processes": self.ranks.size,
            "num_envs": self.config.num_envs,
            "side": self.config.side,
            "env": as_json(self.env.config),
            MAP_MAKER: MAP_MAKER_VERSION,
            **self.opponents.description(),
        }

    def _battle_seeds(self) -> Tensor:
        """Return the seeds of new battles, `[B]` int64. Together, K processes of B battles have the seeds of one
        process with K * B battles.
        """
        num_envs, first = self.config.num_envs, self.config.num_envs * self.ranks.rank
        seed = self.config.seed + self.counters.iterations
        return noise.battle_seeds(seed, num_envs * self.ranks.size, self.device)[first : first + num_envs]

    def _anneal(self) -> dict[str, float | None]:
        """Apply schedules and curriculum to this iteration; return their values."""
        progress, stage = self.progress, self.curriculum.stage
        scale = self.curriculum.reward_scale(progress, self.env.reward_terms)
        self.collector.scale.copy_(torch.tensor(scale, dtype=torch.float32, device="cpu"))
        mix = self.config.curriculum.team_mix.at(progress)
        self.collector.mix.fill_(mix)
        applied = {"team_mix": mix * self.config.env.reward.team_mix_alpha, "stage": stage.number + 1.0}
        return {**self.ppo.anneal(progress), **applied, "weapon_use": stage.weapon_use}

    def _after_update(self, report: dict[str, list[float]]) -> None:
        """Refresh opponents, advance the curriculum, renew maps."""
        self.opponents.refresh(report)
        iterations, period = self.counters.iterations, self.config.renew_maps_every
        if iterations % self.config.past_every == 0:
            self.past.add(f"iteration {iterations}", self.policy)
        if self.curriculum.record(*self.opponents.curriculum_results(report)):
            # If the new stage has the same env config, its battles simply continue.
            if self.curriculum.stage.env(self.config.env, self.config.side) != self.env.config:
                self._enter_stage()
            self.opponents.set_opponent(self.curriculum.stage)
        if period > 0 and iterations % period == 0:
            self.env.renew_maps()
