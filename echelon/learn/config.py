"""Training configuration: network, PPO, curriculum, evaluation, run. For battles see `echelon.rules.config`."""

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

BATTLES = Limits(2, 10**6, "battles")
DECISIONS = Limits(1, 10**5, "decisions")
OPEN = Limits(1e-6, 1e12)
"""Greater than 0; a huge one switches off what it bounds."""
FROM_ZERO = Limits(0, 1e12)
FASTEST = 100
"""Highest learning rate."""
MECHS = Limits(1, 20, "mechs")


SELF, PAST, CURRICULUM = "self", "past", "curriculum"
"""Values of `TrainConfig.opponent` other than the name of a commander and a league."""
Switch = Literal["auto", "off", "on"]
SWITCH = {"auto": None, "off": False, "on": True}
"""What a `Switch` is where it is no text."""
CPU_BATTLES = 256
"""Battles on a CPU where `TrainConfig.num_envs` is 0: what `docs/SWEEP.md` judges `standard` by."""
LEAGUE = "league:"
JUDGES = "others than the test population's (docs/PROTOCOL.md): those are to be judged by, unless --allow-test"
"""Prefix of `TrainConfig.opponent` for opponents from a league, followed by its folder."""


@dataclass(frozen=True)
class PPOConfig:
    """Proximal policy optimisation (Schulman et al. 2017) over sequences of decisions."""

    rollout_decisions: Annotated[int, DECISIONS] = 32
    """Decisions collected per iteration, T."""
    chunk_decisions: Annotated[int, DECISIONS] = 16
    """Length of a training sequence for truncated backpropagation through time, a divisor of T."""
    epochs: Annotated[int, Limits(1, 1000)] = 4
    minibatches: Annotated[int, Limits(1, 10**6)] = 8
    accumulate: Annotated[int, Limits(0, 10**6)] = 0
    """Gradient accumulation: number of parts a minibatch is computed in, for less memory. 0: one, and on a CPU as many
    as its caches ask for (`update.CPU_PART`)."""
    checkpoint_gradients: bool = False
    """Recompute the encoder in the backward pass (activation checkpointing): less memory, more time."""
    learning_rate: Schedule = field(default_factory=lambda: Schedule(1e-3, 1e-4))
    entropy_coef: Schedule = field(default_factory=lambda: Schedule(0.01, 0.003))
    """Weight of the entropy bonus; the entropy is a mean over the columns of an action."""
    clip: Annotated[float, OPEN] = 0.2
    value_clip: Annotated[float, FROM_ZERO] = 0.0
    """Value clipping: range around the values of the rollout, in normalised units; 0 for none."""
    target_kl: Annotated[float, FROM_ZERO] = 0.03
    """Early stopping: no further epochs once the mean KL divergence of an epoch exceeds this; 0 for never."""
    gae_lambda: Annotated[float, SHARE] = 0.9
    """Decay of the exponential average of advantages (Schulman et al. 2016). 0.97 wins 15 points less, see
    `docs/SWEEP.md`."""
    value_coef: Annotated[float, FROM_ZERO] = 0.5
    max_grad_norm: Annotated[float, OPEN] = 0.5
    advantages_by_class: bool = False
    """Normalise advantages within each class of mechs instead of over all."""

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


