"""Commands of the pages of `docs/`, for tests that run them."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"


def blocks_of(page: str, language: str) -> list[str]:
    """Return the text of each block of a language."""
    found = (DOCS / page).read_text().split(f"```{language}")[1:]
    return [block.partition("\n")[2].partition("```")[0] for block in found]


def command(page: str, part: str) -> list[str]:
    """Return the words of the only command of a page that contains some text, without comments."""
    lines = [line for block in blocks_of(page, "sh") for line in block.replace("\\\n", " ").splitlines()]
    found = [line for line in lines if part in " ".join(line.split())]
    assert len(found) == 1, f"{page}: {part}: {found}"
    return shlex.split(found[0], comments=True)


def exported(page: str) -> list[str]:
    """Return the variables that the commands of a page export, as NAME=VALUE."""
    lines = [line for block in blocks_of(page, "sh") for line in block.splitlines()]
    return [line.removeprefix("export ") for line in lines if line.startswith("export ")]


def with_flags(words: Sequence[str], changed: Mapping[str, str]) -> list[str]:
    """Return the words with other values for some flags, which must be present."""
    assert changed.keys() <= set(words), words
    return [changed.get(before, word) for before, word in zip(["", *words], words, strict=False)]
