"""Each command of the README and of the pages runs, in order, in a folder with the files that the page names. Sizes are
reduced."""

import importlib.util

import pytest
from pages import PAGES, ROOT
from running import commands_of, run_here, small

from echelon.runtime.files import FileError

NOT_RUN = {
    "--ray auto": "a Ray cluster: tests/pipelines/test_ray.py",
    "torchrun": "other processes and machines: tests/pipelines/test_torchrun.py",
    "--blue llm": "a server of a language model: tests/command/test_chat.py",
    "llm:": "a server of a language model: tests/arena/test_pack_commanders.py",
    "recorded:": "what such a server answered: tests/arena/test_pack_commanders.py",
    "echelon mcp": "a client that speaks MCP: tests/serve/test_mcp.py",
    "echelon-arena edit": "a person in a browser: tests/serve/test_edit.py",
    "doctor --measure": "a GPU: tests/env/test_measure.py",
    "benchmarks/sweep.py": "it writes benchmarks/README.md: tests/test_sweep.py",
}
"""Parts of commands that are not run here: what they need, and the test that runs them."""
NEEDS = {
    "--format minari": ("minari", "h5py"),
    "echelon export": ("onnx", "onnxruntime", "onnxscript"),
    "--to rerun": ("rerun",),
}
"""Modules that commands with these words need; without them such commands are skipped."""
USUAL = ("FILES.md", "TASKS.md", "DATASETS.md")
"""Pages whose commands take a second. Commands of other pages run in the long tests."""


def is_run(line: str) -> bool:
    lacks = [name for part, names in NEEDS.items() if part in line for name in names if not find(name)]
    return not lacks and not any(part in line for part in NOT_RUN)


def find(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


WITH_COMMANDS = [page for page in PAGES if any(is_run(" ".join(words)) for words in commands_of(page))]


@pytest.mark.filterwarnings("ignore")  # Programs show warnings and continue.
@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=() if page.name in USUAL else pytest.mark.long) for page in WITH_COMMANDS],
    ids=lambda page: page.name,
)
def test_commands_of_a_page_run(page, reader, request):
    if page.name == "PROTOCOL.md":
        request.getfixturevalue("different_runs")
    for words in commands_of(page):
        if is_run(" ".join(words)):
            run_here(small(words))


def test_each_exception_names_a_command_and_the_test_that_runs_it():
    lines = [" ".join(words) for page in PAGES for words in commands_of(page)]
    assert [part for part in (*NOT_RUN, *NEEDS) if not any(part in line for line in lines)] == []
    assert [why for why in NOT_RUN.values() if not (ROOT / why.rpartition(": ")[2]).exists()] == []


@pytest.mark.parametrize(
    "line", ["echelon-arena watch nothing.echelon", "echelon checkpoint nowhere", "python benchmarks/rate.py"]
)
def test_a_command_that_fails_is_found(line, reader):
    with pytest.raises((AssertionError, FileError)):
        run_here(line.split())
