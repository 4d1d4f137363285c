"""Names become commanders; a name is all that is needed of one's own."""

import dataclasses
import json
import sys
from pathlib import Path

import pytest
import torch

import echelon
from echelon.arena.resolve import resolve
from echelon.pipelines import arena
from echelon.rules.config import EnvConfig, RulesConfig
from echelon.runtime.errors import ConfigError
from echelon.runtime.files import FileError

EXAMPLES = Path(__file__).parents[1] / "examples"
CPU = torch.device("cpu")
BRIEF = dataclasses.replace(EnvConfig.small(), map_pool=1, rules=RulesConfig(max_episode_s=2.0))


@pytest.fixture
def in_examples(monkeypatch):
    """The current folder is that of the examples, which Python's path does not hold."""
    monkeypatch.chdir(EXAMPLES)
    monkeypatch.setattr(sys, "path", [place for place in sys.path if Path(place or ".").resolve() != EXAMPLES])
    monkeypatch.delitem(sys.modules, "charger", raising=False)


def test_a_class_in_a_module_of_the_current_folder_is_a_commander(in_examples):
    commander = resolve("charger:Charger")
    policy = commander.policy(BRIEF, CPU)
    assert commander.id == "charger:Charger" and commander.env is None and type(policy).__name__ == "Charger"
    view = echelon.versus(BRIEF, "charger:Charger", 2, "cpu", 0)
    before = view.env.state.mechs.pos.clone()
    td = view.reset()
    for _ in range(4):
        td["agents", "action"] = torch.zeros(2, 5, 26)
        _, td = view.step_and_maybe_reset(td)
    walked = (view.env.state.mechs.pos - before)[..., :2].norm(dim=-1)
    assert (walked[0, 5:] > 1).all() and (walked[1, :5] > 1).all()  # the other team: red, then blue
    assert (walked[0, :5] < 1).all() and (walked[1, 5:] < 1).all()


def test_it_fights_in_the_arena(in_examples, capsys, monkeypatch):
    monkeypatch.setitem(arena.ENV_PRESETS, "small", lambda: BRIEF)
    arena.Play("charger:Charger", "heuristic:trivial", battles=2, env="small", json=True).run()
    result = json.loads(capsys.readouterr().out)
    assert result["x"] == "charger:Charger" and result["battles"] == 2


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("nobody.home:Charger", FileError, "nobody.home:Charger: no module nobody.home in .* or on Python's path"),
        ("charger:Runner", ConfigError, "charger must have a class or function Runner, got None"),
        ("charger:PATH", ConfigError, "charger must have a class or function PATH, got slice"),
        ("no/folder", FileError, r"expected heuristic\[:tier\], a checkpoint folder, or package.module:Commander"),
    ],
)
def test_what_a_name_lacks_is_one_line(in_examples, name, error, message):
    with pytest.raises(error, match=message) as caught:
        resolve(name).policy(BRIEF, CPU)
    assert "\n" not in str(caught.value)
