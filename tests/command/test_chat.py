"""A language model as commander: prompts, calls, server faults, the record of calls, late replies, the API key."""

import dataclasses
import json
import logging
import multiprocessing
import os
import random
import resource
import traceback

import pytest

pytest.importorskip("openai")

from chat_servers import Raw, chat_server, completion, holds_then_fights, nonsense, slowly, time_of, told
from serving import small_port

import echelon
from echelon import CommandConfig, CommandPort, EnvConfig
from echelon.command.chat_calls import CallRecord
from echelon.command.chat_client import ChatClient, ModelSettings, settings_of
from echelon.command.chat_commander import ChatCommander, command_battles, read_orders
from echelon.command.chat_prompt import OrderTargets, key_of, prompt_hash, reply_schema
from echelon.runtime.errors import ConfigError
from echelon.runtime.files import FileError

KEY = "sk-very-secret-0123456789"
SEAT = OrderTargets(2, ["red_0", "red_1"], (40.0, 40.0))


def settings(server, **how):
    fields = {"base_url": server.url, "model": "stand-in", "retries": 0, "timeout_s": 20.0}
    return ModelSettings(**{**fields, **how})


def commanded(server, battles=1, episode_s=4.0, path=None, port=None, is_recorded=False, **how):
    """Command battles to their end; return the commander and the port."""
    chosen = settings(server, **how)
    port = port or small_port(episode_s, battles=battles, period=4)
    commander = ChatCommander(chosen, CallRecord(path, chosen), is_recorded)
    try:
        command_battles(port, commander)
    finally:
        commander.close()
    return commander, port


def test_model_orders_reach_packs():
    seen = []
    with chat_server(holds_then_fights) as server:
        port = small_port(3.0, period=4)
        step = port.step

        def spied():
            ended = step()
            seen.append(port.reports()[0]["packs"][0]["order"])
            return ended

        port.step = spied
        commander, _ = commanded(server, port=port)
    assert seen[0]["kind"] == "hold" and seen[0]["age_s"] == 1.0
    summary = commander.summary()
    assert summary["calls"] == summary["asked"] == summary["given"] == len(server.requests) == 3
    assert (summary["tokens_per_battle"], summary["late"], summary["faults"]) == (330.0, 0, {})


def test_prompt_has_instructions_history_and_refused_orders():
    replies = iter(['{"orders": [{"pack": 7, "kind": "hold"}]}', "{}", "{}", "{}"])
    with chat_server(lambda request: next(replies)) as server:
        commander, _ = commanded(server, history=1, style="Be bold.")
    first, second, third, _ = server.requests
    assert [message["role"] for message in first["messages"]] == ["system", "user"]
    assert "screen: stand in front" in first["messages"][0]["content"]
    assert first["messages"][0]["content"].endswith("Be bold.")
    assert [message["role"] for message in third["messages"]] == ["system", "user", "assistant", "user"]
    assert "Of your last reply was refused: order 0: order.pack must be 0..0, got 7" in told(second)
    assert "refused" not in told(third) and commander.summary()["refused"] == 1
    schema = first["response_format"]["json_schema"]["schema"]["properties"]["orders"]["items"]["properties"]
    assert schema["pack"]["maximum"] == 0 and schema["target"]["enum"] == [f"red_{n}" for n in range(5)]


def test_json_report_omits_batch_index():
    with chat_server(lambda request: "{}") as server:
        commanded(server, report="json", history=0, episode_s=1.0)
    report = json.loads(told(server.requests[0]).splitlines()[0])
    assert report["team"] == "blue" and "battle" not in report


def test_rejected_schema_is_omitted_from_later_requests():
    def reply(request):
        return Raw(b'{"error": "no response_format"}', 400) if "response_format" in request else "{}"

    with chat_server(reply) as server:
        commander, _ = commanded(server)
    assert ["response_format" in request for request in server.requests] == [True, *[False] * 4]
    assert commander.summary()["faults"] == {}
    with chat_server(reply) as server:
        commander, _ = commanded(server, schema="on")
    assert commander.summary()["faults"] == {"status 400": 4}


