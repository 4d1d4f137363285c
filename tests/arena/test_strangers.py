"""Protocol 2: scores, replays of its battles, and detection of false metadata."""

import copy
import dataclasses
import json
import math

import pytest
import torch
from brief_strangers import BATTLES, CONFIG, STRANGERS, TASK, fighter, play_one_piece
from scipy.stats import fisher_exact
from tensordict.nn import TensorDictModule
from torch import nn

import echelon
from echelon.arena.match import win_rate_interval
from echelon.arena.strangers import evaluation, verify
from echelon.arena.strangers.battles import cases_of
from echelon.arena.strangers.evaluation import evaluate_strangers
from echelon.arena.strangers.scores import scores_of, table_rows
from echelon.learn.checkpoint.provenance import Provenance
from echelon.runtime.errors import ConfigError
from echelon.runtime.files import FileError


@pytest.fixture(autouse=True)
def one_piece_and_the_task(monkeypatch):
    play_one_piece(monkeypatch)


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    """Return a correct result, and its policy."""
    home = tmp_path_factory.mktemp("strangers")
    with pytest.MonkeyPatch.context() as patch:
        play_one_piece(patch)
        policy = fighter(home, 1)
        return evaluate_strangers(str(policy), TASK, device="cpu", command="the command"), policy


def written(folder, record):
    path = folder / "result.json"
    path.write_text(json.dumps(record))
    return path


def ended(*won):
    """Return outcomes of battles, some won by the policy; it is blue in the first of every two."""
    sides = ("blue", "red")
    return [{"x_side": sides[at % 2], "winner": sides[(at + (not one)) % 2]} for at, one in enumerate(won)]


def case(opponent, partner, mine, seeds, *won):
    return {"opponent": opponent, "partner": partner, "mine": mine, "seeds": seeds, "outcomes": ended(*won)}


RUN = {
    "cases": [
        case("a", "", 2, [0, 1], 1, 1, 1, 0),
        case("b", "", 2, [0, 1], 1, 0, 0, 0),
        case("a", "p", 1, [0], 0, 1),
        case("b", "p", 1, [0], 0, 0),
        case("a", "q", 1, [1], 0, 0),
        case("b", "q", 1, [1], 0, 0),
    ],
    "pieces": [{"piece": "x", "outcomes": ended(1)[:1] * 3}],
}


def test_scores_of_one_run_have_intervals_over_seeds():
    scores = scores_of([RUN])
    assert scores["unit"] == "seed" and scores["focal"]["value"] == 4 / 8
    assert scores["focal"]["by"]["a"]["value"] == 3 / 4 and scores["focal"]["by"]["b"]["value"] == 1 / 4
    low, high = win_rate_interval([3 / 4, 1 / 4])
    assert (scores["focal"]["low"], scores["focal"]["high"]) == (low, high)
    beside, gap = scores["with_strangers"], scores["self_play_gap"]
    assert beside["value"] == 1 / 8 and beside["by"]["1"]["value"] == 1 / 8
    assert {who: one["value"] for who, one in beside["by_partner"].items()} == {"p": 1 / 4, "q": 0}
    assert gap["value"] == 4 / 8 - 1 / 8 and gap["low"] == 1 / 4 and gap["high"] == 1 / 2, "3/4 - 1/4 and 1/4 - 0"
    assert scores["worst_case"]["opponent"] == "b" and scores["worst_case"]["value"] == 1 / 4
    assert scores["worst_case"]["low"] == scores["focal"]["by"]["b"]["low"]
    assert scores["pieces"]["value"] == scores["pieces"]["by"]["x"]["value"] == 1
    told = {(row["score"], row["of"]) for row in table_rows(scores)}
    assert {("self_play_gap", "1 mine"), ("with_strangers", "beside q"), ("worst_case", "b")} <= told


