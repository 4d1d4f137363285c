"""Settings of training: network, updates, curriculum, evaluation, run. `echelon.rules.config` has those of a battle."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from echelon.learn.schedules import Schedule
from echelon.rules.config import EnvConfig
from echelon.runtime.errors import require, require_finite

WIDTHS = ("hidden", "contact_width", "squad_width", "comm_width", "map_width", "telemetry_width", "body_width")
SELF, PAST, CURRICULUM = "self", "past", "curriculum"
"""Opponents that are no scripted commander of a fixed tier."""
LEAGUE = "league:"
"""What an opponent begins with that is drawn from a league; its folder follows."""
COUNTS = (
    *("total_agent_steps", "checkpoint_every", "keep_checkpoints"),
    *("past_blocks", "past_every", "past_kept", "league_every", "league_seeds"),
)
"""Settings of a run that are at least 1."""


@dataclass(frozen=True)
class ModelConfig:
    """Sizes of the policy network, and what it is made of."""

    hidden: int = 128
    """Width of the LSTM and of the fused features."""
    contact_width: int = 64
    """Width of the encoding of one contact."""
    squad_width: int = 32
    """The same of one comrade."""
    comm_width: int = 16
    """The same of one message."""
    map_width: int = 32
    """Width of the encoding of the ground around a mech."""
    telemetry_width: int = 16
    """Width of the encoding of the map from above."""
    body_width: int = 128
    """Width of the encoding of a mech's own state."""
    recurrent: bool = True
    """Off: no LSTM, a mech remembers nothing."""
    std: Literal["state", "fixed"] = "state"
    """Whether the deviation of an action depends on what is seen, or is one learnt number for each column."""
    initial_std: float = 0.6
    """Standard deviation of the pre-tanh actions before training."""
    critic: Literal["local", "central"] = "local"
    """What values are judged by: what the mech itself saw, or also the state of every mech of both teams."""
    path_observed: bool = True
    """Off: the network does not see the way to the zone along walkable ground."""

    def __post_init__(self) -> None:
        for name in WIDTHS:
            require(1 <= getattr(self, name) <= 8192, f"ModelConfig.{name}", "1..8192", getattr(self, name))
        require_finite(self)
        require(self.initial_std > 0, "ModelConfig.initial_std", "> 0", self.initial_std)
        for name, choices in (("std", ("state", "fixed")), ("critic", ("local", "central"))):
            require(getattr(self, name) in choices, f"ModelConfig.{name}", f"one of {choices}", getattr(self, name))


@dataclass(frozen=True)
class PPOConfig:
    """Proximal policy optimisation (Schulman et al. 2017) over sequences of decisions."""

    rollout_decisions: int = 32
    """Decisions collected an iteration, T."""
    chunk_decisions: int = 16
    """Length of a training sequence, a divisor of T; gradients do not flow from one to the next."""
    epochs: int = 4
    minibatches: int = 8
    accumulate: int = 1
    """Parts a minibatch is computed in, one after the other: the same step with less memory."""
    checkpoint_gradients: bool = False
    """Compute the encoder again for its gradient instead of keeping what it did: less memory, more time."""
    learning_rate: Schedule = field(default_factory=lambda: Schedule(1e-3, 1e-4))
    entropy_coef: Schedule = field(default_factory=lambda: Schedule(0.01, 0.003))
    """Weight of the entropy, which is a mean over the columns of an action."""
    clip: float = 0.2
    value_clip: float = 0.0
    """Values move at most so far from those of the rollout before their loss stops counting, in the critic's units;
    0 for any distance."""
    target_kl: float = 0.03
    """An iteration learns no further epoch once the last moved the policy farther than this; 0 for never."""
    gae_lambda: float = 0.97
    value_coef: float = 0.5
    max_grad_norm: float = 0.5
    advantages_by_class: bool = False
    """Normalise advantages within each class of mechs instead of over all."""

    def __post_init__(self) -> None:
        require_finite(self)
        for name in ("rollout_decisions", "chunk_decisions", "epochs", "minibatches", "accumulate"):
            require(getattr(self, name) >= 1, f"PPOConfig.{name}", ">= 1", getattr(self, name))
        for name in ("clip", "max_grad_norm"):
            require(getattr(self, name) > 0, f"PPOConfig.{name}", "> 0", getattr(self, name))
        for name in ("value_clip", "target_kl", "value_coef"):
            require(getattr(self, name) >= 0, f"PPOConfig.{name}", ">= 0", getattr(self, name))
        require(self.learning_rate.lowest > 0, "PPOConfig.learning_rate", "> 0 throughout", self.learning_rate)
        require(0 <= self.gae_lambda <= 1, "PPOConfig.gae_lambda", "0..1", self.gae_lambda)
        whole = self.rollout_decisions % self.chunk_decisions == 0
        limit = f"a divisor of rollout_decisions ({self.rollout_decisions})"
        require(whole, "PPOConfig.chunk_decisions", limit, self.chunk_decisions)

    @property
    def chunks(self) -> int:
        """Training sequences in a team's rollout."""
        return self.rollout_decisions // self.chunk_decisions


