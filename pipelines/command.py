"""The `arena.py` command by which a program, a language model or a person commands battles."""

import dataclasses
from dataclasses import dataclass

import torch

from echelon.arena.resolve import resolve
from echelon.command.chat_calls import CallRecord
from echelon.command.chat_commander import ChatCommander
from echelon.command.port import CommandPort, named_over
from echelon.command.session import Pace, Session
from echelon.pipelines.command_args import CommandArgs
from echelon.replay.recorder import Recorder
from echelon.rules.orders import CommandConfig
from echelon.runtime.device import resolve_device
from echelon.runtime.files import check_writable
from echelon.serve.conversation import CommandedBattles
from echelon.serve.page_server import Access
from echelon.views.commanders import commanders


@dataclass(frozen=True)
class Command(CommandArgs):
    """Command the packs (groups of mechs) of a team (docs/COMMAND.md).

    The commander is a program (JSON lines on stdin or a WebSocket), a person in a browser, or a language model
    (docs/LANGUAGE_MODELS.md).
    """

    def run(self) -> None:
        check_writable(self.replay, self.dataset, self.calls)
        is_human = self.kind == "human"
        recorder = Recorder(range(min(self.battles, 16))) if self.replay is not None or is_human else None
        port = self.commanded(recorder)
        command, rules = port.view.config.command, port.view.config.rules
        pace = Pace(command.period * rules.decision_s) if self.timing == "real" else None
        session = Session(port, self.words, pace)
        battles = CommandedBattles(session, self.timing, self.names, recorder, self.replay, self.dataset)
        if self.kind == "llm":
            battles.over_model(ChatCommander(self.llm, CallRecord(self.calls, self.llm)))
        elif self.kind == "stdio":
            battles.over_stdio()
        else:
            battles.over_network(self.side, is_human, self.port, Access(self.host), self.browser)

    @property
    def opponent(self) -> str:
        """Name of the other team's commander."""
        return self.red if self.side == "blue" else self.blue

    @property
    def names(self) -> tuple[str, str]:
        """Names of blue's and red's commander, for display."""
        commander = named_over(f"llm {self.llm.model}" if self.kind == "llm" else self.kind, self.mechs)
        return (commander, self.opponent) if self.side == "blue" else (self.opponent, commander)

    def commanded(self, recorder: Recorder | None = None) -> CommandPort:
        """Build the battles, and return the port through which they are commanded."""
        team_commanders = [resolve(self.mechs), resolve(self.opponent)]
        config = self.config(team_commanders)
        default = 1 if self.kind == "human" else CommandConfig.period
        period = default if self.period is None else self.period
        command = dataclasses.replace(config.command, enabled=True, period=period, delay_s=self.delay_s)
        config = dataclasses.replace(config, command=command)
        device = resolve_device(self.device)
        policies = [commander.policy(config, device) for commander in team_commanders]
        torch.set_grad_enabled(False)
        view = commanders(
            config, policies[0], policies[1], self.battles, device, self.seed, side=self.side, observer=recorder
        )
        return CommandPort(view)
