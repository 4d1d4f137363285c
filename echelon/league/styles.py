"""How the entries of a league fight: their styles, measured once each and kept, and who is unlike whom."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from echelon.arena.style import BATTLES, Style, style
from echelon.env.tasks.task import TIERS
from echelon.league.columns import RULES, check_row
from echelon.league.league_arena import LeagueArena
from echelon.league.store import Store
from echelon.runtime.errors import require
from echelon.runtime.files import FileError


def styles_of(
    arena: LeagueArena, battles: int = BATTLES, on_entry: Callable[[str], object] = lambda name: None
) -> dict[str, Style]:
    """The style of every entry by its name, in battles of the league against its scripted tiers but the weakest. Those
    that are not kept yet are measured, and kept where the league can be written to.

    Args:
        battles: against each tier, an even number.
        on_entry: called with the name of each entry.
    """
    store = arena.store
    tiers = {entry.id: entry.name for entry in map(store.find, TIERS)}
    found: dict[str, Style] = {}
    for entry in store.entries():
        known = kept_style(store, entry.id)
        asked = (arena.task.fingerprint, battles, {*tiers.values()})
        if known is None or (known.fingerprint, 2 * len(known.seeds), known.response.keys()) != asked:
            measured = style(entry.id, arena.task, list(tiers), battles, arena=arena.arena)
            response = {tiers[who]: points for who, points in measured.response.items()}
            known = dataclasses.replace(measured, policy=entry.name, response=response)
            with contextlib.suppress(FileError):  # A league that may only be read keeps none.
                store.set_setting(f"style {entry.id}", known.as_json())
        found[entry.name] = known
        on_entry(entry.name)
    return found


def kept_style(store: Store, who: str) -> Style | None:
    """The style of an entry that the league keeps; None if there is none. It may be a stranger's."""
    row = store.get_setting(f"style {who}")
    if row is None:
        return None
    check_row(f"{store.path}: style {who}", row, RULES["style"])
    return Style(**{**row, "seeds": tuple(row["seeds"])})


def comparable_styles(store: Store) -> dict[str, Style]:
    """The kept styles by id of all entries that were measured in the same battles as the first of them."""
    found = {entry.id: kept for entry in store.entries() if (kept := kept_style(store, entry.id)) is not None}
    return {who: one for who, one in found.items() if one.is_like(next(iter(found.values())))}


def distances(styles: Sequence[Style]) -> list[list[float]]:
    """`[E][E]` how unlike each two are, see `Style.distance`."""
    return [[one.distance(other) for other in styles] for one in styles]


def style_columns(styles: Mapping[str, Style], whole: bool = False) -> dict[str, dict[str, Any]]:
    """Columns of the standings by name of the entry: whom it is most `like`, and how far `apart` the two are.

    Args:
        whole: also the `style`, the `response` and where the entry lies in the `plane`.
    """
    require(len(styles) > 1, "--league", "one of at least two entries", len(styles))
    names, own = list(styles), list(styles.values())
    columns = {}
    for place, row in enumerate(distances(own)):
        apart, like = min((far, name) for name, far in zip(names, row, strict=True) if name != names[place])
        columns[names[place]] = {"like": like, "apart": round(apart, 3)}
    if whole:
        points = plane(own)[0].tolist()
        for name, one, point in zip(names, own, points, strict=True):
            columns[name] |= {"style": dict(one.numbers), "response": dict(one.response), "plane": point}
    return columns


def plane(styles: Sequence[Style]) -> tuple[Tensor, Tensor]:
    """`[E, 2]` where styles lie in the plane of their first two principal components, in units of `Style.distance`
    times the root of the number of measures, and `[2]` the shares of the variance along these."""
    rows = torch.tensor([one.vector for one in styles], dtype=torch.float64, device="cpu")
    places, sizes, axes = torch.linalg.svd(rows - rows.mean(0), full_matrices=False)
    # Either direction of an axis is as good: its largest number shall be positive.
    signs = axes.gather(1, axes.abs().argmax(1, keepdim=True))[:, 0].sign()
    shares = sizes**2 / (sizes**2).sum().clamp_min(1e-12)
    return (places * sizes * signs)[:, :2], shares[:2]
