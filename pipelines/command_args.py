"""The flags of the command of `arena.py` by which battles are commanded."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro

from echelon.arena.match import MOST_PLAYED
from echelon.command.chat_client import ModelSettings
from echelon.command.port import PORTS
from echelon.pipelines.battle_args import ChosenBattle
from echelon.rules.orders import CommandConfig
from echelon.runtime.errors import require
from echelon.runtime.limits import SEED, Limits, Settings
from echelon.serve.conversation import Clock


@dataclass(frozen=True)
class CommandArgs(Settings, ChosenBattle):
    """The flags of the command, and what follows from them."""

    blue: str = "stdio"
    """stdio: whoever writes to this program commands blue; ws: whoever comes to the address that it prints; human: you,
    in a browser; llm: a language model (docs/LANGUAGE_MODELS.md); else what plays blue: heuristic:TIER, trained:NAME,
    a checkpoint, package.module:Commander."""
    red: str = "heuristic:hard"
    """The same for red. One of the two is stdio, ws, human or llm."""
    mechs: str = "heuristic:hard"
    """What plays the mechs that are commanded."""
    battles: Annotated[int, Limits(1, MOST_PLAYED, "battles")] = 1
    """Battles side by side, each played once."""
    seed: Annotated[int, SEED] = 0
    clock: Clock | None = None
    """step: battles wait for a line after each report. real: they go on in real time, and orders count when they come.
    fast: they go on at once. None: step, for a human real."""
    period: int | None = None
    """Decisions between two reports. None: 8, for a human 1."""
    delay_s: float = CommandConfig.delay_s
    """How long an order is on its way to its pack."""
    words: bool = False
    """Tell each report in plain English besides."""
    port: Annotated[int, Limits(0, 65535)] = 0
    """Of the address of ws and human; 0: one that is free."""
    host: tuple[str, ...] = ()
    """For ws and human: an address to listen on in place of 127.0.0.1, such as 0.0.0.0 in a container, and names by
    which a browser reaches it from elsewhere. Whoever reaches it and knows the token may command."""
    browser: bool = True
    """Open a human's page in a browser."""
    device: str = "auto"
    replay: Path | None = None
    """Record the battles, at most 16, into this file."""
    dataset: Path | None = None
    """Keep the battles as data for learning in this file (docs/DATASETS.md): what everybody saw and did, your orders
    and what you drove. Whoever gives it consents to that; without it nothing of the kind is kept."""

    llm: tyro.conf.OmitArgPrefixes[ModelSettings] = field(default_factory=ModelSettings)
    calls: Path | None = None
    """For llm: record its calls in this file of JSON lines. A file that exists is continued: what it answers is not
    asked again."""

    def __post_init__(self) -> None:
        super().__post_init__()
        ports = [team for team in ("blue", "red") if getattr(self, team) in PORTS]
        require(len(ports) == 1, "--blue and --red", f"one of them {' or '.join(PORTS)}", [self.blue, self.red])
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
        """The team that is commanded."""
        return "blue" if self.blue in PORTS else "red"

    @property
    def kind(self) -> str:
        """Who commands it, one of `PORTS`."""
        return str(getattr(self, self.side))

    @property
    def timing(self) -> Clock:
        """The clock, of those who say nothing of it the one that fits."""
        return self.clock or ("real" if self.kind == "human" else "step")
