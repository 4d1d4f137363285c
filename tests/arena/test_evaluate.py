"""`evaluate`: any policy on a task, with reproducible results."""

import dataclasses
import json
import re
from pathlib import Path

import pytest
import torch
from builders import short_battles
from leagues import policy_of
from tensordict.nn import TensorDictModule
from torch import nn

import echelon
from echelon.agents.heuristic import Heuristic
from echelon.arena.config import ArenaConfig
from echelon.arena.evaluate import POLICY, evaluate, met_line
from echelon.arena.match import battle_seeds, named_match
from echelon.env.observation.layout import action_width
from echelon.env.tasks.task import Protocol, Task, find_task
from echelon.learn.checkpoint.files import save_checkpoint
from echelon.learn.checkpoint.format import Counters, open_checkpoint
from echelon.learn.checkpoint.provenance import provenance_of
from echelon.learn.models.value_normalizer import ValueNorm
from echelon.rules.versions import current_versions
from echelon.runtime.errors import ConfigError
from echelon.runtime.files import FileError
from echelon.world.splits import seed_range

BRIEF = short_battles(12)
EASY = ("heuristic:easy", "heuristic:trivial")
PROTOCOL = Protocol(opponents=EASY, battles=4, seed=9)
TASK = Task("tests/brief-v1", "a few decisions", BRIEF, *current_versions(), protocol=PROTOCOL)


def saved(path: Path, seed: int, **settings):
    save_checkpoint(path, policy_of(seed), ValueNorm(), BRIEF, Counters(), {}, **settings)
    return open_checkpoint(path)


def hashes(evaluation) -> dict[str, list[str]]:
    return {name: [o.state_hash for o in result.outcomes] for name, result in evaluation.results.items()}


def test_a_commander_by_name_plays_the_protocol():
    found = echelon.evaluate("heuristic:hard", TASK, device="cpu")
    assert isinstance(found, echelon.Evaluation) and found.by_protocol and found.policy == "heuristic:hard"
    assert list(found.results) == list(EASY) and found.seeds == tuple(battle_seeds(9, 4))
    for name in EASY:
        match = named_match("heuristic:hard", name, TASK.evaluation_config, 4, ArenaConfig(torch.device("cpu")))
        (result,) = match.play(9).values()
        assert result.outcomes == found.results[name].outcomes
    assert (found.task, found.fingerprint) == (TASK.name, TASK.fingerprint)


@pytest.mark.requirement("R30")
def test_figures_match_the_battles():
    found = evaluate("heuristic:hard", TASK, device="cpu")
    told = json.loads(json.dumps(found.as_json()))
    setup = {name: told["versions"][name] for name in ("precision", "compiled", "captured")}
    assert setup == {"precision": "fp32", "compiled": False, "captured": False}
    assert told["versions"]["rules_version"] == current_versions().rules and told["seeds"] == list(found.seeds)
    for row, (name, result) in zip(found.rows(), found.results.items(), strict=True):
        assert row["opponent"] == name and row["wins"] == result.x_wins and row["battles"] == 4
        assert [row["low"], row["high"]] == list(result.x_win_rate_95)
        battles = told["opponents"][name]["outcomes"]
        assert [battle["state_hash"] for battle in battles] == [o.state_hash for o in result.outcomes]
        assert f"{name} {row['win_rate']:.0%} (" in str(found)
    assert found.win_rate == sum(row["win_rate"] for row in found.rows()) / 2
    assert str(found).startswith("| tests/brief-v1 | heuristic:hard | ") and "by_side" not in told


def test_unequal_teams_have_results_by_side():
    task = dataclasses.replace(TASK, config=dataclasses.replace(BRIEF, blue=("light",), red=("heavy", "heavy")))
    (row, _) = evaluate("heuristic:hard", task, device="cpu").rows()
    assert row["win_rate"] == (row["win_rate_blue"] + row["win_rate_red"]) / 2
    even = dataclasses.replace(task, config=dataclasses.replace(BRIEF, blue=("light",), red=("light",)))
    assert "win_rate_blue" not in evaluate("heuristic:hard", even, device="cpu").rows()[0]


