"""What a page calls commanders: a page is shared, and the folders of whoever made it are nobody else's affair."""

from __future__ import annotations

import re

OF_EVERY_RUN = frozenset({"checkpoints", "runs"})
"""Folders that do not tell which run it is."""
SUFFIXES = (".safetensors", ".pt")
BEGINS_A_PATH = re.compile(r"[a-z]+:(?=[/~.])|(?=[/~]|\.{1,2}[/\\]|[A-Za-z]:[/\\])")


def told_name(commander: str) -> str:
    """A commander without its path: of a checkpoint the name of its run and its own, else as it is.

    `/home/me/runs/first/checkpoints/00000512` is `first 00000512`.
    """
    parts = [part for part in re.split(r"[/\\]", commander) if part not in ("", ".", "..", "~")]
    is_path = BEGINS_A_PATH.match(commander) is not None or OF_EVERY_RUN & set(parts[:-1])
    if not is_path or not parts:
        return commander
    last = parts[-1]
    for suffix in SUFFIXES:
        last = last.removesuffix(suffix)
    run = next((part for part in reversed(parts[:-1]) if part not in OF_EVERY_RUN and not part.endswith(":")), "")
    is_of_run = len(parts) > 1 and parts[-2] == "checkpoints"
    return f"{run} {last}".strip() if is_of_run else last
