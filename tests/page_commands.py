"""Commands as the pages of `docs/` have them, for tests that run them."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"


def blocks_of(page: str, language: str) -> list[str]:
    """The text of every block of a language."""
    found = (DOCS / page).read_text().split(f"```{language}")[1:]
    return [block.partition("\n")[2].partition("```")[0] for block in found]


def command(page: str, part: str) -> list[str]:
    """The words of the one command of a page that holds some text, without comments."""
    lines = [line for block in blocks_of(page, "sh") for line in block.replace("\\\n", " ").splitlines()]
    found = [line for line in lines if part in " ".join(line.split())]
    assert len(found) == 1, f"{page}: {part}: {found}"
    return shlex.split(found[0], comments=True)


def exported(page: str) -> list[str]:
    """Variables that the commands of a page export, NAME=VALUE."""
    lines = [line for block in blocks_of(page, "sh") for line in block.splitlines()]
    return [line.removeprefix("export ") for line in lines if line.startswith("export ")]


def with_flags(words: Sequence[str], changed: Mapping[str, str]) -> list[str]:
    """The words with other values behind some flags, each of which must be there."""
    assert changed.keys() <= set(words), words
    return [changed.get(before, word) for before, word in zip(["", *words], words, strict=False)]
