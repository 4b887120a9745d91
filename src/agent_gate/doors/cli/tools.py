"""`agent-gate tools`: what an agent could call at a running server."""

from __future__ import annotations

from agent_gate.doors.cli import screen
from agent_gate.doors.cli.options import AsJson, commands, examples
from agent_gate.doors.cli.remote import DEFAULT_CONFIG, CaFile, ConfigPath, Token, Url, agents_door
from agent_gate.doors.codes import Exit

app = commands()


@app.command(epilog=examples("agent-gate tools", "agent-gate tools --json"))
def tools(
    url: Url = None,
    token: Token = None,
    config: ConfigPath = DEFAULT_CONFIG,
    ca: CaFile = None,
    as_json: AsJson = False,
) -> int:
    """List the tools that the holder of a token could use."""
    with agents_door(url, token, config, ca) as remote:
        answer = remote.get("tools")
    if as_json:
        screen.print_json(answer)
        return Exit.SUCCESS
    columns = ("tool", "effect", "risk", "cost", "arguments", "what it does")
    rows = [
        (
            tool["name"], tool["effect"], tool["risk"], f"{tool['cost']:g}",
            ", ".join(tool["input_schema"].get("properties", {})), screen.shortened(tool["description"]),
        )
        for tool in answer["tools"]
    ]  # fmt: skip
    screen.print_table(columns, rows, empty="no tools", whole=("tool",))
    return Exit.SUCCESS
