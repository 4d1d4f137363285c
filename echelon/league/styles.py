"""How the entries of a league fight: their styles, measured once each and kept, and who is unlike whom."""

import contextlib
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from echelon.arena.style import BATTLES, Style, style
from echelon.env.tasks.task import TIERS
from echelon.league.database import RULES
from echelon.league.league_arena import LeagueArena
from echelon.league.store import Store
from echelon.runtime.errors import require
from echelon.runtime.files import FileError
from echelon.runtime.json_checks import record


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
    styles: dict[str, Style] = {}
    for entry in store.entries():
        stored = stored_style(store, entry.id)
        expected = (arena.task.fingerprint, battles, {*tiers.values()})
        if stored is None or (stored.fingerprint, 2 * len(stored.seeds), stored.response.keys()) != expected:
            measured = style(entry.id, arena.task, list(tiers), battles, arena=arena.arena)
            response = {tiers[opponent]: points for opponent, points in measured.response.items()}
            stored = dataclasses.replace(measured, policy=entry.name, response=response)
            with contextlib.suppress(FileError):  # A league that may only be read keeps none.
                store.set_setting(f"style {entry.id}", stored.as_json())
        styles[entry.name] = stored
        on_entry(entry.name)
    return styles


def stored_style(store: Store, who: str) -> Style | None:
    """The style of an entry that the league keeps; None if there is none. It may be a stranger's."""
    row = store.get_setting(f"style {who}")
    if row is None:
        return None
    record(RULES["style"])(f"{store.path}: style {who}", row)
    return Style(**{**row, "seeds": tuple(row["seeds"])})


def comparable_styles(store: Store) -> dict[str, Style]:
    """The kept styles by id of all entries that were measured in the same battles as the first of them."""
    styles = {
        entry.id: entry_style for entry in store.entries() if (entry_style := stored_style(store, entry.id)) is not None
    }
    return {
        entry_id: entry_style
        for entry_id, entry_style in styles.items()
        if entry_style.is_like(next(iter(styles.values())))
    }


def distances(styles: Sequence[Style]) -> list[list[float]]:
    """`[E][E]` how unlike each two are, see `Style.distance`."""
    return [[x.distance(y) for y in styles] for x in styles]


def style_columns(styles: Mapping[str, Style], whole: bool = False) -> dict[str, dict[str, Any]]:
    """Columns of the standings by name of the entry: whom it is most `like`, and how far `apart` the two are.

    Args:
        whole: also the `style`, the `response` and where the entry lies in the `plane`.
    """
    require(len(styles) > 1, "--league", "one of at least two entries", len(styles))
    names, measured = list(styles), list(styles.values())
    columns = {}
    for number, row in enumerate(distances(measured)):
        distance, like = min((d, name) for name, d in zip(names, row, strict=True) if name != names[number])
        columns[names[number]] = {"like": like, "apart": round(distance, 3)}
    if whole:
        points = plane(measured)[0].tolist()
        for name, entry_style, point in zip(names, measured, points, strict=True):
            columns[name] |= {
                "style": dict(entry_style.numbers),
                "response": dict(entry_style.response),
                "plane": point,
            }
    return columns


def plane(styles: Sequence[Style]) -> tuple[Tensor, Tensor]:
    """`[E, 2]` where styles lie in the plane of their first two principal components, in units of `Style.distance`
    times the root of the number of measures, and `[2]` the shares of the variance along these."""
    rows = torch.tensor([entry_style.vector for entry_style in styles], dtype=torch.float64, device="cpu")
    left_vectors, sizes, axes = torch.linalg.svd(rows - rows.mean(0), full_matrices=False)
    # Either direction of an axis is as good: its largest number shall be positive.
    signs = axes.gather(1, axes.abs().argmax(1, keepdim=True))[:, 0].sign()
    shares = sizes**2 / (sizes**2).sum().clamp_min(1e-12)
    return (left_vectors * sizes * signs)[:, :2], shares[:2]
