"""Configuration of training: network, PPO, curriculum, evaluation and run. For battles see `echelon.rules.config`."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated, Literal

import tyro

from echelon.agents.populations import held_out
from echelon.env.form import Backend
from echelon.learn.extra_rewards import parse_extra_rewards
from echelon.learn.models.lstm import LSTMConfig
from echelon.learn.models.registry import ModelConfig, model_with
from echelon.learn.schedules import Schedule
from echelon.rules.config import EnvConfig
from echelon.rules.limits import MOST_BATTLES
from echelon.runtime.errors import require
from echelon.runtime.limits import MANY, SHARE, Limits, check_settings
from echelon.runtime.renamed import accept_old_names

BATTLES = Limits(2, 10**6, "battles")
DECISIONS = Limits(1, 10**5, "decisions")
OPEN = Limits(1e-6, 1e12)
"""Greater than 0; a very large value disables the limit."""
FROM_ZERO = Limits(0, 1e12)
FASTEST = 100
"""Highest learning rate."""
MECHS = Limits(1, 20, "mechs")


SELF, PAST, CURRICULUM = "self", "past", "curriculum"
"""Values of `TrainConfig.opponent` that are neither a commander nor a league."""
Switch = Literal["auto", "off", "on"]
SWITCH = {"auto": None, "off": False, "on": True}
"""The bool of each `Switch`; None for auto."""
CPU_BATTLES = 256
"""Default of `num_envs` on a CPU, as in the measurements of `standard` in `docs/SWEEP.md`."""
LEAGUE = "league:"
"""Prefix of `TrainConfig.opponent` for opponents from a league, followed by its folder."""
JUDGES = "none from the test population (docs/PROTOCOL.md), which is for evaluation only, or --allow-test"


@dataclass(frozen=True)
class PPOConfig:
    """Proximal policy optimisation (Schulman et al. 2017) over sequences of decisions."""

    rollout_decisions: Annotated[int, DECISIONS] = 32
    """Number of decisions collected per iteration, T."""
    chunk_decisions: Annotated[int, DECISIONS] = 16
    """Length of a training sequence for truncated backpropagation through time; must divide T."""
    epochs: Annotated[int, Limits(1, 1000)] = 4
    """Number of passes over each rollout."""
    minibatches: Annotated[int, Limits(1, 10**6)] = 8
    """Number of minibatches per epoch."""
    accumulate: Annotated[int, Limits(0, 10**6)] = 0
    """Gradient accumulation: number of parts per minibatch; more parts use less memory. 0: one part on a GPU, and on a
    CPU parts that fit into its caches (`update.CPU_PART`)."""
    checkpoint_gradients: bool = False
    """Recompute the encoder in the backward pass (activation checkpointing); uses less memory and more time."""
    learning_rate: Schedule = field(default_factory=lambda: Schedule(1e-3, 1e-4))
    """Learning rate of Adam."""
    entropy_coef: Schedule = field(default_factory=lambda: Schedule(0.01, 0.003))
    """Weight of the entropy bonus; the entropy is averaged over the columns of the action."""
    clip: Annotated[float, OPEN] = 0.2
    """Clipping range of the probability ratio around 1."""
    value_clip: Annotated[float, FROM_ZERO] = 0.0
    """Clipping range of values around the rollout's values, in normalised units; 0 disables value clipping."""
    target_kl: Annotated[float, FROM_ZERO] = 0.03
    """Stop the epochs of an update when an epoch's mean KL divergence exceeds this; 0 disables early stopping."""
    gae_lambda: Annotated[float, SHARE] = 0.9
    """Lambda of generalised advantage estimation (Schulman et al. 2016). 0.97 lowers the win rate by 15 points, see
    `docs/SWEEP.md`."""
    value_coef: Annotated[float, FROM_ZERO] = 0.5
    """Weight of the value loss."""
    max_grad_norm: Annotated[float, OPEN] = 0.5
    """Maximum norm of the gradient."""
    advantages_by_class: bool = False
    """Normalise advantages within each class of mechs instead of over all mechs."""

    def __post_init__(self) -> None:
        check_settings(self)
        rate = self.learning_rate
        is_valid = rate.lowest > 0 and max(rate.first, rate.last) <= FASTEST
        require(is_valid, "PPOConfig.learning_rate", f"> 0 and <= {FASTEST} throughout", rate)
        is_divisible = self.rollout_decisions % self.chunk_decisions == 0
        limit = f"a divisor of rollout_decisions ({self.rollout_decisions})"
        require(is_divisible, "PPOConfig.chunk_decisions", limit, self.chunk_decisions)

    @property
    def chunks(self) -> int:
        """Number of training sequences per team and rollout."""
        return self.rollout_decisions // self.chunk_decisions


