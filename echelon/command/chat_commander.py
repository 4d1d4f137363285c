"""A language model as commander of many battles: it sends prompts, parses replies, and counts calls and orders."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from echelon.command.chat_calls import CallRecord, facts_of
from echelon.command.chat_client import ChatClient, ChatResponse, ModelSettings, Prompt
from echelon.command.chat_prompt import key_of, prompt_of, reply_schema, report_text, system_text
from echelon.command.pack_policy import OrderRequest, Orders, OrderTargets, order_targets
from echelon.command.port import CommandPort
from echelon.command.reply import order_row, read_reply
from echelon.runtime.errors import ConfigError, cut
from echelon.runtime.files import FileError

logger = logging.getLogger(__name__)
UNREADABLE = "unreadable"
"""Fault of a reply that contains no orders object."""
COUNTED = (
    *("battles", "calls", "asked", "prompt_tokens", "completion_tokens", "given", "late", "refused", "fallback"),
)
"""Names of the counters. `calls` includes recorded calls; `asked` counts only calls to the server."""
LONGEST_REPEATED = 4000
"""Maximum number of characters of an earlier reply in a prompt."""


@dataclass
class Conversation:
    """State of the conversation with the model about one battle."""

    history: list[tuple[str, str]] = field(default_factory=list)
    """The most recent reports and replies."""
    refused: list[str] = field(default_factory=list)
    """Errors of refused orders in the last reply, for the next prompt."""
    wait: int = 0
    """Number of reports until the orders of a late reply take effect; 0 if no reply is pending."""
    late: Orders = field(default_factory=list)


class ChatCommander:
    """Commands battles with the replies of a language model, or with recorded replies.

    Args:
        settings: settings of the model.
        calls: the record of calls. A prompt that is already recorded is not sent again.
        is_recorded: use only recorded calls and never call the server.
    """

    def __init__(self, settings: ModelSettings, calls: CallRecord, is_recorded: bool = False) -> None:
        self.settings, self.calls, self.is_recorded = settings, calls, is_recorded
        self._client: ChatClient | None = None
        self._talks: dict[Hashable, Conversation] = {}
        self._told: set[str] = set()
        self.counts: Counter[str] = Counter()
        """Counters, keyed by the names in `COUNTED`."""
        self.faults: Counter[str] = Counter()
        """Number of calls by fault."""
        self.seconds = 0.0
        """Total latency of all calls, in seconds."""

    def reset_battles(self, keys: Iterable[Hashable]) -> None:
        """Reset the conversations about battles that start anew."""
        for key in keys:
            self._talks[key] = Conversation()
            self.counts["battles"] += 1

    def orders(self, questions: Sequence[OrderRequest]) -> list[Orders]:
        """Return, for each request, the valid orders that take effect now.

        Raises:
            FileError: if `is_recorded` is set and a prompt is missing in the record.
        """
        given: list[Orders] = [[] for _ in questions]
        asked: list[tuple[int, str, Prompt]] = []
        for index, question in enumerate(questions):
            talk = self._talks.setdefault(question.key, Conversation())
            if talk.wait:
                talk.wait -= 1
                if not talk.wait:
                    given[index], talk.late = talk.late, []
                    self._count_given(given[index], is_late=True)
                continue
            text = report_text(question.report, self.settings, talk.refused)
            asked.append((index, text, prompt_of(system_text(question.seat, self.settings.style), talk.history, text)))
        rows = self._rows_of([(questions[index], prompt) for index, _, prompt in asked])
        for (index, text, _), row in zip(asked, rows, strict=True):
            given[index] = self._taken(questions[index], text, row)
        return given

    def _rows_of(self, asked: Sequence[tuple[OrderRequest, Prompt]]) -> list[Mapping[str, Any]]:
        """Return the recorded call for each prompt; the server is called for prompts that are not recorded."""
        keys = [key_of(prompt) for _, prompt in asked]
        new = {key: pair for key, pair in zip(keys, asked, strict=True) if key not in self.calls.rows}
        if new and self.is_recorded:
            question = next(iter(new.values()))[0]
            battle, time_s = question.report["battle"], question.report["time_s"]
            where = self.calls.path.name if self.calls.path else "the record"
            raise FileError(f"{where}: no reply to the report of battle {battle} at {time_s:g} s: another battle?")
        if new:
            if self._client is None:
                self._client = ChatClient(self.settings)
            places = list(new.items())

            def keep(index: int, answer: ChatResponse) -> None:
                key, (question, _) = places[index]
                self.calls.add(self._row_of(key, question, answer))

            prompts = [prompt for _, (_, prompt) in places]
            schemas = [reply_schema(question.seat) for _, (question, _) in places]
            self._client.ask(prompts, schemas, keep)
            self.counts["asked"] += len(new)
        return [self.calls.rows[key] for key in keys]

    def _row_of(self, key: str, question: OrderRequest, answer: ChatResponse) -> dict[str, Any]:
        """Return the record's entry for a call, from the model's response."""
        fault, detail = answer.fault, answer.detail
        orders: Orders = []
        refused: list[str] = []
        if not fault:
            try:
                orders, refused = read_orders(answer.text, question.seat)
            except ConfigError as error:
                fault, detail = UNREADABLE, str(error)
                refused = [detail]
        if fault and fault not in self._told:
            self._told.add(fault)
            logger.warning(
                "%s: %s: %s; %s is ordered instead", self.settings.model, fault, detail, self.settings.fallback
            )
        deadline_s = self.settings.deadline_s
        late = max(0, math.ceil(answer.latency_s / deadline_s) - 1) if deadline_s and not fault else 0
        return {
            **{"prompt": key, "battle": question.report["battle"], "team": question.report["team"]},
            **{"time_s": question.report["time_s"], "reply": answer.text},
            **{"prompt_tokens": answer.prompt_tokens, "completion_tokens": answer.completion_tokens},
            **{"latency_s": round(answer.latency_s, 4), "late": late, "fault": fault},
            **{"orders": orders, "refused": refused},
        }

    def _taken(self, question: OrderRequest, text: str, row: Mapping[str, Any]) -> Orders:
        """Return those orders of a call that take effect now; a late reply takes effect at a later report."""
        talk = self._talks[question.key]
        self.counts["calls"] += 1
        for name in ("prompt_tokens", "completion_tokens"):
            self.counts[name] += row[name]
        self.seconds += row["latency_s"]
        self.counts["refused"] += len(row["refused"])
        talk.refused = list(row["refused"])
        if self.settings.history:
            replied = cut(row["reply"], LONGEST_REPEATED) or "{}"
            talk.history = [*talk.history, (text, replied)][-self.settings.history :]
        if row["fault"]:
            self.faults[row["fault"]] += 1
            self.counts["fallback"] += 1
            living = [pack["pack"] for pack in question.report["packs"] if pack["alive"]]
            return [{"pack": pack, "kind": self.settings.fallback} for pack in living]
        # Parse the reply again instead of using the row's orders, because a row from a file may contain invalid orders.
        orders, _ = read_orders(row["reply"], question.seat)
        if row["late"]:
            talk.wait, talk.late = row["late"], orders
            return []
        self._count_given(orders, is_late=False)
        return orders

    def _count_given(self, orders: Orders, is_late: bool) -> None:
        self.counts["given"] += len(orders)
        self.counts["late"] += len(orders) if is_late else 0

    def facts(self) -> dict[str, Any]:
        """Return facts for a result file, as JSON values: model, prompt hash, settings, and the summary."""
        return {**facts_of(self.settings), "summary": self.summary()}

    def summary(self) -> dict[str, Any]:
        """Return the numbers of calls, tokens and orders, as JSON values.

        Tokens and seconds per battle are means over the battles.
        """
        battles = max(self.counts["battles"], 1)
        tokens = self.counts["prompt_tokens"] + self.counts["completion_tokens"]
        return {
            **{name: self.counts[name] for name in COUNTED},
            "faults": dict(sorted(self.faults.items())),
            "tokens_per_battle": round(tokens / battles, 1),
            "seconds_per_battle": round(self.seconds / battles, 3),
        }

    def close(self) -> None:
        """Close the connections to the server, if any."""
        if self._client is not None:
            self._client.close()
            self._client = None


def read_orders(text: str, seat: OrderTargets) -> tuple[Orders, list[str]]:
    """Return the valid orders in a reply, and one error line for each refused order.

    Raises:
        ConfigError: if the reply contains no JSON object with orders.
    """
    message, refused = read_reply(text, ("orders",))
    accepted: Orders = []
    for number, order in enumerate(message["orders"]):
        try:
            order_row(order, 1, seat.packs, seat.enemies, seat.size)
        except ConfigError as error:
            refused.append(f"order {number}: {error}")
        else:
            accepted.append({key: value for key, value in order.items() if key != "battle"})
    return accepted, refused


def command_battles(port: CommandPort, commander: ChatCommander) -> None:
    """Command the battles of a port until the first battle in each batch slot has ended."""
    battles = range(len(port.ended))
    commander.reset_battles(battles)
    while not all(port.ended):
        reports = [report for report in port.reports() if not port.ended[report["battle"]]]
        questions = [
            OrderRequest(report["battle"], report, order_targets(port.view.env, int(port.is_red[report["battle"]])))
            for report in reports
        ]
        for question, orders in zip(questions, commander.orders(questions), strict=True):
            refused = port.order([{**order, "battle": question.key} for order in orders])
            assert not refused, refused
        port.step()
