"""`agent-gate policy-agent`: request policies over gRPC, for a proxy in front."""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agent_gate.doors.cli import screen
from agent_gate.doors.cli.faults import UsageMistake
from agent_gate.doors.cli.options import AsJson, commands, examples
from agent_gate.doors.cli.serve import LOG_LEVELS
from agent_gate.doors.codes import Exit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent_gate.model.tool import Json

app = commands()


@app.command(
    "policy-agent",
    epilog=examples(
        "agent-gate policy-agent --socket /run/agent-gate/policy-agent.sock", "agent-gate policy-agent -c config.yaml"
    ),
)
def policy_agent(
    socket: Annotated[
        Path | None, typer.Option("--socket", metavar="PATH", help="Where to listen; else as FILE says.")
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option("-c", "--config", metavar="FILE", help="Its sections policy_agent, chains and policies are used."),
    ] = None,
    log_level: Annotated[
        str,
        typer.Option(
            "--log-level",
            metavar="LEVEL",
            envvar="AGENT_GATE_LOG_LEVEL",
            help="What is logged to standard error: debug, info (every request that is stopped), warning, error.",
        ),
    ] = "warning",
    as_json: AsJson = False,
) -> int:
    """Run request policies for a proxy over gRPC on a Unix socket, until a signal ends it.

    Envoy can be in front as it is: ext_proc and ext_authz are served too, for the routes of FILE. SIGTERM and Ctrl-C
    end it in good order, a second one at once.
    """
    if log_level not in LOG_LEVELS:
        raise UsageMistake(f"--log-level `{log_level}` is none of {', '.join(LOG_LEVELS)}", "agent-gate policy-agent")
    # The composition is above the doors: a door may start it, and not be built on it.
    agent = import_module("agent_gate.hosts.policy_agent")

    def tell(event: str, text: str, fields: Mapping[str, Json]) -> None:
        with suppress(OSError):  # whoever started it may not listen any more
            if as_json:
                screen.print_json_line({"event": event, **fields})
            else:
                screen.say(text)
            sys.stdout.flush()

    agent.run(agent.settings_of(config, socket), tell, log_level)
    return Exit.SUCCESS
