"""Replies in the styles of language models, through the port, a session and lines of stdin."""

import json
import queue
import random
import runpy
import time

import pytest
import torch
from patience import STUCK_S
from programs import ROOT
from serving import small_port

from echelon.command.reply import MOST_BYTES, MOST_LINES, Replies, read_reply
from echelon.command.session import Session
from echelon.rules.orders import OrderKind
from echelon.runtime.errors import ConfigError
from echelon.serve.conversation import converse, lines_of

HOLD = '{"orders": [{"pack": 0, "kind": "hold"}]}'
PRETTY = json.dumps(json.loads(HOLD), indent=2)
READ = {
    "plain": HOLD,
    "bytes": HOLD.encode(),
    "on several lines": PRETTY,
    "in a fence": f"```json\n{HOLD}\n```",
    "pretty in a fence, between sentences": f"Here it is:\n\n```\n{PRETTY}\n```\nThat [1] will hold {{them}}.",
    "after a thought": f'<think>\nOr {{"orders": [{{"kind": "free"}}]}}? No.\n</think>\n{HOLD}',
    "after a thought whose begin is in the prompt": f"So {{this}}.\n</THINK>\n\n{HOLD}",
    "after a sentence": f"Hold [for] now. {HOLD}",
    "a list": '[{"pack": 0, "kind": "hold"}]',
    "one order": '{"pack": 0, "kind": "hold"}',
    "one order in place of a list": '{"orders": {"kind": "hold"}}',
    "said twice": f"{HOLD} that is: {HOLD}",
}
NOTHING = ("{}", "[]", '{"orders": []}', "```json\n{}\n```", "I give none: {}")
EXAMPLE = 'must be JSON such as {"orders": [{"pack": 0, "kind": "hold"}]}, got'
REFUSED = {
    "prose": ("I would hold.", f"{EXAMPLE} 'I would hold.'"),
    "empty": ("", f"{EXAMPLE} ''"),
    "only a thought": (f"<think>\n{HOLD}", EXAMPLE),
    "cut short": ('{"orders": [{"pack": 0, "kind": "hold"}, {"pack": 1, "ki', EXAMPLE),
    "cut short in a fence": ('```json\n{"orders": [{"pack": 0, "kind": "hold"},\n', EXAMPLE),
    "a comma too many": ('{"orders": [{"pack": 0, "kind": "hold"},]}', EXAMPLE),
    "two answers": (f'{HOLD} or {{"orders": []}}', "must be one JSON object or list, got ["),
    "another field": ('{"plan": "hold"}', "must be an object of orders"),
    "a number": ("3", "must be an object of orders"),
    "no list": ('{"orders": "hold"}', "orders must be a list of at most 100,000, got 'hold'"),
    "deep": ("Hold: " + "[" * 100_000, EXAMPLE),
    "long": ("x" * (MOST_BYTES + 1), "must be at most 1,048,576 bytes, got 1048577"),
}


@pytest.fixture(scope="module")
def port():
    return small_port(60.0)


def kinds_given(port) -> torch.Tensor:
    given = port.action[0, 0, : len(OrderKind)].clone()
    port.action.zero_()
    return given


@pytest.mark.parametrize("name", READ)
def test_model_reply_is_parsed_by_port_and_session(port, name):
    for read in (port.reply, Session(port).receive):
        assert not read(READ[name])
        given = kinds_given(port)
        assert given[OrderKind.HOLD] == 1 and given.sum() == 1


@pytest.mark.parametrize("text", NOTHING)
def test_reply_without_orders_applies_no_order(port, text):
    assert port.reply(text) == [] and Session(port).receive(text) is None and kinds_given(port).sum() == 0


@pytest.mark.parametrize("name", REFUSED)
def test_ambiguous_reply_is_refused_and_applies_no_order(port, name):
    text, words = REFUSED[name]
    (line,) = port.reply(text)
    (same,) = Session(port).receive(text)["errors"]
    assert words in line and words in same and "\n" not in line and len(line) < 400
    assert kinds_given(port).sum() == 0


@pytest.mark.parametrize(
    "text", [HOLD[:-1] + ', "thought": "They are near.", "plan": [1]}', f'{{"reason": "", {HOLD[1:]}']
)
def test_unknown_fields_are_refused_and_orders_apply(port, text):
    """Models often add their reasons as a field."""
    (line,) = port.reply(text)
    assert line.startswith("the reply must be an object of orders, drive, got ['") and "left out" in line
    assert kinds_given(port)[OrderKind.HOLD] == 1
    session = Session(port)
    assert len(session.receive(text)["errors"]) == 1 and (session.accepted, session.refused) == (1, 1)
    assert kinds_given(port)[OrderKind.HOLD] == 1


def test_reply_of_wrong_type_is_refused(port):
    assert port.reply(None) == ["the reply must be a text, got None"]


def test_reply_can_drive_a_mech(port):
    assert port.reply('Forward! {"drive": {"mech": "blue_1", "ahead": 1}}') == []
    assert port.driven()["mech"] == "blue_1"
    assert port.reply('{"drive": {"mech": "blue_9"}}')[0].startswith("drive.mech must be one of blue_0")
    assert port.reply('{"drive": null}') == [] and port.driven() is None


