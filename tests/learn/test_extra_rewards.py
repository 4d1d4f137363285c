"""Custom reward terms in a run: named on the command line, scheduled, logged, resumed, and never imported by files."""

import dataclasses
import sys

import pytest
import torch
from tiny_runs import run_to_the_end, tiny_run

from echelon.arena.resolve import resolve
from echelon.env.reward import RewardTerm
from echelon.learn.callbacks.warning_signs import _not_finite
from echelon.learn.checkpoint.files import newest_checkpoint
from echelon.learn.checkpoint.format import open_checkpoint
from echelon.learn.config import CurriculumConfig
from echelon.learn.extra_rewards import check_extra_rewards, load_extra_rewards, parse_extra_reward
from echelon.learn.metrics import COLUMNS, MEASURED, read_columns, read_table
from echelon.learn.ppo.nonfinite_dump import NotFinite
from echelon.learn.schedules import Schedule
from echelon.learn.trainer import Trainer
from echelon.rules.config import EnvConfig
from echelon.runtime.errors import ConfigError
from echelon.runtime.files import FileError

MODULE = """
import torch

def alive(before, after, ending, sim_model):
    return after.mechs.alive.float()

def hot(before, after, ending, sim_model):
    return after.mechs.heat / 100

def kill(before, after, ending, sim_model):
    return after.mechs.heat

def flat(before, after, ending, sim_model):
    return after.tick

def late(before, after, ending, sim_model):
    paid = torch.zeros_like(after.mechs.heat)
    paid[:, :5] = torch.where(after.tick[:, None] > 5, torch.nan, 0.0)
    return paid

def endless(before, after, ending, sim_model):
    return torch.full_like(after.mechs.heat, torch.inf)

NUMBER = 3
"""


@pytest.fixture(autouse=True)
def mine(tmp_path, monkeypatch):
    """A custom module `mine.py` that Python finds only in these tests."""
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "mine.py").write_text(MODULE)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "path")])
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    yield
    sys.modules.pop("mine", None)


def rows_of(folder):
    return [{k: v for k, v in row.items() if k not in MEASURED} for row in read_table(folder / "metrics.csv")]


def trained(folder, **changes):
    return run_to_the_end(Trainer(tiny_run(**changes), folder))


@pytest.mark.parametrize(
    ("text", "name", "weight", "schedule"),
    [
        ("mine:alive=0.1", "alive", 0.1, (1.0, 1.0)),
        ("a.b.c:hot=-2", "hot", -2.0, (1.0, 1.0)),
        ("mine:hot=0.1..0.02", "hot", 0.1, (1.0, 0.2)),
        ("mine:hot=0..5e-1", "hot", 0.5, (0.0, 1.0)),
        ("mine:hot=1..-2", "hot", -2.0, (-0.5, 1.0)),
        ("mine:hot=0", "hot", 0.0, (1.0, 1.0)),
    ],
)
def test_reward_flag_parses_function_and_weight_schedule(text, name, weight, schedule):
    reward = parse_extra_reward(text)
    assert (reward.name, reward.weight) == (name, weight)
    assert (reward.schedule.first, reward.schedule.last) == pytest.approx(schedule)
    assert "mine" not in sys.modules, "parsing imports nothing"


@pytest.mark.parametrize(
    "text",
    ["mine:alive", "mine.alive=1", "mine:alive=", "mine:alive=much", "mine:alive=1..", "mine:alive=..1", "=1",
     "mine:alive=nan", "mine:alive=1..inf", "../mine:alive=1", "mine:alive=1..2..3"],
)  # fmt: skip
def test_invalid_reward_flag_raises(text):
    with pytest.raises(ConfigError, match=r"--extra-reward must be package.module:function=WEIGHT, or =FIRST\.\.LAST"):
        tiny_run(extra_rewards=(text,))


