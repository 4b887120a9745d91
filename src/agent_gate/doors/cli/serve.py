"""`agent-gate serve`: the gate as a server for agents and for the people who answer them."""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agent_gate.doors.cli import screen
from agent_gate.doors.cli.faults import UsageMistake
from agent_gate.doors.cli.options import AsJson, PolicyPath, commands, examples
from agent_gate.doors.codes import Exit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent_gate.model.tool import Json

app = commands()
LOG_LEVELS = ("debug", "info", "warning", "error")


@app.command(epilog=examples("agent-gate serve", "agent-gate serve -c /etc/agent-gate/config.yaml -p policy.yaml"))
def serve(
    config: Annotated[Path, typer.Option("-c", "--config", metavar="FILE", help="Who and where.")] = Path(
        "config.yaml"
    ),
    policy: PolicyPath = Path("policy.yaml"),
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Listen without TLS where others can listen in: tokens travel in clear.")
    ] = False,
    log_level: Annotated[
        str,
        typer.Option(
            "--log-level",
            metavar="LEVEL",
            envvar="AGENT_GATE_LOG_LEVEL",
            help="What is logged to standard error: debug, info (every request), warning, error.",
        ),
    ] = "warning",
    as_json: AsJson = False,
) -> int:
    """Serve agents over WebSocket and HTTP, and people in the browser, until a signal ends it.

    SIGTERM and Ctrl-C end it in good order: what runs is settled, questions stay open for the next start, but for those
    about what a command wrote; a second one ends it at once. SIGHUP loads the policy again.
    """
    if log_level not in LOG_LEVELS:
        raise UsageMistake(f"--log-level `{log_level}` is none of {', '.join(LOG_LEVELS)}", "agent-gate serve")
    # The composition is above the doors: a door may start it, and not be built on it.
    server = import_module("agent_gate.hosts.server")

    def tell(event: str, text: str, fields: Mapping[str, Json]) -> None:
        with suppress(OSError):  # whoever started it may not listen any more
            if as_json:
                screen.print_json_line({"event": event, **fields})
            else:
                screen.say(text)
            sys.stdout.flush()

    server.run(server.settings_of(config, policy, insecure=insecure), tell, log_level)
    return Exit.SUCCESS
