"""Verifies a result of protocol 2: computes all scores again from its battles, and replays a random sample of the
battles.

The sample is not known in advance, so any invented battle may be found.
"""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torchrl.envs import EnvBase

from echelon.arena.config import ArenaConfig
from echelon.arena.match import SIDES, outcomes_json
from echelon.arena.proof import OUTCOME, VERSIONS, read_claims, require_same, require_same_rules
from echelon.arena.resolve import Commander, place_of, resolve
from echelon.arena.strangers.battles import ProtocolArena, ProtocolBattle, ships
from echelon.arena.strangers.evaluation import (
    PLAN,
    RUNS,
    SCHEMA,
    VERSION,
    hashes_of,
    is_by_protocol,
    met_in_training,
    plan_of,
    protocol_arena,
    seen_in_training,
    strangers_of,
    versions_of_settings,
)
from echelon.arena.strangers.scores import scores_of
from echelon.env.arguments import whole_within
from echelon.env.tasks.task import Task, find_task
from echelon.rules.config_json import first_difference
from echelon.runtime.errors import require
from echelon.runtime.files import FileError, as_file_error, expect
from echelon.runtime.json_checks import FLAG, OBJECT, exactly, integer, listed, one_of, record, text
from echelon.runtime.limits import Limits, whole
from echelon.scenarios.piece import find_piece
from echelon.scenarios.piece import pieces as piece_names
from echelon.world.splits import placed_seed

SAMPLE = 64
"""Default number of replayed battles."""
MOST_BYTES = 256 << 20
"""Maximum size of a file."""
MOST_CASES = 10**5
CHANCE = 1e-3
"""Significance level: rejects a number of wins that an honest result has with a smaller probability."""
KIND = ("torch", "device", "processor", "precision", "compiled")
"""Entries of `versions` that must agree for networks to have the same bits."""
TOLERANCE = 0.05
"""Tolerance for the ends of an interval, which depend on the version of SciPy."""
NAME = text(4096)
OUTCOMES = listed(OUTCOME, 1, 10**7)
CASE = record({
    "opponent": NAME,
    "partner": NAME,
    "mine": integer(1, 20),
    "seeds": listed(integer(0), 1, 10**6),
    "outcomes": OUTCOMES,
})  # fmt: skip
RUN = record({
    "policy": NAME,
    "id": NAME,
    "repeats": FLAG,
    "met": OBJECT,
    "provenance": OBJECT,
    "cases": listed(CASE, 1, MOST_CASES),
    "pieces": listed(record({"piece": NAME, "outcomes": OUTCOMES}), 0, 1000),
})  # fmt: skip
CHECK = record({
    "schema": exactly(SCHEMA),
    "version": exactly(VERSION),
    "task": text(255),
    "fingerprint": text(16),
    "split": one_of(("validation", "test")),
    "by_protocol": FLAG,
    **dict.fromkeys(PLAN, integer(0, 10**7)),
    "seeds": listed(integer(0), 1, 10**6),
    "strangers": OBJECT,
    "runs": listed(RUN, 1, RUNS),
    "scores": OBJECT,
    "versions": record({**VERSIONS, "processor": text(200)}),
    "command": text(),
})  # fmt: skip


@dataclass(frozen=True)
class Verification:
    """The outcome of a successful verification."""

    record: Mapping[str, Any]
    """The result."""
    battles: int
    """Number of its battles."""
    replayed: int
    """Number of replayed battles."""
    bit_for_bit: bool
    """True if all replayed battles are bit-identical; else the numbers of wins agree statistically."""
    met: tuple[str, ...]
    """Strangers and maps that the policies' training contained, according to their provenance."""

    @property
    def unseen(self) -> float:
        """A fraction of all battles: if more than this fraction were invented, at least 95 of 100 samples would contain
        an invented battle.
        """
        return 0.0 if self.replayed == self.battles else 1 - 0.05 ** (1 / self.replayed)

    @property
    def is_sealed(self) -> bool:
        """Whether the result counts for its task: it follows the protocol, and no run was trained with its strangers or
        maps.
        """
        return bool(self.record["by_protocol"]) and not self.met

    def __str__(self) -> str:
        """Return a summary in one line."""
        agreement = "are bit-identical" if self.bit_for_bit else "agree in wins, within chance"
        bound = f"; 95 of 100 samples would find more than {self.unseen:.1%} invented battles" if self.unseen else ""
        warning = f"; does not count for the task: training contained {', '.join(self.met)}" if self.met else ""
        short = "" if self.record["by_protocol"] else "; its numbers or split are not those of the task"
        return f"valid: {self.replayed} of {self.battles} battles replayed, which {agreement}{bound}{warning}{short}"