def test_reward_names_must_be_unique_and_not_built_in():
    with pytest.raises(ConfigError, match="--extra-reward must be functions with unique names"):
        tiny_run(extra_rewards=("mine:hot=1", "yours:hot=2"))
    with pytest.raises(ConfigError, match=r"a name in extra_rewards must be an identifier other than .* got 'kill'"):
        load_extra_rewards(["mine:kill=1"])
    with pytest.raises(ConfigError, match="mine must have a class or function NUMBER, got 3"):
        load_extra_rewards(["mine:NUMBER=1"])
    with pytest.raises(FileError, match=r"yours:hot: no module yours in .* or on Python's path"):
        load_extra_rewards(["yours:hot=1"])


def test_custom_term_is_added_scheduled_and_logged(tmp_path):
    changes = {"extra_rewards": ("mine:hot=0.1", "mine:alive=0.5..0"), "curriculum": CurriculumConfig()}
    trainer = trained(tmp_path / "run", **changes)
    assert trainer.env.reward_terms[-2:] == ("alive", "hot"), "in the order of their names"
    assert read_columns(tmp_path / "run" / "metrics.csv") == [*COLUMNS, "return_alive", "return_hot"]
    # The last of three iterations starts at two thirds of the run.
    assert trainer.collector.scale[-2:].tolist() == pytest.approx([1 / 3, 1.0])
    assert set(trainer.collector.scale[:-2].tolist()) == {1.0}
    paid = [row for row in rows_of(tmp_path / "run") if "return_alive" in row]
    assert paid and all(float(row["return_alive"]) > 0 and float(row["return_hot"]) > 0 for row in paid)
    for row in paid:
        returns = sum(float(value) for name, value in row.items() if name.startswith("return_"))
        assert float(row["return"]) == pytest.approx(returns, abs=1e-6)


def test_curriculum_schedules_do_not_scale_custom_terms(tmp_path):
    faded = CurriculumConfig(fight=Schedule(0.0, 0.0), terminal=Schedule(0.0, 0.0))
    trainer = trained(tmp_path, extra_rewards=("mine:alive=1",), curriculum=faded)
    assert trainer.collector.scale.tolist() == [1, 1, 0, 0, 0, 0, 0, 1]


def test_term_of_weight_0_changes_no_bit(tmp_path):
    without, nothing, something = (
        trained(tmp_path / name, extra_rewards=extra)
        for name, extra in (("without", ()), ("nothing", ("mine:hot=0",)), ("something", ("mine:hot=0.3",)))
    )
    rows = rows_of(tmp_path / "nothing")
    assert {row.pop("return_hot", None) for row in rows} <= {None, "0.0"}
    assert rows == rows_of(tmp_path / "without")
    weights = [trainer.policy.state_dict() for trainer in (without, nothing, something)]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    assert not all(torch.equal(weights[0][name], weights[2][name]) for name in weights[0])


def test_run_with_custom_terms_resumes_bit_for_bit(tmp_path):
    terms = ("mine:hot=0.1..0.3", "mine:alive=0.05")
    whole = trained(tmp_path / "whole", extra_rewards=terms, total_agent_steps=640)
    first = Trainer(tiny_run(extra_rewards=terms, total_agent_steps=640), tmp_path / "cut")
    for _ in range(2):
        first.train(1)
    start = open_checkpoint(newest_checkpoint(tmp_path / "cut" / "checkpoints"))
    again = Trainer(tiny_run(extra_rewards=terms[::-1], total_agent_steps=640), tmp_path / "cut", start)
    assert again.resume_note == "" and again.counters.iterations == 2
    run_to_the_end(again)
    assert rows_of(tmp_path / "cut") == rows_of(tmp_path / "whole")
    ours, theirs = again.policy.state_dict(), whole.policy.state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


@pytest.mark.parametrize(
    ("terms", "says"),
    [
        ((), r"env.reward.extra is None here and \{'hot': 0.1\} there, in the checkpoint"),
        (("mine:hot=0.2",), r"env.reward.extra.hot is 0.2 here and 0.1 there, in the checkpoint"),
        (("mine:hot=0.1", "mine:alive=1"), r"env.reward.extra.alive is 1.0 here and None there, in the checkpoint"),
    ],
)
def test_resume_with_other_terms_raises(tmp_path, terms, says):
    Trainer(tiny_run(extra_rewards=("mine:hot=0.1",)), tmp_path).save()
    start = open_checkpoint(newest_checkpoint(tmp_path / "checkpoints"))
    with pytest.raises(ConfigError, match=f"--resume: {says}"):
        Trainer(tiny_run(extra_rewards=terms), tmp_path / "other", start)


