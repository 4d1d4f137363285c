"""README and the pages of `docs/`: snippets run, commands parse, links resolve, versions are current."""

import dataclasses
import importlib.util
import inspect
import re
import shutil
import sys
import warnings
from types import ModuleType
from urllib.parse import urlsplit

import pytest
from brief_tasks import make_tasks_brief
from pages import LINKED, MINE, PAGES, ROOT, UNRUN, anchors, blocks, commands, is_outside, links, program
from tiny_runs import TINY, tiny_run

import echelon
from echelon.arena import exploit
from echelon.arena.strangers import evaluation, leaderboard
from echelon.command import session
from echelon.datasets import dataset
from echelon.env.tasks import task as tasks
from echelon.league import database, import_export, league_arena
from echelon.learn import train_flags
from echelon.learn.checkpoint import format as checkpoint_format
from echelon.learn.checkpoint.files import save_checkpoint
from echelon.learn.checkpoint.format import Counters
from echelon.learn.config import EvalConfig, TrainConfig
from echelon.learn.models.registry import PolicySpecs
from echelon.learn.models.value_normalizer import ValueNorm
from echelon.pipelines import arena
from echelon.pipelines import commands as echelon_program
from echelon.replay import file
from echelon.rules import config as rules_config
from echelon.rules.config import EnvConfig
from echelon.rules.versions import CHANGES, MAP_MAKER_VERSION
from echelon.runtime.command_line import ALLOW_MODULE, arguments, parse_command
from echelon.runtime.version import VERSION
from echelon.world import biomes

OTHER = {"docker", "git", "mypy", "pip", "pytest", "python3", "ray", "ruff", "sphinx-build", "uv"}
OTHER |= {"cd", "gpu.sh", "run", "wheel_matrix.sh"}
"""Other programs. Files of the repository that their commands name must exist."""
PLACES = ("benchmarks/", "tests/", "pipelines/", "docs/", ".ci/")
NAMES = [page.relative_to(ROOT).as_posix() for page in PAGES]


@pytest.fixture(scope="module")
def a_run(tmp_path_factory):
    """A run folder with two checkpoints."""
    run, policy = tmp_path_factory.mktemp("run"), TINY.build(PolicySpecs(8))
    for step in (50, 100):
        path = run / "checkpoints" / f"iteration_{step:06d}"
        save_checkpoint(path, policy, ValueNorm(), EnvConfig.small(), Counters(step, step, 1.0), {})
    return run


@pytest.fixture
def a_users_folder(a_run, tmp_path, monkeypatch):
    """A folder with what pages name: a run, a user module, the examples. Training presets are tiny, battle presets
    have few maps, named tasks are short."""
    shutil.copytree(a_run, tmp_path / "runs" / "mine")
    (tmp_path / "my_module.py").write_text(MINE)
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    evaluation = EvalConfig(every=0, battles=2, final_battles=2, tiers=("trivial",))
    for preset in ("quick", "standard", "large"):
        monkeypatch.setattr(TrainConfig, preset, lambda: tiny_run(evaluation=evaluation))
    for preset in ("small", "standard"):
        brief = dataclasses.replace(getattr(EnvConfig, preset)(), map_pool=4)
        monkeypatch.setattr(EnvConfig, preset, lambda brief=brief: brief)
    make_tasks_brief(monkeypatch)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MINARI_DATASETS_PATH", "")  # A page sets this variable.
    for place in (ROOT / "tests" / "examples", tmp_path):
        monkeypatch.syspath_prepend(place)
    monkeypatch.setattr(rules_config, "REGISTERED_BIOMES", names := [])
    monkeypatch.setattr(biomes, "REGISTERED_BIOMES", names)
    monkeypatch.setattr(biomes, "PAINTERS", {})
    monkeypatch.setattr(tasks, "_REGISTERED", {})
    modules = set(sys.modules)
    yield tmp_path
    for name in {"my_module", "page", "charger", "cool_reward", "early_stop", "gru"} & (set(sys.modules) - modules):
        del sys.modules[name]


HERE = [page for page in PAGES if page.name != "INTEGRATIONS.md"]
"""Pages whose programs run here; INTEGRATIONS has its own test in `tests/integrations`."""


BUDGETS = {"total_agent_steps=200_000": "total_agent_steps=320"}
"""Budgets of trainings on pages, and those used here."""


