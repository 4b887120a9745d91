"""An MCP client in front of `agent-gate mcp`: what it may use, a call that passes, one that does not."""

import asyncio
import sys

from mcp import Client, StdioServerParameters
from mcp.types import CallToolResult, TextContent

GATE = StdioServerParameters(command=sys.executable, args=["-m", "agent_gate", "mcp", "--working-dir", sys.argv[1]])


def text(result: CallToolResult) -> str:
    return " ".join(part.text for part in result.content if isinstance(part, TextContent))


async def main() -> None:
    async with Client(GATE) as client:
        print("tools:", ", ".join(tool.name for tool in (await client.list_tools()).tools))
        print("read:", text(await client.call_tool("fs_read", {"path": "shopping.txt"})))
        print("read:", text(await client.call_tool("fs_read", {"path": "private/diary.txt"})))


asyncio.run(main())