@dataclass(frozen=True)
class CurriculumConfig:
    """How battles grow harder.

    Each tuple has one entry a stage, and its last entry stands for all later stages; an empty one leaves the setting
    of the run as it is. The next stage begins when the share of battles won against the scripted commander reaches
    `step_up`. A stage of another `difficulty`, `team_size` or `enemies` makes a new environment, the others act on the
    next battle of each place.
    """

    opponents: tuple[str, ...] = ("trivial", "easy", "normal", "hard")
    """Tiers of the scripted commander, for `--opponent curriculum`."""
    weapon_use: tuple[float, ...] = (1.0,)
    """Share of the decisions in which it may pull triggers."""
    difficulty: tuple[float, ...] = ()
    """Obstacle density of the maps, 0..1."""
    team_size: tuple[int, ...] = ()
    """Mechs of either team, the first of its roster."""
    enemies: tuple[int, ...] = ()
    """Mechs of the opponent alone, for a learner on one side."""
    step_up: float = 0.7
    """Win rate that ends a stage."""
    window: int = 200
    """Battles of a stage after which its win rate counts; older ones fade."""
    approach: Schedule = field(default_factory=Schedule)
    """Factor on the weight of the reward's approach term."""
    zone: Schedule = field(default_factory=Schedule)
    """The same for holding the zone."""
    fight: Schedule = field(default_factory=Schedule)
    """The same for damage, kills, assists and deaths."""
    terminal: Schedule = field(default_factory=Schedule)
    """The same for winning and losing."""
    team_mix: Schedule = field(default_factory=Schedule)
    """Factor on `RewardConfig.team_mix_alpha`: 1 leaves it, 0 pays every mech the mean of its team."""

    def __post_init__(self) -> None:
        require_finite(self)
        require(len(self.opponents) > 0, "CurriculumConfig.opponents", "tiers, one a stage", self.opponents)
        require(len(self.weapon_use) > 0, "CurriculumConfig.weapon_use", "shares, one a stage", self.weapon_use)
        for name in ("weapon_use", "difficulty"):
            for value in getattr(self, name):
                require(0 <= value <= 1, f"CurriculumConfig.{name}", "0..1", value)
        for name in ("team_size", "enemies"):
            for value in getattr(self, name):
                require(value >= 1, f"CurriculumConfig.{name}", ">= 1", value)
        require(0 < self.step_up <= 1, "CurriculumConfig.step_up", "in (0, 1]", self.step_up)
        require(self.window >= 1, "CurriculumConfig.window", ">= 1", self.window)
        require(self.team_mix.lowest >= 0, "CurriculumConfig.team_mix", ">= 0 throughout", self.team_mix)


