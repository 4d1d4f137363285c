"""Flags of commands in which a person, a program or a language model commands battles."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from echelon.command.chat_client import ModelSettings
from echelon.runtime.limits import Limits


@dataclass(frozen=True)
class PortArgs:
    """Flags of the server for a page or a WebSocket, and of a language model."""

    port: Annotated[int, Limits(0, 65535)] = 0
    """Port of the ws or human address; 0: any free port."""
    host: tuple[str, ...] = ()
    """Hosts for ws and human: an address to listen on instead of 127.0.0.1, such as 0.0.0.0 in a container, and names
    by which browsers on other machines reach it. Anyone with access and the token can command."""
    browser: bool = True
    """Open the page of a human commander in a browser."""
    llm: tyro.conf.OmitArgPrefixes[ModelSettings] = field(default_factory=ModelSettings)
    calls: Path | None = None
    """For llm: record its calls in this file of JSON lines. A file that exists is continued: what it answers is not
    asked again."""
