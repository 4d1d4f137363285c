"""A tournament of language models, stand-ins behind a local server, and of scripts that give orders."""

import dataclasses
import json

import pytest
import torch
from test_pack_commanders import CONFIG

pytest.importorskip("openai")

from chat_servers import chat_server, holds_then_fights, nonsense

import echelon
from echelon.arena.commander_table import commander_table
from echelon.arena.config import ArenaConfig
from echelon.arena.resolve import check_opponents
from echelon.command.chat_client import ChatClient
from echelon.learn.config import TrainConfig
from echelon.runtime.errors import ConfigError

CPU = ArenaConfig(torch.device("cpu"), 16)
MODELS = ("good", "slow", "nonsense")


@pytest.fixture
def seconds_by_model(monkeypatch):
    """What calls take, as the client measures it: 1 s of the model `slow`, 0.1 s of the others."""
    timed = ChatClient._timed

    async def fixed(self, *args):
        return (await timed(self, *args))._replace(latency_s=1.0 if self.settings.model == "slow" else 0.1)

    monkeypatch.setattr(ChatClient, "_timed", fixed)


def reply(request):
    return nonsense(request) if request["model"] == "nonsense" else holds_then_fights(request)


def test_tournament_of_three_models_and_a_script(tmp_path, seconds_by_model):
    with chat_server(reply) as server:
        for model in MODELS:
            fields = {"base_url": server.url, "model": model, "retries": 0, "period": 4, "deadline_s": 0.5}
            (tmp_path / f"{model}.json").write_text(json.dumps(fields))
        files = {model: f"llm:{tmp_path / f'{model}.json'}" for model in MODELS}
        table = commander_table([*files.values(), "orders:gather"], CONFIG, 1, 0, CPU)
        asked = len(server.requests)
    rows = {row["commander"]: row for row in table.rows()}
    assert list(rows) == sorted(rows, key=lambda name: -rows[name]["win_rate"]) and len(rows) == 4
    assert all(row["battles"] == 6 and 0 <= row["low"] <= row["win_rate"] <= row["high"] <= 1 for row in rows.values())
    good, slow, bad, script = (rows[name] for name in [*files.values(), "orders:gather"])
    # 4 s are four reports a second apart; of the slow one each second one is asked, and its orders come a report later.
    assert (good["given"], good["late"], good["fallback"]) == (24, 0, 0) and good["tokens_per_battle"] == 440.0
    assert (slow["given"], slow["late"], slow["fallback"]) == (12, 12, 0) and slow["tokens_per_battle"] == 220.0
    assert (bad["given"], bad["refused"], bad["fallback"]) == (0, 24, 24) and script["given"] == 24
    assert script["tokens_per_battle"] is None
    assert good["seconds_per_battle"] == pytest.approx(0.4) and slow["seconds_per_battle"] == pytest.approx(2.0)
    assert asked <= 60

    again = commander_table(
        [name.replace("llm:", "recorded:") for name in files.values()] + ["orders:gather"], CONFIG, 1, 0, CPU
    )
    for first, second in zip(table.results.values(), again.results.values(), strict=True):
        assert [one.state_hash for one in first.outcomes] == [one.state_hash for one in second.outcomes]


def test_scripts_of_orders_differ_and_repeat():
    names = ["orders:none", "orders:hold", "orders:gather/heuristic:easy", "orders:random"]
    one, two = (commander_table(names, CONFIG, 1, 3, CPU) for _ in range(2))
    hashes = [{pair: [outcome.state_hash for outcome in result.outcomes] for pair, result in table.results.items()}
              for table in (one, two)]  # fmt: skip
    assert hashes[0] == hashes[1]
    given = {row["commander"]: row["given"] for row in one.rows()}
    assert given["orders:none"] == 0 and given["orders:hold"] == given["orders:random"] > 0


def test_commanders_of_a_table_are_different():
    with pytest.raises(ConfigError, match="commanders must be unique names"):
        commander_table(["orders:hold", "orders:hold/heuristic:hard"], CONFIG, 1, 0, CPU)
    with pytest.raises(ConfigError, match="commanders must be two or more"):
        commander_table(["orders:hold"], CONFIG, 1, 0, CPU)
    with pytest.raises(ConfigError, match="orders:SCRIPT must be one of none, hold, gather, random, got 'flee'"):
        commander_table(["orders:hold", "orders:flee"], CONFIG, 1, 0, CPU)


def test_views_and_trainings_refuse_commanders_whose_orders_they_do_not_carry_out():
    with pytest.raises(ConfigError, match="opponent must be one that gives no orders to packs"):
        echelon.versus(CONFIG, "orders:hold", num_envs=1, device="cpu")
    config = dataclasses.replace(TrainConfig(), env=CONFIG, opponent="orders:hold")
    with pytest.raises(ConfigError, match="opponents of a training must be others than commanders of packs"):
        check_opponents(config, torch.device("cpu"))