@accept_old_names("curriculum.")
@dataclass(frozen=True)
class CurriculumConfig:
    """Curriculum of increasing difficulty.

    Each tuple has one entry per stage; the last entry holds for all later stages. An empty tuple keeps the run's
    setting. The next stage starts when the win rate against the stage's commander reaches `advance_at_win_rate`. A new
    `difficulty`, `team_size` or `enemies` creates a new environment; other settings apply from the next battle.
    """

    opponents: tuple[str, ...] = ("easy", "normal", "hard", "expert")
    """Commanders for `--opponent curriculum`: scripted tiers, checkpoint folders, league:FOLDER/NAME, or
    package.module:Commander."""
    weapon_use: Annotated[tuple[float, ...], SHARE] = (1.0,)
    """Fraction of decisions in which the scripted commander may fire; must be 1 for other commanders."""
    difficulty: Annotated[tuple[float, ...], SHARE] = ()
    """Obstacle density of the maps, 0..1."""
    team_size: Annotated[tuple[int, ...], MECHS] = ()
    """Number of mechs per team, taken from the start of its roster."""
    enemies: Annotated[tuple[int, ...], MECHS] = ()
    """Number of mechs of the opponent only; requires a learner that plays one side."""
    map_sampling: Literal["uniform", "plr"] = "uniform"
    """How battles choose a map or an authored position. uniform: all equally often. plr: prioritised level replay,
    which prefers maps on which the learner wins only some battles (`echelon.learn.levels`)."""
    map_sampling_uniform: Annotated[float, SHARE] = 0.1
    """With plr: fraction of the battles that choose uniformly."""
    map_sampling_stale: Annotated[float, SHARE] = 0.1
    """With plr: fraction of the battles that prefer maps on which no battle has ended for long."""
    advance_at_win_rate: Annotated[float, Limits(1e-6, 1)] = 0.5
    """Win rate at which the next stage starts."""
    window: Annotated[int, MANY] = 200
    """Number of battles in a stage before its win rate is checked; older battles are discounted."""
    approach: Schedule = field(default_factory=Schedule)
    """Factor on the weight of the approach reward."""
    zone: Schedule = field(default_factory=Schedule)
    """Factor on the weight of the reward for holding the zone."""
    fight: Schedule = field(default_factory=Schedule)
    """Factor on the weights of the rewards for damage, kills, assists and deaths."""
    terminal: Schedule = field(default_factory=Schedule)
    """Factor on the weights of the rewards for winning and losing."""
    team_mix: Schedule = field(default_factory=Schedule)
    """Factor on `RewardConfig.team_mix_alpha`: 1 keeps it; with 0 every mech receives the team mean."""

    def __post_init__(self) -> None:
        check_settings(self)
        require(len(self.opponents) > 0, "CurriculumConfig.opponents", "one commander per stage", self.opponents)
        require(len(self.weapon_use) > 0, "CurriculumConfig.weapon_use", "one fraction per stage", self.weapon_use)
        require(self.team_mix.lowest >= 0, "CurriculumConfig.team_mix", ">= 0 throughout", self.team_mix)
        limit = f"<= 1 - map_sampling_stale ({1 - self.map_sampling_stale:g})"
        shares = self.map_sampling_uniform + self.map_sampling_stale
        require(shares <= 1, "CurriculumConfig.map_sampling_uniform", limit, self.map_sampling_uniform)


