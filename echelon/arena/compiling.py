"""Whether a GPU saves more by compiled graphs than it takes to compile them."""

from __future__ import annotations

from typing import Any, Protocol

COMPILED_FROM = 1024
"""Battles at once from which a GPU compiles by default, however many there are in all."""
SAVED_S, SAVED_S_A_BATTLE = 0.027, 21e-6
"""What a decision of a batch, and of each of its battles, takes less in compiled graphs than in captured operations,
both replayed. On an H200 at 10v10 captured operations take 54 ms for 256 battles, 71 for 1,024 and 230 for 8,192;
compiled graphs take 27 ms for 8,192."""
COMPILE_S = 164.0
"""What compiling takes there where nothing is kept from earlier starts."""
STARTS = 8
"""Programs that share what one of them compiled, because it is kept between starts."""


class Setup(Protocol):
    """How an arena computes."""

    processor: str
    precision: Any
    compiled: bool
    cuda_graph: bool


def saved_s(battles: int, batch: int, decisions: int) -> float:
    """Seconds that compiled graphs save in a match.

    Args:
        battles: in all.
        batch: battles at once.
        decisions: of the longest battle, which a batch takes.
    """
    return decisions * (SAVED_S * -(-battles // batch) + SAVED_S_A_BATTLE * battles)


def is_much_work(battles: int | None, batch: int, decisions: int) -> bool:
    """Whether a match is worth compiling on a GPU.

    Args:
        battles: in all; None if that is not known before.
    """
    saves = battles is not None and saved_s(battles, min(batch, battles), decisions) >= COMPILE_S / STARTS
    return saves or batch >= COMPILED_FROM


def setup_json(arena: Setup) -> dict[str, Any]:
    """Device, precision, and whether networks and simulation are compiled and decisions captured: what may change the
    last bits of a network's decision, and so who wins."""
    return {
        "device": arena.processor,
        "precision": arena.precision,
        "compiled": arena.compiled,
        "captured": arena.cuda_graph,
    }


def setup_words(setup: dict[str, Any]) -> str:
    """`setup_json` as a line for a table."""
    words = [f"{'' if setup[name] else 'not '}{name}" for name in ("compiled", "captured")]
    return f"on {setup['device']}: {setup['precision']}, {', '.join(words)}"
