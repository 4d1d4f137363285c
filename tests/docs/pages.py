"""Read Markdown pages: code blocks, commands and links."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")] + sorted(ROOT.glob("docs/*.md"))
LINKED = [*PAGES, ROOT / "CHANGELOG.md", ROOT / "benchmarks" / "README.md", *sorted(ROOT.glob("examples/*.ipynb"))]
"""Files whose links are checked."""
BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>[^\n]*?) -->\n)?^```(?P<language>\w+)(?P<needs>[ \w]*)\n(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
MINE = """
from charger import Charger as Commander
from cool_reward import stays_cool
from early_stop import EarlyStop as StopWhenGood
from gru import Config
"""
"""The user module that pages mention."""
UNRUN = "compiled, not run: "
"""Start of an HTML comment before a block that says why the block is not run."""


@dataclass(frozen=True)
class Block:
    """A code block of a page."""

    page: Path
    line: int
    """Line number of its first line."""
    language: str
    text: str
    needs: tuple[str, ...]
    """Modules that it needs: the words after its language."""
    mark: str
    """Text of the comment before it; empty without one."""

    def compiled(self) -> object:
        """Compile it, with the line numbers of the page."""
        return compile("\n" * (self.line - 1) + self.text, str(self.page), "exec")


def blocks(page: Path, language: str) -> list[Block]:
    """Return the blocks of a language, in order."""
    text = page.read_text()
    found = []
    for match in BLOCK.finditer(text):
        if match["language"] == language:
            line = text.count("\n", 0, match.start("text")) + 1
            found.append(Block(page, line, language, match["text"], tuple(match["needs"].split()), match["mark"] or ""))
    return found


def commands(block: Block) -> Iterator[list[str]]:
    """Yield the words of each command of a shell block, without comments, assignments and launchers."""
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
    """Return the program that a command runs (`train`, `arena`, `echelon`, or the first words of another), and its
    arguments."""
    name, rest = Path(words[0]).name, words[1:]
    for position, word in enumerate(words):
        if word in ("pipelines/train.py", "pipelines/arena.py") and (name.startswith("python") or name == "torchrun"):
            return Path(word).stem, words[position + 1 :]
    if words[1:3] == ["-m", "echelon"]:
        return "echelon", words[3:]
    own = {"echelon-train": "train", "echelon-arena": "arena", "echelon": "echelon"}
    return own.get(name, name), rest


def prose(page: Path) -> str:
    """Return the text of a page, or of a notebook's text cells, without code blocks."""
    text = page.read_text()
    if page.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        text = "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    return re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)


def links(page: Path) -> list[str]:
    """Return the targets of links, pictures and tables of contents of a page."""
    found = re.findall(r"\]\(([^)\s]+)\)|^\[[^\]]+\]: (\S+)|<(https?:[^>\s]*)>", prose(page), re.MULTILINE)
    targets = ["".join(groups) for groups in found]
    for contents in re.findall(r"^```{toctree}\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE):
        for entry in re.findall(r"^[^:\s].*$", contents, re.MULTILINE):
            targets.append(f"{entry}.ipynb" if "examples/" in entry else f"{entry}.md")
    return targets


def is_outside(target: str) -> bool:
    """Return whether a link leaves the repository."""
    return re.match(r"[a-z]+:", target) is not None


def anchors(page: Path) -> set[str]:
    """Return the anchors of the headings of a page. Equal headings are numbered from the second one."""
    headings = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    names = [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]
    earlier = [names[:place].count(name) for place, name in enumerate(names)]
    return {f"{name}-{count}" if count else name for name, count in zip(names, earlier, strict=True)}