FAULTS = {
    "429": (lambda request: Raw(b'{"error": {"message": "slow down"}}', 429), "status 429"),
    "500": (lambda request: Raw(b"oops", 500), "status 500"),
    "html": (lambda request: Raw(b"<html><body>Login</body></html>", 200, "text/html"), "not JSON"),
    "no choice": (lambda request: Raw(b'{"choices": []}'), "empty"),
    "null": (lambda request: Raw(completion(None)), "empty"),
    "blank": (lambda request: "  \n", "empty"),
    "list": (lambda request: Raw(b"[1, 2]"), "empty"),
    "deep": (lambda request: Raw(b"[" * 100_000), "not JSON"),
    "closes": (lambda request: Raw(closes=True), "connection"),
    "10 MB body": (lambda request: Raw(b" " * 10_000_000), "too long"),
    "10 MB reply": (lambda request: "x" * 10_000_000, "too long"),
    "2 MB reply": (lambda request: "x" * 2_000_000, "too long"),
    "another wish": (nonsense, "unreadable"),
    "half a surrogate": (lambda request: Raw(completion("?").replace(b"?", b"\\ud800")), "unreadable"),
}


@pytest.mark.parametrize("fallback", ["hold"])
@pytest.mark.parametrize("name", FAULTS)
def test_fallback_order_is_used_after_fault(name, fallback, caplog):
    reply, fault = FAULTS[name]
    with chat_server(reply) as server, caplog.at_level(logging.WARNING, "echelon"):
        commander, port = commanded(server, fallback=fallback, episode_s=2.0)
    assert port.ended == [True]
    summary = commander.summary()
    assert summary["faults"] == {fault: 2} and summary["fallback"] == 2
    lines = [record.getMessage() for record in caplog.records if record.name == "echelon.command.chat_commander"]
    assert len(lines) == 1 and lines[0].startswith(f"stand-in: {fault}: ") and "\n" not in lines[0]


def test_hanging_server_times_out():
    with chat_server(lambda request: (server.stopped.wait(30) and "{}") or "{}") as server:
        commander, port = commanded(server, timeout_s=0.3, episode_s=2.0)
        server.stopped.set()
    assert port.ended == [True] and commander.summary()["faults"] == {"timeout": 2}


def test_missing_server_counts_as_connection_fault():
    with chat_server(nonsense) as server:
        chosen = settings(server, timeout_s=5.0)
    commander = ChatCommander(chosen, CallRecord(None, chosen))
    port = small_port(2.0, period=4)
    command_battles(port, commander)
    commander.close()
    assert port.ended == [True] and commander.summary()["faults"] == {"connection": 2}


def test_call_is_retried_with_backoff():
    answers = iter([Raw(b"{}", 429), Raw(b"{}", 503), "{}"])
    with chat_server(lambda request: next(answers)) as server:
        commander, _ = commanded(server, retries=2, episode_s=1.0)
    assert len(server.requests) == 3 and commander.summary()["faults"] == {}
    assert commander.summary()["seconds_per_battle"] > 0.4


@pytest.fixture
def half_a_second(monkeypatch):
    """Let the client measure 0.5 s for every call."""
    timed = ChatClient._timed

    async def fixed(self, *args):
        return (await timed(self, *args))._replace(latency_s=0.5)

    monkeypatch.setattr(ChatClient, "_timed", fixed)


def test_late_reply_takes_effect_decisions_later_and_counts_as_late(half_a_second):
    given = []
    with chat_server(holds_then_fights) as server:
        port = small_port(5.0, period=4)
        order = port.order
        port.order = lambda orders: given.append([one["kind"] for one in orders]) or order(orders)
        commander, _ = commanded(server, port=port, deadline_s=0.4)
    assert given == [[], ["hold"], [], ["hold"], []]
    # Prompts are sent at 0, 2 and 4 s; while a reply is pending, the next report sends no prompt.
    assert [time_of(request) for request in server.requests] == [0.0, 2.0, 4.0]
    assert (commander.summary()["given"], commander.summary()["late"]) == (2, 2)


