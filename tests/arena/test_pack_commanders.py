"""Language models as commanders in evaluations, matches, leagues and protocol 2, and results fought again."""

import dataclasses
import json

import pytest
import torch

pytest.importorskip("openai")

from brief_strangers import TASK, play_one_piece
from chat_servers import chat_server, holds_then_fights
from leagues import fresh, unrated

from echelon.agents.names import resolve
from echelon.arena.config import ArenaConfig
from echelon.arena.evaluate import evaluate
from echelon.arena.match import named_match
from echelon.arena.pack_commanders import with_orders
from echelon.arena.strangers.evaluation import evaluate_strangers
from echelon.arena.strangers.verify import verify
from echelon.env.tasks.task import Task
from echelon.league.commands import evaluate as evaluate_in_league
from echelon.league.league_arena import LeagueArena
from echelon.league.ratings import DEVIATION, rating_against
from echelon.rules.config import EnvConfig
from echelon.rules.versions import current_versions
from echelon.runtime.errors import ConfigError
from echelon.runtime.files import FileError

CPU = {"device": "cpu", "batch": 8}
RULES = dataclasses.replace(EnvConfig.small().rules, max_episode_s=4.0)
CONFIG = dataclasses.replace(EnvConfig.small(), map_pool=4, rules=RULES)
BRIEF_TASK = Task("tests/brief", "battles of four seconds", CONFIG, *current_versions(), evaluation=CONFIG)


def commander_file(folder, server, **fields):
    path = folder / "commander.json"
    facts = {"base_url": server.url, "model": "stand-in", "retries": 0, "period": 4}
    path.write_text(json.dumps({**facts, **fields}))
    return path


def test_evaluation_of_a_model_names_it_and_repeats_from_the_record(tmp_path):
    with chat_server(holds_then_fights) as server:
        path = commander_file(tmp_path, server)
        first = evaluate(f"llm:{path}", BRIEF_TASK, ["heuristic:easy"], battles=4, **CPU)
        asked = len(server.requests)
    told = first.as_json()["commanders"][f"llm:{path}"]
    assert told["model"] == "stand-in" and len(told["prompt_hash"]) == 16
    assert told["settings"]["base_url"] == server.url and told["settings"]["temperature"] == 0.7
    summary = told["summary"]
    assert summary["battles"] == 4 and summary["asked"] == asked > 4 and summary["given"] == summary["calls"]
    assert not first.by_protocol
    again = evaluate(f"recorded:{path}", BRIEF_TASK, ["heuristic:easy"], battles=4, **CPU)
    hashes = [[outcome.state_hash for outcome in one.results["heuristic:easy"].outcomes] for one in (first, again)]
    assert hashes[0] == hashes[1]
    summary = again.as_json()["commanders"][f"recorded:{path}"]["summary"]
    assert summary["asked"] == 0 and summary["tokens_per_battle"] == told["summary"]["tokens_per_battle"]
    with pytest.raises(FileError, match=r"commander.calls.jsonl: no reply to the report of battle \d at"):
        evaluate(f"recorded:{path}", BRIEF_TASK, ["heuristic:easy"], seeds=[99], **CPU)


def test_orders_of_a_model_change_battles(tmp_path):
    with chat_server(holds_then_fights) as server:
        path = commander_file(tmp_path, server)
        commanded = evaluate(f"llm:{path}", BRIEF_TASK, ["heuristic:hard"], battles=2, **CPU)
    alone = evaluate("heuristic:hard", BRIEF_TASK, ["heuristic:easy"], battles=2, **CPU)
    outcomes = [next(iter(one.results.values())).outcomes for one in (commanded, alone)]
    assert outcomes[0][0].state_hash != outcomes[1][0].state_hash
    assert "commanders" not in alone.as_json()


