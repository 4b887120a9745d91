"""`agent-gate demo`: a short tour of what works, on a real gate."""

from __future__ import annotations

import sys
from contextlib import nullcontext, redirect_stdout
from typing import Annotated

import typer

from agent_gate.doors.cli import screen
from agent_gate.doors.cli.options import AsJson, commands, examples
from agent_gate.doors.codes import Exit

app = commands()


@app.command(epilog=examples("agent-gate demo", "agent-gate demo --once"))
def demo(
    once: Annotated[bool, typer.Option("--once", help="Do not stop between the scenes.")] = False,
    as_json: AsJson = False,
) -> int:
    """Play a short tour: allow, deny, ask, simulate, undo, verify."""
    from agent_gate.doors.cli.demo_tour import main

    with redirect_stdout(sys.stderr) if as_json else nullcontext():
        main(once=once or as_json)
    if as_json:
        screen.print_json({"ok": True})
    return Exit.SUCCESS
