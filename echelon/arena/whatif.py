"""What-if analysis of a battle: win rates from each of its moments, and the value of each mech.

Copies of each moment (branches) are played to the end with other random numbers. The win rate of the branches estimates
the moment's value without a critic. The change of the win rate when a mech acts differently is a counterfactual
baseline as in COMA (Foerster et al. 2018) and in difference rewards (Wolpert and Tumer 2002).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tensordict import TensorDict
from torch import Tensor

from echelon.arena.batch_arena import BatchArena, Battle, BattleResult
from echelon.arena.branch_log import BranchLog
from echelon.arena.branches import (
    ALL_INTERVENTIONS,
    INTERVENTIONS,
    Branch,
    Intervention,
    Moment,
    has_order,
    moments_of,
    play_branches,
)
from echelon.arena.config import ArenaConfig
from echelon.arena.match import adjusted_wald, win_rate_interval
from echelon.arena.resolve import Commander, place_of, resolve
from echelon.command.pack_policy import PackCommander
from echelon.command.port import mechs_of
from echelon.env.arguments import one_seed, whole_within
from echelon.env.outcome import Winner
from echelon.replay.battle import DEATHS, Replay
from echelon.replay.file import read
from echelon.replay.recorder import Recorder
from echelon.rules.config import EnvConfig, env_from_json
from echelon.runtime import noise
from echelon.runtime.errors import require
from echelon.runtime.files import FileError, expect
from echelon.runtime.limits import ANY, Limits, check_number, path_text

BRANCHES, EVERY = 32, 4
"""Branches per moment, and decisions between two moments."""
MOST_BRANCHES = 10**5
SHARE = {Winner.BLUE: 1.0, Winner.RED: 0.0, Winner.DRAW: 0.5}


@dataclass(frozen=True)
class WhatIf:
    """Win rates of a battle from each of its moments."""

    blue: str
    """Name of blue's commander."""
    red: str
    """Name of red's commander."""
    seed: int
    """Seed of the battle."""
    result: BattleResult
    """Result of the battle itself."""
    decision_s: float
    """Length of a decision in seconds."""
    branches: int
    """Number of branches from each moment."""
    moments: TensorDict
    """Batch `[K]`: `decision` int64, and `blue`, blue's win rate in the branches from before it (a draw counts half),
    with its 95 % interval, `low` and `high`. The last row is the end of the battle itself."""
    mechs: TensorDict
    """Batch `[N]`, blue first; empty without `at_s`. For each intervention, by name: the change of blue's win rate,
    `difference`, with its 95 % interval, `low` and `high`."""
    deaths: TensorDict
    """Batch `[D]`, the deaths of the battle in order; empty unless requested: `mech`, blue first; `s`, the time of the
    decision in which it died; and the change of blue's win rate if the mech is fully repaired before that decision:
    `difference`, `low` and `high` as in `mechs`."""
    at_s: float | None = None
    """Time of the interventions in seconds."""

    def swings(self, count: int = 3) -> list[tuple[float, float, float]]:
        """Return the time spans with the largest changes of blue's win rate: start and end in seconds, and change."""
        shares, times = self.moments["blue"].tolist(), (self.moments["decision"] * self.decision_s).tolist()
        steps = [(times[k], times[k + 1], shares[k + 1] - shares[k]) for k in range(len(times) - 1)]
        return sorted(steps, key=lambda step: -abs(step[2]))[:count]

    def as_json(self) -> dict[str, Any]:
        """Return JSON values; times are in seconds."""
        names = ("blue", "low", "high")
        rows = zip(self.moments["decision"].tolist(), *(self.moments[name].tolist() for name in names), strict=True)
        mechs = {name: {key: leaf.tolist() for key, leaf in leaves.items()} for name, leaves in self.mechs.items()}
        return {
            **{"blue": self.blue, "red": self.red, "seed": self.seed, "branches": self.branches},
            "outcome": {
                "winner": self.result.winner.name.lower(),
                "reason": self.result.reason.name.lower(),
                "seconds": self.result.decisions * self.decision_s,
            },
            "moments": [{"s": row[0] * self.decision_s, **dict(zip(names, row[1:], strict=True))} for row in rows],
            "at_s": self.at_s,
            "mechs": mechs,
            "deaths": [{name: leaf.item() for name, leaf in row.items()} for row in self.deaths],
        }


