"""Commanders `llm:FILE` and `recorded:FILE`: a language model gives orders to packs, and a policy controls the mechs.

Importing this module registers both kinds of commander in `echelon.agents.names`.
"""

from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass
from pathlib import Path

from echelon.agents.names import register_resolver, resolve
from echelon.command.chat_calls import CallRecord, facts_of
from echelon.command.chat_client import ModelSettings, settings_of
from echelon.command.chat_commander import ChatCommander
from echelon.command.pack_policy import LLM, MECHS, RECORDED, PackCommander, require_mechs
from echelon.rules.orders import CommandConfig
from echelon.runtime.files import FileError, as_file_error, parse_json, read_file
from echelon.runtime.json_checks import OBJECT

OF_BATTLES = ("mechs", "period", "delay_s")
"""Fields of a commander's JSON file, in addition to the fields of `ModelSettings`."""
MOST_FILE = 1 << 20


@dataclass(frozen=True)
class ResolvedChatCommander(PackCommander):
    """A commander resolved from `llm:FILE` or `recorded:FILE`."""

    settings: ModelSettings = dataclasses.field(default_factory=ModelSettings)
    calls: Path | None = None
    """File with the record of its calls."""

    @property
    def id(self) -> str:
        """Identifier with the model, the prompt hash, the settings that affect replies, and the mechs' policy."""
        facts = facts_of(self.settings)
        # Leave out the style: it is part of the prompt, whose hash is in the id.
        told = {name: value for name, value in facts["settings"].items() if name not in ("style", "model")}
        assert self.command is not None
        told |= {"period": self.command.period, "delay_s": self.command.delay_s}
        values = ", ".join(f"{name} {value}" for name, value in told.items())
        return f"{LLM} {self.settings.model} over {self.mechs}, prompt {facts['prompt_hash']}, {values}"

    @functools.cached_property
    def giver(self) -> ChatCommander:  # type: ignore[override]
        """The chat commander, which gives the orders in all battles."""
        is_recorded = self.name.startswith(f"{RECORDED}:")
        return ChatCommander(self.settings, CallRecord(self.calls, self.settings, is_recorded), is_recorded)


def resolve_chat(name: str) -> ResolvedChatCommander:
    """Return the commander of `llm:FILE` or `recorded:FILE`.

    FILE contains a JSON object with the fields of `ModelSettings`, and `mechs`, `period` and `delay_s`. The record of
    calls is in the same folder, in a file named like `FILE` with the suffix `.calls.jsonl`.

    Raises:
        FileError: if the file or the record is missing, or if a field is unknown or out of range.
    """
    path = Path(name.partition(":")[2])
    fields = parse_json(path.name, read_file(path, MOST_FILE))
    OBJECT(path.name, fields)
    with as_file_error(path.name):
        settings = settings_of({key: value for key, value in fields.items() if key not in OF_BATTLES})
        settings.require_server()
        mechs, default = fields.get("mechs", MECHS), CommandConfig()
        period, delay_s = fields.get("period", default.period), fields.get("delay_s", default.delay_s)
        command = CommandConfig(enabled=True, period=period, delay_s=delay_s)
        require_mechs(mechs)
    calls = path.with_name(f"{path.stem}.calls.jsonl")
    if name.startswith(f"{RECORDED}:") and not calls.is_file():
        raise FileError(f"{calls}: expected the record of the calls of {path.name}, found none")
    # Without a checkpoint (None), the training data of the model counts as unknown.
    return ResolvedChatCommander(name, None, resolve(mechs).policy, mechs, command, settings, calls)  # type: ignore[arg-type]


register_resolver(LLM, f"{LLM}:FILE", resolve_chat)
register_resolver(RECORDED, f"{RECORDED}:FILE", resolve_chat)
