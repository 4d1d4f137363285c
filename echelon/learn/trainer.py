"""A training run: collect, estimate advantages, learn, report, save."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from echelon.agents.heuristic import scripted
from echelon.agents.seat import TeamPolicy
from echelon.config import ConfigError, as_json, first_difference
from echelon.env.env import EchelonEnv
from echelon.env.outcome import STATS
from echelon.env.reward import TERMS
from echelon.learn import advantage, checkpoint
from echelon.learn.checkpoint import Checkpoint, Counters
from echelon.learn.config import TrainConfig
from echelon.learn.machine import resolve_device
from echelon.learn.metrics import MetricsLog, Stopwatch
from echelon.learn.policy import MechPolicy
from echelon.learn.ppo import PPO, REPORTED
from echelon.learn.rollout import Rollout
from echelon.learn.seats import Seats

SELF = "self"


class Trainer:
    """Trains one policy as `TrainConfig` says, in a run folder.

    Args:
        config: the run.
        folder: where checkpoints and metrics go.
        start: a checkpoint to go on from. Weights, optimiser, normaliser and counters go on, battles begin anew.
    """

    def __init__(self, config: TrainConfig, folder: Path, start: Checkpoint | None = None) -> None:
        self.config = config
        self.folder = folder
        self.device = resolve_device(config.device)
        torch.manual_seed(config.seed)
        self.counters = Counters()
        self.norm = advantage.ValueNorm().to(self.device)
        self.policy = MechPolicy(config.model, config.env.comm_dim).to(self.device)
        if start is not None:
            self._check_start(start)
            self.policy = start.policy(self.device).train()
            self.norm = start.value_norm().to(self.device)
            self.counters = start.counters
        self.ppo = PPO(self.policy, config.ppo)
        if start is not None:
            checkpoint.restore_optimizer(self.policy, self.ppo.optimizer, start.tensors(checkpoint.LEARNER))
        opponent: TeamPolicy | None = None
        if config.opponent != SELF:
            opponent = scripted(config.opponent, config.env, self.device)
        self.seats = Seats(self.policy, opponent, config.num_envs)
        self.env = EchelonEnv(
            config.env,
            config.num_envs,
            device=self.device,
            seed=config.seed + self.counters.iterations,
            memory=self.seats.memory,
            compiled=config.compiled,
        )
        self.rollout = Rollout(self.env, self.seats, config.ppo.rollout_decisions)
        self.metrics = MetricsLog(folder, self.counters.iterations)

    def _check_start(self, start: Checkpoint) -> None:
        """Refuse to go on in another battle or with another network."""
        for name, ours in (("env", self.config.env.signature()), ("model", as_json(self.config.model))):
            difference = first_difference(ours, start.claims[name], name)
            if difference:
                raise ConfigError(f"--resume: {difference}, in the checkpoint: choose the flags it was trained with")

    @property
    def finished(self) -> bool:
        """Whether the run has learnt from as many agent steps as it was told to."""
        return self.counters.agent_steps >= self.config.total_agent_steps

    def iterate(self) -> dict[str, float | None]:
        """One iteration: T decisions of all battles, then the update. The report is the only host sync.

        Every iteration draws from a seed of its own, so that a run that goes on elsewhere draws as it would have here.
        """
        torch.manual_seed(self.config.seed * 1_000_003 + self.counters.iterations)
        watch = Stopwatch(self.device)
        batch, ended = self.rollout.collect()
        watch.mark()
        advantage.estimate(batch, self.norm, self.config.env.reward.gamma, self.config.ppo.gae_lambda)
        rate = self.ppo.anneal(self.counters.agent_steps / self.config.total_agent_steps)
        learnt = self.ppo.update(batch)
        watch.mark()
        report = self._read({**learnt, **ended})
        act_s, learn_s = watch.laps()

        self.counters = Counters(
            iterations=self.counters.iterations + 1,
            agent_steps=self.counters.agent_steps + batch.numel(),
            seconds=self.counters.seconds + act_s + learn_s,
        )
        row = {
            **report,
            "iteration": float(self.counters.iterations),
            "agent_steps": float(self.counters.agent_steps),
            "seconds": round(self.counters.seconds, 3),
            "agent_steps_per_s": round(batch.numel() / (act_s + learn_s), 1),
            "act_s": round(act_s, 4),
            "learn_s": round(learn_s, 4),
            "learning_rate": rate,
        }
        self.metrics.write(row)
        every = self.config.renew_maps_every
        if every > 0 and self.counters.iterations % every == 0:
            self.env.renew_maps()
        if self.finished or self.counters.iterations % self.config.checkpoint_every == 0:
            self.save()
        return row

    def _read(self, sums: dict[str, Tensor]) -> dict[str, float | None]:
        """Bring an iteration's numbers to the host at once, sums over battles as means."""
        names = [name for name in sums if sums[name].dim() == 0]
        packed = torch.cat((torch.stack([sums[name].float() for name in names]), sums["stats"], sums["reward_terms"]))
        paid = [f"reward_{term}" for term in TERMS]
        value = dict(zip([*names, *STATS, *paid], packed.tolist(), strict=True))
        battles = value["battles"]

        def mean(name: str) -> float | None:
            return value[name] / battles if battles > 0 else None

        return {
            **{name: value[name] for name in (*REPORTED, "battles", *paid)},
            "win_rate": mean("won"),
            "loss_rate": mean("lost"),
            "battle_decisions": mean("decisions"),
            "return": mean("returns"),
            **{name: mean(name) for name in ("damage", "kills", "deaths", "zone_s")},
        }

    def save(self) -> Path:
        """Write a checkpoint of this moment, unless there is one."""
        path = self.folder / "checkpoints" / f"iteration_{self.counters.iterations:06d}"
        if path.exists():
            return path
        learner = checkpoint.optimizer_tensors(self.policy, self.ppo.optimizer)
        checkpoint.save(path, self.policy, self.norm, self.config.env, self.counters, learner)
        return path