@dataclass(frozen=True)
class BattleSetup:
    """Setup of a battle: a recorded battle, or a battle to play."""

    config: EnvConfig
    blue: str
    red: str
    """Names of commanders, as in `resolve`."""
    seed: int
    end: tuple[str, str, int] | None = None
    """Winner, reason and number of decisions according to a replay."""
    commands: np.ndarray | None = None
    """Recorded orders to packs, as in a replay."""


def whatif(
    battle: EnvConfig | Replay | str | os.PathLike[str],
    index: int = 0,
    *,
    blue: str = "hard",
    red: str = "hard",
    seed: int = 0,
    every: int = EVERY,
    branches: int = BRANCHES,
    at_s: float | None = None,
    interventions: Sequence[Intervention] = INTERVENTIONS,
    deaths: bool = False,
    device: torch.device | str | None = None,
    batch: int = 256,
    log: str | os.PathLike[str] | None = None,
    on_progress: Callable[[float, int], object] = lambda done, of: None,
) -> WhatIf:
    """Play a battle, then play copies of its moments to the end with other random numbers, and count the wins.

    Args:
        battle: a replay, or its file; or the config of a battle between the commanders named `blue` and `red`.
        index: index of the battle in the replay.
        blue, red, seed: commanders and seed of a battle given by a config.
        every: decisions between two moments.
        branches: battles from each moment.
        at_s: time in seconds of the interventions on each mech in turn, with the same random numbers in every turn; by
            default there are none.
        interventions: the interventions; `follow_order` is skipped if no mech has an order.
        deaths: whether to compute the cost of each death.
        device, batch: the device, by default a GPU if there is one, and the number of simultaneous battles.
        log: a file that stores the winner of each branch, so that the same call resumes after a kill. Entries of calls
            with other arguments are dropped.
        on_progress: called repeatedly with the number of branches played and the total.

    Returns:
        The win rates.

    Raises:
        ConfigError: if an argument is out of range.
        FileError: if a file or commander does not exist, or the battle of the replay cannot be reproduced.
    """
    options = WhatIfOptions(every, branches, at_s, tuple(interventions), deaths)
    setup = (
        BattleSetup(battle, blue, red, one_seed(seed)) if isinstance(battle, EnvConfig) else of_replay(battle, index)
    )
    arena, played_battle = arena_of(setup, ArenaConfig(place_of(None, device), batch))
    return count_wins(setup, arena, played_battle, options, None if log is None else Path(path_text(log)), on_progress)


@dataclass(frozen=True)
class WhatIfOptions:
    """The options of `whatif`."""

    every: int
    branches: int
    at_s: float | None
    interventions: tuple[Intervention, ...]
    deaths: bool

    def __post_init__(self) -> None:
        whole_within("branches", self.branches, Limits(2, MOST_BRANCHES, "battles"))
        whole_within("every", self.every, Limits(1, MOST_BRANCHES, "decisions"))
        if self.at_s is not None:
            check_number("at_s", self.at_s, ANY)
        for name in self.interventions:
            require(name in ALL_INTERVENTIONS, "interventions", f"names among {', '.join(ALL_INTERVENTIONS)}", name)


Turn = tuple[Moment, int, Intervention | None]
"""The start of branches, and the mech and its intervention."""


