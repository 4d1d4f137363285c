"""Training loop: collect, estimate advantages, update, report, save."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from echelon.env.env import EchelonEnv
from echelon.env.outcome import STATS
from echelon.env.reward import TERMS
from echelon.learn.checkpoint.env_snapshot import EnvSnapshot
from echelon.learn.checkpoint.files import save_checkpoint
from echelon.learn.checkpoint.format import LEARNER, Checkpoint, Counters, RunState
from echelon.learn.checkpoint.resume import optimizer_tensors, restore_optimizer
from echelon.learn.checkpoint.retention import checkpoint_path, prune_checkpoints
from echelon.learn.config import TrainConfig
from echelon.learn.curriculum import SCRIPTED, Curriculum
from echelon.learn.metrics import MetricsLog
from echelon.learn.models import precision
from echelon.learn.models.actor_critic import ActorCritic
from echelon.learn.opponents.assignment import OpponentGroup, PolicyAssignment
from echelon.learn.opponents.frozen import FrozenOpponents
from echelon.learn.opponents.scripted import ScriptedOpponents
from echelon.learn.opponents.snapshot_pool import DrawOpponent, Snapshot, SnapshotPool
from echelon.learn.ppo import advantage
from echelon.learn.ppo.collector import TeamCollector
from echelon.learn.ppo.nonfinite_dump import stop_with_dump
from echelon.learn.ppo.update import PATIENCE, PPO, REPORTED
from echelon.rules.catalog import Hull
from echelon.rules.config import as_json, first_difference
from echelon.runtime import noise
from echelon.runtime.compile import keep_graphs
from echelon.runtime.device import resolve_device
from echelon.runtime.distributed import ALONE, Ranks
from echelon.runtime.errors import ConfigError
from echelon.runtime.profiling import part
from echelon.runtime.state_dict import StateDict, Stateful
from echelon.world import recipe

ITSELF, PAST = "itself", "past"
"""Names of opponents in addition to `SCRIPTED`."""
BATTLES, FROZEN = "battles", "frozen"
BATTLE_PARTS = (BATTLES, SCRIPTED, FROZEN)
"""Components whose state belongs to the running battles."""
RANK_SEEDS = 1 << 52
"""Offset between the seeds of two consecutive ranks."""


class Trainer:
    """Trains one policy in a run folder.

    Args:
        config: config of the run.
        folder: where checkpoints and metrics go.
        start: checkpoint to resume from exactly. If the battles differ (their number, maps or opponents), new ones
            are started, and `resume_note` says so.
        draw_opponent: draws opponents for battles against frozen policies; by default, and where it returns None,
            a snapshot of the learner is drawn.
        ranks: data-parallel processes, each with `TrainConfig.num_envs` battles.

    Raises:
        ConfigError: `start` has another env or network.
    """

    def __init__(
        self,
        config: TrainConfig,
        folder: Path,
        start: Checkpoint | None = None,
        draw_opponent: DrawOpponent | None = None,
        ranks: Ranks = ALONE,
    ) -> None:
        self.config = config
        self.folder = folder
        self.ranks = ranks
        self.device = ranks.place(resolve_device(config.device))
        precision.configure_backends(config.deterministic)
        keep_graphs()
        torch.manual_seed(config.seed)
        self.counters = Counters()
        self.curriculum = Curriculum(config)
        self.norm = advantage.ValueNorm().to(self.device)
        self.policy = ActorCritic(config.model, config.env.comm_dim).to(self.device)
        if start is not None:
            self._check_start(start)
            self.policy = start.policy(self.device).train()
            self.norm = start.value_norm().to(self.device)
            self.counters = start.counters
            self.curriculum = Curriculum(config, start.curriculum)
        self.policy.network.compute = precision.resolve_precision(config.precision, self.device)
        self._compile()
        self.ppo = PPO(self.policy, config.ppo, ranks)
        if start is not None:
            restore_optimizer(self.policy, self.ppo.optimizer, start.tensors(LEARNER))
        self.past = SnapshotPool(config.past_kept, config.seed + ranks.rank)
        self.past.add(f"iteration {self.counters.iterations}", self.policy)
        self.draw_opponent = draw_opponent
        self.extra_state: dict[str, Stateful] = {}
        """Further components to save in checkpoints, of rank 0 only."""
        self.loaded: dict[str, StateDict] = {}
        """State of each component in the checkpoint that the run resumes from."""
        self.best: int | None = None
        """Iteration of the best checkpoint, which is never pruned."""
        self.resume_note = ""
        """One line about what differs from the checkpoint; empty for an exact resume."""
        self._enter_stage()
        if start is not None:
            self._resume(start)
        self.metrics = MetricsLog(folder, self.counters.iterations, config.logger) if ranks.is_first else None

    def _draw(self) -> Snapshot:
        """Next opponent of a block of battles against frozen policies."""
        drawn = self.draw_opponent() if self.draw_opponent is not None else None
        return drawn or self.past()

    def _check_start(self, start: Checkpoint) -> None:
        """Raise `ConfigError` if the checkpoint has another env or network."""
        ours, theirs = self.config, start
        pairs = {
            "env": (ours.env.signature(), theirs.env.signature()),
            "model": (as_json(ours.model), as_json(theirs.model)),
        }
        for name, (here, there) in pairs.items():
            difference = first_difference(here, there, name)
            if difference:
                raise ConfigError(f"--resume: {difference}, in the checkpoint: choose the flags it was trained with")

    def _resume(self, start: Checkpoint) -> None:
        """Restore the state of all components from a checkpoint."""
        self.loaded = start.parts(self.ranks.rank)
        difference = first_difference(self._battles(), start.battles, "battles")
        if difference:
            self.resume_note = f"battles begin anew: {difference}, in the checkpoint"
        for name, owner in self._parts().items():
            if name in self.loaded and not (difference and name in BATTLE_PARTS):
                owner.load_state_dict(self.loaded[name])

    def _parts(self) -> dict[str, Stateful]:
        """Components with state, beside weights, optimiser, normaliser and counters."""
        parts: dict[str, Stateful | None] = {
            BATTLES: EnvSnapshot(self.rollout),
            SCRIPTED: self.scripted,
            FROZEN: self.frozen,
            PAST: self.past,
            "ppo": self.ppo,
            **self.extra_state,
        }
        return {name: part for name, part in parts.items() if part is not None}

    def _battles(self) -> dict[str, Any]:
        """Description of the battles; running battles are resumed only where it is equal."""
        return {
            "processes": self.ranks.size,
            "num_envs": self.config.num_envs,
            "side": self.config.side,
            "past_blocks": self.config.past_blocks,
            "met": {name: [battles.start, battles.stop] for name, battles in self.assignment.battles.items()},
            "env": as_json(self.env.config),
            "map_maker": recipe.VERSION,
        }

    def _compile(self) -> None:
        """Compile the whole network for acting, and only the encoder for learning."""
        if self.config.compile_policy == "all":
            precision.compile_module(self.policy.network.encoder)
        if self.config.compile_policy != "off":
            self.policy.act = torch.compile(self.policy.network.forward, fullgraph=True, dynamic=False)

    def _enter_stage(self) -> None:
        """Create environment, opponents and collector for the curriculum's stage."""
        config, stage = self.config, self.curriculum.stage
        env = stage.env(config.env, config.side)
        self.scripted: ScriptedOpponents | None = None
        self.frozen: FrozenOpponents | None = None
        if config.scripted_battles > 0:
            self.scripted = ScriptedOpponents(env, stage.tier, stage.weapon_use, self.device)
        if config.past_battles > 0:
            self.frozen = FrozenOpponents(self.policy, config.past_blocks, self._draw)
        opponents = [
            OpponentGroup(SCRIPTED, self.scripted, config.scripted_battles),
            OpponentGroup(ITSELF, None, config.self_battles),
            OpponentGroup(PAST, self.frozen, config.past_battles),
        ]
        self.assignment = PolicyAssignment(
            self.policy, [opponent for opponent in opponents if opponent.battles > 0], config.side
        )
        self.env = EchelonEnv(
            env,
            config.num_envs,
            device=self.device,
            seed=self._battle_seeds(),
            memory=self.assignment.memory,
            compiled=config.compiled,
        )
        self.rollout = TeamCollector(
            self.env, self.assignment, config.ppo.rollout_decisions, config.ppo.chunk_decisions
        )
        roster = env.red if config.side == "red" else env.blue
        hull = torch.tensor([int(Hull[name.upper()]) for name in roster], device=self.device)
        self.hull = hull if config.ppo.advantages_by_class else None

    def _battle_seeds(self) -> Tensor:
        """`[B]` int64 seeds of new battles: K processes of B battles split those of a single process with K * B."""
        number, first = self.config.num_envs, self.config.num_envs * self.ranks.rank
        seed = self.config.seed + self.counters.iterations
        return noise.battle_seeds(seed, number * self.ranks.size, self.device)[first : first + number]

    @property
    def progress(self) -> float:
        """Completed share of the run, 0..1: the larger of that by agent steps and by time."""
        by_steps = self.counters.agent_steps / self.config.total_agent_steps
        limit_s = 60 * self.config.max_minutes
        return min(1.0, max(by_steps, self.counters.seconds / limit_s if limit_s > 0 else 0.0))

    @property
    def finished(self) -> bool:
        """Whether the limit of agent steps or of time is reached."""
        return self.progress >= 1.0

    def iterate(self) -> dict[str, float | None]:
        """One iteration: T decisions of all battles, then the update. Only the report syncs with the device.

        Returns a row of `metrics.COLUMNS`; raises `NotFinite` after `PATIENCE` consecutive non-finite steps. Every
        iteration has its own seed, so that a resumed run draws the same random numbers.
        """
        torch.manual_seed(self.config.seed * 1_000_003 + self.counters.iterations + self.ranks.rank * RANK_SEEDS)
        scheduled = self._anneal()
        watch = self.rollout.watch
        watch.start()
        batch, memory, ended = self.rollout.collect()
        gamma, gae_lambda = self.config.env.reward.gamma, self.config.ppo.gae_lambda
        with part("learn"):
            estimated = advantage.estimate(batch, self.norm, gamma, gae_lambda, self.hull, self.ranks)
            learnt = self.ppo.update(batch, memory)
        watch.lap("learn")
        ended = all_reduce_sums(ended, self.ranks)
        dead = self.ranks.mean(1 - batch.get("alive").float().mean())
        report = read(
            {**learnt, **ended, **estimated, "dead_share": dead, "longest": self.ppo.longest, **self._readers()}
        )
        spent = watch.read()
        if report["longest"][0] >= PATIENCE:
            stop_with_dump(self.folder, self.counters.iterations, self.policy, batch, memory, self.ranks.rank)

        seconds, steps = self.ranks.max(sum(spent.values())), batch.get("alive").numel() * self.ranks.size
        self.counters = Counters(
            iterations=self.counters.iterations + 1,
            agent_steps=self.counters.agent_steps + steps,
            seconds=self.counters.seconds + seconds,
        )
        row = {
            **self._summary(report),
            **scheduled,
            "iteration": float(self.counters.iterations),
            "agent_steps": float(self.counters.agent_steps),
            "seconds": round(self.counters.seconds, 3),
            "agent_steps_per_s": round(steps / seconds, 1),
            **{f"{name}_s": round(spent[name], 4) for name in ("env", "act", "learn")},
        }
        if self.metrics is not None:
            self.metrics.write(row)
        self._after_update(report)
        return row

    def _anneal(self) -> dict[str, float | None]:
        """Apply schedules and curriculum to this iteration; returns their values."""
        progress, stage = self.progress, self.curriculum.stage
        self.rollout.scale.copy_(torch.tensor(self.curriculum.reward_scale(progress)))
        mix = self.config.curriculum.team_mix.at(progress)
        self.rollout.mix.fill_(mix)
        applied = {"team_mix": mix * self.config.env.reward.team_mix_alpha, "stage": stage.number + 1.0}
        return {**self.ppo.anneal(progress), **applied, "weapon_use": stage.weapon_use}

    def _readers(self) -> dict[str, Tensor]:
        """Number of battles that use each slot, for opponents with slots."""
        return {
            f"readers_{name}": opponent.readers(self.assignment.view(self.rollout.now, name).get("memory"))
            for name, opponent in self._slotted().items()
        }

    def _slotted(self) -> dict[str, ScriptedOpponents | FrozenOpponents]:
        """The opponents with slots that this run has, by name."""
        opponents = {SCRIPTED: self.scripted, PAST: self.frozen}
        return {name: opponent for name, opponent in opponents.items() if opponent is not None}

    def _summary(self, report: dict[str, list[float]]) -> dict[str, float | None]:
        """Metrics of an iteration, with sums over battles divided by their number."""
        value = {name: numbers[0] for name, numbers in report.items()}
        stats = dict(zip(STATS, report["stats"], strict=True))

        def mean(amount: float, battles: float) -> float | None:
            return amount / battles if battles > 0 else None

        battles = value["battles"]
        returns = {f"return_{term}": mean(paid, battles) for term, paid in zip(TERMS, report["returns"], strict=True)}
        plain = (*REPORTED, "epochs", "skipped", "battles", "dead_share", "target_mean", "target_std")
        return {
            **{name: value[name] for name in (*plain, "explained_variance")},
            "win_rate": mean(value["won"], battles),
            "loss_rate": mean(value["lost"], battles),
            "battle_decisions": mean(value["decisions"], battles),
            "return": mean(math.fsum(report["returns"]), battles),
            **returns,
            **{name: mean(stats[name], battles) for name in ("damage", "kills", "deaths", "zone_s")},
            "stage_win_rate": self.curriculum.win_rate,
            "past_win_rate": mean(value.get(f"won_{PAST}", 0.0), value.get(f"battles_{PAST}", 0.0)),
        }

    def _after_update(self, report: dict[str, list[float]]) -> None:
        """Between two iterations: refresh opponents, advance the curriculum, renew maps, save."""
        for name, opponent in self._slotted().items():
            pairs = report[f"readers_{name}"]
            opponent.refresh([[int(a), int(b)] for a, b in zip(pairs[::2], pairs[1::2], strict=True)])
        iterations, every = self.counters.iterations, self.config.renew_maps_every
        if iterations % self.config.past_every == 0:
            self.past.add(f"iteration {iterations}", self.policy)
        reference = SCRIPTED if self.scripted is not None else PAST
        if self.curriculum.record(
            report.get(f"battles_{reference}", [0.0])[0], report.get(f"won_{reference}", [0.0])[0]
        ):
            self._advance_stage()
        if every > 0 and iterations % every == 0:
            self.env.renew_maps()
        if self.finished or iterations % self.config.checkpoint_every == 0:
            self.save()

    def _advance_stage(self) -> None:
        """Enter the curriculum's stage; running battles continue if the env config is the same."""
        stage, side = self.curriculum.stage, self.config.side
        if stage.env(self.config.env, side) != self.env.config:
            self._enter_stage()
        elif self.scripted is not None:
            self.scripted.set_tier(stage.tier, stage.weapon_use)

    def save(self) -> Path:
        """Write a checkpoint, unless this iteration has one, and prune earlier ones; returns its path."""
        path = checkpoint_path(self.folder, self.counters.iterations)
        if self.ranks.max(float(path.exists())) > 0:
            return path
        learner = optimizer_tensors(self.policy, self.ppo.optimizer)
        settings = {name: value for name, value in as_json(self.config).items() if name not in ("env", "model")}
        run = RunState(settings, self._battles(), {name: part.state_dict() for name, part in self._parts().items()})
        curriculum = self.curriculum.state
        save_checkpoint(
            path, self.policy, self.norm, self.config.env, self.counters, learner, curriculum, run, self.ranks
        )
        if self.ranks.is_first:
            prune_checkpoints(self.folder, self.config.keep_checkpoints, self.best)
        return path

    def close(self) -> None:
        """Flush and close the metrics."""
        if self.metrics is not None:
            self.metrics.close()


def all_reduce_sums(sums: dict[str, Tensor], ranks: Ranks) -> dict[str, Tensor]:
    """Sum each tensor over all processes, in one all-reduce."""
    sizes = [value.numel() for value in sums.values()]
    parts = ranks.sum(torch.cat([value.flatten() for value in sums.values()])).split(sizes)
    return {name: part.view_as(sums[name]) for name, part in zip(sums, parts, strict=True)}


def read(values: dict[str, Tensor]) -> dict[str, list[float]]:
    """Copy tensors to the host in one transfer, flattened to lists of floats."""
    packed = torch.cat([value.detach().float().flatten() for value in values.values()]).tolist()
    found, at = {}, 0
    for name, value in values.items():
        found[name] = packed[at : at + value.numel()]
        at += value.numel()
    return found
