#!/usr/bin/env bash
# Guess: a tool that returns NaN or inf sends the text NaN, which JSON lacks, and the client raises an error of JSON.
# Seen: it depends on the annotation. A tool that returns `dict[str, float]` or `list[float]` sends null in its
#   structured content, and the client's own check of the output schema then raises RuntimeError ("None is not of type
#   'number'"): the tool cannot be called for that value, and the server logs nothing. The same tool without an
#   annotation answers: its text holds NaN and Infinity, which other JSON readers refuse.
# Versions: mcp 2.3.0, pydantic 2.14.4 (2026-11-29, Python 3.11), server and client of the package over stdio.
# Hurt: environments served to language models whose reports hold NaN or inf (no enemy known: range inf; idle: NaN).
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/v"
"$work/v/bin/pip" install -q mcp==2.3.0 pydantic==2.14.4
cat > "$work/server.py" << 'END'
try:
    from mcp.server.fastmcp import FastMCP as Server
except ImportError:
    from mcp.server import MCPServer as Server

server = Server("report")
REPORT = {"range_vox": float("inf"), "idle_s": float("nan"), "hp": 0.5}


@server.tool()
def typed() -> dict[str, float]:
    """A report as a typed mapping."""
    return REPORT


@server.tool()
def untyped():
    """The same report without an annotation."""
    return REPORT


@server.tool()
def finite() -> dict[str, float]:
    """A report of finite numbers."""
    return {"hp": 0.5}


server.run()
END
cat > "$work/client.py" << 'END'
import asyncio
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


async def main() -> bool:
    seen = {}
    parameters = StdioServerParameters(command=sys.executable, args=[sys.argv[1]])
    async with stdio_client(parameters) as (reader, writer), ClientSession(reader, writer) as client:
        await client.initialize()
        for name in ("finite", "typed", "untyped"):
            try:
                result = await asyncio.wait_for(client.call_tool(name, {}), 20)
                seen[name] = " ".join(result.content[0].text.split())
            except RuntimeError as error:
                seen[name] = "RuntimeError: " + str(error).splitlines()[0]
    print(seen)
    refused = seen["typed"].startswith("RuntimeError") and "None is not of type 'number'" in seen["typed"]
    return refused and "NaN" in seen["untyped"] and "Infinity" in seen["untyped"] and "0.5" in seen["finite"]


holds = asyncio.run(main())
print("a typed tool that returns NaN cannot be called, an untyped one sends NaN:", holds)
sys.exit(not holds)
END
"$work/v/bin/python" "$work/client.py" "$work/server.py"
