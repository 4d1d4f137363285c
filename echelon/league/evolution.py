"""A league that grows by itself: a main agent and two exploiters learn in turn on one machine."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from echelon.league import log
from echelon.league.league_arena import LeagueArena, matches_of
from echelon.league.matchmaking import Opponent, draw
from echelon.league.opponent_sampler import compatible_entries, opponent_pool
from echelon.league.rating_period import rate_entry
from echelon.league.roles import (
    Role,
    Shares,
    Verdict,
    judge,
    league_exploiter_shares,
    main_exploiter_shares,
    main_shares,
)
from echelon.league.schedule import one_against, period_seeds
from echelon.league.store import MatchRecord
from echelon.learn.checkpoint.files import newest_checkpoint
from echelon.learn.checkpoint.format import Checkpoint, open_checkpoint
from echelon.learn.config import PAST, TrainConfig
from echelon.learn.opponents.snapshot_pool import Snapshot
from echelon.learn.trainer import Trainer

KIND = {Role.MAIN: "main", Role.MAIN_EXPLOITER: "exploiter", Role.LEAGUE_EXPLOITER: "exploiter"}


@dataclass(frozen=True)
class Progress:
    """How far a role has come; kept in the league's file."""

    generation: int = 0
    """How often it began anew."""
    turns: int = 0
    """Turns since it began or last joined."""
    entry: str = ""
    """Its last entry."""
    judged: dict[str, list[float]] = field(default_factory=dict)
    """Games and points against those it was last judged by."""


