"""Whole battles taken out of an environment, put into another or back, and forked."""

from __future__ import annotations

from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from echelon.env.arguments import whole_within
from echelon.env.blocks import ordinary_tensors
from echelon.env.edited_states import check_edited, fingerprint, look
from echelon.env.loops.rows import rows_where
from echelon.env.map_pool import MapPool
from echelon.env.partial import PartialEnv
from echelon.env.restart import ByRow
from echelon.rules.actions import NO_MECH
from echelon.rules.config import EnvConfig
from echelon.runtime.errors import ConfigError, require
from echelon.runtime.limits import Limits
from echelon.sim.model import SimModel
from echelon.state import State
from echelon.world.splits import seed_range

STATE, NEXT_SEED, SHOWN, MAP_SEED, FINGERPRINT = "state", "next_seed", "shown", "map_seed", "fingerprint"
BATTLES = "battles"
MAX_TICK = 2**40


class BattleStatesEnv(PartialEnv):
    """An environment whose battles can be saved, restored and forked.

    A saved state has everything that a battle goes on from: where every mech, shot and voxel is, the seeds, what its
    teams are shown, and what their policies remember. The same actions then lead to the same battle, bit by bit, in
    whatever place of whatever batch: noise comes from a battle's own seed and clock. An environment that was not reset
    yet is, before its battles are asked for.
    """

    config: EnvConfig
    num_envs: int
    game: SimModel
    map_pool: MapPool
    state: State
    next_seed: Tensor
    _observed: TensorDictBase | None

    @property
    @abstractmethod
    def agent_names(self) -> list[str]:
        """Names of all mechs."""

    @abstractmethod
    def observed(self) -> TensorDictBase:
        """What was last observed of all battles."""

    @abstractmethod
    def _another(self, num_envs: int) -> BattleStatesEnv:
        """An environment with the same settings and maps."""

    def get_state(self, rows: Sequence[int] | Tensor | None = None) -> TensorDict:
        """Copies of some battles, on the environment's device.

        Args:
            rows: places of the battles, `[R]` int64, each once; all by default.

        Returns:
            A TensorDict of batch `[R]`, which may be indexed, expanded, moved to another device and saved: `state`,
            `next_seed`, `shown` (observations, flags and memories), `map_seed`, by which `set_state` finds the maps,
            and `fingerprint`, by which it knows what was edited.

        Raises:
            ConfigError: no such place, or one twice.
        """
        index = self._places(rows)
        with ordinary_tensors():
            saved = TensorDict(
                {
                    STATE: self.state[index].to_tensordict(),
                    NEXT_SEED: self.next_seed[index],
                    MAP_SEED: self.game.maps.seed[self.state.map_id[index]],
                    SHOWN: self.observed()[index].to_tensordict(),
                },
                [len(index)],
                device=self.device,
            )
            return saved.set(FINGERPRINT, fingerprint(saved))

    def set_state(self, saved: TensorDictBase, rows: Sequence[int] | Tensor | None = None) -> TensorDictBase:
        """Put saved battles into places of this environment, in place of those that are there.

        A battle that was not edited goes on bit for bit. One whose `state` was is checked, observed and judged anew.

        For between decisions: it reads the host, to check what was saved and to find the maps.

        Args:
            saved: what `get_state` returned here or in an environment of the same config, batch `[R]`.
            rows: places, `[R]` int64, each once; all by default.

        Returns:
            What is now observed of all battles, to go on from, as from `reset`.

        Raises:
            ConfigError: another number of battles, other entries, an index out of its range, what is no number, a map
                that is not in this environment's pool, or an edited state that cannot stand: hulls that overlap or are
                in terrain, timers, hit points, heat or a clock beyond their limits, a wreck with hit points.
        """
        index = self._places(rows)
        check_battles(saved, index.shape)
        saved = saved.to(self.device)
        check_entries(saved, self.get_state(index[:1]))
        check_indices(saved, self.config)
        check_finite(saved.get(STATE))
        with ordinary_tensors():
            chosen, new = ByRow(index), saved.get(STATE).copy().set("map_id", self._find_maps(saved.get(MAP_SEED)))
            fields = {name: part_of(getattr(self.state, name), new.get(name)) for name in new.keys()}
            observed = saved.get(SHOWN)
            edited = rows_where(fingerprint(saved) != saved.get(FINGERPRINT))
            if len(edited):
                state = State(**fields, batch_size=saved.shape)[edited]
                check_edited(state, edited.tolist(), self.agent_names, self.game)
                state, observation = look(state, observed[edited], self.game)
                fields["focus_slots"] = fields["focus_slots"].index_copy(0, edited, state.focus_slots)
                observed = observed.apply(lambda old, new: old.index_copy(0, edited, new), observation)
            chosen.restore(self.state.terrain, fields.pop("terrain"))
            self.state = self.state.replace(
                **{name: chosen.replaced(getattr(self.state, name), leaves) for name, leaves in fields.items()}
            )
            self.next_seed = chosen.replaced(self.next_seed, saved.get(NEXT_SEED))
            self._observed = self.observed().apply(chosen.replaced, observed)
        return self.observed()

    def fork(self, row: int, times: int) -> BattleStatesEnv:
        """An environment of `times` battles that are all as the battle in place `row` is now.

        It shares the maps, which must not be renewed while it is in use.

        To fork again into it: `forked.set_state(env.get_state([row]).expand(times))`.

        Raises:
            ConfigError: no such battle, or `times` is below 1.
        """
        saved, forked = self.get_state([row]), self._another(times)
        forked.set_state(saved.expand(times))
        return forked

    def state_dict(self, destination: Any = None, prefix: str = "", keep_vars: bool = False) -> OrderedDict[str, Any]:
        """All battles, as `get_state` returns them: one entry, `battles`."""
        return OrderedDict({BATTLES: self.get_state()})

    def load_state_dict(  # type: ignore[override]
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> None:
        """Restore what `state_dict` returned.

        An empty one, which is what TorchRL's `Collector` saves of an environment without transforms, changes nothing.
        """
        require(isinstance(state_dict, Mapping), "state_dict", "what state_dict returned", state_dict)
        if BATTLES in state_dict:
            self.set_state(state_dict[BATTLES])

    def _places(self, rows: Sequence[int] | Tensor | None) -> Tensor:
        """`[R]` int64 places, each within the batch and there once, of an environment whose battles have begun."""
        if self._observed is None:
            self.reset()
        if rows is None:
            return torch.arange(self.num_envs, device=self.device)
        is_list = isinstance(rows, Sequence | Tensor | np.ndarray) and not isinstance(rows, str | bytes)
        is_list = is_list and not (isinstance(rows, Tensor) and rows.is_meta) and np.ndim(rows) == 1
        require(is_list, "rows", "a list of places, or a tensor [R]", rows)
        requested = list(rows) if isinstance(rows, Sequence) else rows.tolist()
        indices = [whole_within("rows", row, Limits(0, self.num_envs - 1)) for row in requested]
        require(len(indices) > 0 and len(set(indices)) == len(indices), "rows", "places, each once", requested)
        return torch.tensor(indices, device=self.device)

    def _find_maps(self, seeds: Tensor) -> Tensor:
        """`[R]` int64 indices of the maps with these seeds `[R]` in the pool."""
        matches = seeds[:, None] == self.game.maps.seed
        missing = seeds[~matches.any(1)].unique().tolist()
        limit = "battles on maps of this environment, which `maps=` gives it"
        require(not missing, "saved", limit, f"maps of the seeds {missing}")
        return matches.int().argmax(1)


def part_of(like: Any, value: Any) -> Any:
    """A part of a state, of the class of another, from a TensorDict; tensors as they are."""
    return value if isinstance(like, Tensor) else type(like)._from_tensordict(value, safe=False)


def check_battles(saved: TensorDictBase, shape: torch.Size) -> None:
    """Raise `ConfigError` unless this is a TensorDict of tensors with values, of the batch shape expected."""
    require(isinstance(saved, TensorDictBase), "saved", "a TensorDict of get_state", saved)
    require(saved.shape == shape, "saved", f"{shape.numel()} battles, as many as rows", tuple(saved.shape))
    is_empty = any(getattr(leaf, "is_meta", False) for leaf in saved.values(True, True))
    require(not is_empty, "saved", "of tensors with values", "tensors on the device meta, which hold none")


def check_entries(saved: TensorDictBase, expected: TensorDictBase) -> None:
    """Raise `ConfigError` unless the entries are those expected, each of the same dtype and shape a battle."""
    expected_leaves = {key: value for key, value in expected.items(True, True)}
    saved_leaves = {key: value for key, value in saved.items(True, True)}
    for key in expected_leaves.keys() | saved_leaves.keys():
        kinds = [
            (str(leaf.dtype).removeprefix("torch."), tuple(leaf.shape[1:])) if isinstance(leaf, Tensor) else "nothing"
            for leaf in (expected_leaves.get(key), saved_leaves.get(key))
        ]
        if kinds[0] != kinds[1]:
            raise ConfigError(f"saved: {key} must hold {kinds[0]} a battle, got {kinds[1]}: of another config?")


def index_limits(mechs: int) -> dict[str, tuple[int, int]]:
    """Ranges of the integers of a state that are indices or seeds, by dotted name: loops do not check bounds."""
    return {
        "focus_slots": (NO_MECH, mechs - 1),
        "shots.target": (NO_MECH, mechs - 1),
        "mechs.painter": (0, mechs - 1),
        "tick": (0, MAX_TICK),
        "seed": (0, 2**63 - 1),
    }


def check_indices(saved: TensorDictBase, config: EnvConfig) -> None:
    """Raise `ConfigError` where a saved state holds an index out of its range, or a seed of another split."""
    limits = {(STATE, *name.split(".")): limit for name, limit in index_limits(config.num_mechs).items()}
    limits[STATE, "seed"] = seed_range(config.split)
    for key, (low, high) in {**limits, (NEXT_SEED,): (0, 2**63 - 1)}.items():
        lowest, highest = (int(bound) for bound in saved.get(key).aminmax())
        require(low <= lowest and highest <= high, f"saved: {'.'.join(key)}", f"{low}..{high}", f"{lowest}..{highest}")


def check_finite(state: TensorDictBase) -> None:
    """Raise `ConfigError` where a saved state holds what is no number. Reads the host once."""
    leaves = {key: leaf.isfinite().all() for key, leaf in state.items(True, True) if leaf.is_floating_point()}
    are_finite = torch.stack(list(leaves.values())).tolist()
    names = [".".join((key,) if isinstance(key, str) else key) for key in leaves]
    not_finite = [name for name, is_finite in zip(names, are_finite, strict=True) if not is_finite]
    require(not not_finite, "saved: the state", "of finite numbers", f"others in {', '.join(not_finite)}")


def require_whole_battles(name: str, mask: Tensor) -> None:
    """Raise `ConfigError` where a mask `[B, n, 1]` differs within a battle. Reads the host, if not traced."""
    if torch.compiler.is_compiling():
        return
    rows = mask.flatten(1)
    mixed = (rows != rows[:, :1]).any(1).nonzero()[:, 0].tolist()
    if mixed:
        raise ConfigError(
            f"{name!r} must be the same for all rows of a battle, whose mechs begin and move together, "
            f"got {rows[mixed[0]].tolist()} in battle {mixed[0]}"
        )
