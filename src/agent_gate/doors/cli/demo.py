"""`agent-gate demo`: a short tour of what works, on a real gate."""

from __future__ import annotations

from typing import Annotated

import typer

from agent_gate.doors.cli.options import commands, examples
from agent_gate.doors.wire import Exit

app = commands()


@app.command(epilog=examples("agent-gate demo", "agent-gate demo --once"))
def demo(
    once: Annotated[bool, typer.Option("--once", help="Do not stop between the scenes.")] = False,
) -> int:
    """Play a short tour in a temporary directory: allow, deny, ask, simulate, undo, verify."""
    from agent_gate.doors.cli.demo_tour import main

    main(once=once)
    return Exit.SUCCESS
