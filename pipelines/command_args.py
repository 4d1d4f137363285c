"""Flags of the `arena.py` command by which battles are commanded."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from echelon.arena.match import MOST_PLAYED
from echelon.command.chat_client import ModelSettings
from echelon.command.port import PORTS
from echelon.pipelines.battle_args import ChosenBattle
from echelon.pipelines.port_args import PortArgs
from echelon.rules.orders import CommandConfig
from echelon.runtime.errors import require
from echelon.runtime.limits import SEED, Limits, Settings
from echelon.serve.conversation import Clock


@dataclass(frozen=True)
class CommandArgs(Settings, ChosenBattle, PortArgs):
    """Flags of the command, and values that follow from them."""

    blue: str = "stdio"
    """Commander of blue. stdio: a program connected to stdin and stdout; ws: a client of the printed WebSocket address;
    human: you, in a browser; llm: a language model (docs/LANGUAGE_MODELS.md); else an ordinary commander:
    heuristic:TIER, trained:NAME, a checkpoint, package.module:Commander."""
    red: str = "heuristic:hard"
    """Commander of red, in the same form. Exactly one team must have stdio, ws, human or llm."""
    mechs: str = "heuristic:hard"
    """Commander of the commanded team's mechs."""
    battles: Annotated[int, Limits(1, MOST_PLAYED, "battles")] = 1
    """Number of parallel battles; each is played once."""
    seed: Annotated[int, SEED] = 0
    clock: Clock | None = None
    """step: battles wait for a line after each report. real: battles run in real time, and orders apply on arrival.
    fast: battles run at full speed. None: real for a human, else step."""
    period: int | None = None
    """Number of decisions between two reports. None: 1 for a human, else 8."""
    delay_s: float = CommandConfig.delay_s
    """Delay of an order to its pack, in seconds."""
    words: bool = False
    """Add a text in plain English to each report."""
    device: str = "auto"
    replay: Path | None = None
    """Record the battles, at most 16, into this file."""
    dataset: Path | None = None
    """Save the battles as training data in this file (docs/DATASETS.md): observations and actions of all mechs, and
    your orders and actions. By setting this flag you consent to it; otherwise nothing is saved."""

    def __post_init__(self) -> None:
        super().__post_init__()
        ports = [team for team in ("blue", "red") if getattr(self, team) in PORTS]
        expected = f"such that exactly one of them is {' or '.join(PORTS)}"
        require(len(ports) == 1, "--blue and --red", expected, [self.blue, self.red])
        if self.kind == "human":
            require(self.battles == 1, "--battles", "1 for a human", self.battles)
            require(self.clock in (None, "real"), "--clock", "real for a human", self.clock)
        if self.kind == "llm":
            self.llm.require_server()
            require(self.clock in (None, "step"), "--clock", "step for llm", self.clock)
        else:
            is_left_out = self.llm == ModelSettings() and self.calls is None
            require(is_left_out, "--base-url, --model, --calls", "left out without llm", self.kind)
        is_other_file = self.dataset is None or self.replay is None or self.dataset.resolve() != self.replay.resolve()
        require(is_other_file, "--dataset", "another file than the replay", str(self.dataset))

    @property
    def side(self) -> Literal["blue", "red"]:
        """The commanded team."""
        return "blue" if self.blue in PORTS else "red"

    @property
    def kind(self) -> str:
        """Kind of the external commander, one of `PORTS`."""
        return str(getattr(self, self.side))

    @property
    def timing(self) -> Clock:
        """When the battles continue, from `--clock`, or else the default for the kind of commander."""
        return self.clock or ("real" if self.kind == "human" else "step")
