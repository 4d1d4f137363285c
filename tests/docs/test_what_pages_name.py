"""What pages name exists: files, folders, modules and names in them. Advice to install names this project."""

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
"""Paths of all files and folders, from the root."""
ENDS = {path.split("/", cut)[-1] for path in THERE for cut in range(path.count("/") + 1)}
"""The ends of these paths: pages name a file from the folder of its room on."""
SUFFIXES = ("py", "js", "css", "sh", "jsonl", "ipynb", "toml")
OTHERS = {"mappo_ippo.py", "multiagent_competitive_ddpg.py", "multiagent_ppo.py"}
"""Programs of TorchRL."""
MADE = {"log.jsonl", "commander.calls.jsonl", "rows.jsonl", "checkpoints/", "weights/", "runs/"}
"""What programs write."""


def words_of(page: Path) -> list[str]:
    """The words in code of a page's text."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    return [word.strip(",;:()'\"") for span in re.findall(r"`([^`\n]+)`", text) for word in span.split()]


def is_there(word: str) -> bool:
    """Whether a word that looks like the path of a file, or like a name in a module, is one."""
    path, suffix = word.partition("::")[0], word.rpartition(".")[2]
    if path.rpartition("/")[2].startswith("NAME."):  # a file of a folder, to be named
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
            return True  # of a framework that is not here
        return bool(module) and hasattr(importlib.import_module(module), name)
    return True


@pytest.mark.parametrize("page", NAMING, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_paths_and_modules_that_a_page_names_exist(page):
    assert sorted({word for word in words_of(page) if not is_there(word)}) == []


@pytest.mark.parametrize(
    "word", ["env/describe/outcome_columns.py", "learn/models/set_kernel.py", "sim/damage.harm_all"]
)
def test_path_that_is_not_there_is_found(word):
    assert not is_there(word)


INSTALLS = re.compile(
    r"""(?:pip install|uv add|requirements)\b[^\n`]*?['" ]echelon(?:\[|[=<>~!]=|['"\s`]|$)|["'{ ]echelon[=<>~!]=\{"""
)
"""`echelon` on the index is another project's; ours is `echelon-marl`."""


def test_advice_to_install_names_this_project():
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
