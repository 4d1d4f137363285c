"""The `echelon` command that serves battles to a language model over MCP."""

from dataclasses import dataclass
from pathlib import Path

from echelon.runtime.files import check_writable
from echelon.serve.mcp_server import mcp_server


@dataclass(frozen=True)
class McpServer:
    """Serve battles over MCP on stdin and stdout; a language model commands them (docs/LANGUAGE_MODELS.md)."""

    replays: Path | None = None
    """Folder for the replays that the client exports; none are written without it."""

    def run(self) -> None:
        if self.replays is not None:
            check_writable(self.replays / "battle_1.echelon")
        # The MCP package reserves stdout for the protocol and sends all other output to stderr.
        mcp_server(self.replays).run("stdio")
