"""Parse replies of programs and language models: join lines, extract JSON, check orders and convert them to actions."""

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
"""Maximum size of a reply, in bytes."""
MOST_ORDERS = 100_000
"""Maximum number of orders in a reply."""
MOST_LINES = 10_000
"""Maximum number of lines in a reply."""
QUIET_S = 1.0
"""Seconds without a new line after which text without complete JSON counts as a reply."""
EXAMPLE = '{"orders": [{"pack": 0, "kind": "hold"}]}'
THOUGHT_BEGINS = re.compile(r"<think(?:ing)?>", re.IGNORECASE)
THOUGHT_ENDS = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
JSON_BEGINS = re.compile(r'\{\s*["}]|\[\s*[\[{\]]')
"""Start of an object, or of a list of objects or lists. Brackets in a sentence, such as `[1]`, do not match."""
REPLY_BEGINS = re.compile(rf"{JSON_BEGINS.pattern}|[\[{{]\s*$|(?i:{THOUGHT_BEGINS.pattern})")
"""Start of JSON, which may continue in the next line, or of a `<think>` section."""


def read_reply(text: str | bytes, fields: Sequence[str], name: str = "the reply") -> tuple[dict[str, Any], list[str]]:
    """Parse a reply into a message; return the message without its unknown fields, and error lines about these fields.

    The JSON may be in a code fence, after a `<think>` section, between sentences, or on several lines. A single order
    or a list of orders is converted to a message whose field `orders` is the list of orders.

    Args:
        fields: valid fields of a message.
        name: name of the reply in error messages.

    Raises:
        ConfigError: if the reply contains none of `fields`, or if its JSON is missing, broken or ambiguous.
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
    """Return the only JSON value in a reply, as Python values.

    Raises:
        ConfigError: if the JSON is missing or broken, or if the reply contains several different values.
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
            # Do not parse values inside a truncated JSON text, because they would contain only some of the orders.
            raise ConfigError(f"{name} must be JSON such as {EXAMPLE}, got {quoted(answer[start:][:80])}") from None
        values[answer[start:end]] = value
    require(bool(values), name, f"JSON such as {EXAMPLE}", (answer.strip() or text)[:80])
    require(len(values) == 1, name, "one JSON object or list", [written[:80] for written in values])
    (value,) = values.values()
    return value


def has_json(text: str) -> bool:
    """Return whether a text contains exactly one JSON value, as a complete reply does."""
    try:
        json_of(text, "the reply")
    except ConfigError:
        return False
    return JSON_BEGINS.search(text) is not None


class Replies:
    """Joins the lines of a stream into replies; has the methods of a queue.

    A reply ends with the line that completes its JSON, or after `quiet_s` without a new line. Lines without JSON that
    follow a reply before the next report, such as the end of a code fence, belong to this reply.

    Args:
        lines: queue of received lines; None marks the end of the stream.
        quiet_s: seconds without a new line after which incomplete lines count as a reply.
        now: monotonic clock, in seconds.
    """

    def __init__(
        self, lines: queue.Queue[bytes | None], quiet_s: float = QUIET_S, now: Callable[[], float] = time.monotonic
    ) -> None:
        self.lines, self.quiet_s, self.now = lines, quiet_s, now
        self._part: list[bytes] = []
        self._size = 0
        """Bytes of the pending lines."""
        self._last_s = 0.0
        """Time of the last pending line."""
        self._thinks = False
        """Whether the pending lines end inside a `<think>` section, whose JSON is ignored."""
        self._span: list[bytes] = []
        """Pending lines since the last line that left no bracket open."""
        self._open = 0
        """Number of open brackets. Brackets in strings count too, which may delay the end of the reply by `quiet_s`."""
        self._is_whole = self._is_rest = False
        """Whether the pending lines are a complete reply; whether text without JSON belongs to the previous reply."""

    def get(self, timeout: float | None = None) -> bytes | None:
        """Return the next reply, or None if the stream has ended.

        Raises:
            queue.Empty: if no reply arrives within `timeout` seconds.
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
                # Put the end marker back, so that the next call returns it.
                self.lines.put(None)
                return self._taken()
            else:
                return None
        self._is_rest = True
        return self._taken()

    def get_nowait(self) -> bytes | None:
        """Return the next reply if it is complete already; raise `queue.Empty` otherwise."""
        return self.get(0.0)

    def report_follows(self) -> None:
        """Mark that a report is about to be sent: later lines then do not belong to an earlier reply."""
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
        """Return whether this line completes the JSON of the pending lines."""
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
            # A new message starts before the brackets of the last one are closed: refuse both as truncated JSON.
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
    """Convert an order to three values: the battle, the pack, and the row `[D]` of a commander's action.

    Args:
        order: a mapping with `kind`, one of `KIND_NAMES`; `pack`, default 0; `battle`, default 0; `place`, x and y in
            vox, for `move`, `defend`, `screen`, and for `attack` without a target; `target`, the name of an enemy,
            for `attack`; `urgency`, 0..1; `fire`, one of `FIRE_NAMES`.
        batch, packs: number of battles and packs.
        enemies: names of the enemies, in order.
        size: map size along x and y, in vox.

    Raises:
        ConfigError: if a field of the order is invalid.
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
        require(kind == "attack", "order.target", "absent unless kind is attack", target)
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
    """Check that a value is an integer in 0..`count` - 1, and return it."""
    require(type(value) is int and 0 <= value < count, name, f"0..{count - 1}", value)
    return int(value)


def place_of(value: Any, name: str, size: Sequence[float]) -> tuple[float, float]:
    """Check a position on a map of the given size, and return its x and y in vox."""
    is_pair = isinstance(value, Sequence) and not isinstance(value, str) and len(value) == 2
    require(is_pair, name, "[x, y] in vox", value)
    x, y = (
        number_of(coordinate, f"{name}.{axis}", 0.0, float(side))
        for axis, coordinate, side in zip("xy", value, size, strict=True)
    )
    return x, y


def number_of(value: Any, name: str, low: float, high: float) -> float:
    """Check that a value is a finite number within limits, and return it as a float."""
    # A comparison with NaN is false. Compare before the conversion to float, which fails for very large integers.
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    require(is_number and low <= value <= high, name, f"a number in {low:g}..{high:g}", value)
    return float(value)
