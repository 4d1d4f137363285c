"""`evaluate`: measures a policy on a task. Training, leagues and the command `evaluate` use it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torchrl.envs import EnvBase

from echelon.agents.team_policy import TeamPolicy, is_policy
from echelon.arena.batch_arena import BatchArena, BatchResult, StepSink
from echelon.arena.config import ArenaConfig, Precision
from echelon.arena.match import Result, battle_seeds, play_match
from echelon.arena.pack_commanders import with_orders
from echelon.arena.ray_arena import make_arena
from echelon.arena.resolve import POLICY, Commander, Contender, contender, place_of, policies_of
from echelon.command.pack_policy import PackPolicy
from echelon.env.arguments import one_seed, whole_within
from echelon.env.tasks.task import BATTLES, Task, find_task
from echelon.learn.checkpoint.provenance import SELF, UNKNOWN, Provenance, weight_hash
from echelon.learn.models.actor_critic import ActorCritic
from echelon.replay.recorder import Recorder
from echelon.rules.config import EnvConfig, Split
from echelon.rules.scenario import Scenario
from echelon.rules.versions import current_versions
from echelon.runtime.errors import require
from echelon.runtime.limits import path_text
from echelon.runtime.ray_tasks import RayTasks
from echelon.runtime.version import VERSION
from echelon.scenarios.piece import PIECES
from echelon.world.splits import placed_seed

Watch = Callable[[Iterator[BatchResult], int, BatchArena], Iterable[BatchResult]]
"""Wraps the iterator of batch results, for example in a progress bar; receives the number of battles and the arena."""


@dataclass(frozen=True)
class Evaluation:
    """Results of a policy on a task, by opponent."""

    task: str
    """Name of the task."""
    fingerprint: str
    """`Task.fingerprint`."""
    policy: str
    """Name of the policy; `policy` for a policy object."""
    results: Mapping[str, Result]
    """Results by opponent name; in each, X is the policy."""
    seeds: tuple[int, ...]
    """Seeds of the battles; each was played once per side."""
    by_protocol: bool
    """Whether opponents, battles and seeds are those of the task."""
    by_side: bool
    """Whether the teams differ, so that results by side are reported."""
    versions: Mapping[str, Any]
    """Versions of Echelon, rules, map generator and torch, the processor or GPU, the precision of matrix products,
    whether networks were compiled, and whether decisions were captured."""
    split: str | None = None
    """Split of maps and battles, see `EnvConfig.split`."""
    met: Mapping[str, Any] = field(default_factory=dict)
    """For `maps`, `battle` and each of the `opponents`: whether training contained it, `met`, `not met` or
    `unknown`."""
    commanders: Mapping[str, Any] = field(default_factory=dict)
    """Keyed by the name of a language model that commands packs: model, hash of the prompt, settings of the server, and
    a summary of its calls and orders."""
    rating: Mapping[str, float] = field(default_factory=dict)
    """In a league: `rating`, `RD`, and the 95 % interval `low` to `high`, with the entries' ratings fixed."""

    @property
    def win_rate(self) -> float:
        """Win rate, averaged over opponents."""
        return sum(result.x_wins / result.battles for result in self.results.values()) / len(self.results)

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per opponent: battles, wins, draws, win rate with 95 % interval over seeds, and statistics.

        If the teams differ, the win rates by side are included.
        """
        return [{"opponent": name, **result.row(self.by_side)} for name, result in self.results.items()]

    def as_json(self) -> dict[str, Any]:
        """Return all results as JSON values, with outcome and state hash of every battle."""
        names = ("task", "fingerprint", "policy", "by_protocol", "split", "met", "win_rate", "versions")
        opponents = {name: result.as_json() for name, result in self.results.items()}
        return {
            **{name: getattr(self, name) for name in names},
            "actions": "sampled",
            "seeds": list(self.seeds),
            "opponents": opponents,
            **({"commanders": dict(self.commanders)} if self.commanders else {}),
            **({"rating": dict(self.rating)} if self.rating else {}),
        }

    def __str__(self) -> str:
        """Return a row of a Markdown table: task, policy, and win rate with interval against each opponent."""
        cells = [
            f"{name} {row['win_rate']:.0%} ({row['low']:.0%} to {row['high']:.0%})"
            for name, row in zip(self.results, self.rows(), strict=True)
        ]
        return f"| {self.task} | {self.policy} | {' | '.join(cells)} |"


def evaluate(
    policy: Any,
    task: str | Task | Scenario,
    opponents: Sequence[str | os.PathLike[str]] | Mapping[str, TeamPolicy] | None = None,
    battles: int | None = None,
    seeds: Sequence[int] | None = None,
    *,
    split: Split | None = None,
    env: EnvBase | None = None,
    device: torch.device | str | None = None,
    batch: int = 256,
    precision: Precision = "auto",
    compiled: bool | None = None,
    cuda_graph: bool | None = None,
    arena: BatchArena | None = None,
    cluster: RayTasks | None = None,
    recorder: Recorder | None = None,
    watch: Watch | None = None,
    sink: StepSink | None = None,
) -> Evaluation:
    """Evaluate a policy on a task: sampled actions, every seed once per side, on maps that training never uses.

    Battles between scripted commanders have the same bits on every processor. Battles with networks are reproducible on
    the same kind of device. A policy that samples from torch's global generator, as TorchRL's modules do, is
    reproducible with the same `batch`.

    The function is long because its docstring describes each argument.

    Args:
        policy: a name (a commander, `trained:NAME`, a checkpoint or run folder, `league:FOLDER/NAME`,
            `package.module:Commander`), a `pathlib.Path`, a TorchRL module, or any callable on TensorDicts of the view
            `env`. Without `env`, the view follows from the policy's keys; without keys the TensorDicts are those of a
            team (`echelon.views.group_policy`). A network must be in evaluation mode, so call `policy.eval()` before.
        task: a name in `echelon.tasks()`, a `Task`, or a `Scenario`; for set pieces use `skill_profile`.
        opponents: names or paths, or team policies by name; by default the task's.
        battles: even number of battles against each opponent; by default the task's.
        seeds: the `battles / 2` seeds of the battles; by default derived from the task's seed.
        split: split of maps and battles instead of the task's; the result then does not count for the task.
        env: the view that the policy was made for, if the policy's keys do not determine it (`echelon.mechs` or
            `echelon.versus`, possibly transformed). Transforms are not applied.
        device: device of simulation and policies; by default that of the policy, else a GPU if there is one.
        batch: maximum number of simultaneous battles.
        precision: dtype of the networks' matrix products, see `definite_precision`.
        compiled, cuda_graph: see `ArenaConfig`.
        arena: plays the battles instead of a new arena, with its own config. `policy` and `opponents` are then names in
            that arena, and `env`, `device`, `batch`, `precision`, `compiled` and `cuda_graph` are ignored.
        cluster: distributes the battles to a Ray cluster, see `RayArgs.connected`; `device` is then that of its tasks.
        recorder: records battles at the indices given by `echelon.arena.match.places`.
        watch: wraps the iterator of batch results.
        sink: stores every step, see `echelon.arena.batch_arena.StepSink`; decisions are then not captured.

    Returns:
        The results by opponent, with seeds and versions.

    Raises:
        ConfigError: if the task does not exist or has other rules, an argument is out of range, or the policy's
            decision fails or has another shape.
        FileError: if a name does not exist, or its checkpoint does not fit the task.
    """
    require(task != PIECES, "task", "a battle (for set pieces use echelon.skill_profile)", task)
    task = find_task(task)
    match_seeds = seeds_of(task, battles, seeds)
    is_full_set = split is None and match_seeds == seeds_of(task, None, None)
    policy = path_text(policy)
    names = opponent_names(task.protocol.opponents if opponents is None else opponents)
    if arena is None:
        settings = ArenaConfig(
            place_of(policy, device if cluster is None else "cpu"), batch, precision, compiled, cuda_graph
        )
        who, given = contender(policy, POLICY, env), dict(opponents) if isinstance(opponents, Mapping) else {}
        others = [opponent_of(who, opponent, given.get(opponent)) for opponent in names]
        task_config = in_split(task.evaluation_config, split)
        config = with_orders(task_config, [one.source for one in (who, *others)])
        is_full_set = is_full_set and config == task_config
        require(
            cluster is None or config == task_config,
            "--ray",
            "left out, because a commander of packs cannot play on a Ray cluster",
            "given",
        )
        policies, ids = policies_of([who, *(one for one in others if one is not who)], config, settings.device)
        settings = settings.of_match(2 * len(match_seeds) * len(names))
        arena = make_arena(config, policies.__getitem__, settings, cluster)
        name, provenance, entries = who.name, who.provenance, entries_of(ids, who, others)
        playing = {one.name: policies[ids[one.name]] for one in (who, *others)}
    else:
        require(isinstance(policy, str), "policy", "a name in the arena", type(policy).__name__)
        require(isinstance(arena, BatchArena), "arena", "a BatchArena", arena)
        require(split is None, "split", "None if an arena is given, because the arena's config sets the split", split)
        name, provenance, ids = policy, UNKNOWN, {key: key for key in (policy, *names)}
        entries = {opponent: SELF if opponent == name else opponent for opponent in names}
        playing = {}
    match_seeds = [placed_seed(seed, arena.config.split) for seed in match_seeds]
    results = play_match(arena, ids[name], [ids[opponent] for opponent in names], match_seeds, recorder, watch, sink)
    return Evaluation(
        task=task.name,
        fingerprint=task.fingerprint,
        policy=name,
        results={opponent: results[ids[opponent]] for opponent in names},
        seeds=tuple(match_seeds),
        by_protocol=tuple(names) == task.protocol.opponents and is_full_set,
        by_side=arena.config.is_unequal,
        versions=versions_of(arena.setup),
        split=arena.config.split,
        met=met_before(provenance, arena.config, entries),
        commanders={key: one.giver.facts() for key, one in playing.items() if isinstance(one, PackPolicy)},
    )


def in_split(config: EnvConfig, split: Split | None) -> EnvConfig:
    """Return the config with another split of maps and seeds, or unchanged if `split` is None."""
    return config if split is None else replace(config, split=split)


def seeds_of(task: Task, battles: int | None, seeds: Sequence[int] | None) -> list[int]:
    if seeds is not None:
        is_list = isinstance(seeds, Sequence) and not isinstance(seeds, str) and len(seeds) > 0
        require(is_list, "seeds", "a list of at least one seed", seeds)
        requested = 2 * len(seeds) if battles is None else battles
        require(requested == 2 * len(seeds), "battles", f"{2 * len(seeds)}, two per seed, or absent", battles)
        return [one_seed(seed) for seed in seeds]
    count = whole_within("battles", task.protocol.battles if battles is None else battles, BATTLES)
    return battle_seeds(task.protocol.seed, count)


def opponent_names(opponents: Any) -> list[str]:
    is_list = isinstance(opponents, Iterable) and not isinstance(opponents, str | bytes)
    names = [path_text(entry) for entry in opponents] if is_list else []
    limit = "a list of at least one name, or policies by name"
    require(len(names) > 0 and all(isinstance(name, str) for name in names), "opponents", limit, opponents)
    if isinstance(opponents, Mapping):
        for name, value in opponents.items():
            require(is_policy(value), f"opponents[{name!r}]", "a policy (names and paths: in a list)", value)
    return list(dict.fromkeys(names))


def opponent_of(policy: Contender, name: str, given: TeamPolicy | None) -> Contender:
    """Return the opponent called `name`: the evaluated policy itself, the policy `given`, or the commander of that
    name.
    """
    if name == policy.name:
        is_itself = given is None and name != POLICY
        require(is_itself, "opponents", f"other names than {POLICY}", name)
        return policy
    return contender(name) if given is None else Contender(name, name, given)


def versions_of(setup: Mapping[str, Any]) -> dict[str, Any]:
    """Return all versions that a result depends on.

    Args:
        setup: settings of the arena, including the processor's name, `device`.
    """
    return {"echelon": VERSION, **current_versions().as_json(), "torch": torch.__version__, **setup}


ANSWERS = ("met", "not met", "unknown")


def entries_of(ids: Mapping[str, str], policy: Contender, opponents: Sequence[Contender]) -> dict[str, str | None]:
    """Return the provenance entry of each opponent (an id or hash), keyed by the opponent's name; None if unknown.

    Args:
        ids: ids of the policies, keyed by name.
    """
    entries: dict[str, str | None] = {}
    for one in opponents:
        hashed = weight_hash(one.source.state_dict()) if isinstance(one.source, ActorCritic) else None
        entry = ids[one.name] if isinstance(one.source, Commander) else hashed
        entries[one.name] = SELF if ids[one.name] == ids[policy.name] else entry
    return entries


def met_before(provenance: Provenance, config: EnvConfig, opponents: Mapping[str, str | None]) -> dict[str, Any]:
    """Return whether training contained the maps, the battle and each opponent, as `met`, `not met` or `unknown`.

    Args:
        config: config of the evaluation's battles.
        opponents: provenance entry of each opponent, keyed by the opponent's name.
    """
    return {
        "maps": provenance.map_exposure(config),
        "battle": provenance.battle_exposure(config),
        "opponents": {
            name: "unknown" if entry is None else provenance.opponent_exposure(entry)
            for name, entry in opponents.items()
        },
    }


def met_line(met: Mapping[str, Any]) -> str:
    """Format the result of `met_before` as one line."""
    found = {"maps": met["maps"], "battle": met["battle"], **met["opponents"]}
    by_answer = {answer: [name for name, value in found.items() if value == answer] for answer in ANSWERS}
    return "in training " + "; ".join(f"{answer}: {', '.join(names)}" for answer, names in by_answer.items() if names)
