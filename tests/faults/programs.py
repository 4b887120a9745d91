"""What the nursery forks: programs that make calls on a shared ledger and tell their parent what they saw."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from agent_gate.app import open_gate
from agent_gate.gate.gate import Gate
from agent_gate.ledger.sqlite.ledger import SqliteLedger
from agent_gate.model.approval import Approver
from agent_gate.model.errors import IdentityError, StorageError
from agent_gate.model.outcome import Outcome, Status
from agent_gate.model.tool import Json
from agent_gate.system.clock import RandomIds, SystemClock
from agent_gate.toolkit import tool, transition
from tests.faults.examiner import Examiner, Witness
from tests.faults.shim import Fault, disarm, fired, note, record

WITH_QUESTIONS: Mapping[str, Json] = {
    "rules": [{"pattern": name, "action": "allow"} for name in ("line.append*", "counter.*", "clock.*")]
}
"""What no rule speaks of is asked."""
BOB = Approver("bob")
RECOVERY_S = 10.0
WAIT_S = 60.0
NOBODY = 65_534
POLICY: Mapping[str, Json] = {"rules": [{"pattern": "*", "action": "allow"}]}

_parent = -1


def listen_at(descriptor: int) -> None:
    global _parent  # noqa: PLW0603 -- one parent for each process
    _parent = descriptor


def tell(value: object) -> None:
    """One line in one write: whole or not at all, whenever the process is killed."""
    line = json.dumps(value).encode() + b"\n"
    assert os.write(_parent, line) == len(line)


def hands(acts: str) -> list[Callable[..., Any]]:
    """A write whose act and effect each leave one line in `acts`, a pure counter, and a read."""
    file = os.open(acts, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def leave(line: str) -> None:
        os.write(file, f"{line}\n".encode())

    async def effect(outcome: dict[str, Json]) -> None:
        leave(f"effect {outcome['data']}")

    @tool("line.append", post_execution=effect)
    async def append(token: str, before_s: float = 0, after_s: float = 0) -> str:
        await asyncio.sleep(before_s)
        leave(f"act {token}")
        await asyncio.sleep(after_s)
        return token

    @tool("line.ask")
    async def ask(token: str, answer: bool) -> str:
        leave(f"act {token}")
        return token

    @transition("counter.add")
    def add(inputs: dict[str, Json], state: Json) -> tuple[Json, str]:
        state["n"] = state.get("n", 0) + 1
        return state, "added"

    @tool("clock.look", effect="read", cost=0, risk="low")
    async def look(token: str) -> str:
        return token

    return [append, ask, add, look]


def told_of(outcome: Outcome) -> dict[str, Any]:
    fields = {"call_id": outcome.call_id, "request_id": outcome.request_id, "status": outcome.status.value}
    if outcome.error:
        fields |= {"code": outcome.error.code}  # type: ignore[dict-item]
    return fields


async def create(db: str, fault: Mapping[str, Any] | None = None) -> None:
    if fault:
        Fault(**fault).arm()
    async with open_gate(POLICY, db):
        tell("created")


async def open_as_nobody(db: str) -> None:
    """As a user who may not read the files; only root can become one, anybody else already is."""
    if os.geteuid() == 0:
        os.setuid(NOBODY)
    try:
        SqliteLedger(db, SystemClock(), RandomIds())
    except StorageError as error:
        tell({"refused": error.code})


async def work(db: str, acts: str, name: str, seed: int, lanes: int, repeat: Sequence[Sequence[Any]]) -> None:
    """Calls without end; first those that a predecessor sent and never heard of, under the same request ids."""
    chance = random.Random(seed)
    async with open_gate(WITH_QUESTIONS, db, tools=hands(acts), approvers=[BOB]) as gate:
        tell({"instance": gate.ledger.instance})
        await asyncio.gather(*(_send(gate, tool_name, args, token) for tool_name, args, token in repeat))
        await asyncio.gather(*(_lane(gate, f"{name}.{seed}.{lane}", chance) for lane in range(lanes)))


async def _lane(gate: Gate, name: str, chance: random.Random) -> None:
    number = 0
    while True:
        number += 1
        token = f"{name}.{number}"
        match chance.randrange(5):
            case 0:
                await _send(gate, "line.ask", {"token": token, "answer": chance.random() < 0.8}, token)
            case 1 | 2:
                pauses = {"before_s": chance.choice([0, 0, 0.01]), "after_s": chance.choice([0, 0, 0.02])}
                await _send(gate, "line.append", {"token": token, **pauses}, token)
            case 3:
                await _send(gate, "counter.add", {}, token)
            case _:
                await _send(gate, "clock.look", {"token": token}, token)


async def _send(gate: Gate, tool_name: str, args: Mapping[str, Json], token: str) -> Outcome:
    tell({"sent": [tool_name, args, token]})
    outcome = await gate.call(tool_name, args, request_id=token, wait=False)
    if outcome.status is Status.PENDING_APPROVAL:
        outcome = await _answered(gate, outcome.call_id, approve=args["answer"])
    tell({"outcome": told_of(outcome)})
    return outcome


async def _answered(gate: Gate, call_id: str, *, approve: bool) -> Outcome:
    """What becomes of a question, which a predecessor may have answered already."""
    with suppress(IdentityError):
        await gate.answer(call_id, approve=approve, by=BOB)
    outcome = await gate.result(call_id)
    assert outcome is not None
    return outcome


async def one_of_each(db: str, acts: str, token: str, fault: Mapping[str, Any] | None = None) -> None:
    """Open the ledger, make one call of each kind, close; with a fault armed from the start."""
    if fault is not None:
        Fault(**fault).arm()
    try:
        async with open_gate(POLICY, db, tools=hands(acts)) as gate:
            tell({"instance": gate.ledger.instance})
            await _send(gate, "line.append", {"token": token}, token)
            await _send(gate, "counter.add", {}, f"{token} add")
            await _send(gate, "clock.look", {"token": token}, f"{token} look")
    except StorageError as error:
        tell({"refused": error.code})
    tell({"fired": disarm()})


async def through_a_fault(db: str, acts: str, token: str, fault: Mapping[str, Any], lasting_s: float = 0) -> None:
    """Calls before, during and after a fault of the disk; when it is gone, the gate must recover by itself."""
    async with open_gate(POLICY, db, tools=hands(acts)) as gate:
        tell({"instance": gate.ledger.instance})
        await _send(gate, "counter.add", {}, f"{token} before")
        Fault(**fault).arm()
        until = time.monotonic() + lasting_s
        await _send(gate, "line.append", {"token": token}, f"{token} append")
        await _send(gate, "counter.add", {}, f"{token} add")
        await _send(gate, "clock.look", {"token": token}, f"{token} look")
        while time.monotonic() < until:
            await _send(gate, "line.append", {"token": f"{token} {time.monotonic()}"}, f"{token} {time.monotonic()}")
            await asyncio.sleep(0.02)
        tell({"fired": disarm()})
        await _recovered(gate)
        await _send(gate, "line.append", {"token": f"{token} after"}, f"{token} after append")
        await _send(gate, "counter.add", {}, f"{token} after add")


async def write_down(db: str, log: str, part: str, calls: int) -> None:
    """Calls whose changes to files are recorded in order, with a mark where something was told or done."""

    @tool("line.note")
    async def append(token: str) -> str:
        note(f"act {token}")
        await asyncio.sleep(0)
        return token

    @transition("counter.add")
    def add(inputs: dict[str, Json], state: Json) -> tuple[Json, str]:
        return {"n": state.get("n", 0) + 1}, "added"

    record(part, os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))
    async with open_gate(POLICY, db, tools=[append, add]) as gate:
        note(json.dumps({"instance": gate.ledger.instance}))

        async def one(number: int) -> None:
            outcome = await (
                gate.call("counter.add") if number % 3 == 0 else gate.call("line.note", token=f"t{number}")
            )
            note(json.dumps({"outcome": told_of(outcome)}))

        for number in range(0, calls, 3):
            await asyncio.gather(*map(one, range(number, number + 3)))


async def fail_then_die(db: str, acts: str, token: str, tool_name: str, fault: Mapping[str, Any]) -> None:
    """One call while the disk fails, and the process is gone before anything else can be written."""
    async with open_gate(POLICY, db, tools=hands(acts)) as gate:
        tell({"instance": gate.ledger.instance})
        Fault(**fault).arm()
        await _send(gate, tool_name, {} if tool_name == "counter.add" else {"token": token}, token)
        tell({"fired": fired()})
        os.kill(os.getpid(), signal.SIGKILL)


async def die_and_leave_a_fork(db: str, acts: str) -> None:
    """A tool forks, and the gate is killed while the fork lives on."""

    @tool("line.fork")
    async def fork(token: str) -> None:
        if child := os.fork():
            tell({"fork": child})
            os.kill(os.getpid(), signal.SIGKILL)
        os.close(_parent)
        time.sleep(WAIT_S)  # noqa: ASYNC251 -- the fork must not touch the loop that it shares
        os._exit(0)

    async with open_gate(POLICY, db, tools=[fork]) as gate:
        tell({"instance": gate.ledger.instance})
        await gate.call("line.fork", token="t")


async def until_full(db: str, acts: str, ballast: str) -> None:
    """Fill the disk with calls; then somebody makes room, and the gate must recover by itself."""
    async with open_gate(POLICY, db, tools=hands(acts)) as gate:
        tell({"instance": gate.ledger.instance})
        for number in range(1_000):
            outcome = await _send(gate, "line.append", {"token": f"{number:09}" * 1_000}, f"fill {number}")
            if not outcome.ok:
                break
        tell({"full": await _codes_of_some_calls(gate)})
        os.unlink(ballast)
        await _recovered(gate)
        await _send(gate, "line.append", {"token": "after"}, "after append")
        await _send(gate, "counter.add", {}, "after add")


async def _recovered(gate: Gate) -> None:
    async with asyncio.timeout(RECOVERY_S):
        while not (await gate.call("clock.look", token="again")).ok:  # noqa: ASYNC110 -- nobody tells an agent
            await asyncio.sleep(0.02)


async def _codes_of_some_calls(gate: Gate) -> list[list[Any]]:
    until, seen = time.monotonic() + 1.5, set()
    while time.monotonic() < until:
        for name, args in (
            ("line.append", {"token": "x" * 9_000}),
            ("counter.add", {}),
            ("clock.look", {"token": "x"}),
        ):
            outcome = await gate.call(name, args)
            seen.add((outcome.status.value, outcome.error.code if outcome.error else 0))
    return sorted(map(list, seen))


async def examine(db: str, acts: str, outcomes: Mapping[str, Any], dead: Sequence[str]) -> None:
    """For a ledger that only the nursery's own processes can see."""
    tell(Examiner(Path(db), Witness(Path(acts), dict(outcomes), set(dead))).problems(at_rest=True))


