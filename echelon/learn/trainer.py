"""A training run: collect, estimate advantages, learn, report, save."""

from __future__ import annotations

import time
from pathlib import Path

import torch
from torch import Tensor

from echelon.agents.heuristic import TIERS, Heuristic
from echelon.agents.seat import TeamPolicy
from echelon.config import ConfigError, EnvConfig, TrainConfig, as_json
from echelon.env.env import EchelonEnv
from echelon.env.outcome import STATS
from echelon.learn import advantage, checkpoint
from echelon.learn.checkpoint import Checkpoint, Counters
from echelon.learn.metrics import MetricsLog
from echelon.learn.policy import MechPolicy
from echelon.learn.ppo import PPO, REPORTED
from echelon.learn.rollout import Rollout
from echelon.learn.seats import Seats

SELF = "self"


def resolve_device(name: str) -> torch.device:
    """`auto` is a GPU where there is one; anything else a name torch knows."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ConfigError(f"device must be auto, cpu or cuda[:N], got {name!r}") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError(f"device must be cpu on a machine without a CUDA GPU, got {name!r}")
    return device


def make_heuristic(name: str, env: EnvConfig, device: torch.device) -> Heuristic:
    """The scripted commander called `heuristic` or `heuristic:TIER`."""
    kind, _, tier = name.partition(":")
    if kind != "heuristic" or (tier or "normal") not in TIERS:
        known = ", ".join(f"heuristic:{tier}" for tier in TIERS)
        raise ConfigError(f"opponent must be one of {known}, {SELF}, got {name!r}")
    return Heuristic(env).to(device)


class Trainer:
    """Trains one policy as `TrainConfig` says, in a run folder.

    Args:
        config: the run.
        folder: where checkpoints and metrics go.
        start: a checkpoint to go on from. Battles begin anew; weights, optimiser, normaliser, counters and random
            streams go on.
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
        self.ppo = PPO(self.policy, config.ppo, config.seed)
        if start is not None:
            self._restore(start)
        opponent: TeamPolicy | None = None
        if config.opponent != SELF:
            opponent = make_heuristic(config.opponent, config.env, self.device)
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
        for name, ours in (("env", self.config.env.signature()), ("model", as_json(self.config.model))):
            for field, value in ours.items():
                if start.claims[name].get(field) != value:
                    came = start.claims[name].get(field)
                    raise ConfigError(f"resume: {name}.{field} must be {came!r} as in the checkpoint, got {value!r}")

    def _restore(self, start: Checkpoint) -> None:
        tensors = start.tensors(checkpoint.LEARNER)
        checkpoint.restore_optimizer(self.policy, self.ppo.optimizer, tensors)
        torch.set_rng_state(tensors["random.global"])
        self.ppo.generator.set_state(tensors["random.minibatches"])

    @property
    def finished(self) -> bool:
        """Whether the run has learnt from as many agent steps as it was told to."""
        return self.counters.agent_steps >= self.config.total_agent_steps

    def iterate(self) -> dict[str, float | None]:
        """One iteration: T decisions of all battles, then the update. The report is the only host sync."""
        began = time.perf_counter()
        batch, ended = self.rollout.collect()
        collected = time.perf_counter()
        advantage.estimate(batch, self.norm, self.config.env.reward.gamma, self.config.ppo.gae_lambda)
        rate = self.ppo.anneal(self.counters.agent_steps / self.config.total_agent_steps)
        learnt = self.ppo.update(batch)
        report = self._read({**learnt, **ended})
        done = time.perf_counter()

        self.counters = Counters(
            iterations=self.counters.iterations + 1,
            agent_steps=self.counters.agent_steps + batch.numel(),
            seconds=self.counters.seconds + done - began,
        )
        row = {
            **report,
            "iteration": float(self.counters.iterations),
            "agent_steps": float(self.counters.agent_steps),
            "seconds": round(self.counters.seconds, 3),
            "agent_steps_per_s": round(batch.numel() / (done - began), 1),
            "act_s": round(collected - began, 4),
            "learn_s": round(done - collected, 4),
            "learning_rate": rate,
        }
        self.metrics.write(row)
        if self.finished or self.counters.iterations % self.config.checkpoint_every == 0:
            self.save()
        return row

    def _read(self, sums: dict[str, Tensor]) -> dict[str, float | None]:
        """Bring an iteration's numbers to the host at once, sums over battles as means."""
        names = [name for name in sums if name != "stats"]
        packed = torch.cat((torch.stack([sums[name].float() for name in names]), sums["stats"])).tolist()
        value = dict(zip([*names, *STATS], packed, strict=True))
        battles = value["battles"]

        def mean(name: str) -> float | None:
            return value[name] / battles if battles > 0 else None

        return {
            **{name: value[name] for name in (*REPORTED, "battles")},
            "win_rate": mean("won"),
            "loss_rate": mean("lost"),
            "battle_decisions": mean("decisions"),
            "return": mean("returns"),
            **{name: mean(name) for name in ("damage", "kills", "deaths", "zone_s")},
        }

    def save(self) -> Path:
        """Write a checkpoint of this moment."""
        path = self.folder / "checkpoints" / f"iteration_{self.counters.iterations:06d}"
        learner = checkpoint.optimizer_tensors(self.policy, self.ppo.optimizer)
        learner["random.global"] = torch.get_rng_state()
        learner["random.minibatches"] = self.ppo.generator.get_state()
        checkpoint.save(path, self.policy, self.norm, self.config.env, self.counters, learner)
        return path
