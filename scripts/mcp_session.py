"""Record a session of a real MCP client that answers a two-hop question on examples/notes.

python scripts/mcp_session.py            # with the default models: docs/agents.md shows a part
python scripts/mcp_session.py --small    # with tiny models, in a second or two
"""

import asyncio
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

from mcp import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.types import TextContent

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.e2e.daemon import HOPSYNCD, ROOT, SMALL, Place, new_place, source

QUESTION = "Who built the machine that Grace Hopper programmed?"


def main() -> None:
    program = SMALL if "--small" in sys.argv[1:] else HOPSYNCD
    with new_place(program) as place:
        shutil.copytree(ROOT / "examples/notes", place.notes, dirs_exist_ok=True)
        place.configure(source("notes", place.notes))
        place.start()
        place.sync()
        asyncio.run(session(place))


async def session(place: Place) -> None:
    """Search, read the document at the second hop, and ask for the answer."""
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "hopsyncd", "mcp"],
        env={**os.environ, "HOPSYNCD_HOME": str(place.home)},
        cwd=ROOT,
    )
    async with stdio_client(server) as streams, ClientSession(*streams) as client:
        began = await client.initialize()
        print(f"<- {began.server_info.name}, protocol {began.protocol_version}")
        tools = (await client.list_tools()).tools
        print(f"<- tools: {', '.join(tool.name for tool in tools)}")
        found = await call(client, "search", question=QUESTION, k=3, max_tokens=1200)
        machine = next(item for item in found["documents"] if "harvard" in item["document"])
        place_of = {key: machine[key] for key in ("source", "document")}
        await call(client, "get", **place_of, max_tokens=600)
        await call(client, "ask", question=QUESTION, max_tokens=1200)


async def call(client: ClientSession, tool: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool and print the request and the result."""
    print(f"\n-> {tool} {json.dumps(arguments)}")
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    (content,) = result.content
    assert isinstance(content, TextContent)
    answer = json.loads(content.text)
    assert isinstance(answer, dict)
    print(f"<- {json.dumps(answer, ensure_ascii=False, indent=2)}")
    return answer


if __name__ == "__main__":
    main()
