"""Replies as programs and language models write them: their JSON is found, their orders are checked and made actions.

Lines are joined to replies. Orders become the columns of the action of a commander.
"""

import json
import math
import queue
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from echelon.rules.orders import DISCIPLINES, KINDS, TARGETS, Discipline, OrderAction, OrderKind, action_width
from echelon.runtime.errors import ConfigError, quoted, require

MOST_BYTES = 1 << 20
"""Of one reply."""
MOST_ORDERS = 100_000
"""In one reply."""
MOST_LINES = 10_000
"""Of one reply."""
QUIET_S = 1.0
"""Text without complete JSON is a reply once no line has followed it for so long."""
EXAMPLE = '{"orders": [{"pack": 0, "kind": "hold"}]}'
THOUGHT_BEGINS = re.compile(r"<think(?:ing)?>", re.IGNORECASE)
THOUGHT_ENDS = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
JSON_BEGINS = re.compile(r'\{\s*["}]|\[\s*[\[{\]]')
"""An object, or a list of objects or lists. Brackets of a sentence, such as `[1]`, begin no JSON."""
REPLY_BEGINS = re.compile(rf"{JSON_BEGINS.pattern}|[\[{{]\s*$|(?i:{THOUGHT_BEGINS.pattern})")
"""In a line: JSON, which may go on in the next one, or a thought."""


def read_reply(text: str | bytes, fields: Sequence[str], name: str = "the reply") -> tuple[dict[str, Any], list[str]]:
    """The message that a reply means, and a line for its fields that no message has, which are left out.

    Its JSON may stand in a code fence, after a `<think>` part, between sentences, and on several lines. A list of
    orders and one order mean the message that has them as its `orders`; one order there means a list of one.

    Args:
        fields: what a message may have.
        name: of the reply, for errors.

    Raises:
        ConfigError: one line that says what would be right. No field of it is one of `fields`, or it is unclear.
    """
    require(isinstance(text, str | bytes), name, "a text", text)
    require(len(text) <= MOST_BYTES, name, f"at most {MOST_BYTES:,} bytes", len(text))
    message = json_of(text if isinstance(text, str) else text.decode("utf-8", "replace"), name)
    if isinstance(message, dict) and "kind" in message:
        message = [message]
    if isinstance(message, list):
        message = {"orders": message}
    limit = f"{name} must be an object of {', '.join(fields)}, got"
    if not isinstance(message, dict) or (message and not message.keys() & {*fields}):
        raise ConfigError(f"{limit} {quoted(message)}")
    unknown = [key for key in message if key not in fields]
    message = {key: value for key, value in message.items() if key in fields}
    refused = [f"{limit} {quoted(unknown)}, which is left out"] if unknown else []
    orders = message.get("orders", [])
    if isinstance(orders, dict):
        orders = [orders]
    is_list = isinstance(orders, list) and len(orders) <= MOST_ORDERS
    require(is_list, "orders", f"a list of at most {MOST_ORDERS:,}", orders)
    return {**message, "orders": orders}, refused


