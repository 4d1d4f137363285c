"""The command port: reports in numbers and words, checked orders, a session of JSON lines."""

import dataclasses
import io
import json
import queue
import random
import subprocess
import sys

import pytest
import torch
from patience import STUCK_S

import echelon
from echelon import CommandConfig, CommandPort, EnvConfig
from echelon.command.session import MOST_BYTES, Pace, Session
from echelon.rules.orders import OrderKind
from echelon.runtime.errors import ConfigError
from echelon.serve.conversation import converse, lines_of, waiting

RULES = dataclasses.replace(EnvConfig.small().rules, max_episode_s=6.0)
CONFIG = dataclasses.replace(EnvConfig.small(), map_pool=2, rules=RULES, command=CommandConfig(enabled=True, period=4))


def port(battles: int = 1, config: EnvConfig = CONFIG, side: str = "blue", **settings) -> CommandPort:
    return CommandPort(echelon.commanders(config, num_envs=battles, device="cpu", seed=3, side=side, **settings))


def test_report_matches_battle_state():
    commanded = port(2, side="both")
    commanded.order([{"battle": 1, "kind": "move", "place": [20, 30], "urgency": 1}])
    commanded.step()
    report = commanded.reports()[1]
    state, sim_model = commanded.view.env.state, commanded.view.env.sim_model
    assert (report["team"], report["battle"], report["time_s"], report["next_orders_s"]) == ("red", 1, 1.0, 1.0)
    (pack,) = report["packs"]
    assert [one["name"] for one in pack["mechs"]] == [f"red_{n}" for n in range(5)] and pack["alive"] == 5
    assert pack["mechs"][0]["place"] == pytest.approx(state.mechs.pos[1, 5, :2].tolist(), abs=0.051)
    place = {"kind": "move", "place": [20, 30], "target": None}
    assert pack["order"] == {**place, "urgency": 1, "fire": "free", "age_s": 1.0}
    assert all(one["heard"] for one in pack["mechs"]) and report["map"] == [40, 40]
    assert report["zone"]["place"] == pytest.approx(sim_model.maps.zone_center[state.map_id[1]].tolist(), abs=0.051)
    known = {one["name"] for one in report["enemies"]}
    assert known == {f"blue_{n}" for n in range(5) if (state.focus_slots[1, 5:] == n).any()}
    assert json.loads(json.dumps(report)) == report


def test_report_in_words_matches_numbers():
    commanded = port()
    words = commanded.words(commanded.reports()[0])
    assert words.startswith("You command blue on a map of 40 by 40 metres") and "without orders" in words
    commanded.order([{"kind": "hold"}])
    commanded.step()
    words = commanded.words(commanded.reports()[0])
    assert "told to hold 1 s ago, which 5 of 5 have heard: blue_0 (heavy, 100% hp)" in words


REFUSED = {
    "charge": ({"kind": "charge"}, "order.kind must be one of free, hold, move, attack, defend, screen, regroup"),
    "no kind": ({}, "order.kind must be one of"),
    "a list": ([1], "order must be an object such as"),
    "nothing": (None, "order must be an object such as"),
    "no place": ({"kind": "defend"}, r"order.place must be \[x, y\] in vox for defend"),
    "half a place": ({"kind": "move", "place": [1]}, r"order.place must be \[x, y\] in vox"),
    "words": ({"kind": "move", "place": "12"}, r"order.place must be \[x, y\] in vox"),
    "outside": ({"kind": "move", "place": [1, 41]}, "order.place.y must be a number in 0..40, got 41"),
    "no number": ({"kind": "move", "place": [float("nan"), 1]}, "order.place.x must be a number in 0..40"),
    "huge": ({"kind": "move", "place": [10**400, 1]}, "order.place.x must be a number in 0..40"),
    "a friend": ({"kind": "attack", "target": "blue_1"}, "order.target must be one of red_0, red_1"),
    "a list as target": ({"kind": "attack", "target": ["red_1"]}, "order.target must be one of red_0, red_1"),
    "aimless": ({"kind": "hold", "target": "red_1"}, "order.target must be absent unless kind is attack"),
    "another pack": ({"kind": "hold", "pack": 1}, "order.pack must be 0..0, got 1"),
    "true pack": ({"kind": "hold", "pack": True}, "order.pack must be 0..0, got True"),
    "another battle": ({"kind": "hold", "battle": 2}, "order.battle must be 0..0, got 2"),
    "haste": ({"kind": "hold", "urgency": 2}, "order.urgency must be a number in 0..1, got 2"),
    "fire": ({"kind": "hold", "fire": "at will"}, "order.fire must be one of free, return, hold"),
    "more": ({"kind": "hold", "speed": 2}, "order must be of battle, pack, kind"),
}


@pytest.fixture(scope="module")
def one_battle():
    return port()


@pytest.mark.parametrize("name", REFUSED)
def test_invalid_order_is_refused_and_other_orders_apply(one_battle, name):
    order, words = REFUSED[name]
    one_battle.action.zero_()
    (line,) = one_battle.order([order, {"kind": "hold"}])
    with pytest.raises(AssertionError, match=words):
        raise AssertionError(line)
    assert line.startswith("order 0: ") and "\n" not in line
    assert one_battle.action[0, 0, OrderKind.HOLD] == 1


