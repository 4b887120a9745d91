"""MCP clients for tests: the official one in front of a real `agent-gate mcp`."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp_types import CallToolResult, TextContent

COMMAND = (sys.executable, "-m", "agent_gate", "mcp")


@asynccontextmanager
async def a_client(directory: Path, *options: str, mode: Any = "auto", **settings: Any) -> AsyncIterator[Client]:
    """The client with its own process, started in a directory; `settings` are those of the client."""
    # The client hands on little of its environment by itself.
    env = {"XDG_STATE_HOME": os.environ["XDG_STATE_HOME"]}
    server = StdioServerParameters(command=COMMAND[0], args=[*COMMAND[1:], *options], cwd=directory, env=env)
    with (directory / "mcp.log").open("a") as log:
        async with Client(stdio_client(server, errlog=log), mode=mode, **settings) as client:
            yield client


def text_of(result: CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


def outcome_of(result: CallToolResult) -> dict[str, Any]:
    outcome = result.structured_content
    assert isinstance(outcome, dict)
    return outcome