@dataclass(frozen=True)
class CurriculumConfig:
    """Curriculum of increasing difficulty.

    Each tuple has one entry per stage, the last one for all later stages; an empty tuple leaves the setting of the run
    unchanged. The next stage begins when the share of battles won against the stage's commander reaches `step_up`. A
    stage of another `difficulty`, `team_size` or `enemies` makes a new environment, other settings apply from the next
    battle on.
    """

    opponents: tuple[str, ...] = ("easy", "normal", "hard", "expert")
    """Commanders for `--opponent curriculum`: tiers of the scripted one, checkpoint folders, league:FOLDER/NAME, or
    package.module:Commander."""
    weapon_use: Annotated[tuple[float, ...], SHARE] = (1.0,)
    """Share of the decisions in which the scripted commander may fire; 1 where the commander is another."""
    difficulty: Annotated[tuple[float, ...], SHARE] = ()
    """Obstacle density of the maps, 0..1."""
    team_size: Annotated[tuple[int, ...], MECHS] = ()
    """Number of mechs of either team, taken from the start of its roster."""
    enemies: Annotated[tuple[int, ...], MECHS] = ()
    """Number of mechs of the opponent only, for a learner that plays one side."""
    levels: Literal["uniform", "plr"] = "uniform"
    """Maps, or positions of scenarios, that battles begin on. uniform: all alike. plr: prioritised level replay, more
    often those on which the learner wins some battles and not others (`echelon.learn.levels`)."""
    levels_uniform: Annotated[float, SHARE] = 0.1
    """Share of the battles that plr begins on any map, all alike."""
    levels_stale: Annotated[float, SHARE] = 0.1
    """Share of the battles that plr begins on maps by how long no battle has ended there."""
    step_up: Annotated[float, Limits(1e-6, 1)] = 0.5
    """Win rate that ends a stage."""
    window: Annotated[int, MANY] = 200
    """Battles of a stage before its win rate is compared; older ones are discounted."""
    approach: Schedule = field(default_factory=Schedule)
    """Factor on the weight of the reward's approach term."""
    zone: Schedule = field(default_factory=Schedule)
    """Factor on the weight of holding the zone."""
    fight: Schedule = field(default_factory=Schedule)
    """Factor on the weights of damage, kills, assists and deaths."""
    terminal: Schedule = field(default_factory=Schedule)
    """Factor on the weights of winning and losing."""
    team_mix: Schedule = field(default_factory=Schedule)
    """Factor on `RewardConfig.team_mix_alpha`: 1 leaves it unchanged, with 0 every mech gets the team mean."""

    def __post_init__(self) -> None:
        check_settings(self)
        require(len(self.opponents) > 0, "CurriculumConfig.opponents", "commanders, one a stage", self.opponents)
        require(len(self.weapon_use) > 0, "CurriculumConfig.weapon_use", "shares, one a stage", self.weapon_use)
        require(self.team_mix.lowest >= 0, "CurriculumConfig.team_mix", ">= 0 throughout", self.team_mix)
        limit = f"<= 1 - levels_stale ({1 - self.levels_stale:g})"
        shares = self.levels_uniform + self.levels_stale
        require(shares <= 1, "CurriculumConfig.levels_uniform", limit, self.levels_uniform)


@dataclass(frozen=True)
class EvalConfig:
    """Evaluation on held-out maps, against the same opponents throughout a run."""

    every: Annotated[int, Limits(0, MANY.high)] = 100
    """Iterations between evaluations; 0 for one before and one after the run only."""
    battles: Annotated[int, BATTLES._replace(unit="battles, an even number")] = 64
    """Battles against each opponent of the panel, half on either side."""
    final_battles: Annotated[int, BATTLES._replace(unit="battles, an even number")] = 200
    """Battles against each opponent in the final evaluation."""
    pieces: Annotated[int, Limits(0, MANY.high, "battles")] = 0
    """Battles of each set piece after the run, which write `pieces.json` and a bar a skill into the report; 0 for
    none (`docs/SCENARIOS.md`)."""
    tiers: tuple[str, ...] = ("easy", "normal", "hard")
    """Commanders of the panel: tiers of the scripted one, checkpoint folders, league:FOLDER/NAME, or
    package.module:Commander. The best policy so far is added to them."""
    compiled: Switch = "auto"
    """Compile networks for evaluation too, and on a GPU simulation and scripted commanders. auto: on a GPU, where the
    run is compiled and 1,024 battles or more are fought at once; fewer repeat captured operations, if `cuda_graphs`
    captures those of the run."""

    def __post_init__(self) -> None:
        check_settings(self)
        for name in ("battles", "final_battles"):
            count = getattr(self, name)
            require(count % 2 == 0, f"EvalConfig.{name}", "even and >= 2", count)
        require(len(self.tiers) > 0, "EvalConfig.tiers", "at least one commander", self.tiers)


