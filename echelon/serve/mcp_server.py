"""An MCP server through which a language model commands battles: tools to play, resources for rules and schema."""

from __future__ import annotations

import dataclasses
import functools
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from echelon.arena.ordered_battle import OrderedBattle
from echelon.command.chat_prompt import INSTRUCTIONS, reply_schema
from echelon.command.pack_policy import MECHS
from echelon.rules.config import ENV_PRESETS
from echelon.runtime.errors import ConfigError, missing_package, require
from echelon.runtime.files import FileError
from echelon.runtime.version import VERSION

if TYPE_CHECKING:
    from mcp.server import MCPServer

MOST_BATTLES = 64
"""Maximum number of battles in memory."""
Function = TypeVar("Function", bound=Callable[..., Any])


class McpBattles:
    """The battles of an MCP server, keyed by number.

    The methods are the server's tools; MCP clients receive their docstrings as descriptions.

    Args:
        folder: folder for replays; None disables replays.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self.battles: dict[int, OrderedBattle] = {}
        self._number = 0
        self._playing = threading.Lock()

    @contextmanager
    def _one(self, battle: int) -> Iterator[OrderedBattle]:
        """Context manager that locks a battle and yields it."""
        with self._playing:
            known = ", ".join(map(str, self.battles)) or "none: call start_battle"
            require(battle in self.battles, "battle", f"one of {known}", battle)
            yield self.battles[battle]

    def _add(self, battle: OrderedBattle) -> int:
        limit = f"at most {MOST_BATTLES}: call end_battle"
        require(len(self.battles) < MOST_BATTLES, "battles", limit, len(self.battles))
        self._number += 1
        self.battles[self._number] = battle
        return self._number

    def start_battle(
        self,
        env: Literal["small", "standard", "large"] = "small",
        side: Literal["blue", "red"] = "blue",
        mechs: str = MECHS,
        opponent: str = MECHS,
        seed: int = 0,
        period: int = 8,
    ) -> dict[str, Any]:
        """Start a battle. env: small is 5v5 with one pack, standard 10v10 with two. mechs plays your mechs and opponent
        the enemy's: heuristic:easy, heuristic:normal, heuristic:hard or trained:quick. period: decisions of 0.25 s
        between two reports. Returns the number of the battle and its first message."""
        config = ENV_PRESETS[env]()
        config = dataclasses.replace(config, command=dataclasses.replace(config.command, period=period))
        with self._playing:
            played = OrderedBattle(config, side, mechs, opponent, seed, records=self.folder is not None)
            number = self._add(played)
        return {"battle": number, "packs": played.seat.packs, "report": played.words()}

    def report(self, battle: int, form: Literal["words", "numbers"] = "words") -> dict[str, Any]:
        """Return the current report of a battle, in words or in numbers."""
        with self._one(battle) as played:
            return {"report": played.words() if form == "words" else played.report()}

    def order(self, battle: int, orders: list[dict[str, Any]]) -> dict[str, Any]:
        """Give orders that take effect in the next step.

        Orders are a list such as [{"pack": 0, "kind": "move", "place":[20, 20]}]; the resource echelon://schema
        describes them. Returns one error line for each refused order; the other orders are accepted.
        """
        with self._one(battle) as played:
            return {"refused": played.order(orders)}

    def step(self, battle: int, steps: int = 1) -> dict[str, Any]:
        """Play a number of steps; stop earlier if the battle ends.

        Returns the next report and won_by: null while the battle runs, then own, enemy, or a third value for a draw.
        """
        with self._one(battle) as played:
            played.step(steps)
            return {"won_by": played.winner, "report": None if played.winner else played.words()}

    def whatif(self, battle: int, orders: list[dict[str, Any]] | None = None, branches: int = 16) -> dict[str, Any]:
        """Estimate your win rate from the current state of a battle.

        Copies of the battle are played to the end, with these orders now and no orders later. The battle itself does
        not change. Returns value (the win rate) and low and high (its 95 % interval).
        """
        with self._one(battle) as played:
            return played.whatif(orders or [], branches)

    def fork(self, battle: int) -> dict[str, Any]:
        """Copy a battle in its current state, so that you can try other orders.

        Returns the number of the copied battle.
        """
        with self._one(battle) as played:
            return {"battle": self._add(played.fork())}

    def export_replay(self, battle: int) -> dict[str, Any]:
        """Write a replay of a finished battle. Returns the path of the replay, for the command echelon-arena watch."""
        with self._one(battle) as played:
            require(self.folder is not None, "--replays", "a folder, set when the server starts", None)
            require(played.winner is not None, "battle", "a finished battle", "one in progress")
            assert self.folder is not None
            # Build the file name without any text from the client.
            path = self.folder / f"battle_{battle}.echelon"
            played.save_replay(path)
            return {"path": str(path)}

    def end_battle(self, battle: int) -> dict[str, Any]:
        """Delete a battle."""
        with self._one(battle):
            del self.battles[battle]
            return {"battles": list(self.battles)}


TOOLS = ("start_battle", "report", "order", "step", "whatif", "fork", "export_replay", "end_battle")


def mcp_server(folder: Path | None = None) -> MCPServer:
    """Return the MCP server; its method `run` serves stdin and stdout.

    Args:
        folder: folder for replays; None disables replays.

    Raises:
        ModuleNotFoundError: if the package `mcp` is missing.
    """
    try:
        from mcp.server import MCPServer
        from mcp.server.mcpserver.exceptions import ToolError
    except ModuleNotFoundError as error:
        message = missing_package("echelon mcp", error.name, "mcp")
        raise ModuleNotFoundError(message, name=error.name) from None

    def anticipated(tool: Function) -> Function:
        """Wrap a tool so that the client receives an expected error (such as an invalid argument) as one line."""

        @functools.wraps(tool)
        def called(**arguments: Any) -> Any:
            try:
                return tool(**arguments)
            except (ConfigError, FileError) as error:
                raise ToolError(str(error)) from None

        return called  # type: ignore[return-value]

    server = MCPServer("echelon", instructions=INSTRUCTIONS, version=VERSION, log_level="WARNING")
    battles = McpBattles(folder)
    for name in TOOLS:
        server.add_tool(anticipated(getattr(battles, name)), name=name, structured_output=True)
    server.resource("echelon://rules", mime_type="text/plain", description="What a commander may do")(rules_text)
    server.resource("echelon://schema/{packs}", mime_type="application/json", description="JSON schema of orders")(
        schema_text
    )
    return server


def rules_text() -> str:
    """Return the text of the rules that a commander needs."""
    lines = [INSTRUCTIONS]
    for name, preset in ENV_PRESETS.items():
        config = preset()
        rules, (east, north) = config.rules, config.world.size[:2]
        lines.append(
            f"{name}: {len(config.blue)} against {len(config.red)} mechs on {east} by {north} metres. "
            f"{rules.zone_score_to_win_s:g} s of the zone win; the battle ends at {rules.max_episode_s:g} s."
        )
    return "\n".join(lines)


def schema_text(packs: str) -> str:
    """Return the JSON schema of orders for a number of packs.

    Any target is accepted, because only reports list the enemies' names.
    """
    from echelon.command.pack_policy import OrderTargets

    require(packs.isascii() and packs.isdigit() and 1 <= len(packs) <= 2, "packs", "a number from 1 to 99", packs)
    schema = reply_schema(OrderTargets(int(packs), [], ()))
    schema["properties"]["orders"]["items"]["properties"]["target"] = {"type": "string"}
    return json.dumps(schema)