@dataclass(frozen=True)
class EvalConfig:
    """Evaluation on held-out maps against the same opponents throughout a run."""

    every: Annotated[int, Limits(0, MANY.high)] = 100
    """Number of iterations between evaluations; 0: only before and after the run."""
    battles: Annotated[int, BATTLES._replace(unit="battles, an even number")] = 64
    """Number of battles against each opponent of the panel; half of them on each side."""
    final_battles: Annotated[int, BATTLES._replace(unit="battles, an even number")] = 200
    """Number of battles against each opponent in the final evaluation."""
    pieces: Annotated[int, Limits(0, MANY.high, "battles")] = 0
    """Number of battles per set piece after the run; writes `pieces.json` and one bar per skill into the report. 0:
    none (`docs/SCENARIOS.md`)."""
    tiers: tuple[str, ...] = ("easy", "normal", "hard")
    """Commanders of the panel: scripted tiers, checkpoint folders, league:FOLDER/NAME, or package.module:Commander. The
    best policy so far is added."""
    video: Annotated[int, Limits(0, 64, "battles")] = 0
    """Number of battles of each evaluation, against the last commander of `tiers`, to write as MP4 videos into the
    folder `videos` of the run folder. Needs `pip install 'echelon-marl[export]'`."""
    compiled: Switch = "auto"
    """Compile the networks for evaluation and, on a GPU, the simulation and the scripted commanders. auto: on a GPU, if
    the run is compiled and at least 1,024 battles run in parallel. Fewer battles use CUDA graphs if the run does."""

    def __post_init__(self) -> None:
        check_settings(self)
        for name in ("battles", "final_battles"):
            count = getattr(self, name)
            require(count % 2 == 0, f"EvalConfig.{name}", "even and >= 2", count)
            require(self.video <= count, "EvalConfig.video", f"at most {name} ({count})", self.video)
        require(len(self.tiers) > 0, "EvalConfig.tiers", "at least one commander", self.tiers)


@dataclass(frozen=True)
class WandbConfig:
    """Settings of the Weights & Biases run that `--logger wandb` creates. Environment variables set all others, for
    example WANDB_ENTITY and WANDB_MODE=offline.
    """

    project: str = "echelon"
    """Project of the run."""
    name: str = ""
    """Name of the run; empty: the name of the run folder."""
    group: str = ""
    """Group of the run, such as the runs of several seeds; empty: none."""
    tags: tuple[str, ...] = ()
    """Tags of the run."""


