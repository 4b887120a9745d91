"""Commands of an agent at a running server: `request` makes one call, `tools` lists what could be called."""

from __future__ import annotations

import asyncio
import sys
import uuid
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from agent_gate.client import GateClient, GateUnreachable
from agent_gate.doors.cli import screen
from agent_gate.doors.cli.faults import UsageMistake
from agent_gate.doors.cli.options import AsJson, commands, examples
from agent_gate.doors.cli.outcomes import print_outcome
from agent_gate.doors.cli.remote import CONFIGURED, Address, Server, at_server
from agent_gate.doors.codes import Exit, Unreachable, exit_of_outcome
from agent_gate.model.codec import CodecError, parse
from agent_gate.model.outcome import Outcome
from agent_gate.model.tool import Json, Mode

NAME = "agent-gate request"
TOLD_AFTER_S = 1.0

app = commands()


@app.command(
    epilog=examples(
        "agent-gate request state.set path=/notes/today value=rain",
        'agent-gate request shell.run --args \'{"argv": ["git", "status"]}\' --timeout 60',
    )
)
@at_server
def request(
    tool: Annotated[str, typer.Argument(metavar="TOOL", help="The tool; see `agent-gate tools`.")],
    pairs: Annotated[
        list[str] | None, typer.Argument(metavar="K=V…", help="Arguments; V is JSON where it reads as such, else text.")
    ] = None,
    args: Annotated[str | None, typer.Option("--args", metavar="JSON", help="All arguments as one object.")] = None,
    project: Annotated[str | None, typer.Option("--project", metavar="NAME", help="The project.")] = None,
    request_id: Annotated[
        str | None, typer.Option("--request-id", metavar="ID", help="Your own; the same one leads to the same call.")
    ] = None,
    confirmed: Annotated[bool, typer.Option("--confirmed", help="Say that it is meant.")] = False,
    mode: Annotated[Mode | None, typer.Option("--mode", help="Be stricter than the agent's own.")] = None,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Do not wait for a person.")] = False,
    timeout: Annotated[
        float | None, typer.Option("--timeout", min=0.001, metavar="SECONDS", help="Wait no longer than this.")
    ] = None,
    server: Server = CONFIGURED,
    as_json: AsJson = False,
) -> int:
    """Make one call as an agent, and print its outcome.

    Where a person must agree, it waits for them; after --timeout the call goes on, and the same --request-id leads to
    its outcome.
    """
    arguments = arguments_of(pairs or (), args)
    address = server.address(approver=False)
    options = {"project": project, "confirmed": confirmed, "mode": mode.value if mode else None, "wait": not no_wait}
    try:
        outcome = asyncio.run(_call(address, tool, arguments, request_id, timeout, options))
    except TimeoutError as error:
        return _still_waiting(str(error), as_json)
    if as_json:
        screen.print_json(outcome.to_json())
    else:
        print_outcome(outcome)
    return exit_of_outcome(outcome)


async def _call(
    address: Address,
    tool: str,
    arguments: dict[str, Json],
    request_id: str | None,
    timeout_s: float | None,
    options: dict[str, Any],
) -> Outcome:
    request_id = request_id or uuid.uuid4().hex
    try:
        async with GateClient(address.url, address.token, ssl=address.tls) as gate:
            asyncio.get_running_loop().call_later(TOLD_AFTER_S, _tell_that_it_waits)
            try:
                return await gate.call(tool, arguments, request_id=request_id, timeout_s=timeout_s, **options)
            except TimeoutError:
                raise TimeoutError(request_id) from None
    except GateUnreachable as error:
        raise Unreachable(error.problem.detail, suggestion=error.problem.suggestion) from None


def _tell_that_it_waits() -> None:
    """To whoever sits there; a call that a person must agree to looks like one that hangs."""
    if screen.on_terminal(sys.stderr):
        text = "no outcome yet; if a person must agree, `agent-gate pending` and the console show the question"
        print(screen.paint(text, "dim", sys.stderr), file=sys.stderr)


def arguments_of(pairs: Sequence[str], args: str | None) -> dict[str, Json]:
    """From `--args`, or from `k=v` each."""
    if args is not None:
        if pairs:
            raise UsageMistake("arguments are given either as --args or as k=v", NAME)
        try:
            given = parse(args)
        except CodecError as error:
            raise UsageMistake(f"--args: {error}", NAME) from None
        if not isinstance(given, dict):
            raise UsageMistake("--args must be a JSON object", NAME)
        return given
    arguments: dict[str, Json] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise UsageMistake(f"`{pair}` is not k=v", NAME)
        if name in arguments:
            raise UsageMistake(f"`{name}` is given twice", NAME)
        arguments[name] = _value(text)
    return arguments


def _value(text: str) -> Json:
    try:
        return parse(text)
    except CodecError:
        return text


def _still_waiting(request_id: str, as_json: bool) -> int:
    if as_json:
        screen.print_json({"request_id": request_id, "status": "pending_approval"})
    else:
        screen.say(f"{screen.paint('pending_approval')}  no answer yet; the call goes on")
        screen.say(screen.paint(f"ask again with --request-id {request_id}", "dim"))
    return Exit.WAITING


@app.command(epilog=examples("agent-gate tools", "agent-gate tools --json"))
@at_server
def tools(
    server: Server = CONFIGURED,
    as_json: AsJson = False,
) -> int:
    """List the tools that the holder of a token could use."""
    with server.connected(approver=False) as remote:
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
