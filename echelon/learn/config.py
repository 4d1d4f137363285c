"""Settings of training: the network, the updates, the run. Those of a battle live in `echelon.config`."""

from __future__ import annotations

from dataclasses import dataclass, field

from echelon.config import EnvConfig, require, require_finite


@dataclass(frozen=True)
class ModelConfig:
    """Sizes of the policy network."""

    hidden: int = 128
    """Width of the LSTM and of the fused features."""
    contact_width: int = 64
    """Width of the encoding of one contact."""
    body_width: int = 128
    """Width of the encoding of a mech's own streams."""
    initial_std: float = 0.6
    """Standard deviation of the pre-tanh actions before training."""

    def __post_init__(self) -> None:
        for name in ("hidden", "contact_width", "body_width"):
            require(1 <= getattr(self, name) <= 8192, f"ModelConfig.{name}", "1..8192", getattr(self, name))
        require_finite(self)
        require(self.initial_std > 0, "ModelConfig.initial_std", "> 0", self.initial_std)


@dataclass(frozen=True)
class PPOConfig:
    """Proximal policy optimisation (Schulman et al. 2017) over sequences of decisions."""

    rollout_decisions: int = 32
    """Decisions collected an iteration; also the length of a training sequence."""
    epochs: int = 3
    minibatches: int = 8
    learning_rate: float = 6e-4
    final_learning_rate: float = 1e-4
    """The rate falls linearly to this over `TrainConfig.total_agent_steps`."""
    clip: float = 0.2
    gae_lambda: float = 0.97
    value_coef: float = 0.5
    entropy_coef: float = 0.01
    max_grad_norm: float = 0.5

    def __post_init__(self) -> None:
        require_finite(self)
        for name in ("rollout_decisions", "epochs", "minibatches"):
            require(getattr(self, name) >= 1, f"PPOConfig.{name}", ">= 1", getattr(self, name))
        for name in ("learning_rate", "final_learning_rate", "clip", "max_grad_norm"):
            require(getattr(self, name) > 0, f"PPOConfig.{name}", "> 0", getattr(self, name))
        require(0 <= self.gae_lambda <= 1, "PPOConfig.gae_lambda", "0..1", self.gae_lambda)


@dataclass(frozen=True)
class TrainConfig:
    """A training run: what is trained, against whom, for how long."""

    env: EnvConfig = field(default_factory=EnvConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    ppo: PPOConfig = field(default_factory=PPOConfig)
    num_envs: int = 4096
    """Battles side by side."""
    total_agent_steps: int = 2_000_000_000
    """Decisions of single mechs to learn from; training stops at the first iteration that reaches it."""
    opponent: str = "heuristic:normal"
    """heuristic:TIER, or self: the learner's latest self."""
    run_dir: str = "runs/{time}"
    """Folder of checkpoints and metrics; {time} becomes the start time."""
    resume: str = ""
    """A checkpoint folder to go on from, or latest: the newest of the run folder, or of the newest run."""
    seed: int = 0
    """Weights, actions, minibatches and battles follow from it."""
    device: str = "auto"
    """auto takes a GPU where there is one; else cpu, cuda or cuda:N."""
    compiled: bool = True
    """Compile the simulation with torch.compile: two to three minutes at the start, then about twice as fast."""
    checkpoint_every: int = 50
    """Iterations between checkpoints."""
    renew_maps_every: int = 0
    """Iterations after which fresh maps take the places of old ones, as many as `EnvConfig.map_spares`; 0 for never."""
    eval_battles: int = 64
    """Battles against heuristic:normal, once untrained and once trained; half on either side."""
    replay_battles: int = 0
    """Battles of the last evaluation to record into `evaluation.echelon` of the run folder."""

    def __post_init__(self) -> None:
        env = self.env
        same = len(env.blue) == len(env.red)
        require(same, "TrainConfig.env", "of equal team sizes (the learner plays both sides)", (env.blue, env.red))
        require(self.num_envs >= 2 and self.num_envs % 2 == 0, "TrainConfig.num_envs", "even and >= 2", self.num_envs)
        rows = self.num_envs * len(env.blue)
        limit = f"<= {rows} (one sequence a mech of the learner)"
        require(self.ppo.minibatches <= rows, "PPOConfig.minibatches", limit, self.ppo.minibatches)
        require(0 <= self.seed < 2**31, "TrainConfig.seed", "0..2147483647", self.seed)
        require(self.total_agent_steps >= 1, "TrainConfig.total_agent_steps", ">= 1", self.total_agent_steps)
        require(self.checkpoint_every >= 1, "TrainConfig.checkpoint_every", ">= 1", self.checkpoint_every)
        require(self.renew_maps_every >= 0, "TrainConfig.renew_maps_every", ">= 0", self.renew_maps_every)
        spares = self.renew_maps_every == 0 or env.map_spares > 0
        require(spares, "TrainConfig.env.map_spares", ">= 1 to renew maps", env.map_spares)
        even = self.eval_battles >= 2 and self.eval_battles % 2 == 0
        require(even, "TrainConfig.eval_battles", "even and >= 2", self.eval_battles)
        few = 0 <= self.replay_battles <= self.eval_battles
        require(few, "TrainConfig.replay_battles", "0..eval_battles", self.replay_battles)

    @classmethod
    def quick(cls) -> TrainConfig:
        """A first look on two CPU cores, within minutes: 5v5, LSTM 64."""
        return cls(
            env=EnvConfig.small(),
            model=ModelConfig(hidden=64, contact_width=32, body_width=64),
            num_envs=128,
            total_agent_steps=1_800_000,
            eval_battles=128,
        )

    @classmethod
    def standard(cls) -> TrainConfig:
        """10v10, LSTM 128, for one GPU."""
        return cls()

    @classmethod
    def large(cls) -> TrainConfig:
        """10v10 on the large map, for one GPU."""
        return cls(env=EnvConfig.large())


TRAIN_PRESETS = {"quick": TrainConfig.quick, "standard": TrainConfig.standard, "large": TrainConfig.large}
