"""Protocol 2: results of a policy against and beside strangers (policies unused in training), as a record that `verify`
can check.
"""

from __future__ import annotations

import itertools
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torchrl.envs import EnvBase

from echelon.agents.populations import strangers
from echelon.arena.config import ArenaConfig, Precision
from echelon.arena.evaluate import versions_of
from echelon.arena.match import battle_seeds, outcomes_json
from echelon.arena.resolve import Contender, place_of, resolve
from echelon.arena.strangers.battles import ProtocolArena, ProtocolBattle, cases_of, run_of
from echelon.arena.strangers.scores import scores_of, table_rows
from echelon.command.pack_policy import names_orders
from echelon.env.arguments import whole_within
from echelon.env.tasks.strangers import JUDGED, Population, Strangers, hash_of_seeds
from echelon.env.tasks.task import Task, find_task
from echelon.rules.config import Split
from echelon.runtime.device import processor_name
from echelon.runtime.errors import require
from echelon.runtime.files import expect
from echelon.runtime.limits import Limits
from echelon.scenarios.piece import find_piece
from echelon.scenarios.piece import pieces as piece_names
from echelon.world.splits import placed_seed

SCHEMA, VERSION = "echelon-strangers", 1
PLAN = ("battles", "beside", "pieces")
"""Settings of a task that a result contains, see `Strangers`."""
RUNS = 100
"""Maximum number of training runs in one result."""


