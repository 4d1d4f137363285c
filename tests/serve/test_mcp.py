"""The MCP server with a client of the package `mcp` over stdio: battles, orders, whatif, forks, replays, resources."""

import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("mcp")

import anyio
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.server.mcpserver.exceptions import ToolError

from echelon.command.report import DRAW, WINNERS
from echelon.replay.file import read
from echelon.runtime.errors import ConfigError
from echelon.serve.mcp_server import McpBattles, mcp_server, rules_text, schema_text

pytestmark = pytest.mark.integrations
TOOLS = {"start_battle", "report", "order", "step", "whatif", "fork", "export_replay", "end_battle"}


def test_client_plays_a_battle_over_stdio(tmp_path):
    """A complete session with a server in its own process."""
    program = StdioServerParameters(
        command=sys.executable, args=["-m", "echelon", "mcp", "--replays", str(tmp_path)], cwd=str(tmp_path)
    )

    async def conversation():
        async with Client(program) as client:

            async def call(name, **arguments):
                result = await client.call_tool(name, arguments)
                assert not result.is_error, result.content
                return result.structured_content

            assert {tool.name for tool in (await client.list_tools()).tools} == TOOLS
            rules = await client.read_resource("echelon://rules")
            assert "screen: stand in front" in rules.contents[0].text and "small: 5 against 5" in rules.contents[0].text
            schema = json.loads((await client.read_resource("echelon://schema/2")).contents[0].text)
            assert schema["properties"]["orders"]["items"]["properties"]["pack"]["maximum"] == 1

            started = await call("start_battle", seed=3, opponent="heuristic:easy")
            battle = started["battle"]
            assert started["packs"] == 1 and "You command blue" in started["report"]
            assert (await call("order", battle=battle, orders=[{"kind": "charge"}]))["refused"][0].startswith("order 0")
            assert await call("order", battle=battle, orders=[{"pack": 0, "kind": "hold"}]) == {"refused": []}
            stepped = await call("step", battle=battle)
            assert stepped["won_by"] is None and "told to hold 2 s ago" in stepped["report"]
            numbers = (await call("report", battle=battle, form="numbers"))["report"]
            assert numbers["packs"][0]["order"]["kind"] == "hold"

            copy = (await call("fork", battle=battle))["battle"]
            assert copy != battle and (await call("report", battle=copy, form="numbers"))["report"] == numbers
            value = await call("whatif", battle=battle, orders=[{"pack": 0, "kind": "free"}], branches=4)
            assert 0 <= value["low"] <= value["value"] <= value["high"] <= 1 and value["branches"] == 4
            assert (await call("report", battle=battle, form="numbers"))["report"] == numbers

            early = await client.call_tool("export_replay", {"battle": battle})
            assert early.is_error and "battle must be a finished battle" in early.content[0].text
            ended = await call("step", battle=battle, steps=200)
            assert ended["won_by"] in WINNERS and ended["report"] is None
            path = (await call("export_replay", battle=battle))["path"]
            refused = await client.call_tool("report", {"battle": battle})
            assert (
                refused.is_error
                and "the battle must be in progress, got 'a battle that has ended" in refused.content[0].text
            )
            assert await call("end_battle", battle=battle) == {"battles": [copy]}
            return path, ended["won_by"]

    path, winner = anyio.run(conversation)
    replay = read(Path(path))
    outcome = replay.battles[0].about["outcome"]["winner"]
    assert {"own": "blue", "enemy": "red", DRAW: "draw"}[winner] == outcome
    assert path == str(tmp_path / "battle_1.echelon") and replay.battles[0].commands is not None


BAD = {
    "mechs that would be imported": ("start_battle", {"mechs": "os:system"}, "mechs must be heuristic:TIER"),
    "opponent that asks a server": ("start_battle", {"opponent": "llm:x.json"}, "mechs must be heuristic:TIER"),
    "another battle": ("step", {"battle": 9}, "battle must be one of 1, got 9"),
    "no steps": ("step", {"battle": 1, "steps": 0}, "steps must be"),
    "too many branches": ("whatif", {"battle": 1, "branches": 10**9}, "branches must be"),
    "no folder": ("export_replay", {"battle": 1}, "--replays must be a folder, set when"),
    "no period": ("start_battle", {"period": 0}, "CommandConfig.period must be"),
}


@pytest.fixture(scope="module")
def battles():
    battles = McpBattles()
    assert battles.start_battle()["battle"] == 1
    return battles


@pytest.mark.parametrize("case", BAD)
def test_bad_calls_are_refused_in_one_line(battles, case):
    name, arguments, message = BAD[case]
    with pytest.raises(ConfigError, match=message):
        getattr(battles, name)(**arguments)
    assert list(battles.battles) == [1]


def test_refusal_is_a_tool_error():
    with pytest.raises(ToolError, match="battle must be one of none: call start_battle, got 4"):
        anyio.run(mcp_server().call_tool, "report", {"battle": 4})


def test_resources_describe_orders():
    assert "attack: go for the enemy" in rules_text()
    with pytest.raises(ConfigError, match="packs must be a number from 1 to 99"):
        schema_text("../../etc")
