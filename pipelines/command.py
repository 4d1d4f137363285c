"""The command of `arena.py` that lets a program, a language model or a person command battles."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
import tyro

from echelon.arena.match import MOST_PLAYED
from echelon.arena.resolve import resolve
from echelon.command.port import CommandPort
from echelon.command.session import MOST_BYTES, Session
from echelon.env.views.commanders import commanders
from echelon.pipelines.arena_args import BattleArgs, EnvName, battle_config
from echelon.replay.file import save
from echelon.replay.recorder import Recorder
from echelon.rules.orders import CommandConfig
from echelon.runtime.device import resolve_device
from echelon.runtime.errors import ConfigError, require
from echelon.runtime.files import check_writable
from echelon.runtime.limits import SEED, Limits, check_settings

PORTS = ("stdio",)
Clock = Literal["step", "real", "fast"]


@dataclass(frozen=True)
class Command:
    """Command the packs of a team by lines of JSON (docs/COMMAND.md): reports on stdout, orders on stdin."""

    blue: str = "stdio"
    """stdio: whoever writes to this program commands blue; else what plays blue: heuristic:TIER, trained:NAME, a
    checkpoint, package.module:Commander."""
    red: str = "heuristic:hard"
    """The same for red. One of the two is stdio."""
    mechs: str = "heuristic:hard"
    """What plays the mechs that are commanded."""
    battles: int = 1
    """Battles side by side, each played once."""
    seed: int = 0
    env: EnvName = "auto"
    """Battle preset; auto takes the one a checkpoint was trained in, else small."""
    changes: tyro.conf.OmitArgPrefixes[BattleArgs] = field(default_factory=BattleArgs)
    clock: Clock = "step"
    """step: battles wait for a line after each report. real: they go on in real time, and orders count when they come.
    fast: they go on at once."""
    period: int = CommandConfig.period
    """Decisions between two reports."""
    delay_s: float = CommandConfig.delay_s
    """How long an order is on its way to its pack."""
    words: bool = False
    """Tell each report in plain English besides."""
    device: str = "auto"
    replay: Path | None = None
    """Record the battles, at most 16, into this file."""

    def __post_init__(self) -> None:
        check_settings(self, {"battles": Limits(1, MOST_PLAYED, "battles"), "seed": SEED})
        ports = [team for team in ("blue", "red") if getattr(self, team) in PORTS]
        require(len(ports) == 1, "--blue and --red", f"one of them {' or '.join(PORTS)}", [self.blue, self.red])

    @property
    def side(self) -> Literal["blue", "red"]:
        """The team that is commanded."""
        return "blue" if self.blue in PORTS else "red"

    def run(self) -> None:
        if self.replay is not None:
            check_writable(self.replay)
        recorder = Recorder(range(min(self.battles, 16))) if self.replay is not None else None
        session = Session(self.port(recorder), self.words)
        # The lines of the program are the conversation; nothing else may stand among them.
        out, sys.stdout = sys.stdout, sys.stderr
        try:
            converse(session, self.clock, lines_of(functools.partial(os.read, sys.stdin.fileno())), speaker(out))
        finally:
            sys.stdout = out
        if recorder is not None and self.replay is not None:
            opponent, own = getattr(self, "red" if self.side == "blue" else "blue"), f"{PORTS[0]} over {self.mechs}"
            names = (own, opponent) if self.side == "blue" else (opponent, own)
            count = len(recorder.battles)
            save(recorder.finish(blue=[names[0]] * count, red=[names[1]] * count), self.replay)

    def port(self, recorder: Recorder | None = None) -> CommandPort:
        """The battles, ready to be commanded."""
        opponent = getattr(self, "red" if self.side == "blue" else "blue")
        who = [resolve(self.mechs), resolve(opponent)]
        config = battle_config(self.env, who, self.changes)
        command = dataclasses.replace(config.command, enabled=True, period=self.period, delay_s=self.delay_s)
        config = dataclasses.replace(config, command=command)
        device = resolve_device(self.device)
        policies = [commander.policy(config, device) for commander in who]
        torch.set_grad_enabled(False)
        view = commanders(
            config, policies[0], policies[1], self.battles, device, self.seed, side=self.side, observer=recorder
        )
        return CommandPort(view)


def converse(session: Session, clock: Clock, lines: queue.Queue[bytes | None], say: Callable[[Any], None]) -> None:
    """Report, take orders, play on, until every battle has ended.

    Args:
        lines: what the other side writes; None at its end.
        say: writes a message to it.

    Raises:
        ConfigError: the other side has gone before the battles ended.
    """
    say(session.begin())
    began, period_s = time.monotonic(), session.begin()["period_s"]
    while not session.is_over:
        say(session.report())
        until = began + session.number * period_s if clock == "real" else None
        for line in waiting(lines, clock, until):
            if line is None:
                count = sum(session.port.ended)
                what = f"stdin ended after report {session.number}, {count} of {len(session.port.ended)} battles had"
                raise ConfigError(f"{what}: a line of orders is expected after each report, {{}} for none")
            refused = session.receive(line)
            if refused:
                say(refused)
        for message in session.advance():
            say(message)
    say(session.result())


def waiting(lines: queue.Queue[bytes | None], clock: Clock, until: float | None) -> Iterator[bytes | None]:
    """The lines that count before the battles go on: one with the clock `step`, else those that came until then."""
    if clock == "step":
        yield lines.get()
        return
    while True:
        left_s = 0.0 if until is None else until - time.monotonic()
        try:
            line = lines.get(timeout=left_s) if left_s > 0 else lines.get_nowait()
        except queue.Empty:
            return
        if line is None and clock != "step":
            # Whoever has gone commands no more; the battles go on.
            return
        yield line


def lines_of(read: Callable[[int], bytes]) -> queue.Queue[bytes | None]:
    """The lines of what `read` returns at most so many bytes of, as they come, by a thread; None at its end. Of a line
    that is too long its beginning."""
    lines: queue.Queue[bytes | None] = queue.Queue(maxsize=1024)

    def split() -> None:
        begun = b""
        while chunk := read(1 << 16):
            *whole, begun = (begun + chunk).split(b"\n")
            for line in whole:
                lines.put(line[: MOST_BYTES + 1])
            begun = begun[: MOST_BYTES + 1]
        if begun:
            lines.put(begun)
        lines.put(None)

    # Not by Python's own buffer of stdin: its lock, held by a thread that waits, is fatal when the program ends.
    threading.Thread(target=split, daemon=True).start()
    return lines


def speaker(out: Any) -> Callable[[Any], None]:
    """What writes a message as a line of JSON."""

    def say(message: Any) -> None:
        out.write(json.dumps(message, separators=(",", ":")) + "\n")
        out.flush()

    return say