@dataclass(frozen=True)
class StrangersEvaluation:
    """Results in protocol 2 of a task, for one policy or several training runs with the same configuration."""

    record: Mapping[str, Any]
    """All results as JSON values, with outcome and state hash of every battle; `echelon.verify` replays them."""

    @property
    def scores(self) -> Mapping[str, Any]:
        """The scores `focal`, `with_strangers`, `self_play_gap`, `pieces` and `worst_case`, each with its `value` and
        its 95 % interval, `low` and `high`, over the `unit` (docs/PROTOCOL.md).
        """
        scores: Mapping[str, Any] = self.record["scores"]
        return scores

    @property
    def is_sealed(self) -> bool:
        """Whether the result follows the task's protocol, and no run was trained with the protocol's strangers
        or maps.
        """
        return bool(self.record["by_protocol"]) and not met_in_training(self.record)

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per score, followed by its parts: one row per opponent, number of own mechs, partner or set
        piece.
        """
        return table_rows(self.scores)

    def as_json(self) -> dict[str, Any]:
        """Return JSON values: `record`."""
        return dict(self.record)

    def __str__(self) -> str:
        """Return a row of a Markdown table: the task, the first policy, and each score with its interval."""
        listed = {name: score for name, score in self.scores.items() if isinstance(score, Mapping)}
        cells = [
            f"{name} {score['value']:.0%} ({score['low']:.0%} to {score['high']:.0%})" for name, score in listed.items()
        ]
        return f"| {self.record['task']} | {self.record['runs'][0]['policy']} | {' | '.join(cells)} |"


def evaluate_strangers(
    policy: Any,
    task: str | Task,
    *,
    battles: int | None = None,
    beside: int | None = None,
    pieces: int | None = None,
    split: Split = "test",
    env: EnvBase | None = None,
    device: torch.device | str | None = None,
    batch: int = 256,
    precision: Precision = "auto",
    compiled: bool | None = None,
    cuda_graph: bool | None = None,
    on_battles: Callable[[float], None] | None = None,
    command: str = "",
) -> StrangersEvaluation:
    """Evaluate a policy by protocol 2 of a task: against opponents and beside partners that training does not use.

    The function is long because its docstring describes each argument.

    Args:
        policy: a name, a path, a module or a callable, as in `echelon.evaluate`; or a list of policies from training
            runs with the same configuration, whose intervals are then over runs.
        task: a name in `echelon.tasks()`, or a `Task`, with `strangers`.
        battles, beside, pieces: numbers of battles instead of the task's; the result then does not count for the task.
            Only `pieces=0` is allowed: it skips the set pieces, for networks of a single team size, and their score.
        split: either `test`, or `validation` for model selection.
        env: the view that modules were made for, if their keys do not determine it.
        device, batch, precision, compiled, cuda_graph: see `echelon.evaluate`.
        on_battles: called repeatedly with the number of battles played since the last call.
        command: the command that made the result, stored in the record.

    Returns:
        The result.

    Raises:
        ConfigError: if the task has no protocol 2, an argument is out of range, or two runs have the same weights.
        FileError: if a name does not exist, or the weights of a stranger differ from `populations.json`.
    """
    task = find_task(task)
    protocol = strangers_of(task)
    require(split in ("validation", "test"), "split", "validation or test", split)
    plan = plan_of(protocol, battles, beside, pieces)
    listed = list(policy) if isinstance(policy, list | tuple) else [policy]
    require(1 <= len(listed) <= RUNS, "policy", f"one, or a list of 1..{RUNS}", len(listed))
    settings = ArenaConfig(place_of(listed[0], device), batch, precision, compiled, cuda_graph)
    arena = protocol_arena(task, split, plan, listed, env, settings, on_battles)
    names = [run.name for run in arena.runs]
    require(len({run.id for run in arena.runs}) == len(names), "policy", "runs with different weights", names)
    run_records = [run_record(arena, number) for number in range(len(names))]
    return StrangersEvaluation({
        "schema": SCHEMA,
        "version": VERSION,
        "task": task.name,
        "fingerprint": task.fingerprint,
        "split": split,
        "by_protocol": is_by_protocol(protocol, split, plan, listed),
        **plan,
        "seeds": [placed_seed(seed, split) for seed in arena.seeds],
        "strangers": hashes_of(protocol.splits[split]),
        "runs": run_records,
        "scores": scores_of(run_records),
        "versions": versions_of_settings(settings),
        "command": command,
    })  # fmt: skip


def strangers_of(task: Task) -> Strangers:
    require(
        task.strangers is not None,
        f"task {task.name}",
        "a task with protocol 2, whose name begins with strangers/",
        "another",
    )
    assert task.strangers is not None
    return task.strangers


def plan_of(protocol: Strangers, battles: int | None, beside: int | None, pieces: int | None) -> dict[str, int]:
    """Return the number of battles of each kind, keyed by the names in `PLAN`."""
    plan = {
        "battles": whole_within("battles", protocol.battles if battles is None else battles, JUDGED),
        "beside": whole_within("beside", protocol.beside if beside is None else beside, JUDGED),
        "pieces": whole_within(
            "pieces", protocol.pieces if pieces is None else pieces, Limits(0, 10**6, "seeds a piece")
        ),
    }
    for name in ("battles", "beside"):
        require(plan[name] % 2 == 0, name, "even (each seed is played on both sides)", plan[name])
    require(plan["beside"] <= plan["battles"], "beside", f"at most {plan['battles']}, the battles", plan["beside"])
    return plan


def is_by_protocol(protocol: Strangers, split: str, plan: Mapping[str, Any], policies: Sequence[Any]) -> bool:
    """Return whether the numbers of battles and the split are those of the task.

    Set pieces may be skipped for networks that support only one team size; their score is then missing. A commander of
    packs needs battles with orders, which are not the battles of the task.
    """
    allowed = {"battles": (protocol.battles,), "beside": (protocol.beside,), "pieces": (protocol.pieces, 0)}
    has_orders = any(names_orders(policy) for policy in policies)
    return split == "test" and not has_orders and all(plan[name] in allowed[name] for name in PLAN)


def battles_of(protocol: Strangers, split: Split, plan: Mapping[str, int]) -> int:
    cases = cases_of(protocol.splits[split], plan["battles"], plan["beside"])
    return sum(2 * len(case.seeds) for case in cases) + plan["pieces"] * len(piece_names())


def protocol_arena(
    task: Task,
    split: Split,
    plan: Mapping[str, int],
    policies: Sequence[Any],
    env: EnvBase | None,
    settings: ArenaConfig,
    on_battles: Callable[[float], None] | None = None,
) -> ProtocolArena:
    """Create the arena for the battles of `policies`, one policy per training run. Raise `FileError` if the hash of a
    stranger or of the seeds differs from the published one.

    Args:
        policies, env: see `evaluate_strangers`.
    """
    protocol = strangers_of(task)
    sealed = hash_of_seeds(battle_seeds(protocol.seed, protocol.battles))
    expect(protocol.seeds_sha256 in ("", sealed), f"{task.name}: seeds_sha256", protocol.seeds_sha256, sealed)
    hashes_of(protocol.splits[split])
    cases = cases_of(protocol.splits[split], plan["battles"], plan["beside"])
    seeds, config = battle_seeds(protocol.seed, plan["battles"]), task.battle(split)
    runs = [run_of(policy, number, env, config, settings.device) for number, policy in enumerate(policies)]
    return ProtocolArena(task, split, cases, seeds, plan["pieces"], runs, settings, on_battles)


def hashes_of(population: Population) -> dict[str, str]:
    """Return the sha256 of each opponent and partner, or its name if it has none. Raise `FileError` if a sha256 differs
    from `populations.json`.
    """
    hashes = {}
    for name in dict.fromkeys((*population.opponents, *population.partners)):
        commander, listed = resolve(name), strangers().get(name)
        # A scripted stranger has no weights to hash: `populations.json` lists the hash of its abilities instead.
        digest = commander.id if commander.checkpoint is not None or listed is None else listed.sha256
        expect(listed is None or digest == listed.sha256, f"{name}: sha256", f"{listed and listed.sha256}", digest)
        hashes[name] = digest
    return hashes


def run_record(arena: ProtocolArena, run: int) -> dict[str, Any]:
    """Play all battles of one evaluated run; return its record: identity, provenance, and the outcome of each
    battle.
    """
    run_setup, names = arena.runs[run], piece_names() if arena.piece_seeds else []
    counts: dict[int | str, int] = {number: 2 * len(case.seeds) for number, case in enumerate(arena.cases)}
    counts |= dict.fromkeys(names, len(arena.piece_seeds))
    results = iter(arena.play([ProtocolBattle(run, kind, index) for kind in counts for index in range(counts[kind])]))
    by_kind = {kind: list(itertools.islice(results, count)) for kind, count in counts.items()}
    cases = [
        {**case._asdict(), "seeds": list(case.seeds), "outcomes": outcomes_json(by_kind[number])}
        for number, case in enumerate(arena.cases)
    ]
    pieces = [{"piece": name, "outcomes": outcomes_json(by_kind[name], [find_piece(name).side])} for name in names]
    return {
        "policy": run_setup.name,
        "id": run_setup.id,
        "repeats": run_setup.repeats,
        "met": seen_in_training(run_setup, arena),
        "provenance": run_setup.provenance.as_json(),
        "cases": cases,
        "pieces": pieces,
    }


def seen_in_training(run: Contender, arena: ProtocolArena) -> dict[str, Any]:
    """Return whether the run's training contained the maps, teams, opponents and partners.

    The values are `met`, `not met` and `unknown`.
    """
    configs = [arena.task.battle(arena.split, number) for number in range(len(arena.rosters))]
    teams = [run.provenance.battle_exposure(config) for config in configs]
    names = dict.fromkeys(name for case in arena.cases for name in (case.opponent, case.partner) if name)
    met_strangers = {name: run.provenance.commander_exposure(resolve(name).id) for name in names}
    return {
        "maps": run.provenance.map_exposure(configs[0]),
        "teams": next((answer for answer in ("met", "unknown") if answer in teams), "not met"),
        # If the evaluated policy is itself one of the strangers, it counts as having met that stranger.
        "strangers": {name: "met" if resolve(name).id == run.id else answer for name, answer in met_strangers.items()},
    }


def met_in_training(record: Mapping[str, Any]) -> list[str]:
    """Return the names of the record's maps, teams and strangers that any of its runs was trained with."""
    names = []
    for run in record["runs"]:
        contacts = run["met"]
        answers = {"maps": contacts["maps"], "teams": contacts["teams"], **contacts["strangers"]}
        names += [name for name, answer in answers.items() if answer == "met"]
    return list(dict.fromkeys(names))


def versions_of_settings(settings: ArenaConfig) -> dict[str, Any]:
    """Return versions, precision and the kind of processor."""
    settings, processor = settings.definite(0), processor_name(settings.device)
    capability = torch.backends.cpu.get_cpu_capability() if settings.device.type == "cpu" else processor
    return {
        **versions_of({"device": processor, "precision": settings.precision, "compiled": settings.compiled}),
        "processor": f"{platform.machine()} {capability}",
    }