def count_wins(
    known: BattleSetup,
    arena: BatchArena,
    origin: Battle,
    options: WhatIfOptions,
    log: Path | None,
    on_progress: Callable[[float, int], object],
) -> WhatIf:
    """Run `whatif` for a battle in an arena with its commanders."""
    decision_s = known.config.rules.decision_s
    at_decision = None if options.at_s is None else int(options.at_s / decision_s)
    died = deaths_of(arena, origin, known) if options.deaths else []
    decisions = {at_decision, *(decision for _, decision in died)}
    result, moments = moments_of(arena, origin, lambda decision: decision % options.every == 0 or decision in decisions)
    check_same(known, result)
    if options.at_s is not None:
        check_time(options.at_s, result, known)
    row_of = {moment.decision: row for row, moment in enumerate(moments)}
    mechs = range(0 if at_decision is None else known.config.num_mechs)
    interventions = () if at_decision is None else interventions_at(moments[row_of[at_decision]], options.interventions)
    turns: list[Turn] = [(moment, 0, None) for moment in moments]
    if at_decision is not None:
        turns += [(moments[row_of[at_decision]], mech, name) for name in interventions for mech in mechs]
    turns += [(moments[row_of[decision]], mech, "repaired") for mech, decision in died]
    blue_wins = play_turns(arena, origin, turns, options.branches, log, on_progress)
    shares, intervened, spared = blue_wins.split([len(moments), len(turns) - len(moments) - len(died), len(died)])
    change = {}
    if at_decision is not None and interventions:
        alive = moments[row_of[at_decision]].state["state", "mechs", "hp"][0] > 0
        change = differences(intervened - shares[row_of[at_decision]], interventions, alive)
    cost = intervals(spared - shares[[row_of[decision] for _, decision in died]])
    deaths = torch.tensor(died, dtype=torch.int64).view(-1, 2)
    lost = {"mech": deaths[:, 0], "s": deaths[:, 1] * decision_s, **cost}
    return WhatIf(
        known.blue,
        known.red,
        origin.seed,
        result,
        decision_s,
        options.branches,
        lane_of(moments, shares, result),
        TensorDict(change, [len(mechs)]),
        TensorDict(lost, [len(died)]),
        None if at_decision is None else at_decision * decision_s,
    )


def interventions_at(moment: Moment, requested: Sequence[Intervention]) -> tuple[Intervention, ...]:
    """Return the `requested` interventions that can have an effect: all, but `follow_order` only if a mech has an
    order.
    """
    return tuple(name for name in requested if name != "follow_order" or has_order(moment))


def play_turns(
    arena: BatchArena,
    origin: Battle,
    turns: Sequence[Turn],
    branches: int,
    log: Path | None,
    on_progress: Callable[[float, int], object],
) -> Tensor:
    """Return blue's score in each branch, `[len(turns), branches]`; branches in `log` are not played again."""
    # Branch seeds depend only on the battle's seed, so a run with more branches begins with the same seeds.
    chances = noise.battle_seeds(origin.seed, branches, torch.device("cpu")).tolist()
    plan = [Branch(moment, chance, mech, name) for moment, mech, name in turns for chance in chances]
    head = [arena.config.signature(), *origin, arena.compute, arena.processor]
    head += [] if arena.orders is None else [arena.orders.tolist()]
    head += [(turn.moment.decision, turn.chance, turn.mech, turn.intervention) for turn in plan]
    branch_log = BranchLog(log, head)
    done = float(len(branch_log.winners))

    def advance(battles: float) -> None:
        nonlocal done
        done += battles
        on_progress(done, len(plan))

    on_progress(done, len(plan))
    arena.on_progress = advance
    remaining = plan[len(branch_log.winners) :]
    play_branches(arena, origin, remaining, lambda played: branch_log.add([result.winner for result in played]))
    return torch.tensor([SHARE[winner] for winner in branch_log.winners]).view(len(turns), branches)