def test_late_orders_add_order_delay(half_a_second):
    """An order arrives `CommandConfig.delay_s` after it takes effect."""
    config = dataclasses.replace(EnvConfig.small(), map_pool=2)
    rules = dataclasses.replace(config.rules, max_episode_s=4.0)
    command = CommandConfig(enabled=True, period=4, delay_s=1.0)
    config = dataclasses.replace(config, rules=rules, command=command)
    port = CommandPort(echelon.commanders(config, device="cpu", seed=3, side="blue"))
    told = []
    step = port.step
    port.step = lambda: (step(), told.append(port.reports()[0]["packs"][0]))[0]
    with chat_server(holds_then_fights) as server:
        commanded(server, port=port, deadline_s=0.4)
    # Prompt at 0 s, order at 1 s, arrival at 2 s.
    assert told[0]["order"] is None and told[1]["order"]["kind"] == "hold"
    assert [any(mech["heard"] for mech in pack["mechs"]) for pack in told[:3]] == [False, False, True]


def test_prompts_of_many_battles_are_concurrent():
    config = dataclasses.replace(EnvConfig.small(), map_pool=16)
    port = small_port(2.0, period=4, config=config, battles=16)
    with chat_server(slowly(0.2)) as server:
        commander, _ = commanded(server, port=port, concurrency=8)
    assert server.most == 8 and all(port.ended) and commander.summary()["calls"] == 32


def test_record_resumes_and_replays_without_the_server(tmp_path):
    path = tmp_path / "calls.jsonl"
    texts = [f'{{"orders": [{{"pack": 0, "kind": "move", "place": [{n}, 20]}}]}}' for n in range(10)]
    replies = iter(texts)
    with chat_server(lambda request: next(replies)) as server:
        first, port = commanded(server, path=path)
        hashes = final(port)
    lines = path.read_text().splitlines()
    assert len(lines) == 5 and json.loads(lines[0])["prompt_hash"] == prompt_hash(settings(server))
    row = json.loads(lines[2])
    assert row["orders"] == [{"pack": 0, "kind": "move", "place": [1, 20]}] and row["time_s"] == 1.0
    assert row["latency_s"] > 0 and (row["prompt_tokens"], row["late"], row["fault"]) == (100, 0, "")

    replayed, port = commanded(server, path=path, is_recorded=True)
    assert final(port) == hashes and replayed.summary()["asked"] == 0
    assert replayed.summary()["given"] == first.summary()["given"] == 4

    # A killed match leaves two recorded calls and an incomplete line.
    path.write_text("\n".join(lines[:3]) + "\n" + lines[3][:40])
    replies = iter(texts[2:])
    with chat_server(lambda request: next(replies)) as again:
        moved = tmp_path / "moved.jsonl"
        moved.write_text(path.read_text().replace(server.url, again.url))
        resumed, port = commanded(again, path=moved)
    assert len(again.requests) == 2 and final(port) == hashes
    assert resumed.summary()["calls"] == 4 and resumed.summary()["asked"] == 2
    with pytest.raises(FileError, match="no reply to the report of battle 0 at 2 s"):
        commanded(server, path=path, is_recorded=True)


def final(port):
    """Return the final result of the first battles."""
    return port.winners, port.view.env.state.mechs.pos.tolist(), port.view.env.state.orders_sent.tolist()


def row_of(number, reply="{}"):
    text = {"reply": reply, "fault": "", "team": "blue"}
    counts = {"battle": 0, "time_s": 0.0, "prompt_tokens": 1, "completion_tokens": 1, "latency_s": 0.1, "late": 0}
    return {"prompt": f"{number:064x}", **text, **counts, "orders": [], "refused": []}


def test_first_reply_of_a_shared_record_is_valid_for_all(tmp_path):
    """Otherwise the battles of one of two processes could not be repeated from the record."""
    path, chosen = tmp_path / "calls.jsonl", ModelSettings("http://localhost:1/v1", "m")
    one, other = CallRecord(path, chosen), CallRecord(path, chosen)
    one.add(row_of(1, "first"))
    other.add(row_of(1, "second"))
    other.add(row_of(2, "third"))
    one.add(row_of(3, "fourth"))
    expected = {f"{number:064x}": reply for number, reply in ((1, "first"), (2, "third"), (3, "fourth"))}
    for record in (one, CallRecord(path, chosen), CallRecord(path, chosen, is_read_only=True)):
        assert {key: row["reply"] for key, row in record.rows.items()} == expected
    assert all(row["reply"] == expected[key] for key, row in other.rows.items())
    assert len(path.read_bytes().splitlines()) == 4


def append_rows(path, numbers):
    record = CallRecord(path, ModelSettings("http://localhost:1/v1", "m"))
    for number in numbers:
        record.add(row_of(number, f"{os.getpid()}" * 2000))


