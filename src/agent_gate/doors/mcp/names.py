"""Names of tools as MCP clients take them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from agent_gate.model.bounds import MCP_NAME_CHARS_MAX
from agent_gate.model.codec import sha256_hex
from agent_gate.model.errors import ConfigError

_VALID = re.compile(rf"[A-Za-z0-9_-]{{1,{MCP_NAME_CHARS_MAX}}}\Z")
_NOT_VALID = re.compile(r"[^A-Za-z0-9_-]")
_MARK_CHARS = 8


def client_name(tool: str) -> str:
    """`fs.read` as `fs_read`; what cannot be a name otherwise ends in a hash of what it stands for."""
    name = tool.replace(".", "_")
    if _VALID.match(name):
        return name
    mark = sha256_hex(tool.encode("utf-8", "surrogatepass"))[:_MARK_CHARS]
    return f"{_NOT_VALID.sub('_', name)[: MCP_NAME_CHARS_MAX - _MARK_CHARS - 1]}_{mark}"


def by_client_name(tools: Iterable[str], own: str) -> dict[str, str]:
    """Each tool under the name that clients use for it; ConfigError where that is another's, or the door's `own`."""
    taken: dict[str, str] = {}
    for tool in tools:
        name = client_name(tool)
        other = own if name == own else taken.get(name)
        if other is not None:
            raise ConfigError(
                f"the tools `{other}` and `{tool}` would both be `{name}` to an MCP client",
                suggestion="give one of them another name",
            )
        taken[name] = tool
    return taken
