"""Plays the battles of a league and records the matches; several processes may share the battles of a schedule.

A process claims battles before it plays them, so no battle is played twice. Matches that cannot be recorded are saved
in a file, which can be imported later.
"""

import contextlib
import dataclasses
import json
import tempfile
import time
import uuid
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import torch

from echelon.agents.heuristic import full_name, scripted
from echelon.agents.team_policy import TeamPolicy
from echelon.arena.batch_arena import BatchResult, Battle, BattleResult
from echelon.arena.config import ArenaConfig, check_settings
from echelon.arena.evaluate import Evaluation, Watch, evaluate, met_before
from echelon.arena.proof import read_claims
from echelon.arena.ray_arena import make_arena
from echelon.env.outcome import stat_names
from echelon.env.tasks.task import Task
from echelon.league import log
from echelon.league.database import RULES
from echelon.league.records import MatchRecord, match_recipe, recipe_versions
from echelon.league.store import MAP_SEED, Store
from echelon.learn.checkpoint.provenance import NOTHING
from echelon.replay.recorder import Recorder
from echelon.rules.config import EnvConfig, env_from_json
from echelon.rules.config_json import battle_difference
from echelon.rules.versions import current_versions
from echelon.runtime import noise
from echelon.runtime.errors import require
from echelon.runtime.files import FileError, as_file_error, file_lock, json_bytes, open_file, write_whole, writing_to
from echelon.runtime.json_checks import OBJECT, exactly, listed, record
from echelon.runtime.ray_tasks import RayTasks

SCHEMA, VERSION = "echelon-matches", 1
MAX_BYTES = 64 << 20
ROW = record({name: RULES["matches"][name] for name in MatchRecord._fields})
CHECK = record(
    {"schema": exactly(SCHEMA), "version": exactly(VERSION), "env": OBJECT, "matches": listed(ROW, 0, MAX_BYTES)}
)


def save_unrecorded(folder: Path, env: EnvConfig, matches: Sequence[MatchRecord]) -> str:
    """Save matches in a file in the league's folder, or in the temporary folder if that one is not writable.

    Returns:
        One line of text: the file and the command that records it, or that the matches are lost.
    """
    rows = [match._asdict() for match in matches]
    data = json_bytes({"schema": SCHEMA, "version": VERSION, "env": env.signature(), "matches": rows})
    for parent in (folder, Path(tempfile.gettempdir())):
        path = parent / f"unrecorded_{uuid.uuid4().hex[:12]}.json"
        try:
            write_whole(path, data)
        except FileError:
            continue
        return f"{len(rows)} played battles are saved: `arena.py import {path} --league {folder}` records them"
    return f"{len(rows)} played battles are lost, because no file can be written: play them again"


def is_unrecorded(path: Path) -> bool:
    """Return whether `save_unrecorded` wrote this file; only its first bytes are read."""
    with open_file(path, 1 << 40) as file:
        return f'"schema": "{SCHEMA}"'.encode() in file.read(100)


def record_file(path: Path, store: Store) -> tuple[int, int]:
    """Record the matches of a file in the open rating period of their league; matches already recorded do not change.

    Returns:
        The number of matches in the file, and the number of new ones.

    Raises:
        FileError: if the file is invalid, or belongs to another league or to other rules; no match is recorded then.
    """
    document = read_claims(path, CHECK, MAX_BYTES)
    matches = [MatchRecord(**row) for row in document["matches"]]
    ids = {entry.id for entry in store.entries()}
    with as_file_error(path.name):
        difference = battle_difference(store.env.signature(), env_from_json(document["env"]).signature())
        require(difference is None, "env", "the battle of the league", difference)
        for number, match in enumerate(matches):
            label = f"matches[{number}]"
            require({match.blue, match.red} <= ids, label, "between entries of the league", (match.blue, match.red))
            require(match.blue != match.red, label, "between two different entries", match.blue)
            is_current = recipe_versions(match.recipe) == current_versions()
            require(is_current, f"{label}.recipe", "a match under the current rules and map generator", match.recipe)
    new = store.record(matches)
    if new > 0:
        log.write_imported(store, (match._asdict() for match in matches))
    return len(matches), new


CLAIMS_FOLDER = "fighting"
"""Subfolder of a league with one lock file per playing process, locked while the process lives."""


