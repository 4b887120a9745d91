"""`agent-gate demo`: a short tour on a real gate in a temporary directory, before a simulated home; nothing staged."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import sys
import tempfile
from collections.abc import Callable
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import Annotated

import typer

from agent_gate import Agent, Approver, Gate, Outcome, open_gate, tool
from agent_gate.config import HomeAssistantConfig
from agent_gate.doors.cli import screen
from agent_gate.doors.cli.options import AsJson, commands, examples
from agent_gate.doors.cli.screen import encoded, shortened, signatures
from agent_gate.doors.codes import Exit
from agent_gate.gate.plans import run_plan
from agent_gate.history.verify import verify
from agent_gate.model.plan import Plan, PlanStep
from agent_gate.model.tool import Json
from agent_gate.simulated_home import simulated_home

app = commands()

POLICY: dict[str, Json] = {
    "version": 1,
    "rules": [
        {"pattern": "ha_get_*", "action": "allow"},
        {"pattern": "ha_call_service(light.*)", "action": "allow"},
        {"pattern": "ha_call_service(cover.*)", "action": "allow"},
        {"pattern": "ha_call_service(scene.*)", "action": "allow"},
        {"pattern": "ha_call_service(lock.*)", "action": "deny", "description": "doors stay as they are"},
        {
            "pattern": "ha_call_service(climate.*)",
            "action": "allow",
            "when": "get(inputs, 'data.temperature', 99) <= 22",
        },
        {"pattern": "state.*", "action": "allow"},
        {"pattern": "mail.send(*)", "action": "ask"},
        {"pattern": "gate.revert(*)", "action": "allow"},
    ],
    "boundary": "deny_by_default",
    "limits": {"budget": {"daily": 9}},
}


@tool("mail.send", effect="write", secret=["password"])
async def send(to: str, password: str) -> dict[str, str]:
    """Send a mail; the password never reaches the record."""
    return {"sent_to": to, "with_password_of_length": str(len(password))}


@app.command(epilog=examples("agent-gate demo", "agent-gate demo --once"))
def demo(
    once: Annotated[bool, typer.Option("--once", help="Do not stop between the scenes.")] = False,
    as_json: AsJson = False,
) -> int:
    """Play a short tour: allow, deny, ask, simulate, undo, verify."""
    with redirect_stdout(sys.stderr) if as_json else nullcontext():
        _play(once=once or as_json)
    if as_json:
        screen.print_json({"ok": True})
    return Exit.SUCCESS


def _play(once: bool) -> None:
    """Play the tour; with `once` it does not stop between the scenes."""
    pause = _no_pause if once or not sys.stdin.isatty() else _wait_for_enter
    with tempfile.TemporaryDirectory(prefix="agent-gate-demo-") as name:
        asyncio.run(_tour(Path(name) / "agent-gate.db", pause))


async def _tour(db: Path, pause: Callable[[], None]) -> None:
    agent, anna = Agent("kitchen-bot", roles=("admin",)), Approver("anna")
    async with (
        simulated_home() as running,
        open_gate(
            POLICY,
            db,
            tools=[send],
            agent=agent,
            approvers=[anna],
            home_assistant=HomeAssistantConfig(running.url, running.token),
        ) as gate,
    ):
        print(f"a simulated home at {running.url}, and a gate before it")
        dark = await _at_home(gate, pause)
        _scene("4. Where the policy asks, a person answers; the agent may not answer for itself.")
        await _asked(gate, anna)
        pause()
        _scene("5. A plan is simulated before it is run: nothing is done or written, nobody is asked.")
        steps = (PlanStep("state.set", {"path": "/night", "value": True}), PlanStep(*_service("lock.unlock", _DOOR)))
        for outcome in (await run_plan(gate, Plan(steps), simulate=True)).outcomes:
            _show(outcome)
        pause()
        _scene("6. What was done can be undone, as a new call in the same history.")
        _show(await gate.call("gate.revert", call_id=dark.call_id))
        _show(await gate.call("ha_get_state", entity_id="light.kitchen_lights"))
        pause()
        _scene("7. The budget of the day holds, also for fifty calls at once.")
        calls = (gate.call(*_service("light.toggle", "light.bed_light")) for _ in range(50))
        outcomes = await asyncio.gather(*calls)
        print(f"   {sum(outcome.ok for outcome in outcomes)} performed, the others: {outcomes[-1].error}")
        pause()
    _verified(db, pause)


SAID_CHARS = 320
_DOOR = "lock.front_door"


async def _at_home(gate: Gate, pause: Callable[[], None]) -> Outcome:
    _scene("1. An allowed call is performed and written down; an area is judged light by light.")
    dark = await gate.call("ha_call_service", domain="light", service="turn_off", target={"area_id": "kitchen"})
    _show(dark)
    pause()
    _scene("2. A denied one is not, and says which rule spoke; a scene with the lock in it is no way around.")
    _show(await gate.call(*_service("lock.unlock", _DOOR)))
    _show(await gate.call("ha_activate_scene", entity_id="scene.good_night"))
    pause()
    _scene("3. A rule may look at the arguments: 19 degrees pass, 30 do not.")
    for celsius in (19, 30):
        _show(await gate.call(*_service("climate.set_temperature", "climate.hvac", temperature=celsius)))
    pause()
    return dark


def _service(name: str, entity_id: str, **data: Json) -> tuple[str, dict[str, Json]]:
    """The tool and its arguments by which a service is called."""
    domain, _, service = name.partition(".")
    args: dict[str, Json] = {"domain": domain, "service": service, "entity_id": entity_id}
    return "ha_call_service", args | ({"data": data} if data else {})


async def _asked(gate: Gate, approver: Approver) -> None:
    waiting = await gate.call("mail.send", to="bo@example.com", password="hunter2", wait=False)  # noqa: S106 -- made up
    _show(waiting)
    (question,) = await gate.ledger.questions()
    print(f"   asked: {question.tool} {', '.join(question.args)}; of a secret nothing but a digest is shown and kept")
    await gate.answer(waiting.call_id, approve=True, by=approver)
    outcome = await gate.result(waiting.call_id)
    assert outcome is not None
    _show(outcome)


def _verified(db: Path, pause: Callable[[], None]) -> None:
    _scene("8. Everything is in a hash-chained ledger that verifies…")
    report = verify(db)
    print(f"   {report.entries} entries: {'intact' if report.ok else 'BROKEN'}")
    pause()
    _scene("   …until somebody edits one byte of it.")
    _edit(db, b'"kitchen"', b'"chicken"')
    report = verify(db)
    print(f"   {'intact' if report.ok else 'BROKEN'}: {report.problems[0]}")


def _edit(file: Path, before: bytes, after: bytes) -> None:
    """Edit behind the back of everybody, as somebody with a hex editor would."""
    found = file.read_bytes()
    assert before in found, "the tour has written it"
    file.write_bytes(found.replace(before, after, 1))


def _scene(text: str) -> None:
    print(f"\n{text}")


def _show(outcome: Outcome) -> None:
    said = str(outcome.error or outcome.message or encoded(outcome.data))
    print(f"   {signatures(outcome.signatures)}\n      -> {outcome.status.value}: {shortened(said, SAID_CHARS)}")


def _no_pause() -> None: ...


def _wait_for_enter() -> None:
    """Ctrl-C ends the tour here, also between the prompt and the wait, where `input` would not notice it."""
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    signalled, wakes = os.pipe()
    os.set_blocking(wakes, False)
    before = signal.set_wakeup_fd(wakes)
    try:
        print("   [Enter] ", end="", flush=True)
        select.select([sys.stdin, signalled], [], [])
        sys.stdin.readline()
    finally:
        signal.set_wakeup_fd(before)
        signal.signal(signal.SIGINT, handler)
        os.close(signalled)
        os.close(wakes)
