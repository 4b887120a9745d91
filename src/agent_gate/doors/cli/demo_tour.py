"""The tour behind `agent-gate demo`: a real gate in a temporary directory, nothing staged."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from agent_gate import Agent, Approver, Gate, Outcome, open_gate, tool, transition
from agent_gate.history.verify import verify
from agent_gate.model.plan import Plan, PlanStep
from agent_gate.model.tool import Json
from agent_gate.plans import run_plan

POLICY: dict[str, Json] = {
    "version": 1,
    "rules": [
        {"pattern": "door.unlock(*)", "action": "deny", "description": "doors stay shut"},
        {"pattern": "door.*", "action": "allow"},
        {"pattern": "light.*", "action": "allow"},
        {"pattern": "heating.set(*)", "action": "allow", "when": "inputs['celsius'] <= 22"},
        {"pattern": "state.*", "action": "allow"},
        {"pattern": "mail.send(*)", "action": "ask"},
        {"pattern": "gate.revert(*)", "action": "allow"},
    ],
    "boundary": "deny_by_default",
    "limits": {"budget": {"daily": 6}},
}


@tool("door.lock", effect="write", risk="low")
async def lock(door: str) -> dict[str, str]:
    """Lock a door."""
    return {"door": door, "is": "locked"}


@tool("door.unlock", effect="write")
async def unlock(door: str) -> dict[str, str]:
    """Unlock a door."""
    return {"door": door, "is": "unlocked"}


@tool("mail.send", effect="write", secret=["password"])
async def send(to: str, password: str) -> dict[str, str]:
    """Send a mail; the password never reaches the record."""
    return {"sent_to": to, "with_password_of_length": str(len(password))}


@transition(
    "heating.set", schema={"type": "object", "properties": {"celsius": {"type": "number"}}, "required": ["celsius"]}
)
def set_heating(inputs: dict[str, Json], state: dict[str, Json]) -> tuple[dict[str, Json], str]:
    """Remember the wanted temperature."""
    return {**state, "celsius": inputs["celsius"]}, f"heating at {inputs['celsius']}"


def main(once: bool) -> None:
    """Play the tour; with `once` it does not stop between the scenes."""
    pause = _no_pause if once or not sys.stdin.isatty() else _wait_for_enter
    with tempfile.TemporaryDirectory(prefix="agent-gate-demo-") as name:
        asyncio.run(_tour(Path(name) / "agent-gate.db", pause))


async def _tour(db: Path, pause: Callable[[], None]) -> None:
    agent = Agent("kitchen-bot", roles=("admin",))
    anna = Approver("anna")
    async with open_gate(POLICY, db, tools=[lock, unlock, send, set_heating], agent=agent, approvers=[anna]) as gate:
        _scene("1. An allowed call is performed and written down.")
        _show(await gate.call("door.lock", door="front"))
        pause()
        _scene("2. A denied one is not, and says which rule spoke and what would change it.")
        _show(await gate.call("door.unlock", door="front"))
        pause()
        _scene("3. A rule may look at the arguments: 21 degrees pass, 30 do not.")
        warm = await gate.call("heating.set", celsius=21)
        _show(warm)
        _show(await gate.call("heating.set", celsius=30))
        pause()
        _scene("4. Where the policy asks, a person answers; the agent may not answer for itself.")
        await _asked(gate, anna)
        pause()
        _scene("5. A plan is simulated before it is run: nothing is written, nobody is asked.")
        plan = Plan((PlanStep("heating.set", {"celsius": 18}), PlanStep("door.unlock", {"door": "back"})))
        for outcome in (await run_plan(gate, plan, simulate=True)).outcomes:
            _show(outcome)
        pause()
        _scene("6. What was done can be undone, as a new fact in the same history.")
        _show(await gate.call("gate.revert", call_id=warm.call_id))
        pause()
        _scene("7. The budget of the day holds, also for fifty calls at once.")
        outcomes = await asyncio.gather(*(gate.call("door.lock", door=f"door {number}") for number in range(50)))
        print(f"   {sum(outcome.ok for outcome in outcomes)} performed, the others: {outcomes[-1].error}")
        pause()
    _verified(db, pause)


async def _asked(gate: Gate, approver: Approver) -> None:
    waiting = await gate.call("mail.send", to="bo@example.com", password="hunter2", wait=False)  # noqa: S106 -- made up
    _show(waiting)
    (question,) = await gate.ledger.questions()
    print(f"   asked: {question.tool} {dict(question.args)}")
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
    with sqlite3.connect(db) as connection:
        connection.execute(
            "UPDATE entries SET body = replace(body, 'locked', 'opened')"
            " WHERE kind = 'settled' AND body LIKE '%locked%'"
        )
    connection.close()
    report = verify(db)
    print(f"   {'intact' if report.ok else 'BROKEN'}: {report.problems[0]}")


def _scene(text: str) -> None:
    print(f"\n{text}")


def _show(outcome: Outcome) -> None:
    said = outcome.error or outcome.message or outcome.data or ""
    print(f"   {', '.join(outcome.signatures)}\n      -> {outcome.status.value}: {said}")


def _no_pause() -> None: ...


def _wait_for_enter() -> None:
    input("   [Enter] ")
