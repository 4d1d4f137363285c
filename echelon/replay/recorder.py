"""Records a few battles of an environment on the device, without copying tensors to the host during the battles."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tensordict import TensorDictBase
from torch import Tensor

from echelon.env.arguments import whole_within
from echelon.env.observation import layout
from echelon.env.observation.layout import STREAMS
from echelon.env.orders.issue import sanitize_commands
from echelon.env.outcome import Reason, Winner, stat_names
from echelon.replay.battle import Battle, Replay
from echelon.replay.ground import POSITION, describe
from echelon.replay.moments import KEPT, MARKS, changes, events_of, in_reward_units, quantised
from echelon.rules.actions import Orders, idle
from echelon.rules.limits import MOST_BATTLES
from echelon.runtime.errors import one_line, require
from echelon.runtime.files import check_writable
from echelon.runtime.limits import Limits
from echelon.sim.damage import Dealt
from echelon.sim.model import SimModel
from echelon.sim.step import Log
from echelon.state import State
from echelon.world.pool import write_recipes

SHOWN = ("hostile", "intel", "detail", "painted")
"""Recorded columns of a contact, in the order of the bits of `Shown`."""
ORDERED = ("vent", "focus", "fire", "ecm", "eccm", "hostile_only", "sort_mode")
"""Fields of `Orders` that are recorded without conversion."""


class Recorder:
    """Observer of an environment (`EchelonEnv(..., observer=recorder)`) that records a replay of some of its battles.

    Each battle is recorded from a full reset to its first end. Between `opening` and `finish`, all recorded values stay
    on the device: about 25 MB for a minute of 10v10, most of it terrain.

    Args:
        battles: indices of the recorded battles in the environment's batch.
        observations: whether to record all observation streams.

    Raises:
        ConfigError: if there is no index, or if an index is out of range.
    """

    def __init__(self, battles: Sequence[int], observations: bool = False) -> None:
        is_list = isinstance(battles, Sequence) and not isinstance(battles, str) and len(battles) >= 1
        require(is_list, "Recorder.battles", "at least one row of the batch", battles)
        self.battles = [whole_within("Recorder.battles", index, Limits(0, MOST_BATTLES - 1)) for index in battles]
        self.observations = observations
        self._moments: list[dict[str, Tensor]] = []
        self._ticks: list[dict[str, Tensor]] = []
        self._values: list[Tensor] = []
        self._commands: list[Tensor | None] = []
        self._ground: list[dict[str, Tensor]] = []

    def copy(self) -> Recorder:
        """Return a copy of the recorder that continues the recording independently."""
        copied = copy.copy(self)
        for name in ("_moments", "_ticks", "_values", "_commands", "_ground"):
            setattr(copied, name, list(getattr(self, name)))
        return copied

    # Methods of a StepObserver

    def opening(self, sim_model: SimModel, state: State, streams: Mapping[str, Tensor]) -> None:
        """Record the first moment of new battles, and discard the recording of earlier battles."""
        require(max(self.battles) < state.shape[0], "Recorder.battles", f"below {state.shape[0]} battles", self.battles)
        self.sim_model = sim_model
        self._which = torch.tensor(self.battles, device=state.seed.device)
        # Use an index tensor: indexing with a list would copy it to the device and synchronise at every decision.
        columns = [layout.columns(layout.CONTACT, name).start for name in SHOWN]
        self._columns = torch.tensor(columns, device=state.seed.device)
        self._opening = {name: getattr(state, name)[self._which] for name in ("seed", "map_id")}
        running = torch.full_like(state.seed[:, None], int(Winner.RUNNING))
        unpaid = torch.zeros(state.mechs.alive.shape, dtype=torch.float32, device=state.seed.device)
        initial = {"reward": unpaid, "winner": running, "reason": torch.zeros_like(running), "score": state.score}
        stats = {"stats": unpaid.new_zeros((*state.shape, 2, len(stat_names(sim_model.catalog))))}
        orders = idle(state.shape[0], sim_model.roster, sim_model.config)
        self._ticks, self._values, self._commands = [], [], []
        self._moments = [self._keep(state, orders, streams, {**initial, **stats})]
        self._ground = [self._keep_ground(state)]

    def tick(self, state: State, log: Log) -> None:
        if self._full:
            return
        shots, impacts, mechs, tally = state.shots, log.impacts, state.mechs, state.tally
        marks = {"heat": mechs.heat, "fallen": mechs.fallen}
        values = {
            "flew": impacts.flew,
            "ends": impacts.ends,
            "on_mech": impacts.on_mech,
            "victim": impacts.target,
            "on_voxel": impacts.on_voxel,
            "on_floor": impacts.on_floor,
            "point": impacts.point,
            "shot_pos": shots.pos,
            "flies": shots.ttl > 0,
            "lock": shots.target,
            "dealt_by": log.dealt.by_shooter,
            "dealt_with": log.dealt.by_weapon,
            "pos": mechs.pos,
            "alive": mechs.alive,
            "marks": torch.stack([(marks[m] if m in marks else getattr(tally, m)).float() for m in MARKS], -1),
            **{f"beam_{weapon}": target for weapon, target in log.beams.items()},
        }
        self._ticks.append({name: value[self._which] for name, value in values.items()})

    def moment(
        self,
        state: State,
        orders: Orders,
        streams: Mapping[str, Tensor],
        outcome: TensorDictBase,
        commands: Tensor | None,
    ) -> None:
        if self._full:
            return
        self._commands.append(None if commands is None else sanitize_commands(commands)[self._which])
        self._moments.append(self._keep(state, orders, streams, outcome))
        self._ground.append(self._keep_ground(state))

    def expect(self, values: Tensor) -> None:
        """Record both teams' value estimates `[B, 2]` at the last moment; NaN for a policy without values.

        The caller, such as an arena, must call this before every decision or never.
        """
        if not self._full:
            self._values.append(values[self._which])

    @property
    def _full(self) -> bool:
        """Whether every battle has reached its time limit, so that nothing more is recorded."""
        return len(self._moments) > self.sim_model.rules.max_decisions

    def _keep(
        self, state: State, orders: Orders, streams: Mapping[str, Tensor], outcome: Mapping[str, Any]
    ) -> dict[str, Tensor]:
        """Return the recorded values of the recorded battles at this moment, `[R, ...]` by name."""
        mechs = state.mechs
        values = {
            **{name: getattr(mechs, name) for name in KEPT},
            **{name: getattr(orders, name) for name in ORDERED},
            "moves": torch.cat((orders.throttle, orders.thrust[..., None], orders.turn[..., None]), -1),
            "contacts": streams["contact_mechs"],
            "contact_facts": streams["contacts"][..., self._columns],
            "lines": streams["clear_lines"],
            "ego": streams["ego"],
            "messages": state.messages,
            "score": state.score,
            "control": state.control,
            "cloud_pos": state.clouds.pos,
            "cloud_ttl": state.clouds.ttl,
            **{name: outcome[name] for name in ("winner", "reason", "stats", "reward")},
            **({"orders": state.orders_heard} if state.orders_heard.numel() else {}),
            **({f"observation_{name}": streams[name] for name in STREAMS} if self.observations else {}),
        }
        return {name: value[self._which] for name, value in values.items()}

    def _keep_ground(self, state: State) -> dict[str, Tensor]:
        """Return a copy of the recorded battles' terrain columns, because steps change the originals in place."""
        return {name: getattr(state.terrain, name)[self._which] for name in ("solid", "opaque", "rubble")}

    # After all battles

    def finish(self, blue: Sequence[str], red: Sequence[str]) -> Replay:
        """Copy the recording from the device, and return it as a replay.

        Args:
            blue, red: names of the team's commander, one per recorded battle.
        """
        ticks_kept, ground = stacked(self._ticks), stacked(self._ground)
        all_moments, happened = on_host(stacked(self._moments)), on_host({**ticks_kept, **strongest_hits(ticks_kept)})
        expected = torch.stack(self._values).cpu().numpy() if self._values else None
        commands, period = commands_of(self._commands), self.sim_model.config.command.period
        maps = self.sim_model.maps
        grounds = {m: map_origin(self.sim_model, m) for m in self._opening["map_id"].tolist()}
        opening = zip(*(self._opening[name].tolist() for name in ("seed", "map_id")), strict=True)
        battles = []
        for r, (seed, map_id) in enumerate(opening):
            ended = np.flatnonzero(all_moments["winner"][:, r, 0] != int(Winner.RUNNING))
            decisions = int(ended[0]) if len(ended) else len(self._moments) - 1
            moments = {name: value[: decisions + 1, r] for name, value in all_moments.items()}
            ticks = {
                name: value[: decisions * self.sim_model.rules.decision_repeat, r] for name, value in happened.items()
            }
            columns = {name: value[: decisions + 1, r] for name, value in ground.items()}
            about = {
                "blue": one_line(blue[r]),
                "red": one_line(red[r]),
                "seed": seed,
                "map": grounds[map_id],
                "zone": [*maps.zone_center[map_id].tolist(), float(maps.zone_radius[map_id])],
                "outcome": final_outcome(
                    {name: value[-1] for name, value in moments.items()}, stat_names(self.sim_model.catalog)
                ),
            }
            streams = {name: compact(moments[f"observation_{name}"]) for name in STREAMS} if self.observations else {}
            events = {**events_of(moments, ticks, self.sim_model), "voxels": changes(columns, map_id, self.sim_model)}
            values = None if expected is None else values_of(expected[:decisions, r])
            battle_commands = None if commands is None else commands[:decisions:period, r]
            events |= quantised(moments, self.sim_model)
            battles.append(Battle(about, **events, values=values, commands=battle_commands, observations=streams))
        return Replay(describe(self.sim_model), battles)