def deaths_of(arena: BatchArena, origin: Battle, known: BattleSetup) -> list[tuple[int, int]]:
    """Return the mech and the decision of each death of a battle, in order."""
    recorder = Recorder([0])
    arena.play([origin], recorder)
    table = recorder.finish([known.blue], [known.red]).battles[0].deaths
    repeat = known.config.rules.decision_repeat
    tick, victim = DEATHS.index("tick"), DEATHS.index("victim")
    return [(int(row[victim]), int(row[tick]) // repeat) for row in table]


def of_replay(battle: Any, index: int) -> BattleSetup:
    """Return the setup of a recorded battle."""
    replay = battle if isinstance(battle, Replay) else read(Path(path_text(battle)))
    number = whole_within("index", index, Limits(0, len(replay.battles) - 1))
    recorded = replay.battles[number]
    outcome = recorded.about["outcome"]
    end = outcome["winner"], outcome["reason"], recorded.decisions
    for name in (recorded.about["blue"], recorded.about["red"]):
        try:
            commander_of(name)
        except FileError as error:
            raise FileError(f"battle {number + 1} cannot be forked without its commanders: {error}") from None
        has_commands = recorded.commands is not None or mechs_of(name) == name
        expect(has_commands, f"battle {number + 1}", "a battle recorded with the orders of its commander", "none")
    names = recorded.about["blue"], recorded.about["red"]
    return BattleSetup(env_from_json(replay.about["env"]), *names, recorded.about["seed"], end, recorded.commands)


def commander_of(name: str) -> Commander:
    """Resolve the commander of a team's mechs from its name in a replay."""
    commander = resolve(mechs_of(name))
    # The replay already contains the orders, so take only the mechs' policy; no language model is called.
    return resolve(commander.mechs) if isinstance(commander, PackCommander) else commander


def arena_of(known: BattleSetup, settings: ArenaConfig, *others: BattleSetup) -> tuple[BatchArena, Battle]:
    """Create an arena with the commanders of a battle and of further setups; return the arena and the battle."""
    blue, red, *others_used = (commander_of(name) for setup in (known, *others) for name in (setup.blue, setup.red))
    policies = {
        commander.id: commander.policy(known.config, settings.device) for commander in (blue, red, *others_used)
    }
    arena = BatchArena(known.config, policies.__getitem__, settings)
    if known.commands is not None:
        arena.orders = torch.from_numpy(known.commands).to(settings.device)
    return arena, Battle(blue.id, red.id, known.seed)


def check_time(at_s: float, result: BattleResult, known: BattleSetup) -> None:
    """Raise `ConfigError` for a time at which the battle has no decision."""
    last_s = (result.decisions - 1) * known.config.rules.decision_s
    check_number("at_s", at_s, Limits(0.0, last_s, "s, within the battle"))


def check_same(known: BattleSetup, result: BattleResult) -> None:
    """Raise `FileError` if the replayed battle ends differently from the recorded one."""
    replayed = result.winner.name.lower(), result.reason.name.lower(), result.decisions
    template = "{} by {} after {} decisions"
    is_same = known.end is None or known.end == replayed
    recorded = template.format(*known.end or replayed)
    limit = f"{known.blue} against {known.red}, seed {known.seed}, to end as recorded: {recorded}"
    expect(is_same, "the replayed battle", limit, template.format(*replayed))


def lane_of(moments: Sequence[Moment], shares: Tensor, result: BattleResult) -> TensorDict:
    """Build `WhatIf.moments` from blue's score in each branch, `[K - 1, branches]`, and the battle's result."""
    share = SHARE[result.winner]
    intervals = torch.tensor([win_rate_interval(row) for row in shares.tolist()] + [(share, share)])
    decision = torch.tensor([moment.decision for moment in moments] + [result.decisions])
    blue = torch.cat([shares.mean(1), torch.tensor([share])])
    lane = {"decision": decision, "blue": blue, "low": intervals[:, 0], "high": intervals[:, 1]}
    return TensorDict(lane, [len(decision)])


def differences(changes: Tensor, interventions: Sequence[str], alive: Tensor) -> dict[str, TensorDict]:
    """Build `WhatIf.mechs` from the changes of blue's score per branch, `[len(interventions) * N, branches]`.

    The change is exactly 0 for dead mechs, where `alive [N]` is False.
    """
    columns = intervals(changes.unflatten(0, (len(interventions), -1)))
    columns = {name: torch.where(alive.to(leaf.device), leaf, 0.0) for name, leaf in columns.items()}
    mechs = columns["difference"].shape[1]
    return {
        name: TensorDict({key: value[row] for key, value in columns.items()}, [mechs])
        for row, name in enumerate(interventions)
    }


def intervals(changes: Tensor) -> dict[str, Tensor]:
    """Return mean and 95 % interval of changes of blue's score, `[..., branches]` in -1 .. 1, see `adjusted_wald`.

    The interval of `adjusted_wald` adds two values to the sample, so its width is above 0 even if no branch changed:
    one battle in a hundred might still change.
    """
    mean = changes.mean(-1)
    ends = [adjusted_wald(branches, -1.0, 1.0) for branches in changes.reshape(-1, changes.shape[-1]).tolist()]
    low, high = torch.tensor(ends, dtype=mean.dtype).view(-1, 2).unbind(-1)
    return {"difference": mean, "low": low.view_as(mean), "high": high.view_as(mean)}
