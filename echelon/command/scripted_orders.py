"""Commanders `orders:SCRIPT`: scripts that give orders to packs, as baselines for language models.

Importing this module registers these commanders in `echelon.agents.names`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from echelon.agents.names import register_resolver, resolve
from echelon.command.pack_policy import MECHS, SCRIPTED, OrderRequest, Orders, PackCommander, require_mechs
from echelon.command.reply import FIRE_NAMES, KIND_NAMES, NEED_PLACE
from echelon.runtime.errors import require

GATHER_S = 8.0
"""Duration for which `gather` orders the packs to hold, in seconds."""


def none(question: OrderRequest) -> Orders:
    """Return no orders: mechs play as if they had no commander."""
    return []


def hold(question: OrderRequest) -> Orders:
    """Order all packs to hold their position during the whole battle."""
    return to_all(question, "hold")


def gather(question: OrderRequest) -> Orders:
    """Order all packs to hold their position for `GATHER_S` seconds, then to fight without orders."""
    return to_all(question, "hold" if question.report["time_s"] < GATHER_S else "free")


def chance(question: OrderRequest) -> Orders:
    """Return a random order for each pack.

    The report's values seed the random generator, so battles are reproducible.
    """
    report, seat = question.report, question.seat
    places = [pack["place"] for pack in report["packs"]]
    draw = random.Random(f"{report['team']} {report['time_s']} {places} {report['zone']}")
    orders: Orders = []
    for pack in range(seat.packs):
        kind = draw.choice(KIND_NAMES)
        order: dict[str, Any] = {"pack": pack, "kind": kind, "fire": draw.choice(FIRE_NAMES)}
        if kind in (*NEED_PLACE, "attack"):
            order["place"] = [round(draw.uniform(0, side), 1) for side in seat.size]
        orders.append(order)
    return orders


def to_all(question: OrderRequest, kind: str) -> Orders:
    return [{"pack": pack, "kind": kind} for pack in range(question.seat.packs)]


SCRIPTS: dict[str, Callable[[OrderRequest], Orders]] = {"none": none, "hold": hold, "gather": gather, "random": chance}


class ScriptedOrders:
    """An order giver that runs a script.

    Args:
        script: a name in `SCRIPTS`.
    """

    def __init__(self, script: str) -> None:
        self.script, self.given, self.battles = script, 0, 0

    def reset_battles(self, keys: Iterable[Hashable]) -> None:
        """Count the battles that start anew; a script has no memory to reset."""
        self.battles += len(list(keys))

    def orders(self, questions: Sequence[OrderRequest]) -> list[Orders]:
        """Return the script's orders for each request."""
        given = [SCRIPTS[self.script](question) for question in questions]
        self.given += sum(map(len, given))
        return given

    def facts(self) -> dict[str, Any]:
        """Return facts for a result file: the script's name, and the numbers of battles and orders."""
        return {"script": self.script, "summary": {"battles": self.battles, "given": self.given}}


@dataclass(frozen=True)
class ScriptedPackCommander(PackCommander):
    """A commander resolved from `orders:SCRIPT` or `orders:SCRIPT/MECHS`."""

    script: str = "none"

    @property
    def giver(self) -> ScriptedOrders:
        return ScriptedOrders(self.script)


def resolve_script(name: str) -> ScriptedPackCommander:
    """Return the commander of `orders:SCRIPT` or `orders:SCRIPT/MECHS`."""
    script, _, mechs = name.partition(":")[2].partition("/")
    require(script in SCRIPTS, f"{SCRIPTED}:SCRIPT", f"one of {', '.join(SCRIPTS)}", script)
    mechs = mechs or MECHS
    require_mechs(mechs)
    full_name = f"{SCRIPTED}:{script}/{mechs}"
    return ScriptedPackCommander(full_name, None, resolve(mechs).policy, mechs, None, script)  # type: ignore[arg-type]


register_resolver(SCRIPTED, f"{SCRIPTED}:SCRIPT[/MECHS]", resolve_script)