class Evolution:
    """Lets the roles of a league learn in turn. Begun again, each role goes on from its last whole turn.

    Args:
        arena: where exploiters are judged and entries rated.
        config: how each role learns; the battle is the league's.
        start: the weights every role begins from, and exploiters begin anew from; fresh ones without.
        seeds: fought against each of those one is judged or rated by, from both sides.
        planned_turns, iterations: of a turn; schedules run from where a role stands to the end of all of them.
    """

    def __init__(
        self,
        arena: LeagueArena,
        config: TrainConfig,
        start: Checkpoint | None,
        seeds: int,
        planned_turns: int,
        iterations: int,
    ) -> None:
        self.arena, self.store, self.rules, self.start = arena, arena.store, arena.store.rules, start
        self.seeds, self.iterations = seeds, iterations
        turn_steps = iterations * config.num_envs * len(arena.store.env.blue) * config.ppo.rollout_decisions
        self.planned_steps = planned_turns * turn_steps
        # How battles are paid for is that of the weights it begins from.
        paid = start.env.reward if start is not None else arena.store.env.reward
        self.config = dataclasses.replace(
            config,
            env=dataclasses.replace(arena.store.env, reward=paid),
            model=start.policy().model if start is not None else config.model,
            opponent=PAST,
            past_share=0.0,
            self_share=0.0,
            # Whom the league draws nobody for meets the learner of the iteration before.
            past_kept=1,
            past_every=1,
        )
        self.trainers: dict[Role, Trainer] = {}
        self.shares: Shares = {None: 1.0}
        self.chance = random.Random(f"{config.seed} {self.store.period}")

    def progress(self, role: Role) -> Progress:
        """How far a role has come."""
        return Progress(**(self.store.get_setting(f"role {role.value}") or {}))

    def folder(self, role: Role, generation: int) -> Path:
        """Where a role keeps its checkpoints and metrics."""
        return self.store.folder / "learners" / role.value.replace(" ", "_") / f"generation_{generation}"

    def turn(self, role: Role) -> Verdict:
        """Let a role learn, judge it, and do with it what its rules say."""
        self._rate_newcomers()
        now = self.progress(role)
        # Before there is a trainer, which draws its first opponents as it is made.
        self.shares = self.opponent_shares(role, now)
        trainer = self._trainer(role, now.generation)
        for _ in range(self.iterations):
            trainer.iterate()
        checkpoint = trainer.save()
        digest = self.store.add_weights(checkpoint)
        points = self._judge_by(role, digest)
        rates = {self._name(who): score / games for who, (games, score) in points.items()}
        verdict = judge(role, rates, now.turns + 1, self.rules, self.chance)
        self._conclude(role, now, verdict, checkpoint, points)
        return verdict

    def _rate_newcomers(self) -> None:
        """Rate those who joined when a run was cut short before they were."""
        rated = self.store.rated()
        for entry in self.store.entries("main", "exploiter"):
            if entry.id not in rated:
                rate_entry(self.arena, entry, self.seeds)

    def _conclude(
        self, role: Role, now: Progress, verdict: Verdict, checkpoint: Path, points: dict[str, list[float]]
    ) -> None:
        """Write a verdict down, whole or not at all, and rate whoever joined."""
        with self.store.writing():
            entry = self.store.add(checkpoint, KIND[role], now.entry or None) if verdict.joins else None
            last = entry.id if entry is not None else now.entry
            after = Progress(
                generation=now.generation + verdict.resets,
                turns=0 if verdict.joins else now.turns + 1,
                # What begins anew descends from nobody.
                entry="" if verdict.resets else last,
                judged={} if verdict.resets else points,
            )
            self.store.set_setting(f"role {role.value}", vars(after))
            self.store.record_change("judged", f"{role.value}: {verdict.reason}", entry)
            if verdict.resets:
                self.store.record_change("reset", f"{role.value}, generation {after.generation}: {verdict.reason}")
        if verdict.resets:
            self.trainers.pop(role).close()
        if entry is not None:
            rate_entry(self.arena, entry, self.seeds)
        told = {"joins": verdict.joins, "resets": verdict.resets, "reason": verdict.reason}
        log.write_event(self.store, "judged", role=role.value, name=entry.name if entry is not None else None, **told)

    def opponent_shares(self, role: Role, now: Progress) -> Shares:
        """Whom a role meets in its next turn."""
        me = next((entry for entry in self.store.entries() if entry.id == now.entry), None)
        fits = compatible_entries(self.config.model, self.store)
        pool = [self._known(other, now) for other in opponent_pool(self.store, fits, me)]
        mains = {entry.id for entry in fits if entry.kind == "main"}
        if role is Role.LEAGUE_EXPLOITER:
            return league_exploiter_shares(pool, self.rules)
        if role is Role.MAIN:
            rivals = mains | {entry.id for entry in fits if entry.kind == "exploiter"}
            return main_shares(pool, [other for other in pool if other.id in rivals], self.rules)
        newest_main = self._newest_main()
        main = next((other for other in pool if other.id == newest_main), None)
        if main is not None:
            # A main agent joins anew before each of these turns: what is known is what was shown against the last one.
            games, score = (sum(column) for column in zip((0.0, 0.0), *now.judged.values(), strict=True))
            main = main._replace(games=int(games), score=score)
        earlier = [other for other in pool if other.id in mains and other.id != newest_main]
        return main_exploiter_shares(main, earlier, self.rules)

    def _newest_main(self) -> str:
        """The main agent of the moment, if it still fights; else nobody."""
        newest = self.progress(Role.MAIN).entry
        return newest if any(entry.id == newest for entry in self.store.active()) else ""

    def _known(self, other: Opponent, now: Progress) -> Opponent:
        """What the learner itself showed against somebody, where it was judged by them."""
        if other.id not in now.judged:
            return other
        games, score = now.judged[other.id]
        return other._replace(games=int(games), score=score)

    def _judge_by(self, role: Role, digest: str) -> dict[str, list[float]]:
        """Games and points against those a role is judged by; these battles are rated for nobody."""
        if role is Role.MAIN:
            return {}
        main = self._newest_main()
        everybody = [entry.id for entry in self.store.active()]
        judges = [main] if role is Role.MAIN_EXPLOITER and main else everybody
        battles = one_against(digest, judges, period_seeds(self.store.period, self.seeds, rated=False))
        return tally(digest, matches_of(self.arena.play_unrated(battles)))

    def _name(self, who: str) -> str:
        return next(entry.name for entry in self.store.entries() if entry.id == who)

    def _trainer(self, role: Role, generation: int) -> Trainer:
        """A role's learner: as it was left, or new."""
        if role not in self.trainers:
            folder = self.folder(role, generation)
            kept = any((folder / "checkpoints").glob("[!.]*"))
            start = open_checkpoint(newest_checkpoint(folder / "checkpoints")) if kept else self.start
            seed = self.config.seed + 1000 * generation + list(Role).index(role)
            begun = start.counters.agent_steps if start is not None else 0
            config = dataclasses.replace(self.config, seed=seed, total_agent_steps=begun + self.planned_steps)
            self.trainers[role] = Trainer(config, folder, start, self._draw)
        return self.trainers[role]

    def _draw(self) -> Snapshot | None:
        who = draw(self.shares, self.chance)
        return None if who is None else Snapshot(who, self.store.weights.policy(who).state_dict())


def tally(who: str, matches: Sequence[MatchRecord]) -> dict[str, list[float]]:
    """By opponent, games and points that `who` took."""
    found: dict[str, list[float]] = {}
    for match in matches:
        other = match.red if match.blue == who else match.blue
        row = found.setdefault(other, [0.0, 0.0])
        row[0] += 1
        row[1] += match.points(who)
    return found