def test_several_runs_are_the_units_of_intervals():
    """The worst case of a sample is that of its runs together: one run loses to a, the other to b."""

    def run(a, b):
        won = {"a": a, "b": b}
        cases = [case(each, "", 2, [0], won[each], won[each]) for each in "ab"]
        return {"cases": [*cases, *(case(each, "p", 1, [0], won[each], 0) for each in "ab")], "pieces": []}

    scores = scores_of([run(0, 1), run(1, 0)])
    assert scores["unit"] == "run" and "pieces" not in scores
    assert (scores["focal"]["value"], scores["focal"]["low"], scores["focal"]["high"]) == (0.5, 0.5, 0.5)
    assert scores["focal"]["by"]["a"] == {"value": 0.5, "low": 0.0, "high": 1.0}
    assert (scores["worst_case"]["value"], scores["worst_case"]["low"], scores["worst_case"]["high"]) == (0.5, 0.0, 0.5)
    assert scores["self_play_gap"]["value"] == 0.25
    alone = scores_of([run(0, 1)])
    assert (alone["self_play_gap"]["low"], alone["self_play_gap"]["high"]) == (-1, 1), "one seed is too few"


def test_partners_alternate_seeds_and_opponents_share_them():
    cases = cases_of(STRANGERS.test, 8, 2)
    assert len(cases) == 2 + 2 * 2 * 2 and [one.seeds for one in cases[:2]] == [(0, 1, 2, 3)] * 2
    beside = {(one.mine, one.partner, one.opponent): one.seeds for one in cases[2:]}
    assert {mine for mine, _, _ in beside} == {1, 2}
    for (_, partner, _), seeds in beside.items():
        assert seeds == ((0,) if partner == "style:jammer" else (1,))


def test_record_contains_every_battle(honest):
    found, policy = honest
    record = found.record
    (run,) = record["runs"]
    assert record["by_protocol"] and found.is_sealed and record["fingerprint"] == TASK.fingerprint
    assert run["policy"] == str(policy) and run["repeats"] and record["command"] == "the command"
    hashes = [one["state_hash"] for part in (*run["cases"], *run["pieces"]) for one in part["outcomes"]]
    assert len(hashes) == BATTLES
    assert set(run["met"]["strangers"].values()) == {"not met"} == {run["met"]["maps"], run["met"]["teams"]}
    assert json.loads(json.dumps(found.as_json())) == record
    assert str(found).startswith(f"| {TASK.name} | {policy} | focal ") and len(found.rows()) == 14


@pytest.mark.long
def test_a_result_does_not_depend_on_batch_nor_on_further_runs(honest, tmp_path):
    found, policy = honest
    two = evaluate_strangers([str(policy), str(fighter(tmp_path, 2))], TASK, device="cpu", batch=9, pieces=0)
    assert two.record["runs"][0]["cases"] == found.record["runs"][0]["cases"]
    assert two.scores["unit"] == "run" and two.is_sealed and "pieces" not in two.scores


@pytest.mark.parametrize("sample", [0, 5])
def test_honest_result_is_valid(honest, tmp_path, sample):
    found, policy = honest
    result = echelon.verify(written(tmp_path, found.as_json()), str(policy), sample=sample, device="cpu", batch=7)
    assert result.bit_for_bit and result.is_sealed and result.battles == BATTLES
    assert result.replayed == (sample or BATTLES)
    assert result.unseen == (1 - 0.05 ** (1 / 5) if sample else 0)
    assert f"valid: {result.replayed} of {BATTLES} battles replayed, which are bit-identical" in str(result)


def other_weights(told):
    told["runs"][0]["id"] = "0" * 64


def other_seed(told):
    told["seeds"][1] += 1


def trained_on_test(told):
    """The weights were trained against the rusher, but the file does not say so."""
    told["runs"][0]["met"]["strangers"]["style:rusher"] = "not met"
    told["runs"][0]["provenance"]["opponents"] = []


def fewer_battles(told):
    del told["runs"][0]["cases"][0]["outcomes"][-2:]


def other_rules(told):
    told["versions"]["rules_version"] += 1


def edited_win(told):
    """Claim one more win, with consistent scores."""
    every = [one for case in told["runs"][0]["cases"] for one in case["outcomes"]]
    lost = next(one for one in every if one["winner"] != one["x_side"])
    lost["winner"] = lost["x_side"]
    told["scores"] = json.loads(json.dumps(scores_of(told["runs"])))


def edited_score(told):
    told["scores"]["focal"]["value"] += 0.01


def narrower(told):
    told["scores"]["focal"]["low"] += 0.2