@pytest.mark.parametrize("page", HERE, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_snippets_run(page, a_users_folder):
    """All blocks of a page run in order, in one namespace."""
    found = blocks(page, "python")
    module = sys.modules["page"] = ModuleType("page")
    ran, missing = 0, []
    for block in found:
        for budget, small in BUDGETS.items():
            block = dataclasses.replace(block, text=block.text.replace(budget, small))
        code = block.compiled()
        assert not block.mark or block.mark.startswith(UNRUN), f"{page.name}:{block.line}: {block.mark}"
        lacking = [name for name in block.needs if importlib.util.find_spec(name) is None]
        missing += lacking
        if not lacking and not block.mark.startswith(UNRUN):
            with warnings.catch_warnings():
                if block.needs:
                    warnings.simplefilter("ignore")  # Other frameworks show their own warnings.
                exec(code, vars(module))
            ran += 1
    if missing and not ran:
        pytest.skip(f"needs {', '.join(sorted(set(missing)))}")


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_commands_parse(page, a_users_folder, monkeypatch):
    """Each flag of an Echelon command exists and accepts its value. Files that other commands name exist."""
    for block in blocks(page, "sh"):
        for words in commands(block):
            name, rest = program(words)
            monkeypatch.setattr(sys, "argv", [words[0], *rest])
            try:
                check(name, rest, words)
            except SystemExit as end:
                assert end.code == 0, words  # --help


def check(name: str, rest: list[str], words: list[str]) -> None:
    """Parse a command like its program."""
    if name == "train":
        train_flags.read_config(arguments())
    elif name == "arena":
        parse_command(arena.COMMANDS, arguments(), ALLOW_MODULE)
    elif name == "echelon":
        parse_command(echelon_program.COMMANDS, rest, "")
    else:
        assert name in OTHER or name.startswith("python"), f"{words}: which program is this?"
        for word in words:
            assert not word.startswith(PLACES) or (ROOT / word.partition("::")[0]).exists(), f"{words}: {word}"


@pytest.mark.parametrize("page", LINKED, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_resolve(page):
    """Internal targets exist; external ones have the form of an address and are not fetched."""
    for target in links(page):
        if is_outside(target):
            address = urlsplit(target)
            is_host = re.fullmatch(r"[a-z0-9-]+(\.[a-z0-9-]+)+", address.netloc) is not None
            assert address.scheme == "https" and is_host, target
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists() and there.is_relative_to(ROOT), target
        assert not anchor or anchor in anchors(there), target


def test_readme_is_short_and_links_to_each_page():
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 130
    reached, left = set(), [ROOT / "README.md"]
    while left:
        page = left.pop()
        reached.add(page)
        targets = [(page.parent / target.partition("#")[0]).resolve() for target in links(page)]
        left += [target for target in targets if target.suffix == ".md" and target.exists() and target not in reached]
    assert [page.name for page in PAGES if page not in reached] == []
    tests = [line for line in text.splitlines() if re.match(r"python3 -m venv .*pytest", line)]
    assert len(tests) == 1, "the command that CI runs"


def test_contributing_is_short():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    assert len(text.splitlines()) <= 80 and len(text) <= 8000


def test_table_of_files_matches_the_code():
    text = (ROOT / "docs" / "FILES.md").read_text()
    rows = (
        f"`{checkpoint_format.SCHEMA}` {checkpoint_format.VERSION}|",
        f"`{file.SCHEMA}` {file.VERSION}|",
        f"`PRAGMA user_version` {database.VERSION}|",
        f"`{import_export.SCHEMA}` {import_export.VERSION}|",
        f"`{exploit.SCHEMA}` {exploit.VERSION}|",
        f"`{evaluation.SCHEMA}` {evaluation.VERSION}|",
        f"`{leaderboard.SCHEMA}` {leaderboard.VERSION}|",
        f"`{dataset.SCHEMA}` {dataset.VERSION}|",
        f"`{league_arena.SCHEMA}` {league_arena.VERSION}|",
        f"|`schema` {session.SCHEMA}|",
        f"|map maker|named in all of these|{MAP_MAKER_VERSION}|",
    )
    assert [row for row in rows if row not in text] == []


def test_leaderboard_page_matches_its_table():
    rows = leaderboard.read_table(ROOT / "benchmarks" / "results" / "leaderboard.json")
    known = {name: task.fingerprint for name, task in tasks.tasks().items()}
    assert rows and all(known[row["task"]] == row["fingerprint"] for row in rows)
    assert f"show -->\n\n{leaderboard.markdown(rows)}\n\n<!-- end" in (ROOT / "docs" / "PROTOCOL.md").read_text()


def test_files_with_a_version_name_the_current_one():
    assert f"\nversion: {VERSION}\n" in (ROOT / "CITATION.cff").read_text()
    project = re.search(r'^name = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)[1]
    address = f"https://pypi.org/project/{project}/"
    assert all(address in (ROOT / name).read_text() for name in ("CITATION.cff", "pyproject.toml", "SECURITY.md"))
    assert any(folder.name == VERSION for folder in (ROOT / "tests" / "fixtures").iterdir())
    heads, releases = releases_of((ROOT / "CHANGELOG.md").read_text())
    assert next(head for head in heads if head != "Unreleased") == VERSION and len(set(heads)) == len(heads)
    assert max(len(release.strip().splitlines()) for release in releases) <= 30
    told = re.findall(r"\b\d+\.\d+\.\d+\b", (ROOT / "docs" / "TASKS.md").read_text())
    told += [change.echelon for change in CHANGES.values()]
    assert told and set(told) <= set(heads), "a task is cited with an Echelon that can be installed"


def releases_of(changes: str) -> tuple[list[str], list[str]]:
    """Return the headings of the changelog and the text below each."""
    parts = re.split(r"^## (.*)$", changes, flags=re.MULTILINE)
    return parts[1::2], parts[2::2]


def test_public_names_are_in_the_reference():
    """The reference lists each public name; all other names in it exist."""
    lines = [line.split(": ") for block in blocks(ROOT / "docs" / "API.md", "api") for line in block.text.splitlines()]
    told = [f"{module}.{name}" for module, names in lines for name in names.split(", ")]
    assert len(told) == len(set(told))
    assert [name for name in echelon.__all__ if name != "__version__" and f"echelon.{name}" not in told] == []
    for name in told:
        module, _, last = name.rpartition(".")
        assert inspect.getdoc(getattr(importlib.import_module(module), last)), name
