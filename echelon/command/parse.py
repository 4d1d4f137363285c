"""Orders as JSON values, checked, and as the columns of a commander's action."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from echelon.rules.orders import DISCIPLINES, KINDS, TARGETS, Discipline, OrderAction, OrderKind, action_width
from echelon.runtime.errors import require

FIELDS = ("battle", "pack", "kind", "place", "target", "urgency", "fire")
KIND_NAMES = tuple(kind.name.lower() for kind in OrderKind)
FIRE_NAMES = tuple(one.name.lower() for one in Discipline)
NEED_PLACE = ("move", "defend", "screen")


def order_row(
    order: Any, batch: int, packs: int, enemies: Sequence[str], size: Sequence[float]
) -> tuple[int, int, Tensor]:
    """The battle, the pack and the row `[D]` of a commander's action that an order means.

    Args:
        order: a mapping with `kind`, one of `KIND_NAMES`; `pack`, 0 by default; `battle`, 0 by default; `place`, x and
            y in vox, for a move, to defend and to screen, and for an attack without a target; `target`, the name of an
            enemy, for an attack; `urgency`, 0..1; `fire`, one of `FIRE_NAMES`.
        batch, packs: how many battles and packs there are.
        enemies: names of the enemies, in order.
        size: vox, the map along x and y.

    Raises:
        ConfigError: one line that says what would be right.
    """
    require(isinstance(order, Mapping), "order", 'an object such as {"kind": "hold"}', order)
    unknown = [key for key in order if key not in FIELDS]
    require(not unknown, "order", f"of {', '.join(FIELDS)} only", unknown)
    kind, fire = order.get("kind"), order.get("fire", "free")
    require(isinstance(kind, str) and kind in KIND_NAMES, "order.kind", f"one of {', '.join(KIND_NAMES)}", kind)
    require(isinstance(fire, str) and fire in FIRE_NAMES, "order.fire", f"one of {', '.join(FIRE_NAMES)}", fire)
    battle = index_of(order.get("battle", 0), "order.battle", batch)
    pack = index_of(order.get("pack", 0), "order.pack", packs)
    urgency = number_of(order.get("urgency", 0.5), "order.urgency", 0.0, 1.0)

    row = torch.zeros(action_width(len(enemies)), dtype=torch.float32, device="cpu")
    row[KINDS.start + OrderKind[kind.upper()]] = 1.0
    row[DISCIPLINES.start + Discipline[fire.upper()]] = 1.0
    row[OrderAction.URGENCY] = 2 * urgency - 1
    target, position = order.get("target"), order.get("place")
    if target is not None:
        require(kind == "attack", "order.target", "absent but in an attack", target)
        require(target in enemies, "order.target", f"one of {', '.join(enemies)}", target)
        row[TARGETS + list(enemies).index(target)] = 1.0
    needs = kind in NEED_PLACE or (kind == "attack" and target is None)
    require(not needs or position is not None, "order.place", f"[x, y] in vox for {kind}", position)
    if position is not None:
        columns = (OrderAction.X, OrderAction.Y)
        for column, axis, side in zip(columns, place_of(position, "order.place", size), size, strict=True):
            row[column] = 2 * axis / side - 1
    return battle, pack, row


def index_of(value: Any, name: str, count: int) -> int:
    """An index below `count`."""
    require(type(value) is int and 0 <= value < count, name, f"0..{count - 1}", value)
    return int(value)


def place_of(value: Any, name: str, size: Sequence[float]) -> tuple[float, float]:
    """x and y of a place on a map of this size, vox."""
    is_pair = isinstance(value, Sequence) and not isinstance(value, str) and len(value) == 2
    require(is_pair, name, "[x, y] in vox", value)
    x, y = (
        number_of(coordinate, f"{name}.{axis}", 0.0, float(side))
        for axis, coordinate, side in zip("xy", value, size, strict=True)
    )
    return x, y


def number_of(value: Any, name: str, low: float, high: float) -> float:
    """A finite number within limits."""
    # A comparison is false of what is no number, and takes an integer of any size.
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    require(is_number and low <= value <= high, name, f"a number in {low:g}..{high:g}", value)
    return float(value)