@accept_old_names()
@dataclass(frozen=True)
class TrainConfig:
    """Configuration of a training run."""

    env: EnvConfig = field(default_factory=EnvConfig)
    model: ModelConfig = field(default_factory=LSTMConfig)
    ppo: PPOConfig = field(default_factory=PPOConfig)
    curriculum: CurriculumConfig = field(default_factory=CurriculumConfig)
    evaluation: EvalConfig = field(default_factory=EvalConfig)
    extra_rewards: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(name="extra-reward")] = ()
    """Custom reward term: package.module:function=WEIGHT, or =FIRST..LAST for a weight that changes
    linearly over the run. The function takes (before, after, ending, sim_model) as in `echelon.env.reward`, and its
    name becomes the term's name. The module is imported, also from the current folder."""
    num_envs: Annotated[int, Limits(0, MOST_BATTLES, "battles, an even number")] = 0
    """Number of parallel battles, per process with `torchrun`. 0: on a GPU as many as fit into its free memory, at most
    1,024; on a CPU 256."""
    total_agent_steps: Annotated[int, Limits(1, 10**18)] = 2_000_000_000
    """Length of the run in decisions of single mechs; the run ends with the first iteration that reaches it."""
    max_minutes: Annotated[float, Limits(0, 1e9)] = 0.0
    """Time limit in minutes of collecting and learning; schedules follow it too. 0: no limit."""
    opponent: str = CURRICULUM
    """Opponent: heuristic:TIER, trained:NAME, a checkpoint folder (frozen policy), or package.module:Commander, your
    own class, built with the battle's config. Or several opponents: curriculum: the commanders of `CurriculumConfig`;
    self: the current policy; past: earlier snapshots; league:FOLDER: policies of a league. If
    `snapshot_opponent_share` > 0, a league plays only that share of the battles, and the curriculum plays the rest."""
    self_share: Annotated[float, SHARE] = 0.0
    """Fraction of the battles that are self-play; the learner learns from both teams."""
    snapshot_opponent_share: Annotated[float, SHARE] = 0.0
    """Fraction of the battles against frozen policies: earlier snapshots or policies of the league."""
    past_blocks: Annotated[int, Limits(1, 4096)] = 8
    """Number of blocks of battles against frozen policies. Blocks times `past_slots` frozen policies play at a time."""
    past_slots: Annotated[int, Limits(2, 16)] = 2
    """Number of frozen policies per block, at least 2. Each costs a forward pass over all battles of the block. One of
    them may be finishing its last battles before it is replaced."""
    past_every: Annotated[int, MANY] = 50
    """Number of iterations between snapshots of the learner."""
    past_kept: Annotated[int, Limits(1, 10**4, "snapshots")] = 16
    """Number of snapshots in the opponent pool; the oldest is dropped."""
    league_every: Annotated[int, MANY] = 50
    """Number of iterations after which the learner enters its league as a candidate, to be rated and possibly
    promoted."""
    league_seeds: Annotated[int, BATTLES._replace(low=1, unit="seeds")] = 2
    """Number of seeds of a candidate's matches against each league entry; each seed is played from both sides."""
    side: Literal["both", "blue", "red"] = "both"
    """Team of the learner: both (blue in half of the battles, red in the others), blue, or red."""
    run_dir: str = "runs/{time}"
    """Folder of checkpoints and metrics. {time} becomes the start time; -2, -3, ... is appended if that folder
    exists."""
    init_from: str = ""
    """Initial policy of a new run: trained:NAME, a checkpoint or run folder, or league:FOLDER/NAME, with the same
    network. Optimiser, counters and curriculum start anew."""
    resume: str = ""
    """Checkpoint folder to resume from; or latest: the newest checkpoint of the run folder, or of the newest run; or
    auto: latest if --run-dir contains a run, else a new run (for jobs that are restarted)."""
    seed: Annotated[int, Limits(0, 2**31 - 1)] = 0
    """Seed of weights, actions, minibatches and battles."""
    device: str = "auto"
    """auto (a GPU if there is one), cpu, cuda or cuda:N."""
    threads: Annotated[int, Limits(0, 1024)] = 0
    """Number of CPU threads for battles and minibatches; affects only the speed. 0: the number that measures fastest,
    at most torch's."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """Dtype of matrix products; auto selects bf16 on devices with native support. Weights, distributions, advantages
    and losses are fp32."""
    backend: Backend = "auto"
    """How the simulation runs: loops (CPU only), graph (torch.compile) or eager (operation by operation). auto: the
    environment variable ECHELON_BACKEND if set, else loops on a CPU with numba, and graph on a GPU."""
    compile_policy: Literal["auto", "off", "act", "all"] = "auto"
    """Use of torch.compile. act: compile the network for decisions, and on a GPU the commanders; all: also the loss of
    a minibatch. auto: all on a GPU for Echelon's models, else off."""
    cuda_graphs: Switch = "auto"
    """Capture decisions and learning steps as CUDA graphs. auto: on a GPU, for Echelon's models without custom reward
    terms; on: also with custom terms, which must be pure tensor functions. ECHELON_CUDA_GRAPHS=off in the environment
    overrides this setting."""
    deterministic: bool = False
    """Use deterministic algorithms: runs on the same machine are identical; slower on a GPU."""
    logger: Literal["csv", "tensorboard", "wandb"] = "csv"
    """Logger in addition to `metrics.csv`; csv: none. For others see `echelon.learn.callbacks.loggers`."""
    wandb: WandbConfig = field(default_factory=WandbConfig)
    checkpoint_every: Annotated[int, MANY] = 50
    """Number of iterations between checkpoints."""
    keep_checkpoints: Annotated[int, MANY] = 5
    """Number of latest checkpoints to keep; the best one by evaluation is kept too."""
    allow_test: bool = False
    """Allow training in split test or against the test population; the checkpoint's provenance records it
    (`docs/TRAINING.md`)."""
    renew_maps_every: Annotated[int, Limits(0, MANY.high)] = 0
    """Number of iterations after which `EnvConfig.map_spares` maps are replaced by new ones; 0: never."""
    callbacks: tuple[str, ...] = ()
    """Custom callbacks, each package.module:Callback; see `echelon.learn.callbacks.base`."""
    profile: str = ""
    """Profile an early iteration: write the trace into this file and print the most expensive parts."""
    dashboard: bool = False
    """Serve a web page on this machine that shows the run's first battle of the last iteration, and print its address.
    The run itself does not change. Needs `pip install 'echelon-marl[play]'`."""
    dashboard_port: Annotated[int, Limits(0, 65535)] = 0
    """Port of the --dashboard page; 0: any free port."""
    dashboard_host: tuple[str, ...] = ()
    """Hosts of the --dashboard page: an address to listen on instead of 127.0.0.1, such as 0.0.0.0 in a container, and
    names by which browsers on other machines reach it. Anyone with access and the token can watch."""
    replay_battles: Annotated[int, Limits(0, BATTLES.high)] = 0
    """Number of battles of the final evaluation to record in `evaluation.echelon` of the run folder; earlier
    evaluations record one, or `EvalConfig.video`. `report.html` shows them. Each recording takes some seconds on a
    CPU."""

    def __post_init__(self) -> None:
        check_settings(self)
        if self.num_envs == 0:
            # Validate now, with the default number of battles of a CPU, instead of after the device is known.
            replace(self, num_envs=CPU_BATTLES)
            return
        may = self.env.split != "test" or self.allow_test
        require(may, "--split", "train or validation: test is for evaluation only, unless --allow-test", self.env.split)
        opponents = (self.opponent, *self.curriculum.opponents, *self.evaluation.tiers)
        held_out_names = [] if self.allow_test else [name for name in opponents if held_out(name)]
        require(not held_out_names, "opponents of a training", JUDGES, ", ".join(held_out_names))
        require(self.run_dir != "", "TrainConfig.run_dir", "a folder", self.run_dir)
        require(self.opponent not in ("", LEAGUE), "TrainConfig.opponent", "a commander, or several", self.opponent)
        self._check_battles()
        parse_extra_rewards(self.extra_rewards)
        ppo = self.ppo
        sequences = self.num_envs * ppo.chunks
        limit = f"<= {sequences} (number of learner teams times chunks)"
        chunks = ppo.minibatches * max(ppo.accumulate, 1)
        require(chunks <= sequences, "PPOConfig.minibatches * PPOConfig.accumulate", limit, chunks)
        spares = self.renew_maps_every == 0 or self.env.map_spares > 0
        require(spares, "TrainConfig.env.map_spares", ">= 1 to renew maps", self.env.map_spares)
        is_within = 0 <= self.replay_battles <= self.evaluation.final_battles
        require(is_within, "TrainConfig.replay_battles", "0..EvalConfig.final_battles", self.replay_battles)

    def _check_battles(self) -> None:
        both = self.side == "both" or self.self_battles > 0
        fewer = self.curriculum.enemies
        for name in ("difficulty", "team_size", "enemies") if self.env.positions else ():
            value = getattr(self.curriculum, name)
            require(value == (), f"CurriculumConfig.{name}", "empty, because the scenario defines it", value)
        require(not (fewer and both), "CurriculumConfig.enemies", "empty if the learner plays both sides", fewer)
        judged = self.curriculum.map_sampling == "uniform" or self.self_battles < self.num_envs
        limit = "uniform in pure self-play, because its win rate is one half on every map"
        require(judged, "CurriculumConfig.map_sampling", limit, self.curriculum.map_sampling)
        require(self.num_envs % 2 == 0, "TrainConfig.num_envs", "even and >= 2", self.num_envs)
        require(
            self.self_share + self.snapshot_opponent_share <= 1,
            "TrainConfig.self_share",
            "<= 1 - snapshot_opponent_share",
            self.self_share,
        )
        for name, battles, step, suffix in (
            ("self_share", self.self_battles, 2, ""),
            ("snapshot_opponent_share", self.past_battles, 2 * self.past_blocks, " (2 * past_blocks)"),
        ):
            limit = f"a share of num_envs ({self.num_envs}) that is a multiple of {step}{suffix} battles"
            require(battles % step == 0, f"TrainConfig.{name}", limit, f"{battles} battles")

    @property
    def self_battles(self) -> int:
        """Number of self-play battles."""
        return round(self.num_envs * (1.0 - self.snapshot_opponent_share if self.opponent == SELF else self.self_share))

    @property
    def past_battles(self) -> int:
        """Number of battles against frozen policies: earlier snapshots or policies of a league."""
        is_only = self.opponent == PAST or (self.league != "" and self.snapshot_opponent_share == 0)
        return round(self.num_envs * (1.0 - self.self_share if is_only else self.snapshot_opponent_share))

    @property
    def league(self) -> str:
        """Folder of the opponents' league; empty without a league."""
        return self.opponent.removeprefix(LEAGUE) if self.opponent.startswith(LEAGUE) else ""

    @property
    def scripted_battles(self) -> int:
        """Number of battles against named commanders, such as scripted ones."""
        return self.num_envs - self.self_battles - self.past_battles

    @property
    def steps_an_iteration(self) -> int:
        """Number of the learner's mech decisions per iteration, given `num_envs` and no self-play."""
        # With side "both", the learner commands each team in half of the battles, so `num_envs` is even.
        blue, red = self.env.blue, self.env.red
        teams = {"both": (blue, red), "blue": (blue, blue), "red": (red, red)}[self.side]
        return self.num_envs // 2 * sum(map(len, teams)) * self.ppo.rollout_decisions

    @classmethod
    def quick(cls) -> TrainConfig:
        """Preset for 5v5 with an LSTM of width 64; trains within minutes on two CPU cores."""
        return cls(
            env=EnvConfig.small(),
            model=LSTMConfig(
                hidden=64,
                contact_width=32,
                squad_width=16,
                comm_width=8,
                map_width=16,
                telemetry_width=8,
                body_width=64,
                critic="central",
            ),
            ppo=PPOConfig(learning_rate=Schedule(2e-3, 1e-4)),
            num_envs=128,
            total_agent_steps=1_800_000,
        )

    @classmethod
    def quick_gru(cls) -> TrainConfig:
        """Preset like `quick`, with a GRU of the same width instead of the LSTM."""
        config = cls.quick()
        return replace(config, model=model_with("gru", config.model))

    @classmethod
    def standard(cls) -> TrainConfig:
        """Preset for 10v10 with an LSTM of width 128, for one GPU."""
        return cls(model=LSTMConfig(critic="central"))

    @classmethod
    def large(cls) -> TrainConfig:
        """Preset for 10v10 on the large map, for one GPU."""
        return replace(cls.standard(), env=EnvConfig.large())


TRAIN_PRESETS = {
    "quick": TrainConfig.quick,
    "quick-gru": TrainConfig.quick_gru,
    "standard": TrainConfig.standard,
    "large": TrainConfig.large,
}
