"""Checks of saved battles before an environment loads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from tensordict import TensorDictBase
from torch import Tensor

from echelon.env.arguments import whole_within
from echelon.env.edited_states import check_edited, fingerprint, observe_edited
from echelon.env.loops.rows import rows_where
from echelon.rules.actions import NO_MECH
from echelon.rules.config import EnvConfig
from echelon.runtime.errors import ConfigError, require
from echelon.runtime.limits import Limits
from echelon.sim.model import SimModel
from echelon.state import Maps, State
from echelon.world.splits import seed_range

STATE, NEXT_SEED, SHOWN, MAP_SEED, FINGERPRINT = "state", "next_seed", "shown", "map_seed", "fingerprint"
BATTLES = "battles"
MAX_TICK = 2**40


def checked_rows(rows: Sequence[int] | Tensor, num_envs: int, device: torch.device) -> Tensor:
    """Return the row indices, `[R]` int64 on `device`; raise `ConfigError` if a row is out of range or occurs twice."""
    is_list = isinstance(rows, Sequence | Tensor | np.ndarray) and not isinstance(rows, str | bytes)
    is_list = is_list and not (isinstance(rows, Tensor) and rows.is_meta) and np.ndim(rows) == 1
    require(is_list, "rows", "a list of rows, or a tensor [R]", rows)
    requested = list(rows) if isinstance(rows, Sequence) else rows.tolist()
    indices = [whole_within("rows", row, Limits(0, num_envs - 1)) for row in requested]
    require(
        len(indices) > 0 and len(set(indices)) == len(indices), "rows", "one or more rows, no duplicates", requested
    )
    return torch.tensor(indices, device=device)


def restored(
    saved: TensorDictBase, like: State, agent_names: Sequence[str], model: SimModel
) -> tuple[dict[str, Any], TensorDictBase]:
    """Check saved battles; return the fields of their state, and their observation. For edited battles, the observation
    is computed again.

    Args:
        saved: result of `EchelonEnv.get_state`, with the expected entries.
        like: a state that provides the classes of the returned fields.
        agent_names: names of all mechs, for messages.
        model: the environment's `sim_model`, with its maps.
    """
    check_indices(saved, model.config)
    check_finite(saved.get(STATE))
    new = saved.get(STATE).copy().set("map_id", map_index(saved.get(MAP_SEED), model.maps))
    fields = {name: part_of(getattr(like, name), new.get(name)) for name in new.keys()}
    observed = saved.get(SHOWN)
    edited = rows_where(fingerprint(saved) != saved.get(FINGERPRINT))
    if len(edited):
        state = State(**fields, batch_size=saved.shape)[edited]
        check_edited(state, edited.tolist(), list(agent_names), model)
        state, observation = observe_edited(state, observed[edited], model)
        fields["focus_slots"] = fields["focus_slots"].index_copy(0, edited, state.focus_slots)
        observed = observed.apply(lambda old, new: old.index_copy(0, edited, new), observation)
    return fields, observed


def map_index(seeds: Tensor, maps: Maps) -> Tensor:
    """Return the index in the pool of the map with each of the `seeds [R]`, `[R]` int64."""
    matches = seeds[:, None] == maps.seed
    missing = seeds[~matches.any(1)].unique().tolist()
    limit = "battles on maps of this environment (pass them as `maps=`)"
    require(not missing, "saved", limit, f"maps of the seeds {missing}")
    return matches.int().argmax(1)


def part_of(like: Any, value: Any) -> Any:
    """Convert a TensorDict to the class of `like`; return a tensor unchanged."""
    return value if isinstance(like, Tensor) else type(like)._from_tensordict(value, safe=False)


def check_battles(saved: TensorDictBase, shape: torch.Size) -> None:
    """Raise `ConfigError` unless `saved` is a TensorDict of the expected batch shape and none of its tensors is on
    the meta device."""
    require(isinstance(saved, TensorDictBase), "saved", "a TensorDict of get_state", saved)
    require(saved.shape == shape, "saved", f"{shape.numel()} battles, one per row", tuple(saved.shape))
    is_empty = any(getattr(leaf, "is_meta", False) for leaf in saved.values(True, True))
    require(not is_empty, "saved", "tensors with values", "tensors on the device meta")


def check_entries(saved: TensorDictBase, expected: TensorDictBase) -> None:
    """Raise `ConfigError` unless the entries have the expected keys, dtypes and shapes per battle."""
    expected_leaves = {key: value for key, value in expected.items(True, True)}
    saved_leaves = {key: value for key, value in saved.items(True, True)}
    for key in expected_leaves.keys() | saved_leaves.keys():
        kinds = [
            (str(leaf.dtype).removeprefix("torch."), tuple(leaf.shape[1:])) if isinstance(leaf, Tensor) else "nothing"
            for leaf in (expected_leaves.get(key), saved_leaves.get(key))
        ]
        if kinds[0] != kinds[1]:
            raise ConfigError(f"saved: {key} must be {kinds[0]} per battle, got {kinds[1]}. Is it from another config?")


def check_sides(saved: Tensor, own: Tensor) -> None:
    """Raise `ConfigError` unless the user has the same side in each saved battle `[R]` and in the row that it
    replaces. Reads tensors on the host."""
    sides, expected = saved.tolist(), own.tolist()
    require(sides == expected, "saved: is_red", f"{expected}, the user's side in these rows", sides)


def index_limits(mechs: int) -> dict[str, tuple[int, int]]:
    """Return the valid range of each index and seed of a state, keyed by dotted field name. Indices are checked
    because the compiled loops do not check bounds."""
    return {
        "focus_slots": (NO_MECH, mechs - 1),
        "shots.target": (NO_MECH, mechs - 1),
        "mechs.painter": (0, mechs - 1),
        "tick": (0, MAX_TICK),
        "seed": (0, 2**63 - 1),
    }


def check_indices(saved: TensorDictBase, config: EnvConfig) -> None:
    """Raise `ConfigError` if a saved state contains an index out of range, or a seed of another split."""
    limits = {(STATE, *name.split(".")): limit for name, limit in index_limits(config.num_mechs).items()}
    limits[STATE, "seed"] = seed_range(config.split)
    for key, (low, high) in {**limits, (NEXT_SEED,): (0, 2**63 - 1)}.items():
        lowest, highest = (int(bound) for bound in saved.get(key).aminmax())
        require(low <= lowest and highest <= high, f"saved: {'.'.join(key)}", f"{low}..{high}", f"{lowest}..{highest}")


def check_finite(state: TensorDictBase) -> None:
    """Raise `ConfigError` if a saved state contains NaN or infinity. Reads tensors on the host once."""
    leaves = {key: leaf.isfinite().all() for key, leaf in state.items(True, True) if leaf.is_floating_point()}
    are_finite = torch.stack(list(leaves.values())).tolist()
    names = [".".join((key,) if isinstance(key, str) else key) for key in leaves]
    not_finite = [name for name, is_finite in zip(names, are_finite, strict=True) if not is_finite]
    require(not not_finite, "saved: the state", "finite", f"NaN or infinity in {', '.join(not_finite)}")


def require_whole_battles(name: str, mask: Tensor) -> None:
    """Raise `ConfigError` if a mask `[B, n, 1]` differs between the mechs of a battle. Reads the mask on the host;
    under torch.compile, nothing is checked."""
    if torch.compiler.is_compiling():
        return
    rows = mask.flatten(1)
    mixed = (rows != rows[:, :1]).any(1).nonzero()[:, 0].tolist()
    if mixed:
        raise ConfigError(
            f"{name!r} must be the same for all rows of a battle, because its mechs reset and step together, "
            f"got {rows[mixed[0]].tolist()} in battle {mixed[0]}"
        )