def verify(
    path: str | os.PathLike[str],
    policies: Any = (),
    *,
    sample: int = SAMPLE,
    statistical: bool = False,
    seed: int | None = None,
    env: EnvBase | None = None,
    device: torch.device | str | None = None,
    batch: int = 256,
    on_battles: Callable[[float], None] | None = None,
) -> Verification:
    """Check a result of protocol 2, as `echelon-arena evaluate --protocol 2 --out` writes it.

    Seeds, strangers, numbers of battles, provenance and scores are computed again, and a sample of the battles is
    replayed: compared bit by bit if versions and the kind of processor equal those of the file, else by wins.

    Args:
        path: the file.
        policies: the evaluated policies: a name, an object or a list of them, one per run. This argument may be omitted
            for commanders that ship with Echelon; other names in the file are not resolved.
        sample: number of replayed battles, chosen at random; 0 for all.
        statistical: compare numbers of wins even on the same kind of processor.
        seed: seed of the random choice; by default from the system, so that the sample cannot be predicted.
        env, device, batch, on_battles: see `echelon.evaluate_strangers`.

    Returns:
        The verification.

    Raises:
        FileError: if a claim of the file is wrong, or the file is about other policies.
    """
    path = Path(path)
    task_claims = read_claims(path, CHECK, MOST_BYTES)
    task, name = task_of(task_claims, path.name), path.name
    candidates = policies_of(task_claims, policies, name)
    versions, split = task_claims["versions"], task_claims["split"]
    settings = ArenaConfig(place_of(candidates[0], device), batch, versions["precision"], versions["compiled"])
    plan = own_plan(task_claims, task, candidates, name)
    arena = protocol_arena(task, split, plan, candidates, env, settings, on_battles)
    return verification_of(task_claims, arena, sample, seed, statistical, name)


def verification_of(
    result: Mapping[str, Any], arena: ProtocolArena, sample: int, seed: int | None, statistical: bool, name: str
) -> Verification:
    """Compare a record with everything that can be recomputed, cheap checks first."""
    require_same_plan(result, arena, name)
    require_same_runs(result, arena, name)
    problem = score_difference(scores_of(result["runs"]), result["scores"], f"{name}: scores")
    if problem:
        raise FileError(f"{problem}: expected the scores of the battles in the file")
    sampled = chosen_battles(result, sample, seed)
    exact = replay_battles(result, arena, sampled, statistical, name)
    return Verification(result, len(every_battle(result)), len(sampled), exact, tuple(met_in_training(result)))


def task_of(result: Mapping[str, Any], name: str) -> Task:
    """Return the task of a record; raise `FileError` if its fingerprint or rules differ from those here."""
    require_same_rules(result["versions"], f"{name}: versions")
    with as_file_error(f"{name}: task"):
        task = find_task(result["task"])
    expect(result["fingerprint"] == task.fingerprint, f"{name}: fingerprint", task.fingerprint, result["fingerprint"])
    return task


def own_plan(result: Mapping[str, Any], task: Task, policies: Sequence[Any], name: str) -> dict[str, int]:
    """Return the numbers of battles of a record, and check its claim to follow the task's protocol."""
    protocol = strangers_of(task)
    with as_file_error(name):
        plan = plan_of(protocol, *(result[kind] for kind in PLAN))
    holds = is_by_protocol(protocol, result["split"], plan, policies)
    expect(result["by_protocol"] == holds, f"{name}: by_protocol", f"{holds}, by its numbers", result["by_protocol"])
    return plan


