"""Files, folders, modules and their members that pages name exist. Install commands name this project."""

import importlib
import re
from pathlib import Path

import pytest
from pages import PAGES, ROOT

NAMING = [*PAGES, ROOT / "benchmarks" / "README.md", ROOT / "tests" / "README.md"]
PARTS = ("echelon", "pipelines", "tests", "docs", "benchmarks", "examples", ".github", ".ci")
THERE = {path.relative_to(ROOT).as_posix() for part in PARTS for path in (ROOT / part).rglob("*")} | {
    path.name for path in ROOT.iterdir()
}
"""Paths of all files and folders, relative to the root."""
ENDS = {path.split("/", cut)[-1] for path in THERE for cut in range(path.count("/") + 1)}
"""All suffixes of these paths: pages may shorten a path at the front."""
SUFFIXES = ("py", "js", "css", "sh", "jsonl", "ipynb", "toml")
OTHERS = {"mappo_ippo.py", "multiagent_competitive_ddpg.py", "multiagent_ppo.py"}
"""Programs of TorchRL."""
MADE = {"log.jsonl", "commander.calls.jsonl", "rows.jsonl", "checkpoints/", "videos/", "weights/", "runs/"}
"""Files and folders that programs write."""


def words_of(page: Path) -> list[str]:
    """Return the words in inline code of a page."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    return [word.strip(",;:()'\"") for span in re.findall(r"`([^`\n]+)`", text) for word in span.split()]


def is_there(word: str) -> bool:
    """Return whether a word that looks like a path, or like a member of a module, exists."""
    path, suffix = word.partition("::")[0], word.rpartition(".")[2]
    if path.rpartition("/")[2].startswith("NAME."):  # NAME is a placeholder
        return path.rpartition("/")[0] in ENDS
    if re.fullmatch(r"[\w./-]+/", path):
        return path.rstrip("/") in ENDS or path in MADE
    if re.fullmatch(r"[\w./-]+", path) and suffix.partition("::")[0] in SUFFIXES:
        return path in ENDS or path in OTHERS | MADE
    if re.fullmatch(r"echelon(\.\w+)+", word):
        return is_importable(word)
    named = re.fullmatch(r"((?:\w+/)+\w+)\.(\w+)", word)
    if named and f"{named[1]}.py" in ENDS:
        files = [ROOT / path for path in THERE if f"/{path}".endswith(f"/{named[1]}.py")]
        return any(re.search(rf"\b{named[2]}\b", file.read_text()) for file in files)
    return True


def is_importable(word: str) -> bool:
    module, _, name = word.rpartition(".")
    try:
        importlib.import_module(word)
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.partition(".")[0] != "echelon":
            return True  # a framework that is not installed
        return bool(module) and hasattr(importlib.import_module(module), name)
    return True


@pytest.mark.parametrize("page", NAMING, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_paths_and_modules_that_a_page_names_exist(page):
    assert sorted({word for word in words_of(page) if not is_there(word)}) == []


@pytest.mark.parametrize(
    "word", ["env/describe/outcome_columns.py", "learn/models/set_kernel.py", "sim/damage.harm_all"]
)
def test_missing_path_is_found(word):
    assert not is_there(word)


INSTALLS = re.compile(
    r"""(?:pip install|uv add|requirements)\b[^\n`]*?['" ]echelon(?:\[|[=<>~!]=|['"\s`]|$)|["'{ ]echelon[=<>~!]=\{"""
)
"""`echelon` on the index is another project; this one is `echelon-marl`."""


def test_install_commands_name_this_project():
    files = [*PAGES, ROOT / "Dockerfile", ROOT / "pyproject.toml"]
    files += [path for part in ("echelon", "pipelines", "examples", "benchmarks") for path in (ROOT / part).rglob("*")]
    read = [path for path in files if path.suffix in ("", ".py", ".md", ".ipynb", ".toml", ".js") and path.is_file()]
    assert len(read) > 300
    wrong = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in read
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if INSTALLS.search(line)
    ]
    assert wrong == []
    assert all(map(INSTALLS.search, ("pip install 'echelon[ray]'", '"requirements": [f"echelon=={VERSION}"]')))


def test_extra_gpu_admits_versions_that_import_beside_numba_0_68():
    """`from numba import cuda` fails with numba-cuda 0.30.0 to 0.30.3 beside numba 0.68.1."""
    requirement = re.search(r'^gpu = \["numba-cuda\[cu13\]([^"]*)"\]$', (ROOT / "pyproject.toml").read_text(), re.M)
    specifiers = pytest.importorskip("packaging.specifiers").SpecifierSet(requirement[1])
    admitted = [
        f"0.{minor}.{patch}" for minor in (29, 30, 31) for patch in range(6) if f"0.{minor}.{patch}" in specifiers
    ]
    assert admitted == ["0.30.4", "0.30.5"]


def test_install_page_lists_each_extra():
    extras = (ROOT / "pyproject.toml").read_text().partition("[project.optional-dependencies]")[2].partition("\n[")[0]
    names = set(re.findall(r"^([a-z0-9]+) = \[", extras, re.M))
    listed = re.search(r"^Extras: (.*?)\n\n", (ROOT / "docs" / "INSTALL.md").read_text(), re.M | re.S)
    assert listed and names == set(re.findall(r"`([a-z0-9]+)`", listed[1])) != set()
