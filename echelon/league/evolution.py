"""League training: a main agent and two exploiters train in turn on one machine and add entries to the league.

The three roles are those of Vinyals et al. 2019 (Methods, 'Multi-agent learning'). The main agent trains against the
whole league. The main exploiter trains to beat the current main agent, the league exploiter to beat all entries. An
exploiter that succeeds is added to the league; the main exploiter is then reset, the league exploiter only with
probability `league_exploiter_reset`. AlphaStar also adds an exploiter that ran out of time; here it is not added, so
every exploiter in a league has beaten an entry.
"""

import dataclasses
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from echelon.league import log
from echelon.league.config import LeagueConfig, Weighting
from echelon.league.league_arena import LeagueArena
from echelon.league.matchmaking import LeaguePool, Opponent, compatible_entries, opponent_pool, period_seeds, preference
from echelon.league.rating_period import rate_entry
from echelon.learn.callbacks.base import Callback
from echelon.learn.checkpoint.files import newest_checkpoint
from echelon.learn.checkpoint.format import Checkpoint, open_checkpoint
from echelon.learn.config import PAST, TrainConfig
from echelon.learn.trainer import Trainer


class Role(str, Enum):
    MAIN = "main"
    MAIN_EXPLOITER = "main exploiter"
    LEAGUE_EXPLOITER = "league exploiter"


Shares = dict[str, float]
"""Probability of each opponent by entry id; if the sum is below 1, the rest is self-play."""


@dataclass(frozen=True)
class TurnOutcome:
    """The outcome of a training turn for a learner, with its reason."""

    joins: bool
    """Whether its policy is added to the league."""
    resets: bool
    """Whether it restarts from the initial weights."""
    reason: str


def spread(pool: list[Opponent], weighting: Weighting, hardness: float, share: float) -> Shares:
    """Distribute the probability `share` over the opponents of a pool, weighted by `matchmaking.preference`."""
    gaps = [0.0] * len(pool)
    chances = preference(weighting, [opponent.win_rate for opponent in pool], gaps, hardness)
    return {opponent.id: share * chance for opponent, chance in zip(pool, chances, strict=True)}


def main_shares(pool: list[Opponent], rivals: list[Opponent], config: LeagueConfig) -> Shares:
    """Return the main agent's opponents: the whole league and forgotten rivals; the remaining share is self-play.

    Args:
        rivals: past main agents and exploiters; a rival counts as forgotten if the main agent's win rate against it is
            below `forgotten_below`.
    """
    forgotten = [opponent for opponent in rivals if opponent.win_rate < config.forgotten_below]
    forgotten_share = 1 - config.main_self_share - config.main_pfsp_share
    shares: Shares = {}
    pools = ((pool, config.main_pfsp_share), (forgotten, forgotten_share))
    for opponents, share in pools:
        chances = spread(opponents, "hard", config.hardness, share) if opponents else {}
        for id, chance in chances.items():
            shares[id] = shares.get(id, 0.0) + chance
    return shares


def main_exploiter_shares(main: Opponent | None, earlier: list[Opponent], config: LeagueConfig) -> Shares:
    """Return the main exploiter's opponents: the current main agent, or past ones if the current one is too strong.

    Args:
        main: the current main agent, with the results of the exploiter's last evaluation.
    """
    if main is None:
        return {}
    # The win rate counts one extra drawn game, so by default four lost games show that the main agent is too strong.
    if main.win_rate > config.exploiter_hopeless or not earlier:
        return {main.id: 1.0}
    return spread(earlier, "variance", config.hardness, 1.0)


def league_exploiter_shares(pool: list[Opponent], config: LeagueConfig) -> Shares:
    return spread(pool, "hard", config.hardness, 1.0) if pool else {}


def judge(role: Role, win_rates: dict[str, float], turns: int, config: LeagueConfig, rng: random.Random) -> TurnOutcome:
    """Decide whether a learner's policy is added to the league, and whether the learner is reset.

    Args:
        win_rates: points per game by opponent in the last evaluation. A main exploiter is evaluated against the current
            main agent, a league exploiter against all active entries. An empty `win_rates` means that there was no
            opponent, which does not count as a win.
    """
    if role is Role.MAIN:
        return TurnOutcome(True, False, "a main agent's snapshot joins after every turn and its training continues")
    name, worst = min(win_rates.items(), key=lambda pair: pair[1], default=("", 0.0))
    result = f"{worst:.0%} of the points against {name}, {config.exploiter_wins:.0%} required, turn {turns}"
    if not win_rates:
        result = f"no opponent for an evaluation, turn {turns}"
    wins, is_late = bool(win_rates) and worst >= config.exploiter_wins, turns >= config.exploiter_turns
    if not wins and not is_late:
        return TurnOutcome(False, False, f"continues: {result} of {config.exploiter_turns}")
    resets = role is Role.MAIN_EXPLOITER or rng.random() < config.league_exploiter_reset
    why = f"won: {result}; joins and" if wins else f"out of turns: {result};"
    return TurnOutcome(wins, resets, f"{why} {'resets' if resets else 'continues'}")