def policies_of(result: Mapping[str, Any], policies: Any, name: str) -> list[Any]:
    """Return the policies of the runs: those given by the caller, or names of shipped commanders."""
    given_policies = list(policies) if isinstance(policies, list | tuple) else [policies]
    names = [entry["policy"] for entry in result["runs"]]
    if not given_policies:
        unknown = next((name_of_run for name_of_run in names if not ships(name_of_run)), None)
        hint = "commanders that ship with Echelon, or policies given by --policy, one per run"
        expect(unknown is None, f"{name}: policies", hint, unknown)
        return names
    require(
        len(given_policies) == len(names),
        "policies",
        f"one policy for each of the runs {', '.join(names)}",
        len(given_policies),
    )
    return given_policies


def require_same_plan(result: Mapping[str, Any], arena: ProtocolArena, name: str) -> None:
    """Raise `FileError` if the seeds, strangers, cases or battles of a record differ from those of the task."""
    seeds = [placed_seed(seed, arena.split) for seed in arena.seeds]
    seed_difference = first_difference(seeds, result["seeds"], "seeds")
    expect(seed_difference is None, f"{name}: seeds", "the sealed seeds of the task", "other seeds")
    strangers = strangers_of(arena.task).splits[arena.split]
    difference = first_difference(hashes_of(strangers), result["strangers"], f"{name}: strangers")
    expect(difference is None, f"{name}: strangers", "the commanders of the task, with the hashes it lists", difference)
    cases = [{**case._asdict(), "seeds": list(case.seeds)} for case in arena.cases]
    pieces = piece_names() if result["pieces"] else []
    for number, run in enumerate(result["runs"]):
        location = f"{name}: runs[{number}]"
        claimed_cases = [{key: value for key, value in case.items() if key != "outcomes"} for case in run["cases"]]
        require_battles(claimed_cases == cases, f"{location}.cases", len(cases), len(claimed_cases))
        for index, case in enumerate(run["cases"]):
            require_outcomes(case["outcomes"], 2 * len(case["seeds"]), SIDES, f"{location}.cases[{index}]")
        names = [entry["piece"] for entry in run["pieces"]]
        require_battles(names == pieces, f"{location}.pieces", len(pieces), len(names))
        for piece in run["pieces"]:
            side = [find_piece(piece["piece"]).side]
            require_outcomes(piece["outcomes"], result["pieces"], side, f"{location}.pieces: {piece['piece']}")


def require_battles(holds: bool, where: str, expected: int, got: int) -> None:
    expect(holds, where, f"the {expected} kinds of battles of the protocol", f"{got}, or others")


def require_outcomes(outcomes: Sequence[Mapping[str, Any]], count: int, sides: Sequence[str], where: str) -> None:
    """Raise `FileError` unless `outcomes` has `count` battles, whose sides alternate as in `sides`."""
    expect(len(outcomes) == count, f"{where}.outcomes", f"{count} battles", len(outcomes))
    is_right = all(outcome["x_side"] == sides[index % len(sides)] for index, outcome in enumerate(outcomes))
    expect(
        is_right,
        f"{where}.outcomes",
        f"outcomes in which the policy plays the sides {', '.join(sides)} in this order",
        "other sides",
    )


def require_same_runs(result: Mapping[str, Any], arena: ProtocolArena, name: str) -> None:
    """Raise `FileError` if the weights of a run differ, or if its provenance differs from the one in the policy's
    checkpoint.
    """
    for number, (claimed_run, run) in enumerate(zip(result["runs"], arena.runs, strict=True)):
        location = f"{name}: runs[{number}]"
        expect(claimed_run["id"] == run.id, f"{location}.id", f"{run.id}, that of {run.name}", claimed_run["id"])
        limit = f"{run.repeats}, as it is of {run.name}"
        expect(claimed_run["repeats"] == run.repeats, f"{location}.repeats", limit, claimed_run["repeats"])
        facts = {"met": seen_in_training(run, arena), "provenance": run.provenance.as_json()}
        difference = first_difference(facts, {fact: claimed_run[fact] for fact in facts}, location)
        limit = "those in the policy's checkpoint"
        expect(difference is None, f"{location}.met and provenance", limit, difference)


