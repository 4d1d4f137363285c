"""The page of messages quotes texts that the code has."""

import re

from pages import ROOT

PAGE = (ROOT / "docs" / "MESSAGES.md").read_text()
OF_OTHERS = ("Unrecognized options: --num-env",)
"""Texts of tyro."""
SHORTEST = 12
"""Letters of a part that is searched for."""


def code() -> str:
    """All source files, with the strings of several lines joined."""
    files = [*(ROOT / "echelon").rglob("*.py"), *(ROOT / "pipelines").glob("*.py")]
    text = "\n".join(path.read_text() for path in sorted(files))
    return re.sub(r'"\s*\n\s*f?"', "", text)


def quoted_parts() -> list[str]:
    """The literal parts of the first cell of each row: without names, values and `must be`, which stands for both."""
    cells = re.findall(r"^\|`([^`]+)`.*?\|", PAGE, re.M)
    pattern = r"\.\.\.|\b[A-Z]{4,}\b|\bN\b|must be|[\[(]?\d[\d.]*|, got|, found|'\w+'|blue_0|agent_0|checkpoint\.json"
    parts = (part.strip(" ,:;()[]") for cell in cells for part in re.split(pattern, cell))
    return [part for part in parts if len(part) >= SHORTEST and part not in OF_OTHERS]


def test_messages_page_quotes_texts_of_the_code():
    text, parts = code(), quoted_parts()
    assert len(re.findall(r"^\|`", PAGE, re.M)) >= 40 and len(parts) >= 40
    assert [part for part in parts if part not in text] == []


def test_messages_page_lists_each_warning_of_a_training():
    source = (ROOT / "echelon" / "learn" / "callbacks" / "warning_signs.py").read_text()
    functions = re.findall(r"^def (_\w+)\(", source, re.M)
    table = PAGE.split("## Warnings of a training")[1].split("## ")[0]
    assert len(re.findall(r"^\|`", table, re.M)) == len([name for name in functions if name != "_mean"])
