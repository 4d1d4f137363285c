"""Commanders `llm:FILE` and `recorded:FILE`: a language model over the packs of a team, and what plays its mechs.

Importing this module registers them in `echelon.agents.names`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDictBase
from torchrl.data import Composite

from echelon.agents.names import Commander, register_resolver, resolve
from echelon.agents.team_policy import TeamPolicy, draws_actions, memory_spec_of, reads_action_mask
from echelon.command.chat_calls import Calls, facts_of
from echelon.command.chat_client import ModelSettings, settings_of
from echelon.command.chat_commander import ChatCommander, Orders, Question
from echelon.rules.config import EnvConfig
from echelon.rules.orders import CommandConfig
from echelon.runtime.errors import require
from echelon.runtime.files import FileError, as_file_error, parse_json, read_file
from echelon.runtime.json_checks import OBJECT

LLM, RECORDED = "llm", "recorded"
"""Prefixes of names: a server is asked for what is not recorded; it is never asked."""
OF_BATTLES = ("mechs", "period", "delay_s")
"""Fields of a commander's file that are none of `ModelSettings`."""
MECHS = "heuristic:hard"
MOST_FILE = 1 << 20


class ChatPolicy:
    """A policy of a team whose packs a language model commands.

    Args:
        mechs: what plays the mechs.
        commander: gives the orders.
        command: what of orders its battles need.
    """

    def __init__(self, mechs: TeamPolicy, commander: ChatCommander, command: CommandConfig) -> None:
        self.mechs, self.commander, self.command = mechs, commander, command
        self.draws_actions, self.reads_action_mask = draws_actions(mechs), reads_action_mask(mechs)

    def __call__(self, team: TensorDictBase, /) -> TensorDictBase:
        """Decide for the mechs; orders reach them through the battle."""
        return self.mechs(team)

    def memory_spec(self) -> Composite:
        """Spec of what a mech remembers."""
        return memory_spec_of(self.mechs)

    def begin(self, keys: Sequence[Any]) -> None:
        """Battles begin; see `ChatCommander.begin`."""
        self.commander.begin(keys)

    def pack_orders(self, questions: Sequence[Question]) -> list[Orders]:
        """The orders that are due; see `ChatCommander.orders`."""
        return self.commander.orders(questions)

    def facts(self) -> dict[str, Any]:
        """What a result tells; see `ChatCommander.facts`."""
        return self.commander.facts()


@dataclass(frozen=True)
class ChatName(Commander):
    """A resolved `llm:FILE` or `recorded:FILE`."""

    settings: ModelSettings = dataclasses.field(default_factory=ModelSettings)
    mechs: str = MECHS
    command: CommandConfig = dataclasses.field(default_factory=CommandConfig)
    """What of orders its battles need."""
    calls: Path | None = None
    """The record of its calls."""

    @property
    def id(self) -> str:
        """Names the model, the hash of its prompt, the settings of the server, and what plays the mechs."""
        facts = facts_of(self.settings)
        # The hash of the prompt stands for its style.
        told = {name: value for name, value in facts["settings"].items() if name not in ("style", "model")}
        told |= {"period": self.command.period, "delay_s": self.command.delay_s}
        values = ", ".join(f"{name} {value}" for name, value in told.items())
        return f"{LLM} {self.settings.model} over {self.mechs}, prompt {facts['prompt_hash']}, {values}"

    @property
    def env(self) -> EnvConfig | None:
        """Environment config that its mechs were trained with; None for scripted ones."""
        return resolve(self.mechs).env

    @functools.cached_property
    def commander(self) -> ChatCommander:
        return ChatCommander(self.settings, Calls(self.calls, self.settings), self.name.startswith(f"{RECORDED}:"))

    def policy(self, env: EnvConfig, device: torch.device) -> TeamPolicy:
        """Its policy for battles of `env`, which must have orders."""
        require(env.command.enabled, f"{self.name}: config.command.enabled", "True for a commander of packs", False)
        return ChatPolicy(resolve(self.mechs).policy(env, device), self.commander, self.command)


def resolve_chat(name: str) -> ChatName:
    """The commander of `llm:FILE` or `recorded:FILE`.

    FILE is a JSON object of the fields of `ModelSettings`, and `mechs`, `period` and `delay_s`. The record of calls is
    beside it: `FILE` with the suffix `.calls.jsonl`.

    Raises:
        FileError: there is no such file, a field is unknown or out of its limits, or the record is missing.
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
        # A file names nothing that would be imported, and no commander of packs over another one.
        is_plain = isinstance(mechs, str) and mechs.partition(":")[0] in ("heuristic", "style", "trained")
        require(is_plain, "mechs", "heuristic:TIER, style:NAME or trained:NAME", mechs)
    calls = path.with_name(f"{path.stem}.calls.jsonl")
    if name.startswith(f"{RECORDED}:") and not calls.is_file():
        raise FileError(f"{calls}: expected the record of the calls of {path.name}, found none")
    # Nothing is known of what the model has met in its training, as of a commander with a factory.
    return ChatName(name, None, resolve(mechs).policy, settings, mechs, command, calls)  # type: ignore[arg-type]


def names_chat(policy: object) -> bool:
    """Whether a policy is named `llm:FILE` or `recorded:FILE`."""
    return isinstance(policy, str) and policy.partition(":")[0] in (LLM, RECORDED)


register_resolver(LLM, f"{LLM}:FILE", resolve_chat)
register_resolver(RECORDED, f"{RECORDED}:FILE", resolve_chat)
