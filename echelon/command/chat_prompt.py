"""The prompt of a language model as commander: instructions with the order format, then reports and replies."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from echelon.command.chat_client import ModelSettings, Prompt
from echelon.command.pack_policy import OrderTargets
from echelon.command.reply import FIRE_NAMES, KIND_NAMES
from echelon.command.report import Report, in_words

INSTRUCTIONS = """You command a team of mechs in a battle. The team wins if it holds the zone longer than the enemy or \
destroys all enemies. Each report tells how the battle stands. Reply with one JSON object and nothing else:
{"orders": [{"pack": 0, "kind": "move", "place": [20, 20]}]}
An order holds until the pack gets another one. {"orders": []} changes nothing. Kinds of orders:
- free: fight without orders, the mechs decide themselves
- hold: gather where the pack is now and stay
- move: go to place
- attack: go for the enemy named by target, or to place
- defend: hold the ground about place
- screen: stand in front of place, towards the nearest enemy
- regroup: gather where the pack is now
place is [x, y] in metres. urgency is 0 to 1. fire is free, return (only under fire) or hold (no fire)."""
"""Instructions of the prompt, equal in all battles."""
REFUSED = "Of your last reply was refused: "
LAST_LINE = "Reply with the JSON object."


def prompt_hash(settings: ModelSettings) -> str:
    """Return a hash of the prompt's fixed parts: instructions, style, report format and history length."""
    parts = [INSTRUCTIONS, REFUSED, LAST_LINE, settings.style, settings.report, settings.history]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def reply_schema(seat: OrderTargets) -> dict[str, Any]:
    """Return the JSON schema that a reply with orders must match."""
    number = {"type": "number", "minimum": 0}
    order = {
        "pack": {"type": "integer", "minimum": 0, "maximum": seat.packs - 1},
        "kind": {"type": "string", "enum": list(KIND_NAMES)},
        "place": {"type": "array", "items": number, "minItems": 2, "maxItems": 2},
        "target": {"type": "string", "enum": list(seat.enemies)},
        "urgency": {**number, "maximum": 1},
        "fire": {"type": "string", "enum": list(FIRE_NAMES)},
    }
    closed = {"type": "object", "additionalProperties": False}
    entry = {**closed, "properties": order, "required": ["pack", "kind"]}
    orders = {"type": "array", "items": entry, "maxItems": 4 * seat.packs}
    return {**closed, "properties": {"orders": orders}, "required": ["orders"]}


def system_text(seat: OrderTargets, style: str | None) -> str:
    """Return the first message: instructions, the ranges of packs and coordinates, and the names of the targets."""
    east, north = (f"{side:g}" for side in seat.size)
    facts = f"pack is 0 to {seat.packs - 1}. x is 0 to {east}, y is 0 to {north}. target: {', '.join(seat.enemies)}."
    return "\n".join([INSTRUCTIONS, facts, *([style] if style else [])])


def report_text(report: Report, settings: ModelSettings, refused: Sequence[str]) -> str:
    """Return a report as a chat message, which starts with the refused orders of the last reply, if any."""
    # Leave out the battle's index in the batch; otherwise the prompts of equal battles would differ.
    told = {key: value for key, value in report.items() if key != "battle"}
    page = in_words(report) if settings.report == "words" else json.dumps(told, separators=(",", ":"))
    return "\n".join([*([REFUSED + "; ".join(refused)] if refused else []), page, LAST_LINE])


def prompt_of(system: str, history: Sequence[tuple[str, str]], report: str) -> Prompt:
    """Return the chat messages of a prompt: instructions, earlier reports with their replies, the new report."""
    messages = [{"role": "system", "content": system}]
    for told, replied in history:
        messages += [{"role": "user", "content": told}, {"role": "assistant", "content": replied}]
    return [*messages, {"role": "user", "content": report}]


def key_of(prompt: Prompt) -> str:
    """Return the sha256 of a prompt, the key of its recorded reply."""
    return hashlib.sha256(json.dumps(prompt, separators=(",", ":")).encode()).hexdigest()