class Claims:
    """The battles that this process has claimed (reserved for itself); use `claiming` to create it."""

    def __init__(self, store: Store, owner: str) -> None:
        self.store, self.owner = store, owner

    def claim(self, battles: Sequence[Battle], most: int) -> tuple[list[Battle], bool]:
        """Claim the first `most` battles that are neither played nor claimed by a living process.

        Returns:
            The claimed battles, and whether other battles of the list remain unplayed. If no battle was claimed, other
            processes are playing the remaining ones.
        """
        store = self.store
        with store.writing():
            for owner in owners(store) - {self.owner}:
                if self.is_dead(owner):
                    release(store, owner)
            played, claimed_by_others = store.played(battles), claimed(store)
            unplayed = [battle for battle in battles if battle not in played]
            new = [battle for battle in unplayed if battle not in claimed_by_others][:most]
            store.database.insert("claims", [(*battle, self.owner) for battle in new])
        return new, len(unplayed) > len(new)

    def is_dead(self, owner: str) -> bool:
        """Return whether the process that claimed battles under the name `owner` has ended."""
        try:
            with file_lock(self.store.folder / CLAIMS_FOLDER / owner):
                pass
        except FileError:
            return False
        return True


@contextlib.contextmanager
def claiming(store: Store) -> Iterator[Claims]:
    """Context manager that yields this process's claims on battles and releases the unplayed ones on exit."""
    path = store.folder / CLAIMS_FOLDER / uuid.uuid4().hex
    with writing_to(path):
        path.parent.mkdir(exist_ok=True)
    with file_lock(path):
        try:
            yield Claims(store, path.name)
        except KeyboardInterrupt:
            store.database.patience_s = 0.0
            raise
        finally:
            # If the release fails, other processes ignore the claims anyway: their owner's file is no longer locked.
            with contextlib.suppress(FileError):
                release(store, path.name)


def claimed(store: Store) -> set[Battle]:
    return {Battle._make(row) for row in store.execute("SELECT blue, red, seed FROM claims")}


def owners(store: Store) -> set[str]:
    """Return the names of the processes that have claimed battles."""
    # `read` validates each owner's name, because the name is used as a file name.
    return {owner for (owner,) in store.read("claims", ("owner",), "SELECT DISTINCT owner FROM claims")}


def release(store: Store, owner: str) -> None:
    with store.writing():
        store.execute("DELETE FROM claims WHERE owner = ?", owner)


POLL_S = 0.5
"""Polling interval, in seconds, while waiting for battles claimed by other processes."""


@dataclass(frozen=True)
class PlayedBatch:
    """The matches of one batch of battles."""

    matches: list[MatchRecord]
    seconds: float
    """Wall-clock time of the batch."""

    def __len__(self) -> int:
        return len(self.matches)