def json_of(text: str, name: str) -> Any:
    """The one JSON value of a reply.

    Raises:
        ConfigError: there is none, one is broken, or there are several that differ.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    answer = THOUGHT_BEGINS.split(THOUGHT_ENDS.split(text)[-1], maxsplit=1)[0]
    decoder, values, end = json.JSONDecoder(), dict[str, Any](), 0
    while (begin := JSON_BEGINS.search(answer, end)) is not None:
        start = begin.start()
        try:
            value, end = decoder.raw_decode(answer, start)
        except (ValueError, RecursionError):
            # Not its inner values: of an answer that was cut short, a part of the orders would be given.
            raise ConfigError(f"{name} must be JSON such as {EXAMPLE}, got {quoted(answer[start:][:80])}") from None
        values[answer[start:end]] = value
    require(bool(values), name, f"JSON such as {EXAMPLE}", (answer.strip() or text)[:80])
    require(len(values) == 1, name, "one JSON object or list", [written[:80] for written in values])
    (value,) = values.values()
    return value


def has_json(text: str) -> bool:
    """Whether a text has the JSON of one reply."""
    try:
        json_of(text, "the reply")
    except ConfigError:
        return False
    return JSON_BEGINS.search(text) is not None


class Replies:
    """Replies, joined from the lines of a stream. It is read as a queue is.

    A reply ends with the line that completes its JSON, or once no line has followed for `quiet_s`. Lines without JSON
    that follow its JSON before the next report, such as the end of a code fence, are a part of it.

    Args:
        lines: lines as they come; None at their end.
        quiet_s: seconds.
        now: seconds, of a clock that never goes back.
    """

    def __init__(
        self, lines: queue.Queue[bytes | None], quiet_s: float = QUIET_S, now: Callable[[], float] = time.monotonic
    ) -> None:
        self.lines, self.quiet_s, self.now = lines, quiet_s, now
        self._part: list[bytes] = []
        self._size = 0
        """Bytes of the part."""
        self._last_s = 0.0
        """When its last line came."""
        self._thinks = False
        """Whether the part is within a `<think>` part, whose JSON is none of the reply's."""
        self._span: list[bytes] = []
        """Its lines since the last one after which no bracket was open."""
        self._open = 0
        """Brackets that are open. Those in strings count too, and then the reply may end `quiet_s` late."""
        self._is_whole = self._is_rest = False
        """Whether the part is a reply whatever follows; whether text without JSON belongs to the reply before."""

    def get(self, timeout: float | None = None) -> bytes | None:
        """The next reply; None after the last one.

        Raises:
            queue.Empty: there is none after `timeout` seconds.
        """
        end_s = math.inf if timeout is None else self.now() + timeout
        while not self._is_whole:
            quiet_end_s = self._last_s + self.quiet_s if self._part else math.inf
            left_s = min(end_s, quiet_end_s) - self.now()
            try:
                line = self.lines.get(left_s > 0, None if math.isinf(left_s) else left_s)
            except queue.Empty:
                if self.now() >= quiet_end_s:
                    return self._taken()
                if self.now() >= end_s:
                    raise
                continue
            if line is not None:
                self._add(line)
            elif self._part:
                # The end is left for the next call.
                self.lines.put(None)
                return self._taken()
            else:
                return None
        self._is_rest = True
        return self._taken()

    def get_nowait(self) -> bytes | None:
        """The next reply if it is there."""
        return self.get(0.0)

    def report_follows(self) -> None:
        """A report is about to be sent: no line that comes from now on belongs to a reply to an earlier one."""
        while self._is_rest:
            try:
                line = self.lines.get_nowait()
            except queue.Empty:
                break
            if line is None:
                self.lines.put(None)
                break
            self._add(line)
        self._is_rest = False

    def _add(self, line: bytes) -> None:
        if self._is_rest and REPLY_BEGINS.search(line.decode("utf-8", "replace")) is None:
            return
        self._is_rest = False
        self._part.append(line)
        self._size += len(line) + 1
        self._last_s = self.now()
        self._is_whole = self._size > MOST_BYTES or len(self._part) >= MOST_LINES or self._completes(line)

    def _completes(self, line: bytes) -> bool:
        """Whether this line of the part completes its JSON."""
        text = line.decode("utf-8", "replace")
        after = THOUGHT_ENDS.split(text)[-1]
        if self._thinks and after == text:
            return False
        self._thinks = THOUGHT_BEGINS.search(after) is not None
        self._span.append(line)
        self._open = max(self._open + len(re.findall(r"[{[]", after)) - len(re.findall(r"[}\]]", after)), 0)
        if self._thinks:
            return False
        if self._open:
            # A message within another one: the JSON before it was cut short, and is refused with this line.
            return text.startswith('{"orders"') and has_json(text)
        span, self._span = b"\n".join(self._span).decode("utf-8", "replace"), []
        return has_json(span)

    def _taken(self) -> bytes:
        reply = b"\n".join(self._part)
        self._part, self._span, self._size, self._open = [], [], 0, 0
        self._thinks = self._is_whole = False
        return reply