async def one_command(db: str, work: str, script: str, fault: dict[str, Any] | None = None) -> None:
    """One command that writes; armed when the gate is open, so that what is left behind is settled first."""
    policy = {
        "tools": {
            "fs.read": {"allow_paths": ["./**"]},
            "fs.write": {"allow_paths": ["./**"]},
            "shell.run": {"allow_executables": ["sh"], "unchecked_executables": ["sh"]},
        }
    }
    async with open_gate(policy, db, working_dir=work, services=()) as gate:
        if script:
            if fault:
                Fault(**fault).arm()
            outcome = await gate.call("shell.run", argv=["sh", "-c", script])
            disarm()
            tell({**told_of(outcome), "files": len(outcome.files or ())})


async def change_at_once(db: str, acts: str, token: str, fault: Mapping[str, Any]) -> None:
    """Many changes of one state, of which some stand on others when the disk fails; then as many again."""
    async with open_gate(POLICY, db, tools=hands(acts)) as gate:
        tell({"instance": gate.ledger.instance})
        await gate.call("state.set", path="/begun", value=True)
        Fault(**fault).arm()

        async def caller(number: int) -> None:
            for turn in range(3):
                args: dict[str, Json] = {"path": f"/at/{number}.{turn}", "value": turn}
                outcome = await gate.call("state.set", args)
                tell({"set": f"{number}.{turn}", "version": outcome.state_version, **told_of(outcome)})

        await asyncio.gather(*map(caller, range(12)))
        tell({"fired": disarm()})
        await _recovered(gate)
        await asyncio.gather(*map(caller, range(100, 112)))