def test_a_longer_evaluation_begins_with_a_shorter_one():
    short = evaluate("heuristic:hard", TASK, ["heuristic:easy"], 2, device="cpu")
    long = evaluate("heuristic:hard", TASK, device="cpu", batch=3)
    assert not short.by_protocol and hashes(long)["heuristic:easy"][:2] == hashes(short)["heuristic:easy"]
    chosen = evaluate("heuristic:hard", TASK, seeds=long.seeds[1:], device="cpu")
    assert not chosen.by_protocol and hashes(chosen)["heuristic:easy"] == hashes(long)["heuristic:easy"][2:]


def test_policy_object_plays_like_its_name():
    """The samples of a network depend only on the seed."""
    commander = Heuristic(BRIEF, "hard")
    by_object = evaluate(commander, TASK, device="cpu")
    assert by_object.policy == POLICY and hashes(by_object) == hashes(evaluate("heuristic:hard", TASK, device="cpu"))
    own = evaluate("heuristic:hard", TASK, {"mine": commander}, device="cpu")
    assert hashes(own)["mine"][::2] == hashes(own)["mine"][1::2], "one commander on both sides"


def of_torchrl():
    """Return a TorchRL module with dropout for `echelon.mechs`, in training mode."""
    width = echelon.mechs(BRIEF, num_envs=1, device="cpu").observation_spec["observation"].shape[-1]
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Linear(width, action_width(BRIEF.comm_dim)), nn.Dropout(0.5), nn.Tanh())
    return TensorDictModule(layers, ["observation"], ["action"])


def test_torchrl_module_is_reproducible_and_keeps_the_users_generator():
    policy, before = of_torchrl().eval(), torch.get_rng_state()
    first, again = (evaluate(policy, TASK) for _ in range(2))
    assert torch.equal(torch.get_rng_state(), before)
    assert hashes(first) == hashes(again), "dropout is off"


@pytest.mark.parametrize("make", [of_torchrl, lambda: policy_of(1).train()], ids=["torchrl", "echelon"])
def test_network_in_training_mode_is_rejected_unchanged(make):
    """This includes networks of which only the dropout is in that mode."""
    strangers = find_task("strangers/small-5v5-v1")
    partly = of_torchrl().eval()
    partly.module[1].train()
    for policy in (make(), partly):
        modes = [module.training for module in policy.modules()]
        runs = {"battles": 2, "beside": 2, "pieces": 0, "device": "cpu"}
        for name, judge in (
            ("policy", lambda given: evaluate(given, TASK, device="cpu")),
            ("policy", lambda given: echelon.style(given, TASK, device="cpu")),
            ("policy", lambda given: echelon.skill_profile(given, echelon.pieces()[:1], 1, device="cpu")),
            ("policy 0", lambda given, runs=runs: echelon.evaluate_strangers(given, strangers, **runs)),
        ):
            with pytest.raises(ConfigError) as refused:
                judge(policy)
            limit = "must be in evaluation mode for a match, got training mode: call policy.eval()"
            assert str(refused.value) == f"{name}: {limit}"
        with pytest.raises(ConfigError, match=rf"^mine: {re.escape(limit)}$"):
            evaluate("heuristic:hard", TASK, {"mine": policy}, device="cpu")
        assert [module.training for module in policy.modules()] == modes


def test_a_split_chooses_maps_and_seeds():
    found = evaluate("heuristic:hard", TASK, ["heuristic:easy"], 4, split="test", device="cpu")
    low, high = seed_range("test")
    assert not found.by_protocol and found.split == found.as_json()["split"] == "test"
    assert all(low <= seed <= high for seed in found.seeds)
    again = evaluate("heuristic:hard", TASK, ["heuristic:easy"], seeds=found.seeds, split="test", device="cpu")
    assert hashes(again) == hashes(found) and again.seeds == found.seeds
    own = dataclasses.replace(TASK, config=dataclasses.replace(BRIEF, split="train"))
    assert evaluate("heuristic:hard", own, ["heuristic:easy"], 2, device="cpu").split == "validation"


