"""Places where coding agents and MCP clients keep hooks and settings: who writes there can leave the gate out."""

from __future__ import annotations

import os
from collections.abc import Iterator

_OF_A_PROJECT = (
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".claude/hooks",
    ".codex/config.toml",
    ".codex/hooks.json",
    ".cursor/hooks.json",
    ".cursor/mcp.json",
    ".gemini/settings.json",
    ".github/hooks",
    ".mcp.json",
    ".opencode/opencode.json",
    ".opencode/opencode.jsonc",
    ".opencode/plugin",
    ".opencode/plugins",
    ".vscode/mcp.json",
    "opencode.json",
    "opencode.jsonc",
)
_OF_A_USER = (
    ("CLAUDE_CONFIG_DIR", ".claude", ("settings.json", "settings.local.json", "hooks", "plugins", ".claude.json")),
    ("CODEX_HOME", ".codex", ("config.toml", "hooks.json")),
    ("COPILOT_HOME", ".copilot", ("settings.json", "config.json", "mcp-config.json", "hooks")),
    ("XDG_CONFIG_HOME", ".config", ("Claude/claude_desktop_config.json",)),
    ("XDG_CONFIG_HOME", ".config", tuple(f"opencode/{name}" for name in ("opencode.json", "opencode.jsonc"))),
    ("XDG_CONFIG_HOME", ".config", ("opencode/plugin", "opencode/plugins")),
    ("", ".cursor", ("hooks.json", "mcp.json")),
    ("", ".gemini", ("settings.json", "extensions")),
    ("", "", (".claude.json", "Library/Application Support/Claude/claude_desktop_config.json")),
)
"""The variable that names another directory, the directory in the user's home, and what lies there."""
_OF_THE_SYSTEM = ("/etc/claude-code", "/etc/codex", "/etc/cursor", "/etc/gemini-cli")


def settings_of_agents(working_dir: str) -> Iterator[str]:
    """Files and directories, most of which do not exist: they count by name, so that none can be made either."""
    for name in _OF_A_PROJECT:
        yield f"{working_dir}/{name}"
    home = os.path.expanduser("~")
    for variable, directory, names in _OF_A_USER:
        bases = (os.path.join(home, directory), os.environ.get(variable, ""))
        yield from (os.path.join(base, name) for base in filter(os.path.isabs, bases) for name in names)
    yield from _OF_THE_SYSTEM