def test_two_models_in_a_match_need_the_same_clock(tmp_path):
    with chat_server(holds_then_fights) as server:
        one = commander_file(tmp_path, server)
        (tmp_path / "b").mkdir()
        other = commander_file(tmp_path / "b", server, period=2)
    names = [resolve(f"llm:{one}"), resolve(f"llm:{other}")]
    with pytest.raises(ConfigError, match="period and delay_s must be the same"):
        with_orders(EnvConfig.small(), names)
    with pytest.raises(ConfigError, match="period and delay_s must be the same"):
        named_match(f"llm:{one}", f"llm:{other}", None, 2, ArenaConfig(device="cpu"))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"mechs": "os:system"}, "commander.json: mechs must be heuristic:TIER"),
        ({"mechs": "llm:x.json"}, "commander.json: mechs must be heuristic:TIER"),
        ({"base_url": ""}, "commander.json: base_url must be the address"),
        ({"key": "sk-1"}, "commander.json: settings of a language model must be chosen from"),
        ({"period": 0}, "commander.json: CommandConfig.period must be"),
    ],
)
def test_file_of_a_commander_is_checked(tmp_path, fields, message):
    with chat_server(holds_then_fights) as server:
        path = commander_file(tmp_path, server, **fields)
    with pytest.raises(FileError, match=message):
        resolve(f"llm:{path}")


def test_record_that_is_missing_is_named(tmp_path):
    with chat_server(holds_then_fights) as server:
        path = commander_file(tmp_path, server)
    with pytest.raises(FileError, match=r"commander.calls.jsonl: expected the record of the calls"):
        resolve(f"recorded:{path}")


@pytest.mark.long
def test_protocol_2_takes_a_model_and_is_verified_without_a_server(tmp_path, monkeypatch):
    play_one_piece(monkeypatch)
    with chat_server(holds_then_fights) as server:
        path = commander_file(tmp_path, server, period=2)
        result = evaluate_strangers(f"llm:{path}", TASK, **CPU)
    record = result.as_json()
    (run,) = record["runs"]
    assert "llm stand-in over heuristic:hard, prompt" in run["id"] and server.url in run["id"]
    assert run["repeats"] and not record["by_protocol"]
    out = tmp_path / "result.json"
    out.write_text(json.dumps(record))
    verified = verify(out, f"recorded:{path}", sample=0, device="cpu", batch=8)
    assert verified.bit_for_bit and verified.replayed == verified.battles
    outcome = record["runs"][0]["cases"][0]["outcomes"][0]
    outcome["state_hash"] = "0" * 16
    out.write_text(json.dumps(record))
    with pytest.raises(FileError, match="state_hash"):
        verify(out, f"recorded:{path}", sample=0, device="cpu", batch=8)


def test_league_rates_a_model_and_its_record_repeats_the_rating(tmp_path):
    store = fresh(tmp_path)
    arena = LeagueArena(store, ArenaConfig(torch.device("cpu"), 8))
    with chat_server(holds_then_fights) as server:
        path = commander_file(tmp_path, server)
        evaluation = evaluate_in_league(arena, f"llm:{path}", 1, lambda batches, total, own: batches)
    names = [entry.name for entry in store.active()]
    assert list(evaluation.results) == names and evaluation.results[names[0]].battles == 2
    assert evaluation.commanders[f"llm:{path}"]["summary"]["battles"] == 2 * len(names)
    rating = evaluation.as_json()["rating"]
    assert rating["low"] < rating["rating"] < rating["high"] and 0 < rating["RD"] < DEVIATION
    again = evaluate_in_league(arena, f"recorded:{path}", 1, lambda batches, total, own: batches)
    assert again.rating == evaluation.rating
    assert again.commanders[f"recorded:{path}"]["summary"]["asked"] == 0
    # The league stores nothing, and takes no commander without weights.
    assert store.matches() == [] and [entry.name for entry in store.active()] == names
    for name in (f"llm:{path}", f"recorded:{path}", "orders:hold"):
        with pytest.raises(ConfigError, match="an entry of a league must be a policy with weights; `evaluate NAME"):
            store.add(name)


def test_rating_in_a_league_is_that_of_its_results(tmp_path):
    store = fresh(tmp_path)
    arena = LeagueArena(store, ArenaConfig(torch.device("cpu"), 8))
    evaluation = evaluate_in_league(arena, "orders:gather", 1, lambda batches, total, own: batches, ["trivial", "hard"])
    results = list(evaluation.results.values())
    expected = rating_against(unrated(2), torch.tensor([2, 2]), torch.tensor([result.x_points for result in results]))
    assert (evaluation.rating["rating"], evaluation.rating["RD"]) == pytest.approx(expected, abs=0.1)