def test_evaluation_reports_what_training_contained(tmp_path):
    """The cases are checkpoints with and without provenance, a scripted commander and an object."""
    provenance = provenance_of(dataclasses.replace(BRIEF, split="train"), ["heuristic:easy"])
    rival = saved(tmp_path / "rival", 2)
    opponents = [*EASY, str(rival.path)]
    told, silent = saved(tmp_path / "told", 1, provenance=provenance), saved(tmp_path / "silent", 1)

    def met(policy, split=None, own=opponents):
        return evaluate(policy, TASK, own, 2, split=split, device="cpu").as_json()["met"]

    found = met(str(told.path), "test")
    assert found["maps"] == "not met" and found["battle"] == "met" and met(str(told.path), "train")["maps"] == "met"
    assert list(found["opponents"].values()) == ["met", "not met", "not met"]
    assert met(str(told.path))["maps"] == "unknown"
    line = f"in training met: battle, heuristic:easy; not met: maps, heuristic:trivial, {rival.path}"
    assert met_line(found) == line
    for policy in (str(silent.path), policy_of(1)):
        found = met(policy, "test")
        assert {found["maps"], found["battle"], *found["opponents"].values()} == {"unknown"}
    found = met("heuristic:hard", own={"mine": Heuristic(BRIEF, "easy"), "net": rival.policy()})
    assert found == {"maps": "not met", "battle": "not met", "opponents": {"mine": "unknown", "net": "not met"}}
    assert met(str(told.path), own=[str(told.path)])["opponents"] == {str(told.path): "not met"}


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"split": "exam"}, ConfigError, "EnvConfig.split must be one of 'train', 'validation', 'test', None"),
        ({"policy": "missing"}, FileError, "missing: expected a tier, heuristic"),
        ({"policy": 5}, ConfigError, "policy must be a name, a path, a module or a callable on TensorDicts, got int"),
        ({"policy": lambda td: td}, ConfigError, "policy: the action of 2 battles, 2 mechs, 26 columns .* got none"),
        ({"task": "small"}, ConfigError, "task must be one of small-5v5-v"),
        ({"opponents": []}, ConfigError, "opponents must be a list of at least one name"),
        ({"opponents": "heuristic:easy"}, ConfigError, "opponents must be a list of at least one name"),
        ({"battles": 3}, ConfigError, "battles must be even and >= 2"),
        ({"battles": 4, "seeds": [1]}, ConfigError, "battles must be 2, two per seed, or absent, got 4"),
        ({"seeds": []}, ConfigError, "seeds must be a list of at least one seed"),
        ({"seeds": 3}, ConfigError, "seeds must be a list of at least one seed, got 3"),
        ({"policy": len, "arena": object()}, ConfigError, "policy must be a name in the arena"),
        ({"policy": None}, ConfigError, "policy must be a name, a path, a module or a callable .* got NoneType"),
        ({"opponents": {"a": "path"}}, ConfigError, r"opponents\['a'\] must be a policy .*: in a list.* got 'path'"),
        ({"opponents": {"easy": None}}, ConfigError, r"opponents\['easy'\] must be a policy .* got None"),
        ({"opponents": [{"name": "path"}]}, ConfigError, "opponents must be a list of at least one name, or policies"),
        ({"opponents": len}, ConfigError, "opponents must be a list of at least one name, or policies by name"),
        ({"opponents": Path("hard")}, ConfigError, "opponents must be a list of at least one name, or policies by"),
        ({"precision": "fp8"}, ConfigError, "precision must be one of auto, fp32, bf16, fp16, got 'fp8'"),
        ({"compiled": "no"}, ConfigError, "compiled must be True, False or None, got 'no'"),
        ({"recorder": {}}, ConfigError, "recorder must be a Recorder, got {}"),
        ({"watch": {}}, ConfigError, r"watch must be a function of the arguments \(batches, .*\), or None, got {}"),
        ({"watch": lambda *_: None}, ConfigError, "what watch returns must be the batches that it received, got None"),
        ({"arena": {}}, ConfigError, "arena must be a BatchArena, got {}"),
        ({"batch": 0}, ConfigError, "batch must be"),
    ],
)
def test_bad_input_raises_one_line(change, error, message):
    with pytest.raises(error, match=message) as told:
        evaluate(**{"policy": "heuristic:easy", "task": TASK, "device": "cpu"} | change)
    assert "\n" not in str(told.value)


@pytest.mark.long
@pytest.mark.parametrize("name", [task.name for task in echelon.tasks().values() if task.is_playable])
def test_every_task_is_played(name):
    """The task's evaluation battles are played to their end, from both sides."""
    (result,) = evaluate("heuristic:expert", name, ["heuristic:trivial"], 2, device="cpu").results.values()
    config = find_task(name).evaluation_config
    assert all(0 < outcome.decisions <= config.rules.max_decisions for outcome in result.outcomes)
    assert result.x_wins > 0