def test_checkpoint_lists_terms_without_importing_them(tmp_path):
    Trainer(tiny_run(extra_rewards=("mine:hot=0.1",)), tmp_path / "run").save()
    path = newest_checkpoint(tmp_path / "run" / "checkpoints")
    del sys.modules["mine"]
    (tmp_path / "path" / "mine.py").write_text("raise SystemExit('imported')")
    found = open_checkpoint(path)
    assert found.extra_rewards == found.metadata["env"]["reward"]["extra"] == {"hot": 0.1}
    assert found.metadata["settings"]["extra_rewards"] == ["mine:hot=0.1"]
    assert found.env == tiny_run().env, "the env config excludes custom terms"
    assert resolve(str(path)).policy(found.env, torch.device("cpu")) is not None
    assert "mine" not in sys.modules


def test_term_with_wrong_shape_raises(tmp_path):
    with pytest.raises(ConfigError, match=r"extra_rewards\['flat'\] must be of shape \(1, 10\), got \(1,\)"):
        trained(tmp_path, extra_rewards=("mine:flat=1",))


def test_custom_terms_do_not_change_battles(tmp_path):
    """Terms change rewards, not battles: the first rollouts of two runs end in the same states."""
    states = []
    for name, extra in (("without", ()), ("with", ("mine:hot=0.3",))):
        trainer = Trainer(dataclasses.replace(tiny_run(), extra_rewards=extra), tmp_path / name)
        trainer.train(1)
        states.append(trainer.env.state)
    assert torch.equal(states[0].mechs.pos, states[1].mechs.pos)
    assert torch.equal(states[0].mechs.heat, states[1].mechs.heat)


def test_failing_term_raises_before_run_folder_exists(tmp_path):
    (tmp_path / "path" / "mine.py").write_text(
        "def bad(before, after, ending, sim_model):\n    return sim_model.nothing\n"
    )
    with pytest.raises(ConfigError, match=r"^reward term bad: expected a number for each mech, got .*\(mine.py:2\)$"):
        Trainer(tiny_run(extra_rewards=("mine:bad=0.1",)), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_term_that_modifies_state_raises():
    def cooling(before, after, ending, sim_model):
        after.mechs.heat.zero_()
        after.mechs.hp.mul_(0.5)
        return after.mechs.heat

    with pytest.raises(ConfigError, match="reward term cooling must be a function that leaves both states unchanged"):
        check_extra_rewards({"cooling": RewardTerm(cooling)}, EnvConfig.small(), torch.device("cpu"))


@pytest.mark.parametrize("epochs", [1, 2])
def test_nan_term_is_named_when_run_stops(tmp_path, epochs):
    """With one epoch, of two steps per iteration, the third skipped step is in the second iteration."""
    ppo = dataclasses.replace(tiny_run().ppo, epochs=epochs)
    trainer = Trainer(tiny_run(extra_rewards=("mine:alive=0.1", "mine:late=0.1"), ppo=ppo), tmp_path)
    with pytest.raises(NotFinite, match=r"consecutive steps: see .*; reward term late was NaN or infinite: expected"):
        trainer.train()
    assert trainer.counters.iterations == 2 - epochs


def test_infinite_term_raises_before_the_run(tmp_path):
    with pytest.raises(ConfigError, match="reward term endless must be a function that returns finite numbers, got"):
        Trainer(tiny_run(extra_rewards=("mine:endless=0.1",)), tmp_path)


def test_skipped_steps_warning_names_nonfinite_term():
    row = {"skipped": 2.0, "return_hot": float("inf"), "return_kill": 1.0}
    said = _not_finite([{"skipped": 0.0, "return_hot": None}, row])
    assert said.endswith("not finite: reward term hot was NaN or infinite: expected finite numbers")