def test_fuzzed_lines_never_end_a_battle(one_battle):
    """Lines of random bytes, of JSON with the wrong structure, and damaged valid lines."""
    draw, session = random.Random(4), Session(one_battle)
    right = json.dumps({"orders": [{"pack": 0, "kind": "move", "place": [3, 4], "fire": "hold"}], "number": 0})
    values = [None, True, -1, 1e999, "x", [], {}, {"orders": [{"kind": []}]}, [[[]]], {"orders": {"kind": "hold"}}]
    before = one_battle.view.env.state.tick.clone()
    answers = []
    for number in range(2000):
        at = draw.randrange(len(right))
        damaged = right[:at] + chr(draw.randrange(1, 0x2FF)) + right[at + draw.randrange(3) :]
        noise = draw.randbytes(draw.randrange(40))
        line = [damaged, noise, json.dumps(draw.choice(values)), json.dumps({"orders": [draw.choice(values)]})][
            number % 4
        ]
        answers.append(session.receive(line))
    assert sum(answer is None for answer in answers) < 1500
    assert all(answer is None or answer["type"] == "refused" for answer in answers)
    assert torch.equal(one_battle.view.env.state.tick, before)
    deep = "[" * 100_000
    assert session.receive(deep)["errors"][0].startswith("a line must be JSON such as")
    assert session.receive(b" " * (MOST_BYTES + 1))["errors"][0].startswith("a line must be at most 1,048,576 bytes")


def test_order_for_earlier_report_counts_as_late(one_battle):
    session = Session(one_battle)
    session.report(), session.report()
    assert session.receive('{"orders": [{"kind": "hold"}], "number": 1}') is None
    assert session.receive('{"orders": [{"kind": "free"}]}') is None
    assert (session.accepted, session.late) == (2, 1) and session.report()["late"] == 1
    assert session.receive('{"number": 9}')["errors"] == [
        "number must be 0..3, the number of a report that was sent, got 9"
    ]


def test_long_line_is_truncated_and_next_line_is_complete():
    stream = io.BytesIO(b"x" * (3 * MOST_BYTES) + b"\n{}\nlast")
    lines = lines_of(stream.read)
    first = lines.get(timeout=STUCK_S)
    assert len(first) == MOST_BYTES + 1
    assert [lines.get(timeout=STUCK_S) for _ in range(3)] == [b"{}", b"last", None]


def test_step_clock_waits_for_line_and_other_clocks_do_not():
    lines: queue.Queue[bytes | None] = queue.Queue()
    assert list(waiting(lines, "fast", None)) == [] == list(waiting(lines, "real", Pace(0.0)))
    for line in (b"1", b"2", None):
        lines.put(line)
    assert list(waiting(lines, "step", None)) == [b"1"]
    assert list(waiting(lines, "fast", None)) == [b"2"]


def test_early_end_of_stdin_error_names_progress():
    said, lines = [], queue.Queue()
    lines.put(b"{}")
    lines.put(None)
    with pytest.raises(ConfigError, match="stdin ended after report 2, 0 of 1 battles had"):
        converse(Session(port()), "step", lines, said.append)
    assert [message["type"] for message in said] == ["begin", "report", "report"]


COMMANDER = """
import json, sys

def orders_of(battle):
    if battle["time_s"] < 2:
        return [{"battle": battle["battle"], "pack": pack["pack"], "kind": "hold"} for pack in battle["packs"]]
    if battle["enemies"]:
        target = battle["enemies"][0]["name"]
        return [{"battle": battle["battle"], "kind": "attack", "target": target}]
    return [{"battle": battle["battle"], "kind": "move", "place": battle["zone"]["place"], "fire": "return"}]

for line in sys.stdin:
    message = json.loads(line)
    if message["type"] == "report":
        orders = [order for battle in message["battles"] for order in orders_of(battle)]
        print(json.dumps({"orders": orders, "number": message["number"]}), flush=True)
    elif message["type"] == "refused":
        sys.exit(message["errors"][0])
    elif message["type"] == "result":
        print(json.dumps(message), file=sys.stderr)
        break
"""


def test_script_commands_over_stdio(tmp_path):
    script, rules = tmp_path / "commander.py", ["--env", "small", "--battles", "2", "--seed", "4"]
    script.write_text(COMMANDER)
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, str(script)], stdin=pipe, stdout=pipe, stderr=pipe) as asked:
        play = subprocess.run(
            [sys.executable, "-m", "echelon.pipelines.arena", "command", "--period", "16", *rules],
            stdin=asked.stdout, stdout=asked.stdin, stderr=pipe, timeout=600,
        )  # fmt: skip
        asked.stdin.close()
        result = json.loads(asked.stderr.read())
    assert play.returncode == asked.returncode == 0, play.stderr
    assert sum(result["won_by"].values()) == 2 and result["orders"]["refused"] == result["orders"]["late"] == 0
    assert result["orders"]["given"] >= 4