KIND = {Role.MAIN: "main", Role.MAIN_EXPLOITER: "exploiter", Role.LEAGUE_EXPLOITER: "exploiter"}


@dataclass(frozen=True)
class Progress:
    """Training progress of a role (main agent or exploiter), stored as a setting of the league."""

    generation: int = 0
    """Number of resets."""
    turns: int = 0
    """Turns since the role was reset or last added to the league."""
    entry: str = ""
    """Id of its last entry; empty for none."""
    judged: dict[str, list[float]] = field(default_factory=dict)
    """Games and points in the last evaluation, by opponent."""


class Evolution:
    """Trains the main agent and both exploiters of a league in turn.

    After a restart of the program, each of these learners resumes from its last completed turn.

    Args:
        config: training config of all roles; the league's environment replaces its own.
        start: initial weights of all roles, also after a reset; None for random initialization.
        seeds: number of seeds per opponent in evaluations and ratings, each played once per side.
        planned_turns: number of turns per role, which sets the length of training schedules.
        callbacks: callbacks of every role's training; without state.
    """

    def __init__(
        self,
        arena: LeagueArena,
        config: TrainConfig,
        start: Checkpoint | None,
        seeds: int,
        planned_turns: int,
        iterations: int,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        self.arena, self.store, self.rules, self.start = arena, arena.store, arena.store.rules, start
        self.seeds, self.iterations, self.callbacks = seeds, iterations, callbacks
        # If there is a checkpoint with initial weights, use its reward config.
        reward = start.env.reward if start is not None else arena.store.env.reward
        self.config = dataclasses.replace(
            config,
            env=dataclasses.replace(arena.store.env, reward=reward),
            model=start.policy().model if start is not None else config.model,
            opponent=PAST,
            snapshot_opponent_share=0.0,
            self_share=0.0,
            # If no league opponent is sampled, the learner plays its policy of the previous iteration.
            past_kept=1,
            past_every=1,
        )
        self.planned_steps = planned_turns * iterations * self.config.steps_an_iteration
        self.trainers: dict[Role, Trainer] = {}
        self.pool = LeaguePool(self.store)
        self.rng = random.Random(f"{config.seed} {self.store.period}")

    def progress(self, role: Role) -> Progress:
        return Progress(**self.store.role(role.value))

    def folder(self, role: Role, generation: int) -> Path:
        """Return the run folder of a role, with its checkpoints and metrics."""
        return self.store.folder / "learners" / role.value.replace(" ", "_") / f"generation_{generation}"

    def turn(self, role: Role) -> TurnOutcome:
        """Train a role for one turn, evaluate it, and apply the outcome."""
        self._rate_newcomers()
        progress = self.progress(role)
        # Set the opponent shares before the trainer is created, because its constructor samples the first opponents.
        self.pool.shares = self.opponent_shares(role, progress)
        trainer = self._trainer(role, progress.generation)
        trainer.train(self.iterations)
        checkpoint = trainer.save()
        digest = self.store.add_weights(checkpoint)
        points = self._evaluate(role, digest)
        rates = {self._name(opponent): score / games for opponent, (games, score) in points.items()}
        outcome = judge(role, rates, progress.turns + 1, self.rules, self.rng)
        self._apply_outcome(role, progress, outcome, checkpoint, points)
        return outcome

    def _rate_newcomers(self) -> None:
        """Rate entries that an interrupted run added to the league but did not rate."""
        rated = self.store.rated()
        for entry in self.store.entries("main", "exploiter"):
            if entry.id not in rated:
                rate_entry(self.arena, entry, self.seeds)

    def _apply_outcome(
        self, role: Role, progress: Progress, outcome: TurnOutcome, checkpoint: Path, points: dict[str, list[float]]
    ) -> None:
        """Apply the outcome of a turn in one transaction; then rate the new entry, if there is one."""
        with self.store.writing():
            entry = self.store.add(checkpoint, KIND[role], progress.entry or None) if outcome.joins else None
            last = entry.id if entry is not None else progress.entry
            after = Progress(
                generation=progress.generation + outcome.resets,
                turns=0 if outcome.joins or outcome.resets else progress.turns + 1,
                # After a reset to the initial weights, the agent's next league entry has no parent.
                entry="" if outcome.resets else last,
                judged={} if outcome.resets else points,
            )
            self.store.set_setting(f"role {role.value}", vars(after))
            self.store.record_change("judged", f"{role.value}: {outcome.reason}", entry)
            if outcome.resets:
                self.store.record_change("reset", f"{role.value}, generation {after.generation}: {outcome.reason}")
        if outcome.resets:
            del self.trainers[role]
        if entry is not None:
            rate_entry(self.arena, entry, self.seeds)
        values = {"joins": outcome.joins, "resets": outcome.resets, "reason": outcome.reason}
        log.write_event(self.store, "judged", role=role.value, name=entry.name if entry is not None else None, **values)

    def opponent_shares(self, role: Role, progress: Progress) -> Shares:
        """Return the probability of each opponent in a role's next turn, by entry id."""
        me = next((entry for entry in self.store.entries() if entry.id == progress.entry), None)
        fits = compatible_entries(self.config.model, self.store)
        pool = [self._known(opponent, progress) for opponent in opponent_pool(self.store, fits, me)]
        mains = {entry.id for entry in fits if entry.kind == "main"}
        if role is Role.LEAGUE_EXPLOITER:
            return league_exploiter_shares(pool, self.rules)
        if role is Role.MAIN:
            rivals = mains | {entry.id for entry in fits if entry.kind == "exploiter"}
            return main_shares(pool, [opponent for opponent in pool if opponent.id in rivals], self.rules)
        newest_main = self._newest_main()
        main_opponent = next((opponent for opponent in pool if opponent.id == newest_main), None)
        if main_opponent is not None:
            # The newest main agent is new in every turn, so use the exploiter's results against its predecessor.
            games, score = (sum(column) for column in zip((0.0, 0.0), *progress.judged.values(), strict=True))
            main_opponent = main_opponent._replace(games=int(games), score=score)
        earlier = [opponent for opponent in pool if opponent.id in mains and opponent.id != newest_main]
        return main_exploiter_shares(main_opponent, earlier, self.rules)

    def _newest_main(self) -> str:
        """Return the id of the main agent's latest entry; empty if no entry exists or the latest one is retired."""
        newest = self.progress(Role.MAIN).entry
        return newest if any(entry.id == newest for entry in self.store.active()) else ""

    def _known(self, other: Opponent, progress: Progress) -> Opponent:
        """Return `other` with the results against it in the learner's last evaluation, or unchanged without results."""
        if other.id not in progress.judged:
            return other
        games, score = progress.judged[other.id]
        return other._replace(games=int(games), score=score)

    def _evaluate(self, role: Role, digest: str) -> dict[str, list[float]]:
        """Evaluate the policy of a role; return games and points by opponent id.

        The battles of this evaluation are not recorded.
        """
        if role is Role.MAIN:
            return {}
        main = self._newest_main()
        active = [entry.id for entry in self.store.active()]
        opponents = [main] if role is Role.MAIN_EXPLOITER and main else active
        seeds = period_seeds(self.store.period, self.seeds, rated=False)
        # If these weights are already a league entry, they do not play against themselves.
        rivals = [opponent for opponent in opponents if opponent != digest]
        if not rivals:
            return {}
        evaluation = self.arena.evaluate(digest, rivals, seeds)
        return {opponent: [float(result.battles), result.x_points] for opponent, result in evaluation.results.items()}

    def _name(self, who: str) -> str:
        return next(entry.name for entry in self.store.entries() if entry.id == who)

    def _trainer(self, role: Role, generation: int) -> Trainer:
        """Return the trainer of a role: cached, resumed from its newest checkpoint, or new."""
        if role not in self.trainers:
            folder = self.folder(role, generation)
            can_resume = any((folder / "checkpoints").glob("[!.]*"))
            start = open_checkpoint(newest_checkpoint(folder / "checkpoints")) if can_resume else self.start
            seed = (self.config.seed + 1000 * generation + list(Role).index(role)) % 2**31
            done_steps = start.counters.agent_steps if start is not None else 0
            config = dataclasses.replace(self.config, seed=seed, total_agent_steps=done_steps + self.planned_steps)
            self.trainers[role] = Trainer(config, folder, start, self.pool, callbacks=self.callbacks)
        return self.trainers[role]