class LeagueArena:
    """Plays the battles of a league and records them.

    The results of a battle do not depend on the other battles in its batch.

    Args:
        settings: settings of the arena.
        tasks: distributes the battles to a Ray cluster, see `RayArena`; this process then only records the results.
    """

    def __init__(self, store: Store, settings: ArenaConfig, tasks: RayTasks | None = None) -> None:
        check_settings(settings)
        self.store, self.device = store, settings.device if tasks is None else torch.device("cpu")
        self.is_shared = tasks is not None
        self.scripts = {entry.id: entry.name for entry in store.entries() if entry.is_scripted}
        env = dataclasses.replace(store.env, map_seed=MAP_SEED)
        self.arena = make_arena(env, self.policy, settings, tasks)
        self.recipe = match_recipe(MAP_SEED, self.arena.settings.precision)

    def policy(self, entry_id: str) -> TeamPolicy:
        """Return the policy of an entry, in evaluation mode (`eval()`)."""
        if entry_id in self.scripts:
            return scripted(self.scripts[entry_id], self.arena.config, self.device)
        return self.store.weights.policy(entry_id)

    @property
    def task(self) -> Task:
        """The battles of the league as an evaluation task."""
        env = self.store.env
        return Task("league", "battles of a league", env, *current_versions(), evaluation=self.arena.config)

    def unplayed(self, battles: Sequence[Battle]) -> list[Battle]:
        """Return the battles that have no recorded match at any float precision, see `Store.played`."""
        played = self.store.played(battles)
        return [battle for battle in battles if battle not in played]

    def play(self, battles: Sequence[Battle], recorder: Recorder | None = None) -> Generator[PlayedBatch, None, None]:
        """Play rated battles batch by batch. Each batch is yielded after its matches were recorded and logged.

        Several processes may receive the same list of battles; each battle is played once. At the end, this process
        waits for battles that other processes have claimed, and plays them if their process dies.

        Args:
            battles: the battles; those with a recorded match are skipped.
        """
        recorded = 0
        with claiming(self.store) as claims:
            while True:
                # A Ray cluster receives all battles at once, so no worker waits for the last battle of another worker.
                batch_size = len(battles) if self.is_shared else self.arena.settings.batch
                claimed, others_play = claims.claim(battles, batch_size)
                if claimed:
                    for batch in self._play_recorded(claimed, recorder, recorded):
                        recorded += len(batch)
                        yield batch
                    recorder = None
                elif others_play:
                    time.sleep(POLL_S)
                else:
                    return

    def _play_recorded(
        self, battles: Sequence[Battle], recorder: Recorder | None, before: int
    ) -> Iterator[PlayedBatch]:
        """Play battles in batches and record each batch, or save it in a file if recording fails.

        On an interrupt, the message states the number of recorded battles.
        """
        placed = [battle._replace(seed=match_seed(battle.seed)) for battle in battles]
        # Close the generator explicitly, so that an interrupt ends the running batch.
        with closing(self.arena.play_batches(placed, recorder)) as batches:
            while True:
                batch = None
                try:
                    start, result = next(batches)
                    batch = self.batch_of(battles[start : start + len(result)], result)
                    self.store.record(batch.matches)
                except StopIteration:
                    return
                except FileError as error:
                    if batch is None:
                        raise
                    raise FileError(f"{error}; {self._save(batch)}") from None
                except KeyboardInterrupt:
                    raise KeyboardInterrupt(self._kept(batch, before)) from None
                log.write_batch(self.store, batch.matches, batch.seconds, self.arena.setup)
                before += len(batch)
                yield batch

    def _kept(self, played: PlayedBatch | None, before: int) -> str:
        """Record a played batch after an interrupt, or save it in a file; return a message about it."""
        if played is None:
            return f"{before} battles are recorded; the same command continues"
        # The interrupt may have come during or after the recording; `record` stores each match only once.
        self.store.database.patience_s = 0.0
        try:
            self.store.record(played.matches)
        except FileError:
            return self._save(played)
        return f"{before + len(played)} battles are recorded; the same command continues"

    def _save(self, played: PlayedBatch) -> str:
        return save_unrecorded(self.store.folder, self.arena.config, played.matches)

    def evaluate(
        self, who: str, opponents: Sequence[str], seeds: Sequence[int], watch: Watch | None = None
    ) -> Evaluation:
        """Run `echelon.evaluate` in the battles of the league.

        These battles are not recorded, do not affect ratings, and may repeat recorded battles.

        Args:
            who: id of an entry, or sha256 of weights in the league's weight store.

        Returns:
            The evaluation, with results keyed by the opponents' ids.
        """
        match_seeds = [match_seed(seed) for seed in seeds]
        evaluation = evaluate(who, self.task, opponents, seeds=match_seeds, arena=self.arena, watch=watch)
        provenance = NOTHING if who in self.scripts else self.store.weights.open(who).provenance
        entries = {opponent: full_name(self.scripts.get(opponent, opponent)) for opponent in opponents}
        return dataclasses.replace(evaluation, met=met_before(provenance, self.arena.config, entries))

    def batch_of(self, battles: Sequence[Battle], result: BatchResult) -> PlayedBatch:
        """Return the match records of the battles that have these results."""
        matches = [
            self._record_of(battle, outcome, result.seconds / len(battles))
            for battle, outcome in zip(battles, result.results, strict=True)
        ]
        return PlayedBatch(matches, result.seconds)

    def _record_of(self, battle: Battle, result: BattleResult, duration_s: float) -> MatchRecord:
        names = stat_names(self.arena.config.catalog)
        blue, red = (dict(zip(names, side, strict=True)) for side in result.stats)
        return MatchRecord(
            *battle,
            recipe=self.recipe,
            winner=int(result.winner),
            reason=result.reason.name.lower(),
            decisions=result.decisions,
            duration_s=duration_s,
            stats=json.dumps({"score": result.score, "blue": blue, "red": red}),
            state_hash=result.state_hash,
        )


def match_seed(seed: int) -> int:
    """Return the battle seed of both battles of a pair that a league's schedule plays with seed S.

    It is the seed of the first battle of `Match.play(S)`. Therefore `arena.py play --seed S --battles 2` draws the same
    random numbers as these two battles, but on other maps.
    """
    return int(noise.battle_seeds(seed, 1, torch.device("cpu")))


def matches_of(batches: Iterable[PlayedBatch]) -> list[MatchRecord]:
    return [match for batch in batches for match in batch.matches]
