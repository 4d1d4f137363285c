"""The battles of protocol 2, in which a policy plays against and beside strangers (policies unused in training). Any
subset of the battles can be played, with the same results as in the full set.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import nn
from torchrl.envs import EnvBase

from echelon.agents.runner import SharedTeam
from echelon.agents.team_policy import TeamPolicy, draws_actions
from echelon.agents.tiers import STYLE
from echelon.arena.batch_arena import BatchArena, Battle, BattleResult
from echelon.arena.config import ArenaConfig
from echelon.arena.match import battle_seeds
from echelon.arena.pack_commanders import with_orders
from echelon.arena.resolve import POLICY, TRAINED, Commander, Contender, contender, resolve
from echelon.arena.skills import SEED as PIECES_SEED
from echelon.arena.skills import play_piece
from echelon.command.pack_policy import PackCommander
from echelon.env.tasks.strangers import Population, shares_of
from echelon.env.tasks.task import Task
from echelon.learn.checkpoint.provenance import weight_hash
from echelon.rules.config import EnvConfig, Split
from echelon.scenarios.piece import find_piece


class Case(NamedTuple):
    """Battles with the same opponent, partner and number of own mechs; each seed is played once per side."""

    opponent: str
    partner: str
    """Commander of the other mechs in the policy's team; empty if the policy commands all of them."""
    mine: int
    """Number of mechs that the policy commands."""
    seeds: tuple[int, ...]
    """Indices into the seeds of the protocol."""


def cases_of(population: Population, battles: int, beside: int) -> list[Case]:
    """Return all cases (kinds of battles) of a population of opponents and partners.

    First, the policy commands its whole team against each opponent. Then the policy shares its team with a partner,
    with one case for each number of own mechs, partner and opponent. Each partner takes the next seeds in turn; the
    seeds are the same against all opponents.
    """
    mechs, seeds, case_seeds = len(population.rosters[0]), battles // 2, beside // 2
    cases = [Case(opponent, "", mechs, tuple(range(seeds))) for opponent in population.opponents]
    for own_mechs in shares_of(mechs):
        for number, partner in enumerate(population.partners):
            turn = tuple((number * case_seeds + i) % seeds for i in range(case_seeds))
            cases += [Case(opponent, partner, own_mechs, turn) for opponent in population.opponents]
    return cases


def run_of(policy: Any, number: int, env: EnvBase | None, config: EnvConfig, device: torch.device) -> Contender:
    """Resolve one of the evaluated policies, each the result of a training run, from a name or an object.

    The id of an object is the sha256 of its weights, if it has any.
    """
    run = contender(policy, f"policy {number}", env)
    if isinstance(run.source, Commander):
        is_recorded = isinstance(run.source, PackCommander)
        return replace(run, repeats=is_recorded or run.source.factory is None or ships(run.name))
    team = replace(run, name=POLICY).checked_policy(config, device)
    weights = run.source.state_dict() if isinstance(run.source, nn.Module) else {}
    return replace(run, id=weight_hash(weights) if weights else run.name, repeats=draws_actions(team))


def ships(name: str) -> bool:
    """Return whether a name can only mean a commander shipped with Echelon, so that it may be read from a file."""
    return name.partition(":")[0] in ("heuristic", STYLE, TRAINED) and ":" in name


class ProtocolBattle(NamedTuple):
    """A battle of protocol 2."""

    run: int
    kind: int | str
    """Index of the case, or name of the set piece."""
    number: int
    """Index among the battles of this kind."""


class ProtocolArena:
    """Plays any subset of the battles of protocol 2; the result of a battle does not depend on the subset.

    Args:
        seeds: seeds of the protocol, to which `Case.seeds` refers.
        pieces: number of seeds per set piece.
        on_battles: called repeatedly with the number of battles played since the last call.
    """

    def __init__(
        self,
        task: Task,
        split: Split,
        cases: Sequence[Case],
        seeds: Sequence[int],
        pieces: int,
        runs: Sequence[Contender],
        settings: ArenaConfig,
        on_battles: Callable[[float], None] | None = None,
    ) -> None:
        assert task.strangers is not None
        self.task, self.split, self.cases, self.seeds, self.runs = task, split, cases, seeds, runs
        self.rosters = task.strangers.splits[split].rosters
        self.piece_seeds = battle_seeds(PIECES_SEED, 2 * pieces) if pieces else []
        """Seeds as in `skill_profile`."""
        self.settings, self.on_battles = settings, on_battles

    def play(self, requested: Sequence[ProtocolBattle]) -> list[BattleResult]:
        by_roster: dict[int, list[ProtocolBattle]] = defaultdict(list)
        by_piece: dict[tuple[int, str], list[ProtocolBattle]] = defaultdict(list)
        for battle in requested:
            if isinstance(battle.kind, str):
                by_piece[battle.run, battle.kind].append(battle)
            else:
                by_roster[self._seed_number(battle) % len(self.rosters)].append(battle)
        results: dict[ProtocolBattle, BattleResult] = {}
        for roster, group in sorted(by_roster.items()):
            shared: dict[str, SharedTeam] = {}
            battles = [self._battle(battle, shared) for battle in group]
            arena = self._arena(roster, shared)
            results |= zip(
                group, (result for batch in arena.play_all(battles) for result in batch.results), strict=True
            )
        for (run, piece), group in by_piece.items():
            results |= zip(
                group, self._play_piece(run, piece, [self.piece_seeds[battle.number] for battle in group]), strict=True
            )
        return [results[battle] for battle in requested]

    def _seed_number(self, battle: ProtocolBattle) -> int:
        return self.cases[int(battle.kind)].seeds[battle.number // 2]

    def _battle(self, battle: ProtocolBattle, shared: dict[str, SharedTeam]) -> Battle:
        """Return the battle to play; if the policy shares its team with a partner, add the team to `shared`."""
        case, number, run_id = self.cases[int(battle.kind)], self._seed_number(battle), self.runs[battle.run].id
        team = run_id
        if case.partner not in ("", run_id):
            mechs = len(self.rosters[0])
            # Rotate the policy's mechs in the team by the seed, so that its partner commands each hull in some battles.
            own_places = tuple(sorted((number + i) % mechs for i in range(case.mine)))
            team = f"{run_id}+{case.partner}/{','.join(map(str, own_places))}"
            shared[team] = SharedTeam(run_id, case.partner, own_places)
        sides = (team, case.opponent) if battle.number % 2 == 0 else (case.opponent, team)
        return Battle(*sides, self.seeds[number])

    def _arena(self, roster: int, shared: Mapping[str, SharedTeam]) -> BatchArena:
        config = with_orders(self.task.battle(self.split, roster), [run.source for run in self.runs])
        runs = {run.id: run for run in self.runs}

        @functools.cache
        def policy(name: str) -> TeamPolicy | SharedTeam:
            if name in shared:
                return shared[name]
            return (runs[name] if name in runs else resolve(name)).policy(config, self.settings.device)

        arena = BatchArena(config, policy, self.settings)
        arena.on_progress = self.on_battles
        return arena

    def _play_piece(self, run: int, name: str, seeds: Sequence[int]) -> tuple[BattleResult, ...]:
        """Play a set piece (a short scenario that tests one skill) from the given seeds."""
        piece = find_piece(name)
        config = with_orders(piece.scenario.config, [self.runs[run].source])
        learner = self.runs[run].policy(config, self.settings.device)
        result = play_piece(piece, learner, seeds, self.settings)
        if self.on_battles is not None:
            self.on_battles(len(seeds))
        return result.outcomes