FIELDS = ("battle", "pack", "kind", "place", "target", "urgency", "fire")
KIND_NAMES = tuple(kind.name.lower() for kind in OrderKind)
FIRE_NAMES = tuple(one.name.lower() for one in Discipline)
NEED_PLACE = ("move", "defend", "screen")


def order_row(
    order: Any, batch: int, packs: int, enemies: Sequence[str], size: Sequence[float]
) -> tuple[int, int, Tensor]:
    """The battle, the pack and the row `[D]` of a commander's action that an order means.

    Args:
        order: a mapping with `kind`, one of `KIND_NAMES`; `pack`, 0 by default; `battle`, 0 by default; `place`, x and
            y in vox, for a move, to defend and to screen, and for an attack without a target; `target`, the name of an
            enemy, for an attack; `urgency`, 0..1; `fire`, one of `FIRE_NAMES`.
        batch, packs: how many battles and packs there are.
        enemies: names of the enemies, in order.
        size: vox, the map along x and y.

    Raises:
        ConfigError: one line that says what would be right.
    """
    require(isinstance(order, Mapping), "order", 'an object such as {"kind": "hold"}', order)
    unknown = [key for key in order if key not in FIELDS]
    require(not unknown, "order", f"of {', '.join(FIELDS)} only", unknown)
    kind, fire = order.get("kind"), order.get("fire", "free")
    require(isinstance(kind, str) and kind in KIND_NAMES, "order.kind", f"one of {', '.join(KIND_NAMES)}", kind)
    require(isinstance(fire, str) and fire in FIRE_NAMES, "order.fire", f"one of {', '.join(FIRE_NAMES)}", fire)
    battle = index_of(order.get("battle", 0), "order.battle", batch)
    pack = index_of(order.get("pack", 0), "order.pack", packs)
    urgency = number_of(order.get("urgency", 0.5), "order.urgency", 0.0, 1.0)

    row = torch.zeros(action_width(len(enemies)), dtype=torch.float32, device="cpu")
    row[KINDS.start + OrderKind[kind.upper()]] = 1.0
    row[DISCIPLINES.start + Discipline[fire.upper()]] = 1.0
    row[OrderAction.URGENCY] = 2 * urgency - 1
    target, position = order.get("target"), order.get("place")
    if target is not None:
        require(kind == "attack", "order.target", "absent but in an attack", target)
        require(target in enemies, "order.target", f"one of {', '.join(enemies)}", target)
        row[TARGETS + list(enemies).index(target)] = 1.0
    needs = kind in NEED_PLACE or (kind == "attack" and target is None)
    require(not needs or position is not None, "order.place", f"[x, y] in vox for {kind}", position)
    if position is not None:
        columns = (OrderAction.X, OrderAction.Y)
        for column, axis, side in zip(columns, place_of(position, "order.place", size), size, strict=True):
            row[column] = 2 * axis / side - 1
    return battle, pack, row


def index_of(value: Any, name: str, count: int) -> int:
    """An index below `count`."""
    require(type(value) is int and 0 <= value < count, name, f"0..{count - 1}", value)
    return int(value)


def place_of(value: Any, name: str, size: Sequence[float]) -> tuple[float, float]:
    """x and y of a place on a map of this size, vox."""
    is_pair = isinstance(value, Sequence) and not isinstance(value, str) and len(value) == 2
    require(is_pair, name, "[x, y] in vox", value)
    x, y = (
        number_of(coordinate, f"{name}.{axis}", 0.0, float(side))
        for axis, coordinate, side in zip("xy", value, size, strict=True)
    )
    return x, y


def number_of(value: Any, name: str, low: float, high: float) -> float:
    """A finite number within limits."""
    # Comparisons with NaN are false; integers may have any size.
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    require(is_number and low <= value <= high, name, f"a number in {low:g}..{high:g}", value)
    return float(value)