def test_two_processes_share_a_record(tmp_path):
    path = tmp_path / "calls.jsonl"
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=append_rows, args=(path, range(first, first + 200))) for first in (0, 100)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    assert lines[0]["schema"] == "echelon-calls"
    assert sorted(int(line["prompt"], 16) for line in lines[1:]) == list(range(300))


def test_recorded_commander_does_not_change_its_record(tmp_path):
    path, chosen = tmp_path / "calls.jsonl", ModelSettings("http://localhost:1/v1", "m")
    CallRecord(path, chosen).add(row_of(1))
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"prompt": "')
    assert len(CallRecord(path, chosen, is_read_only=True).rows) == 1
    assert path.read_bytes() == whole + b'{"prompt": "'
    assert len(CallRecord(path, chosen).rows) == 1 and path.read_bytes() == whole
    path.write_bytes(b"")
    with pytest.raises(FileError, match=r"calls.jsonl must be a record of calls, .* got 'an empty file'"):
        CallRecord(path, chosen, is_read_only=True)


def test_full_disk_ends_a_match_that_resumes(tmp_path):
    """With a limit of the file size the fourth call cannot be written; the record keeps whole lines."""
    path = tmp_path / "calls.jsonl"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with chat_server(lambda request: "x" * 3000) as server:
        resource.setrlimit(resource.RLIMIT_FSIZE, (12_000, before[1]))
        try:
            with pytest.raises(FileError, match=r"calls.jsonl: cannot be written: .*") as raised:
                commanded(server, path=path, episode_s=6.0)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert "\n" not in str(raised.value)
        written = len(path.read_bytes().splitlines()) - 1
        assert path.read_bytes().endswith(b"\n") and written == 3
        resumed, _ = commanded(server, path=path, episode_s=6.0)
    assert resumed.summary()["calls"] == 6 and resumed.summary()["asked"] == 3


def test_record_of_another_model_is_refused(tmp_path):
    path = tmp_path / "calls.jsonl"
    with chat_server(nonsense) as server:
        CallRecord(path, settings(server))
        with pytest.raises(FileError, match=r"calls.jsonl: model must be 'other' as now, got 'stand-in'"):
            CallRecord(path, settings(server, model="other"))
        CallRecord(path, settings(server, retries=7))
    path.write_text('{"a": 1}\n')
    with pytest.raises(FileError, match=r"calls.jsonl: schema must be"):
        CallRecord(path, settings(server))


def test_api_key_is_sent_but_never_stored_or_printed(tmp_path, monkeypatch, caplog, capsys):
    monkeypatch.setenv("ECHELON_TEST_API_KEY", KEY)

    def reply(request):
        key = server.headers[-1]["authorization"]
        match len(server.requests) % 3:
            case 0:
                return f"Your header was {key}."
            case 1:
                return Raw(json.dumps({"error": {"message": f"bad key {key}"}}).encode(), 401)
        return Raw(f"<p>{key}</p>".encode())

    path = tmp_path / "calls.jsonl"
    with chat_server(reply) as server, caplog.at_level(logging.DEBUG):
        commander, _ = commanded(server, path=path, api_key_env="ECHELON_TEST_API_KEY", episode_s=6.0)
        settings_text = repr(commander.settings)
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"
    assert commander.summary()["faults"] == {"not JSON": 2, "status 401": 2, "unreadable": 2}
    own = [record.getMessage() for record in caplog.records if record.name.startswith("echelon")]
    texts = [path.read_text(), json.dumps(commander.facts()), settings_text, "\n".join(own), *capsys.readouterr()]
    assert all(KEY not in text for text in texts) and "[API key]" in path.read_text()
    assert all(KEY not in json.dumps(request) for request in server.requests)


def test_traceback_of_a_crash_hides_api_key(monkeypatch):
    """Also one that shows the local variables of all frames."""
    monkeypatch.setenv("ECHELON_TEST_API_KEY", KEY)

    def crashes(self, row):
        raise RuntimeError("crash")

    monkeypatch.setattr(CallRecord, "add", crashes)
    with chat_server(holds_then_fights) as server, pytest.raises(RuntimeError, match="crash") as raised:
        commanded(server, api_key_env="ECHELON_TEST_API_KEY")
    error = raised.value
    shown = traceback.TracebackException(type(error), error, error.__traceback__, capture_locals=True)
    text = "".join(shown.format())
    assert "in crashes" in text and "answer = " in text and KEY not in text