@dataclass(frozen=True)
class TrainConfig:
    """Configuration of a training run."""

    env: EnvConfig = field(default_factory=EnvConfig)
    model: ModelConfig = field(default_factory=LSTMConfig)
    ppo: PPOConfig = field(default_factory=PPOConfig)
    curriculum: CurriculumConfig = field(default_factory=CurriculumConfig)
    evaluation: EvalConfig = field(default_factory=EvalConfig)
    extra_rewards: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(name="extra-reward")] = ()
    """Reward term of your own, a function of (before, after, ending, sim_model) as in `echelon.env.reward`:
    package.module:function=WEIGHT, or =FIRST..LAST for a weight that changes linearly over the run; repeatable. The
    function's name is the term's. The module is imported, from the current folder too."""
    num_envs: Annotated[int, Limits(0, MOST_BATTLES, "battles, an even number")] = 0
    """Number of parallel battles, per process if `torchrun` starts several. 0: what fits into the free memory of a GPU,
    at most 1,024; 256 on a CPU."""
    total_agent_steps: Annotated[int, Limits(1, 10**18)] = 2_000_000_000
    """Length of the run in decisions of single mechs; it stops at the first iteration that reaches this."""
    max_minutes: Annotated[float, Limits(0, 1e9)] = 0.0
    """Limit of the run in minutes of collecting and learning, which schedules follow too; 0 for none."""
    opponent: str = CURRICULUM
    """One commander: heuristic:TIER, trained:NAME or a checkpoint folder (that policy, frozen), or
    package.module:Commander, a class of your own that is built with the battle's config. Or several: curriculum: the
    commanders of `CurriculumConfig`; self: the current policy; past: earlier snapshots; league:FOLDER: policies of a
    league, in `past_share` of the battles if that is > 0 and the curriculum's commanders in the rest."""
    self_share: Annotated[float, SHARE] = 0.0
    """Share of the battles that are self-play, where the learner learns from both teams."""
    past_share: Annotated[float, SHARE] = 0.0
    """Share of the battles against frozen policies: earlier snapshots, or policies of the league."""
    past_blocks: Annotated[int, Limits(1, 4096)] = 8
    """Blocks of these battles. With `past_slots` it makes the number of different frozen policies at a time."""
    past_slots: Annotated[int, Limits(2, 16)] = 2
    """Frozen policies a block, at least 2; each costs a forward pass of all its battles. One of them may be waiting for
    the end of its last battle, to be replaced by another."""
    past_every: Annotated[int, MANY] = 50
    """Iterations between snapshots of the learner."""
    past_kept: Annotated[int, Limits(1, 10**4, "snapshots")] = 16
    """Number of snapshots in the pool; the oldest is dropped."""
    league_every: Annotated[int, MANY] = 50
    """Iterations between entries of the learner into its league as a candidate, to be rated and possibly promoted."""
    league_seeds: Annotated[int, BATTLES._replace(low=1, unit="seeds")] = 2
    """Seeds of a candidate's matches against each entry of the league; each is played from both sides."""
    side: Literal["both", "blue", "red"] = "both"
    """Team of the learner: blue in half of the battles and red in the rest, or always the same."""
    run_dir: str = "runs/{time}"
    """Folder of checkpoints and metrics; {time} becomes the start time, followed by -2, -3, ... where the folder is
    taken."""
    init: str = ""
    """Trained policy with whose weights a new run begins: trained:NAME, a checkpoint or run folder, or
    league:FOLDER/NAME, of the same network. Its optimiser, counters and curriculum are new."""
    resume: str = ""
    """Checkpoint folder to resume from, or latest: the newest of the run folder, or of the newest run; or auto: latest
    where --run-dir has a run, else a new one, for jobs that are started again."""
    seed: Annotated[int, Limits(0, 2**31 - 1)] = 0
    """Seed of weights, actions, minibatches and battles."""
    device: str = "auto"
    """auto (a GPU if there is one), cpu, cuda or cuda:N."""
    threads: Annotated[int, Limits(0, 1024)] = 0
    """Threads of a CPU that share battles and minibatches; nothing but time depends on it. 0: as many as measure
    fastest, those of torch at most."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """Dtype of the matrix products; auto selects bf16 if the device has native support. Weights, distributions,
    advantages and losses are fp32."""
    backend: Backend = "auto"
    """How the simulation runs: loops on a CPU, graph (through torch.compile), or eager (operation by operation). auto:
    what the environment variable ECHELON_BACKEND names, else loops on a CPU with numba and graph on a GPU."""
    compile_policy: Literal["auto", "off", "act", "all"] = "auto"
    """What torch.compile makes one graph of: act, the network of a decision, and on a GPU the commanders; all, that and
    the loss of a minibatch. auto: all on a GPU, for a model of Echelon's; else off."""
    cuda_graphs: Switch = "auto"
    """Capture a decision, and a step of learning, as a CUDA graph and replay it. auto: on a GPU, for a model of
    Echelon's and without reward terms of your own; on: with these too, which must then be functions of tensors. The
    environment variable ECHELON_CUDA_GRAPHS=off means off, whatever is said here."""
    deterministic: bool = False
    """Use deterministic algorithms, for identical runs on the same machine; slower on a GPU."""
    logger: Literal["csv", "tensorboard", "wandb"] = "csv"
    """Logger in addition to `metrics.csv`; csv for none."""
    checkpoint_every: Annotated[int, MANY] = 50
    """Iterations between checkpoints."""
    keep_checkpoints: Annotated[int, MANY] = 5
    """Number of latest checkpoints to keep; the best by evaluation is kept too."""
    allow_test: bool = False
    """Train in split test, or against a commander of the test population, all the same; the weights say so ever after
    (`docs/TRAINING.md`)."""
    renew_maps_every: Annotated[int, Limits(0, MANY.high)] = 0
    """Iterations between replacements of `EnvConfig.map_spares` maps by new ones; 0 for never."""
    callbacks: tuple[str, ...] = ()
    """Callbacks of your own, package.module:Callback each; see `echelon.learn.callbacks.base`."""
    profile: str = ""
    """Profile an early iteration: write its trace into this file and print the costliest parts."""
    live: bool = False
    """Serve a page of this machine on which the run's first battle can be watched, as it was played in the last
    iteration; its address is printed. It changes nothing. Needs `pip install 'echelon-marl[play]'`."""
    live_port: Annotated[int, Limits(0, 65535)] = 0
    """Of that page; 0: one that is free."""
    live_host: tuple[str, ...] = ()
    """Of that page: an address to listen on in place of 127.0.0.1, such as 0.0.0.0 in a container, and names by which a
    browser reaches it from elsewhere. Whoever reaches it and knows the token may watch."""
    replay_battles: Annotated[int, Limits(0, BATTLES.high)] = 0
    """Battles of the last evaluation to record into `evaluation.echelon` of the run folder, and one of each before it;
    `report.html` shows it. Each takes seconds more on a CPU."""

    def __post_init__(self) -> None:
        check_settings(self)
        if self.num_envs == 0:
            # What no usual number of battles fits is refused at once, and not when the device is known.
            replace(self, num_envs=CPU_BATTLES)
            return
        may = self.env.split != "test" or self.allow_test
        require(may, "--split", "train or validation: test is to be judged on, unless --allow-test", self.env.split)
        opponents = (self.opponent, *self.curriculum.opponents, *self.evaluation.tiers)
        held_out_names = [] if self.allow_test else [name for name in opponents if held_out(name)]
        require(not held_out_names, "opponents of a training", JUDGES, ", ".join(held_out_names))
        require(self.run_dir != "", "TrainConfig.run_dir", "a folder", self.run_dir)
        require(self.opponent not in ("", LEAGUE), "TrainConfig.opponent", "a commander, or several", self.opponent)
        self._check_battles()
        parse_extra_rewards(self.extra_rewards)
        ppo = self.ppo
        sequences = self.num_envs * ppo.chunks
        limit = f"<= {sequences} (one sequence a team of the learner and chunk)"
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
            require(value == (), f"CurriculumConfig.{name}", "empty where a scenario says it", value)
        require(not (fewer and both), "CurriculumConfig.enemies", "empty where the learner plays both sides", fewer)
        judged = self.curriculum.levels == "uniform" or self.self_battles < self.num_envs
        limit = "uniform where the learner meets itself alone, which wins half of its battles on any map"
        require(judged, "CurriculumConfig.levels", limit, self.curriculum.levels)
        require(self.num_envs % 2 == 0, "TrainConfig.num_envs", "even and >= 2", self.num_envs)
        require(self.self_share + self.past_share <= 1, "TrainConfig.self_share", "<= 1 - past_share", self.self_share)
        for name, battles, step, suffix in (
            ("self_share", self.self_battles, 2, ""),
            ("past_share", self.past_battles, 2 * self.past_blocks, " (2 * past_blocks)"),
        ):
            limit = f"a share of num_envs ({self.num_envs}) that is a multiple of {step}{suffix} battles"
            require(battles % step == 0, f"TrainConfig.{name}", limit, f"{battles} battles")

    @property
    def self_battles(self) -> int:
        """Number of self-play battles."""
        return round(self.num_envs * (1.0 - self.past_share if self.opponent == SELF else self.self_share))

    @property
    def past_battles(self) -> int:
        """Number of battles against frozen policies: earlier snapshots, or those of a league."""
        is_only = self.opponent == PAST or (self.league != "" and self.past_share == 0)
        return round(self.num_envs * (1.0 - self.self_share if is_only else self.past_share))

    @property
    def league(self) -> str:
        """Folder of the opponents' league; empty without one."""
        return self.opponent.removeprefix(LEAGUE) if self.opponent.startswith(LEAGUE) else ""

    @property
    def scripted_battles(self) -> int:
        """Number of battles against named commanders, such as the scripted ones."""
        return self.num_envs - self.self_battles - self.past_battles

    @property
    def steps_an_iteration(self) -> int:
        """Decisions of the learner's mechs in an iteration of a definite `num_envs`, where it meets others alone."""
        # With both, it commands either team in half of the battles, which are even in number.
        blue, red = self.env.blue, self.env.red
        teams = {"both": (blue, red), "blue": (blue, blue), "red": (red, red)}[self.side]
        return self.num_envs // 2 * sum(map(len, teams)) * self.ppo.rollout_decisions

    @classmethod
    def quick(cls) -> TrainConfig:
        """5v5, LSTM 64: trains within minutes on two CPU cores."""
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
        """`quick` with gated recurrent units in place of the LSTM, as many."""
        config = cls.quick()
        return replace(config, model=model_with("gru", config.model))

    @classmethod
    def standard(cls) -> TrainConfig:
        """10v10, LSTM 128, for one GPU."""
        return cls(model=LSTMConfig(critic="central"))

    @classmethod
    def large(cls) -> TrainConfig:
        """10v10 on the large map, for one GPU."""
        return replace(cls.standard(), env=EnvConfig.large())


TRAIN_PRESETS = {
    "quick": TrainConfig.quick,
    "quick-gru": TrainConfig.quick_gru,
    "standard": TrainConfig.standard,
    "large": TrainConfig.large,
}
