"""The programs with a language model as commander: results, records, replays, and where the key is not."""

import json
import sys

import pytest

pytest.importorskip("openai")

import torch
from chat_servers import chat_server, holds_then_fights

from echelon.arena.config import ArenaConfig
from echelon.arena.whatif import arena_of, check_same, of_replay
from echelon.pipelines import arena
from echelon.replay.file import read
from echelon.runtime.errors import ConfigError

KEY = "sk-another-secret-987654321"


def ran(monkeypatch, capsys, *words):
    """What `echelon-arena` prints on stdout."""
    monkeypatch.setattr(sys, "argv", ["echelon-arena", *words])
    grad = torch.is_grad_enabled()
    try:
        arena.main()
    finally:
        torch.set_grad_enabled(grad)
    return capsys.readouterr().out


def test_command_records_a_match_that_resumes_and_is_fought_again(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("STAND_IN_API_KEY", KEY)

    def reply(request):
        echoed = server.headers[-1]["authorization"]
        return f"{echoed}: {holds_then_fights(request)}"

    with chat_server(reply) as server:
        words = ["command", "--blue", "llm", "--base-url", server.url, "--model", "stand-in", "--red", "heuristic:easy"]
        words += ["--api-key-env", "STAND_IN_API_KEY", "--device", "cpu", "--calls", str(tmp_path / "calls.jsonl")]
        words += ["--replay", str(tmp_path / "battle.echelon"), "--dataset", str(tmp_path / "battle.safetensors")]
        first = json.loads(ran(monkeypatch, capsys, *words))
        asked = len(server.requests)
        replays = [(tmp_path / "battle.echelon").read_bytes()]
        second = json.loads(ran(monkeypatch, capsys, *words))
        replays.append((tmp_path / "battle.echelon").read_bytes())
    assert first["model"] == "stand-in" and first["settings"]["base_url"] == server.url
    assert first["summary"]["asked"] == asked == len(server.requests) and first["summary"]["given"] == asked
    assert second["summary"]["asked"] == 0 and second["won_by"] == first["won_by"] and replays[0] == replays[1]
    assert KEY.encode() not in b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert KEY not in json.dumps(first)

    replay = read(tmp_path / "battle.echelon")
    assert replay.battles[0].about["blue"] == "llm stand-in over heuristic:hard"
    setup = of_replay(replay, 0)
    played, battle = arena_of(setup, ArenaConfig(torch.device("cpu"), 1))
    (result,) = played.play([battle]).results
    check_same(setup, result)


def test_table_of_commanders_is_printed(tmp_path, monkeypatch, capsys):
    words = ["commanders", "orders:none", "orders:hold", "--seeds", "1", "--device", "cpu"]
    table = json.loads(ran(monkeypatch, capsys, *words, "--json"))
    assert [row["battles"] for row in table["rows"]] == [2, 2] and len(table["pairs"]) == 1
    assert "orders:hold" in table["commanders"]


NAMED = ["--blue", "llm", "--base-url", "http://h/v1", "--model", "m"]
BAD = {
    "no address": (["--blue", "llm", "--model", "m"], "base_url must be the address"),
    "no model": (["--blue", "llm", "--base-url", "http://h/v1"], "model must be the name"),
    "two models": (
        ["--blue", "llm", "--red", "llm"],
        "--blue and --red must be such that exactly one of them is stdio or ws or human or llm",
    ),
    "real time": (
        ["--blue", "llm", "--base-url", "http://h/v1", "--model", "m", "--clock", "real"],
        "--clock must be step",
    ),
    "a model without llm": (["--model", "m"], "--base-url, --model, --calls must be left out without llm"),
}


@pytest.mark.parametrize("case", BAD)
def test_flags_that_do_not_fit_are_refused(case, monkeypatch, capsys):
    words, message = BAD[case]
    with pytest.raises(ConfigError, match=message):
        ran(monkeypatch, capsys, "command", *words)