def test_error_hides_api_key(monkeypatch):
    with pytest.raises(ConfigError) as raised:
        ModelSettings(api_key_env=KEY)
    assert KEY not in str(raised.value) and "not the key itself" in str(raised.value)
    monkeypatch.delenv("ABSENT_API_KEY", raising=False)
    with pytest.raises(ConfigError, match="an environment variable that is set, got 'ABSENT_API_KEY'"):
        ChatClient(ModelSettings(base_url="http://localhost:1/v1", model="m", api_key_env="ABSENT_API_KEY"))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"base_url": "file:///etc/passwd"}, "base_url must be http"),
        ({"base_url": "http://me:secret@host/v1"}, "got 'one with a user'"),
        ({"base_url": "http://host/v1?key=1"}, "base_url must be http"),
        ({"history": -1}, "ModelSettings.history must be"),
        ({"temperature": float("nan")}, "ModelSettings.temperature must be"),
        ({"model": "a\nb"}, "model must be printable"),
        ({"modell": "a"}, "settings of a language model must be chosen from"),
        ({"fallback": "flee"}, "ModelSettings.fallback must be one of 'free', 'hold'"),
    ],
)
def test_invalid_model_settings_are_refused(fields, message):
    with pytest.raises(ConfigError, match=message) as raised:
        settings_of(fields)
    assert "secret" not in str(raised.value)


def test_prompt_hash_depends_only_on_style_and_format():
    one = ModelSettings(model="a")
    assert prompt_hash(one) == prompt_hash(dataclasses.replace(one, model="b", retries=5))
    others = ({"style": "x"}, {"report": "json"}, {"history": 1})
    assert len({prompt_hash(dataclasses.replace(one, **other)) for other in others} | {prompt_hash(one)}) == 4
    assert key_of([{"role": "user", "content": "a"}]) != key_of([{"role": "user", "content": "b"}])


def test_reply_schema_matches_port_checks():
    """The port accepts every value at the limits of the schema."""
    order = reply_schema(SEAT)["properties"]["orders"]["items"]["properties"]
    for kind in order["kind"]["enum"]:
        place = {"place": [0, 40]} if kind in ("move", "defend", "screen", "attack") else {}
        one = {"pack": order["pack"]["maximum"], "kind": kind, "fire": order["fire"]["enum"][-1], "urgency": 1, **place}
        assert read_orders(json.dumps({"orders": [one]}), SEAT) == ([one], [])


PIECES = (
    *('{"orders": [', '{"pack": 0, "kind": "hold"}', '{"kind": "move", "place": [20, 20]}', "]}", "[", "]", "{", "}"),
    *("<think>", "</think>", "```json", "```", '"', "\\", "\n", ",", ":", "null", "NaN", "1e999", "-1", "true"),
    *('{"orders": []}', '{"kind": "attack", "target": "red_9"}', '"place": [1, 2, 3]', "orders", "\x00", "\ud83e", "é"),
    *(
        "9" * 5000,
        '{"a": ' * 50,
        "Sorry, I cannot.",
        '"battle": 63',
        '"drive": {"mech": "blue_0"}',
        "&lt;",
        "../",
        "$HOME",
    ),
)


@pytest.mark.long
def test_random_replies_never_end_a_battle():
    chance = random.Random(5)

    def reply(request):
        text = "".join(chance.choice(PIECES) for _ in range(chance.randrange(1, 12)))
        return Raw(completion(text))

    # Equal prompts are sent once; on different maps the prompts differ from the first report on.
    config = dataclasses.replace(EnvConfig.small(), map_pool=64)
    port = small_port(32.0, period=1, config=config, battles=40)
    with chat_server(reply) as server:
        commander, _ = commanded(server, port=port, history=1, fallback="hold")
    assert all(port.ended)
    summary = commander.summary()
    assert summary["asked"] == len(server.requests) >= 2000
    assert summary["given"] > 100 and summary["refused"] > 100 and summary["faults"]["unreadable"] > 1000
    assert set(summary["faults"]) <= {"unreadable", "empty"}