def map_origin(sim_model: SimModel, map_id: int) -> dict[str, Any]:
    """Return the data from which a map can be rebuilt: its recipe, or the index of its position in the config."""
    if sim_model.config.positions:
        return {POSITION: map_id}
    return write_recipes(sim_model.maps[map_id : map_id + 1])[0].as_json()


def values_of(expected: np.ndarray) -> np.ndarray | None:
    """Return `Battle.values` from value estimates `[T, 2]`, one row per decision; None if neither policy has values."""
    if np.isnan(expected).all():
        return None
    return in_reward_units(np.concatenate((expected, np.full((1, 2), np.nan))))


def commands_of(decided: list[Tensor | None]) -> np.ndarray | None:
    """Return the commands of each decision, `[T, R, P, D]`, 0 without a command; None if no command was ever given."""
    example = next((command for command in decided if command is not None), None)
    if example is None:
        return None
    return torch.stack([torch.zeros_like(example) if command is None else command for command in decided]).cpu().numpy()


def compact(stream: np.ndarray) -> np.ndarray:
    """Convert an observation stream to half precision; flags stay bool."""
    return stream if stream.dtype == bool else stream.astype(np.float16)


def stacked(steps: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Stack the recorded steps along a new first axis, `[steps, R, ...]`."""
    return {name: torch.stack([step[name] for step in steps]) for name in steps[0]}


def on_host(values: dict[str, Tensor]) -> dict[str, np.ndarray]:
    return {name: value.cpu().numpy() for name, value in values.items()}


def strongest_hits(ticks: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the shooter and the weapon with the most damage to each mech in every tick, `[K, R, N]` each."""
    shape = ticks["dealt_by"].shape[:2]
    dealt = Dealt(ticks["dealt_by"].flatten(0, 1), ticks["dealt_with"].flatten(0, 1))
    return {"killer": dealt.killer.unflatten(0, shape), "deadliest": dealt.deadliest.unflatten(0, shape)}


def final_outcome(last: dict[str, np.ndarray], names: Sequence[str]) -> dict[str, Any]:
    """Return the outcome of a battle at its last moment; the winner is `running` if the battle did not end.

    Args:
        last: recorded values of the last moment.
        names: names of the statistics.
    """
    stats = {name: [round(float(x), 3) for x in last["stats"][:, i]] for i, name in enumerate(names)}
    return {
        "winner": Winner(int(last["winner"][0])).name.lower(),
        "reason": Reason(int(last["reason"][0])).name.lower(),
        "score": [round(float(x), 3) for x in last["score"]],
        "stats": stats,
    }


def make_recorder(
    file: Path | None, recorded: int, batch: int, battles: int, observations: bool, others: Mapping[str, Path | None]
) -> Recorder | None:
    """Return a recorder for the first battles of a match, or None if no replay file is given.

    Args:
        file: the replay file.
        recorded: number of battles to record, at most `batch`.
        batch: number of battles in the first batch.
        battles: number of battles in the match.
        observations: whether to record observations, as in `Recorder`.
        others: other output files, keyed by their flag.

    Raises:
        ConfigError: if another output is the same file, `recorded` is out of range, or a file is not writable.
    """
    check_writable(*others.values())
    if file is None:
        return None
    for flag, path in others.items():
        is_other_file = path is None or path.resolve() != file.resolve()
        require(is_other_file, flag, "another file than the replay", str(path))
    require(1 <= recorded <= batch, "--replay-battles", f"1..{batch}, battles of the first --batch", recorded)
    check_writable(file)
    return Recorder(range(min(recorded, battles)), observations)
