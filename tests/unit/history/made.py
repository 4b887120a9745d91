"""Ledgers for tests that look back: real calls through a real gate, with one of everything that is recorded."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_gate import Agent, Approver, Gate, open_gate, run_plan, tool, transition
from agent_gate.history.erase import erase_call
from agent_gate.history.projects import Projects
from agent_gate.ledger.sqlite.ledger import SqliteLedger
from agent_gate.model.outcome import Outcome
from agent_gate.model.plan import Plan, PlanStep
from agent_gate.system.clock import RandomIds

START = 1_800_000_000.0
IDS = RandomIds()
ANNA = Approver("anna", ("admin", "operator"))
AGENT = Agent("robot", projects=("*",))

POLICY = {
    "version": 1,
    "rules": [{"pattern": "door.open*", "action": "deny"}, {"pattern": "mail.send*", "action": "ask"}],
    "defaults": [{"pattern": "*", "action": "allow"}],
}


class SteppingClock:
    """A millisecond later at every look, so that moments are distinct and known."""

    def __init__(self, at: float = START) -> None:
        self.at = at

    def now(self) -> float:
        self.at += 0.001
        return self.at

    @property
    def boot(self) -> str:
        return "the-boot-of-a-test"

    def monotonic(self) -> float:
        return self.now()


@tool("echo", effect="read", cost=0, risk="low")
async def echo(text: str, times: int = 1) -> str:
    return text * times


@tool("note.write", effect="write", risk="low")
async def write_note(text: str) -> dict[str, object]:
    return {"data": text, "signatures": ["forged"]}


@tool("mail.send", effect="write", risk="low")
async def send_mail(to: str) -> str:
    return f"sent to {to}"


@tool("door.open", effect="write", risk="low")
async def open_door() -> None: ...


@tool("broken", effect="read", cost=0, risk="low")
async def broken() -> None:
    raise RuntimeError("out of order")


async def _report(outcome: dict[str, Any]) -> dict[str, object]:
    return {"signatures": outcome["signatures"]}


@transition(
    "count.up",
    schema={"type": "object", "properties": {"by": {"type": "integer"}}, "required": ["by"]},
    post_execution=_report,
)
def count_up(inputs: dict[str, Any], state: Any) -> tuple[Any, str]:
    state["n"] = state.get("n", 0) + inputs["by"]
    return state, f"counted {inputs['by']}"


TOOLS: list[Callable[..., Any]] = [echo, write_note, send_mail, open_door, broken, count_up]


@asynccontextmanager
async def gate_at(
    db: Path, clock: SteppingClock | None = None, policy: Mapping[str, Any] = POLICY
) -> AsyncIterator[Gate]:
    async with open_gate(
        policy, db, tools=TOOLS, agent=AGENT, approvers=[ANNA], clock=clock or SteppingClock(), ids=IDS
    ) as gate:
        yield gate


def ledger_of(gate: Gate) -> SqliteLedger:
    assert isinstance(gate.ledger, SqliteLedger)
    return gate.ledger


async def ask_and_answer(gate: Gate, to: str, *, approve: bool, project: str = "default") -> Outcome:
    asked = await gate.call("mail.send", to=to, project=project, request_id=f"mail-{to}", wait=False)
    await gate.answer(asked.call_id, approve=approve, by=ANNA)
    return await gate.call("mail.send", to=to, project=project, request_id=f"mail-{to}")


async def erase(gate: Gate, call_id: str) -> None:
    await erase_call(ledger_of(gate), call_id, by="anna", clock=gate.clock, ids=gate.ids)


@dataclass
class Made:
    """Where the ledger is, and the calls that tests speak of."""

    db: Path
    calls: dict[str, str] = field(default_factory=dict)
    run_id: str = ""


async def make_ledger(db: Path) -> Made:
    """About forty entries: every kind that there is, in two projects and the gate's own chain."""
    made = Made(db)
    clock = SteppingClock()
    async with gate_at(db, clock) as gate:
        projects = Projects(gate.ledger, clock, IDS, "anna")
        await projects.create("home", {"lamps": []}, {"type": "object"})
        for name, outcome in (
            ("read", await gate.call("echo", text="hello")),
            ("tricky", await gate.call("echo", text='a"b\\c, "signatures":["x"] é 😀')),
            ("large", await gate.call("echo", text="long", times=10_000)),
            ("write", await gate.call("note.write", text="milk", request_id="r-1")),
            ("first", await gate.call("count.up", by=1)),
            ("denied", await gate.call("door.open")),
            ("failed", await gate.call("broken")),
            ("unknown", await gate.call("nobody.knows", signatures=["x"])),
            ("misfit", await gate.call("count.up", by="many")),
            ("second", await gate.call("count.up", by=2, project="home")),
            ("third", await gate.call("state.set", path="data", value={"state_hash": "x", "data": 1})),
            ("approved", await ask_and_answer(gate, "bob", approve=True)),
            ("refused", await ask_and_answer(gate, "eve", approve=False, project="home")),
            ("elsewhere", await gate.call("echo", text="x", project="nowhere")),
            ("erased", await gate.call("note.write", text="secret")),
        ):
            made.calls[name] = outcome.call_id
        first = await gate.result(made.calls["first"])
        assert first is not None
        reverted = await gate.call("state.revert", snapshot_id=first.snapshot_id)
        made.calls["reverted"] = reverted.call_id
        steps = (PlanStep("echo", {"text": "a"}), PlanStep("count.up", {"by": 3}), PlanStep("door.open", {}))
        made.run_id = (await run_plan(gate, Plan(steps, "tour"), agent=AGENT)).run_id
        await projects.lock("home")
        await projects.unlock("home")
        await erase(gate, made.calls["erased"])
    return made