def score_difference(ours: Any, theirs: Any, where: str) -> str | None:
    """Describe the first difference between scores that another SciPy version cannot explain; None if there is none."""
    if isinstance(ours, dict):
        if not isinstance(theirs, dict) or ours.keys() != theirs.keys():
            return f"{where} has other entries"
        differences = (score_difference(ours[key], theirs[key], f"{where}.{key}") for key in ours)
        return next((difference for difference in differences if difference), None)
    if isinstance(ours, float):
        tolerance = TOLERANCE if where.endswith((".low", ".high")) else 1e-9
        is_near = type(theirs) in (int, float) and math.isclose(ours, theirs, rel_tol=0, abs_tol=tolerance)
        return None if is_near else f"{where} is {ours!r} here and {theirs!r} there"
    return None if ours == theirs else f"{where} is {ours!r} here and {theirs!r} there"


def every_battle(result: Mapping[str, Any]) -> list[ProtocolBattle]:
    battles: list[ProtocolBattle] = []
    for number, run in enumerate(result["runs"]):
        cases: list[tuple[int | str, Any]] = [*enumerate(run["cases"])]
        cases += [(piece["piece"], piece) for piece in run["pieces"]]
        battles += [ProtocolBattle(number, key, index) for key, case in cases for index in range(len(case["outcomes"]))]
    return battles


def chosen_battles(result: Mapping[str, Any], sample: int, seed: int | None) -> list[ProtocolBattle]:
    """Return the sampled battles, in order; each battle is equally likely."""
    all_battles = every_battle(result)
    count = whole_within("sample", sample, Limits(0, 10**9, "battles, 0 for all")) or len(all_battles)
    chance = random.SystemRandom() if seed is None else random.Random(whole("seed", seed))
    indices = sorted(chance.sample(range(len(all_battles)), min(count, len(all_battles))))
    return [all_battles[index] for index in indices]


def replay_battles(
    result: Mapping[str, Any], arena: ProtocolArena, chosen: Sequence[ProtocolBattle], statistical: bool, name: str
) -> bool:
    """Replay battles and reject differing outcomes; return whether all were compared bit by bit."""
    versions, own_versions = result["versions"], versions_of_settings(arena.settings)
    is_same_kind = not statistical and all(versions[fact] == own_versions[fact] for fact in KIND)
    claimed_wins, wins = [], []
    for battle, replayed in zip(chosen, arena.play(chosen), strict=True):
        claimed_outcome = outcome_of(result, battle)
        (outcome,) = outcomes_json([replayed], [claimed_outcome["x_side"]])
        if (is_same_kind and arena.runs[battle.run].repeats) or is_scripted(arena, battle):
            location = f"{name}: runs[{battle.run}], {battle.kind}, battle {battle.number}"
            require_same(outcome, claimed_outcome, location, own_versions, versions)
        else:
            claimed_wins.append(claimed_outcome["winner"] == claimed_outcome["x_side"])
            wins.append(outcome["winner"] == outcome["x_side"])
    if claimed_wins:
        require_as_often(sum(claimed_wins), sum(wins), len(claimed_wins), name)
    return not claimed_wins


def outcome_of(result: Mapping[str, Any], battle: ProtocolBattle) -> Mapping[str, Any]:
    number, key, index = battle
    run = result["runs"][number]
    case = (
        run["cases"][key] if isinstance(key, int) else next(piece for piece in run["pieces"] if piece["piece"] == key)
    )
    outcome: Mapping[str, Any] = case["outcomes"][index]
    return outcome


def is_scripted(arena: ProtocolArena, battle: ProtocolBattle) -> bool:
    """Return whether a battle has only scripted commanders, so its bits are the same on every processor."""
    run, key = arena.runs[battle.run], battle.kind
    names = [run.name if isinstance(run.source, Commander) and ships(run.name) else None]
    if isinstance(key, int):
        case = arena.cases[key]
        names += [case.opponent, *([case.partner] if case.partner else [])]
    else:
        names.append(find_piece(key).opponent)
    return all(policy_name is not None and resolve(policy_name).checkpoint is None for policy_name in names)


def require_as_often(claimed: int, wins: int, battles: int, name: str) -> None:
    """Raise `FileError` if the claimed wins differ from the replayed wins by more than chance (Fisher's exact test)."""
    from scipy.stats import fisher_exact  # takes a second to import

    chance = fisher_exact([[claimed, battles - claimed], [wins, battles - wins]]).pvalue
    hint = f"near {wins} of {battles} wins in the sample, as replayed here"
    expect(chance >= CHANCE, f"{name}: wins", hint, f"{claimed}, with probability {chance:.1e}")
