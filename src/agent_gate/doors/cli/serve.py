"""Commands that start a process which lasts: `serve`, `mcp` and `policy-agent`.

Their composition is above the doors (decision 0010): a door may start it, and not be built on it, so it is imported by
its name.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from agent_gate.doors.cli import faults, screen
from agent_gate.doors.cli.faults import UsageMistake
from agent_gate.doors.cli.ledgers import database_path
from agent_gate.doors.cli.options import DEFAULT_DB, AsJson, PolicyPath, commands, examples
from agent_gate.doors.codes import Exit
from agent_gate.model.bounds import MCP_WAIT_S, MCP_WAIT_S_MAX
from agent_gate.model.errors import ConfigError
from agent_gate.model.ledger_names import LEDGER_VARIABLE
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
    _check_level(log_level, "agent-gate serve")
    server = import_module("agent_gate.hosts.server")
    server.run(server.settings_of(config, policy, insecure=insecure), _teller(as_json), log_level)
    return Exit.SUCCESS


@app.command(
    epilog=examples(
        "agent-gate mcp -p policy.yaml --working-dir /home/anna/notes",
        "agent-gate mcp -c config.yaml --agent kitchen-bot",
    )
)
def mcp(
    config: Annotated[
        Path | None,
        typer.Option("-c", "--config", metavar="FILE", help="Agents, approvers and services; else there are none."),
    ] = None,
    policy: PolicyPath = Path("policy.yaml"),
    db: Annotated[
        str | None,
        typer.Option("--db", metavar="PATH", help=f"The ledger; else as FILE, AGENT_GATE_DB or {DEFAULT_DB} says."),
    ] = None,
    agent: Annotated[
        str | None, typer.Option("--agent", metavar="ID", help="Which agent of FILE speaks here; else the only one.")
    ] = None,
    project: Annotated[
        str | None, typer.Option("--project", metavar="NAME", help="The project; else the agent's first.")
    ] = None,
    working_dir: Annotated[
        Path | None, typer.Option("--working-dir", metavar="DIR", help="Where every relative path begins.")
    ] = None,
    wait: Annotated[
        float,
        typer.Option(
            "--wait",
            metavar="SECONDS",
            min=0,
            max=MCP_WAIT_S_MAX,
            help="How long a call waits for a person, where the client follows its progress.",
        ),
    ] = MCP_WAIT_S,
    log_level: Annotated[
        str,
        typer.Option(
            "--log-level",
            metavar="LEVEL",
            envvar="AGENT_GATE_LOG_LEVEL",
            help="What is logged to standard error: debug, info, warning, error.",
        ),
    ] = "warning",
    as_json: Annotated[
        bool, typer.Option("--json", help="Tell as JSON, on standard error, what keeps it from starting.")
    ] = False,
) -> int:
    """Offer the gate's tools to the MCP client that starts this command.

    They talk over standard input and output. It ends when the client closes its end, or by SIGTERM: what runs is
    settled, questions stay open for the next start, but for those about what a command wrote.
    """
    try:
        _check_level(log_level, "agent-gate mcp")
        if working_dir is not None:
            _enter(working_dir)
        door = import_module("agent_gate.hosts.mcp")
        door.run(door.settings_of(policy, _ledger(db, config), config, agent, project, wait), log_level)
    except Exception as error:
        if not as_json or faults.wants_traceback():
            raise
        # Standard output is the client's, also for what all other commands print there.
        fault = faults.fault_of(error)
        print(screen.encoded({"error": fault.error}), file=sys.stderr)
        return fault.exit
    return Exit.SUCCESS


def _enter(directory: Path) -> None:
    try:
        os.chdir(directory)
    except OSError as error:
        raise ConfigError(f"`{directory}` cannot be the working directory: {error.strerror}") from None


def _ledger(db: str | None, config: Path | None) -> Path | None:
    """None where the configuration says it."""
    if db is None and config is not None:
        return None
    return database_path(db or os.environ.get(LEDGER_VARIABLE) or DEFAULT_DB)


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
    _check_level(log_level, "agent-gate policy-agent")
    agent = import_module("agent_gate.hosts.policy_agent")
    agent.run(agent.settings_of(config, socket), _teller(as_json), log_level)
    return Exit.SUCCESS


def _check_level(level: str, command: str) -> None:
    if level not in LOG_LEVELS:
        raise UsageMistake(f"--log-level `{level}` is none of {', '.join(LOG_LEVELS)}", command)


def _teller(as_json: bool) -> Callable[[str, str, Mapping[str, Json]], None]:
    """Return what tells of events, to people or to a machine."""

    def tell(event: str, text: str, fields: Mapping[str, Json]) -> None:
        with suppress(OSError):  # whoever started it may not listen any more
            if as_json:
                screen.print_json_line({"event": event, **fields})
            else:
                screen.say(text)
            sys.stdout.flush()

    return tell