def fewer_kinds(told):
    del told["runs"][0]["cases"][-1]


def claimed_protocol(told):
    told["by_protocol"], told["battles"] = True, 4


def other_fingerprint(told):
    told["fingerprint"] = "0" * 16


def other_stranger(told):
    told["strangers"]["style:rusher"] = "0" * 64


def other_sides(told):
    """Claim that the policy played the winner's side."""
    for one in told["runs"][0]["cases"][0]["outcomes"]:
        one["x_side"] = "red"


def more(told):
    told["proof"] = True


LIES = {
    "edited win": (edited_win, r"result\.json: runs\[0\], \d, battle \d+\.winner is"),
    "edited score": (edited_score, r"scores\.focal\.value is .* expected the scores of the battles"),
    "narrower interval": (narrower, r"scores\.focal\.low is"),
    "other seed": (other_seed, r"result\.json: seeds must be the sealed seeds of the task"),
    "other weights": (other_weights, r"runs\[0\]\.id must be [0-9a-f]{64}, that of .*policy_1"),
    "fewer battles": (fewer_battles, r"runs\[0\]\.cases\[0\]\.outcomes must be 8 battles, got 6"),
    "fewer kinds of battles": (fewer_kinds, r"cases must be the 10 kinds of battles of the protocol, got '?9"),
    "fewer by its own word": (claimed_protocol, r"by_protocol must be False, by its numbers, got True"),
    "other rules": (other_rules, r"versions.rules_version must be at most \d+, got"),
    "another task of that name": (other_fingerprint, "fingerprint must be"),
    "another stranger": (other_stranger, "strangers must be the commanders of the task, with the hashes"),
    "sides as they suit": (
        other_sides,
        "the policy plays the sides blue, red in this order",
    ),
    "a field more": (more, "proof must be absent"),
}


@pytest.mark.parametrize("lie", LIES)
def test_false_claim_is_rejected(honest, tmp_path, lie):
    found, policy = honest
    told = copy.deepcopy(found.as_json())
    forge, says = LIES[lie]
    forge(told)
    sample = 0 if lie == "edited win" else 1
    with pytest.raises(FileError, match=says):
        echelon.verify(written(tmp_path, told), str(policy), sample=sample, device="cpu")


def test_training_on_the_test_population_is_detected(tmp_path):
    """If declared, the result does not count for the task; if denied, it is rejected."""
    policy = fighter(tmp_path, 3, Provenance(opponents=("style:rusher",), partners=("self",)))
    found = evaluate_strangers(str(policy), TASK, device="cpu", pieces=0)
    assert found.record["runs"][0]["met"]["strangers"]["style:rusher"] == "met" and not found.is_sealed
    told = copy.deepcopy(found.as_json())
    result = echelon.verify(written(tmp_path, told), str(policy), sample=3, device="cpu")
    assert (
        result.met == ("style:rusher",)
        and not result.is_sealed
        and "does not count for the task: training contained style:rusher" in str(result)
    )
    trained_on_test(told)
    with pytest.raises(FileError, match=r"met and provenance must be those in the policy's checkpoint"):
        echelon.verify(written(tmp_path, told), str(policy), sample=3, device="cpu")


@pytest.mark.long
def test_battles_of_other_weights_are_detected_by_replay(honest, tmp_path):
    """The result is of a better policy than the one that is named."""
    _, policy = honest
    better = evaluate_strangers("heuristic:hard", TASK, device="cpu").as_json()
    own = {part: honest[0].record["runs"][0][part] for part in ("id", "policy", "provenance", "met")}
    told = {**better, "runs": [{**better["runs"][0], **own}]}
    with pytest.raises(FileError, match=r"runs\[0\], .*battle \d+\.\w+ is"):
        echelon.verify(written(tmp_path, told), str(policy), sample=0, device="cpu")