def test_hostile_replies_parse_in_linear_time():
    """A parser that restarts at each bracket would need minutes for each of these replies."""
    for unit in ("<think>", "[ ", "{ ", '{"a": ', "```", "{}", '{"a":1} ', "[0] "):
        text, begin_s = unit * (MOST_BYTES // 4 // len(unit)), time.process_time()
        try:
            read_reply(text, ("orders",))
        except ConfigError as error:
            assert len(str(error)) < 1100
        assert time.process_time() - begin_s < 10


def joined(*lines: str | bytes | None) -> Replies:
    kept: queue.Queue = queue.Queue()
    for line in (*lines, None):
        kept.put(line.encode() if isinstance(line, str) else line)
    return Replies(kept)


def all_of(replies: Replies) -> list[bytes]:
    taken = []
    while (reply := replies.get(STUCK_S)) is not None:
        taken.append(reply)
        replies.report_follows()
    return taken


@pytest.mark.parametrize("name", [name for name in READ if name not in ("bytes", "said twice")])
def test_reply_of_several_lines_is_one_reply(name):
    lines = READ[name].split("\n")
    replies = all_of(joined(*lines, *lines, "{}", *lines))
    assert len(replies) == 4 and replies[2] == b"{}"
    for reply in (*replies[:2], replies[3]):
        assert (
            read_reply(reply, ("orders",)) == ({"orders": [{"pack": 0, "kind": "hold"}]}, []) or "one order in" in name
        )


def test_text_without_json_is_a_reply_after_timeout():
    clock, lines = [0.0], queue.Queue()
    replies = Replies(lines, 1.0, lambda: clock[0])
    lines.put(b"I would")
    lines.put(b"hold.")
    with pytest.raises(queue.Empty):
        replies.get_nowait()
    clock[0] = 0.9
    with pytest.raises(queue.Empty):
        replies.get_nowait()
    clock[0] = 1.0
    assert replies.get_nowait() == b"I would\nhold."
    with pytest.raises(queue.Empty):
        replies.get_nowait()
    lines.put(b"I would hold.")
    assert Replies(lines, 0.01).get(STUCK_S) == b"I would hold."


def test_text_after_report_starts_a_new_reply():
    replies = joined("{}", "That is all.")
    assert replies.get(STUCK_S) == b"{}"
    replies.report_follows()
    replies.lines.put(b"I would hold.")
    replies.lines.put(None)
    assert replies.get(STUCK_S) is None  # the end that `joined` wrote; "That is all." belonged to {}
    assert replies.get(STUCK_S) == b"I would hold."


def test_oversized_reply_is_split():
    replies = all_of(joined(*["x"] * (MOST_LINES + 5), "{}"))
    assert [len(reply) for reply in replies] == [2 * MOST_LINES - 1, 2]
    replies = all_of(joined(*["y" * 100_000] * 12, "{}"))
    assert [len(reply) for reply in replies] == [11 * 100_001 - 1, 2]


def test_reply_after_truncated_reply_is_parsed():
    replies = all_of(joined('{"orders": [', HOLD, HOLD, "{}"))
    assert replies == [f'{{"orders": [\n{HOLD}'.encode(), HOLD.encode(), b"{}"]


def test_reply_of_several_lines_delays_no_later_reply():
    """If each line counted as a reply, n lines would make all later replies n - 1 reports late."""
    port, lines, said = small_port(2.0), queue.Queue(), []
    replies = Replies(lines)

    def say(message):
        said.append(message)
        if message["type"] == "report":
            replies.report_follows()
            order = json.dumps({"orders": [{"kind": "move", "place": [message["number"], 1]}]}, indent=2)
            for line in f"I move.\n```json\n{order}\n```\nThat is all.".encode().split(b"\n"):
                lines.put(line)

    converse(Session(port), "step", replies, say)
    places = [
        (message["battles"][0]["packs"][0]["order"] or {}).get("place")
        for message in said
        if message["type"] == "report"
    ]
    assert places == [None, *([number, 1.0] for number in range(1, 8))]
    assert said[-1]["orders"] == {"given": 8, "late": 0, "refused": 0}


def test_damaged_replies_never_end_a_battle(port):
    """Damaged replies over lines of stdin are parsed or refused."""
    draw, session = random.Random(7), Session(port)
    text = b""
    for _ in range(2000):
        reply = draw.choice([reply for reply in READ.values() if isinstance(reply, str)])
        at = draw.randrange(len(reply))
        text += (reply[:at] + draw.choice("{}[]\"'`\n<\0é") + reply[at + draw.randrange(4) :]).encode() + b"\n"
    chunks = iter([text[at : at + 997] for at in range(0, len(text), 997)])
    for reply in all_of(Replies(lines_of(lambda _: next(chunks, b"")))):
        answer = session.receive(reply)
        assert answer is None or (answer["type"] == "refused" and all("\n" not in line for line in answer["errors"]))
    assert session.accepted > 100 and session.refused > 100 and not any(port.ended)


def test_example_handles_every_model_reply():
    example = runpy.run_path(str(ROOT / "tests" / "examples" / "command_by_model.py"))
    texts, prompts = iter(["I would hold.", PRETTY, "{}"]), []

    def replies(prompt: str) -> str:
        prompts.append(prompt)
        return next(texts)

    example["main"](replies, reports=3)
    is_told = ["Refused in your last answer: the reply must be JSON" in prompt for prompt in prompts]
    assert is_told == [False, True, False]
