"""Reads Markdown pages: their blocks of code, the commands in them, their links."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")] + sorted(ROOT.glob("docs/*.md"))
BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>[^\n]*?) -->\n)?^```(?P<language>\w+)(?P<needs>[ \w]*)\n(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
UNRUN = "compiled, not run: "
"""How an HTML comment on the line before a block begins that says why it is not run."""


@dataclass(frozen=True)
class Block:
    """A block of code of a page."""

    page: Path
    line: int
    """Number of its first line."""
    language: str
    text: str
    needs: tuple[str, ...]
    """Modules without which it cannot run: the words behind its language."""
    mark: str
    """What the comment before it says; empty without one."""

    def compiled(self) -> object:
        """Its code, with the line numbers of the page."""
        return compile("\n" * (self.line - 1) + self.text, str(self.page), "exec")


def blocks(page: Path, language: str) -> list[Block]:
    """The blocks of a language, in order."""
    text = page.read_text()
    found = []
    for match in BLOCK.finditer(text):
        if match["language"] == language:
            line = text.count("\n", 0, match.start("text")) + 1
            found.append(Block(page, line, language, match["text"], tuple(match["needs"].split()), match["mark"] or ""))
    return found


def commands(block: Block) -> Iterator[list[str]]:
    """The words of every command of a block of shell, without comments, assignments and launchers."""
    text = re.sub(r"\$\{\w+:-(\w*)\}", r"\1", block.text.replace("\\\n", " "))
    for line in text.splitlines():
        if re.match(r"\w+=\$\(|export ", line):
            continue
        words: list[str] = []
        for word in [*shlex.split(line, comments=True), "&&"]:
            if word != "&&":
                words.append(word)
                continue
            while words and (words[0] == "srun" or re.match(r"[A-Z_]+=", words[0])):
                words = words[1:]
            if words:
                yield words
            words = []


def program(words: list[str]) -> tuple[str, list[str]]:
    """Which program a command runs, and its arguments: `train`, `arena`, `echelon`, or the first words of another."""
    name, rest = Path(words[0]).name, words[1:]
    for position, word in enumerate(words):
        if word in ("pipelines/train.py", "pipelines/arena.py") and (name.startswith("python") or name == "torchrun"):
            return Path(word).stem, words[position + 1 :]
    if words[1:3] == ["-m", "echelon"]:
        return "echelon", words[3:]
    own = {"echelon-train": "train", "echelon-arena": "arena", "echelon": "echelon"}
    return own.get(name, name), rest


def links(page: Path) -> list[str]:
    """Targets of the links and pictures of a page that lie in the repository, and of its tables of contents."""
    text = page.read_text()
    found = re.findall(r"\]\(([^)\s]+)\)", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    for contents in re.findall(r"^```{toctree}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        for entry in re.findall(r"^[^:\s].*$", contents, re.MULTILINE):
            found.append(f"{entry}.ipynb" if "examples/" in entry else f"{entry}.md")
    return [target for target in found if not target.startswith(("http://", "https://"))]


def anchors(page: Path) -> set[str]:
    """Names of the headings of a page, as links spell them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