@pytest.mark.long
def test_only_shipped_policies_may_be_omitted(honest, tmp_path):
    scripted = evaluate_strangers("heuristic:hard", TASK, device="cpu", pieces=0)
    told = scripted.as_json()
    told["versions"] = {**told["versions"], "processor": "another", "torch": "1.0"}
    assert echelon.verify(written(tmp_path, told), device="cpu").bit_for_bit, "scripted battles, on every processor"
    with pytest.raises(
        FileError, match=r"policies must be commanders that ship with Echelon, or policies given by --policy"
    ):
        echelon.verify(written(tmp_path, honest[0].as_json()), device="cpu")
    told["runs"][0]["policy"] = "os:getcwd"
    with pytest.raises(FileError, match="policies must be commanders that ship"):
        echelon.verify(written(tmp_path, told), device="cpu")


@pytest.mark.long
def test_on_another_kind_of_processor_wins_are_compared(honest, tmp_path):
    found, policy = honest
    told = copy.deepcopy(found.as_json())
    told["versions"]["processor"] = "riscv RVV"
    result = echelon.verify(written(tmp_path, told), str(policy), sample=0, device="cpu")
    assert not result.bit_for_bit and "agree in wins, within chance" in str(result)
    for one in (one for case in told["runs"][0]["cases"] for one in case["outcomes"]):
        one["winner"] = one["x_side"]
    told["scores"] = json.loads(json.dumps(scores_of(told["runs"])))
    with pytest.raises(FileError, match=r"wins must be near \d+ of 34 wins in the sample"):
        echelon.verify(written(tmp_path, told), str(policy), sample=0, device="cpu")
    assert fisher_exact([[34, 0], [10, 24]]).pvalue < verify.CHANCE


def test_torchrl_module_is_evaluated_and_verified(tmp_path):
    width = echelon.mechs(CONFIG, num_envs=1, device="cpu").observation_spec["observation"].shape[-1]
    torch.manual_seed(0)
    policy = TensorDictModule(nn.Sequential(nn.Linear(width, 26), nn.Tanh()), ["observation"], ["action"]).eval()
    found = evaluate_strangers(policy, TASK, pieces=0)
    (run,) = found.record["runs"]
    assert run["policy"] == "policy 0" and len(run["id"]) == 64 and not run["repeats"]
    assert set(run["met"]["strangers"].values()) == {"unknown"}
    assert not echelon.verify(written(tmp_path, found.as_json()), policy, sample=0).bit_for_bit
    policy.module[0].weight.data += 1
    with pytest.raises(FileError, match="id must be"):
        echelon.verify(written(tmp_path, found.as_json()), policy)


def test_stranger_must_have_the_sealed_hash(monkeypatch):
    from echelon.agents import populations

    known = {**populations.strangers()}
    other = dataclasses.replace(STRANGERS, test=dataclasses.replace(STRANGERS.test, partners=("trained:quick",)))
    changed = {**known, "trained:quick": dataclasses.replace(known["trained:quick"], sha256="0" * 64)}
    monkeypatch.setattr(evaluation, "strangers", lambda: changed)
    with pytest.raises(FileError, match="trained:quick: sha256 must be 0000"):
        evaluate_strangers("heuristic:hard", dataclasses.replace(TASK, strangers=other), device="cpu")
    unsealed = dataclasses.replace(TASK, strangers=dataclasses.replace(TASK.strangers, seed=5))
    with pytest.raises(FileError, match="seeds_sha256 must be"):
        evaluate_strangers("heuristic:hard", unsealed, device="cpu")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"task": echelon.latest("small-5v5")}, "must be a task with protocol 2"),
        ({"split": "train"}, "split must be validation or test"),
        ({"battles": 3}, "battles must be even"),
        ({"beside": 20}, "beside must be at most 8"),
        ({"policy": []}, r"policy must be one, or a list of 1\.\.100"),
        ({"policy": ["heuristic:hard", "hard"]}, "policy must be runs with different weights"),
    ],
)
def test_bad_arguments_raise_one_line(change, message):
    with pytest.raises(ConfigError, match=message):
        evaluate_strangers(**{"policy": "heuristic:hard", "task": TASK, "device": "cpu", **change})


@pytest.mark.long
def test_validation_split_does_not_count_for_the_task():
    found = evaluate_strangers("heuristic:hard", TASK, split="validation", pieces=0, device="cpu")
    assert list(found.scores["focal"]["by"]) == ["heuristic:expert"] and not found.record["by_protocol"]
    assert math.isfinite(found.scores["self_play_gap"]["value"])
