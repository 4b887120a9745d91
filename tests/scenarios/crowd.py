"""What several processes do at once on one ledger; each tells its parent the outcomes that it was given."""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import Mapping
from typing import Any

from agent_gate.app import open_gate
from agent_gate.model.call import CallRequest
from agent_gate.model.tool import Json
from agent_gate.toolkit import tool, transition
from tests.faults.programs import tell, told_of


@transition("counter.add")
def add(inputs: dict[str, Json], state: Json) -> tuple[Json, str]:
    return {"n": state.get("n", 0) + 1}, "added"


@tool("clock.look", effect="read", cost=0, risk="low")
async def look() -> int:
    return 1


async def make_calls(
    db: str, policy: Mapping[str, Json], acts: str, calls: list[list[Any]], run_id: str | None = None
) -> None:
    """All calls (tool, arguments, request id) at once, as soon as the parent says that everybody is there."""

    @tool("line.append", cost=3)
    async def append(token: str) -> str:
        file = os.open(acts, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(file, f"{token}\n".encode())
        os.close(file)
        await asyncio.sleep(0.01)
        return token

    async with open_gate(policy, db, tools=[add, look, append]) as gate:
        tell("here")
        await asyncio.to_thread(_wait_for, f"{acts}.go")
        requests = [CallRequest(gate.agent, name, args, request_id=id, run_id=run_id) for name, args, id in calls]
        outcomes = await asyncio.gather(*map(gate.submit, requests))
    for outcome in outcomes:
        tell(told_of(outcome) | {"version": outcome.state_version})


async def leave_an_effect_open(db: str, acts: str) -> None:
    """Killed by its parent while the effect of a call runs."""

    async def effect(outcome: dict[str, Json]) -> None:
        with open(acts, "a") as file:  # noqa: ASYNC230 -- one line
            file.write("effect\n")
        tell("effect begun")
        await asyncio.sleep(3_600)

    @tool("line.append", post_execution=effect)
    async def append() -> None: ...

    async with open_gate({"rules": [{"pattern": "*", "action": "allow"}]}, db, tools=[append]) as gate:
        outcome = await gate.call("line.append")
        tell(told_of(outcome))
        await asyncio.sleep(3_600)


def _wait_for(gate: str) -> None:
    """The parent holds the file locked until everybody is there."""
    with open(gate) as file:
        fcntl.flock(file, fcntl.LOCK_SH)