@dataclass(frozen=True)
class EvalConfig:
    """Battles on held-out maps, against the same opponents all along a run."""

    every: int = 100
    """Iterations between evaluations; 0 for one before and one after the run only."""
    battles: int = 64
    """Battles against each opponent of the panel, half on either side."""
    final_battles: int = 200
    """The same for the evaluation that ends a run."""
    tiers: tuple[str, ...] = ("easy", "normal", "hard")
    """Scripted commanders on the panel; the best policy so far joins them."""
    compiled: bool = False
    """Compile the simulation for these battles too: it pays for hundreds of them."""

    def __post_init__(self) -> None:
        require(self.every >= 0, "EvalConfig.every", ">= 0", self.every)
        for name in ("battles", "final_battles"):
            count = getattr(self, name)
            require(count >= 2 and count % 2 == 0, f"EvalConfig.{name}", "even and >= 2", count)
        require(len(self.tiers) > 0, "EvalConfig.tiers", "at least one tier", self.tiers)


@dataclass(frozen=True)
class TrainConfig:
    """A training run: what is trained, against whom, for how long."""

    env: EnvConfig = field(default_factory=EnvConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    ppo: PPOConfig = field(default_factory=PPOConfig)
    curriculum: CurriculumConfig = field(default_factory=CurriculumConfig)
    evaluation: EvalConfig = field(default_factory=EvalConfig)
    num_envs: int = 4096
    """Battles side by side, of each process where `torchrun` starts several."""
    total_agent_steps: int = 2_000_000_000
    """Decisions of single mechs to learn from; training stops at the first iteration that reaches it."""
    max_minutes: float = 0.0
    """Minutes of collecting and learning after which the run ends too, its schedules with it; 0 for never."""
    opponent: str = CURRICULUM
    """curriculum: the tiers of `CurriculumConfig`; heuristic:TIER; self: the latest self; past: earlier selves;
    league:FOLDER: policies of a league, in `past_share` of the battles if that is given, with the tiers in the rest."""
    self_share: float = 0.0
    """Share of the battles fought against the latest self beside that opponent; the learner learns from both teams."""
    past_share: float = 0.0
    """Share of the battles fought against earlier selves."""
    past_blocks: int = 4
    """Earlier selves met at a time."""
    past_every: int = 50
    """Iterations after which the learner joins its earlier selves."""
    past_kept: int = 16
    """Earlier selves remembered."""
    league_every: int = 50
    """Iterations after which the learner enters its league as a candidate, is rated there and may be promoted."""
    league_seeds: int = 2
    """Seeds that a candidate fights against each of the league, from both sides."""
    side: Literal["both", "blue", "red"] = "both"
    """Teams the learner commands against others: blue in half of the battles and red in the rest, or one of them."""
    run_dir: str = "runs/{time}"
    """Folder of checkpoints and metrics; {time} becomes the start time."""
    resume: str = ""
    """A checkpoint folder to go on from, or latest: the newest of the run folder, or of the newest run."""
    seed: int = 0
    """Weights, actions, minibatches and battles follow from it."""
    device: str = "auto"
    """auto takes a GPU where there is one; else cpu, cuda or cuda:N."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """Dtype of the matrix products; auto takes bf16 where the chip multiplies them. Weights, distributions,
    advantages and losses are fp32."""
    compiled: bool = True
    """Compile the simulation with torch.compile: two to three minutes at the start, then about twice as fast."""
    compile_policy: Literal["off", "act", "all"] = "off"
    """Compile the network for acting, or for acting and learning."""
    deterministic: bool = False
    """The same numbers in every run on the same machine, where a GPU would choose faster sums."""
    logger: Literal["csv", "tensorboard", "wandb"] = "csv"
    """Who is told beside `metrics.csv`."""
    checkpoint_every: int = 50
    """Iterations between checkpoints."""
    keep_checkpoints: int = 5
    """The last so many stay, and the best by evaluation."""
    renew_maps_every: int = 0
    """Iterations after which fresh maps take the places of old ones, as many as `EnvConfig.map_spares`; 0 for never."""
    profile: str = ""
    """Profile an early iteration: write its trace into this file and print the costliest parts."""
    replay_battles: int = 0
    """Battles of the last evaluation to record into `evaluation.echelon` of the run folder."""

    def __post_init__(self) -> None:
        require_finite(self)
        self._check_seats()
        ppo = self.ppo
        sequences = self.num_envs * ppo.chunks
        limit = f"<= {sequences} (one sequence a team of the learner and chunk)"
        parts = ppo.minibatches * ppo.accumulate
        require(parts <= sequences, "PPOConfig.minibatches * PPOConfig.accumulate", limit, parts)
        require(0 <= self.seed < 2**31, "TrainConfig.seed", "0..2147483647", self.seed)
        require(self.max_minutes >= 0, "TrainConfig.max_minutes", ">= 0", self.max_minutes)
        for name in COUNTS:
            require(getattr(self, name) >= 1, f"TrainConfig.{name}", ">= 1", getattr(self, name))
        require(self.renew_maps_every >= 0, "TrainConfig.renew_maps_every", ">= 0", self.renew_maps_every)
        spares = self.renew_maps_every == 0 or self.env.map_spares > 0
        require(spares, "TrainConfig.env.map_spares", ">= 1 to renew maps", self.env.map_spares)
        few = 0 <= self.replay_battles <= self.evaluation.final_battles
        require(few, "TrainConfig.replay_battles", "0..EvalConfig.final_battles", self.replay_battles)

    def _check_seats(self) -> None:
        env = self.env
        same = len(env.blue) == len(env.red)
        require(same, "TrainConfig.env", "of equal team sizes (policies are judged on both sides)", (env.blue, env.red))
        both = self.side == "both" or self.self_battles > 0
        fewer = self.curriculum.enemies
        require(not (fewer and both), "CurriculumConfig.enemies", "empty where the learner plays both sides", fewer)
        require(self.num_envs >= 2 and self.num_envs % 2 == 0, "TrainConfig.num_envs", "even and >= 2", self.num_envs)
        for name in ("self_share", "past_share"):
            require(0 <= getattr(self, name) <= 1, f"TrainConfig.{name}", "0..1", getattr(self, name))
        require(self.self_share + self.past_share <= 1, "TrainConfig.self_share", "<= 1 - past_share", self.self_share)
        for name, battles, step in (
            ("self_share", self.self_battles, 2),
            ("past_share", self.past_battles, 2 * self.past_blocks),
        ):
            limit = f"a share of num_envs ({self.num_envs}) that is a multiple of {step} battles"
            require(battles % step == 0, f"TrainConfig.{name}", limit, f"{battles} battles")

    @property
    def self_battles(self) -> int:
        """Battles the learner fights against itself."""
        return round(self.num_envs * (1.0 - self.past_share if self.opponent == SELF else self.self_share))

    @property
    def past_battles(self) -> int:
        """Battles the learner fights against frozen policies: its earlier selves, or those of a league."""
        everywhere = self.opponent == PAST or (self.league != "" and self.past_share == 0)
        return round(self.num_envs * (1.0 - self.self_share if everywhere else self.past_share))

    @property
    def league(self) -> str:
        """Folder of the league whose policies it meets; empty without one."""
        return self.opponent.removeprefix(LEAGUE) if self.opponent.startswith(LEAGUE) else ""

    @property
    def scripted_battles(self) -> int:
        """Battles the learner fights against scripted commanders."""
        return self.num_envs - self.self_battles - self.past_battles

    @classmethod
    def quick(cls) -> TrainConfig:
        """A first look on two CPU cores, within minutes: 5v5, LSTM 64."""
        return cls(
            env=EnvConfig.small(),
            model=ModelConfig(
                hidden=64,
                contact_width=32,
                squad_width=16,
                comm_width=8,
                map_width=16,
                telemetry_width=8,
                body_width=64,
            ),
            ppo=PPOConfig(learning_rate=Schedule(2e-3, 1e-4)),
            num_envs=128,
            total_agent_steps=1_800_000,
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
