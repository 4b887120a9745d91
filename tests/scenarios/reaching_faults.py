"""The ways to the codes 2xxx to 5xxx: tools, plans, replays and ledgers that fail."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from agent_gate import PlanValidationError, load_plan, open_gate, replay_run, run_plan, tool
from agent_gate.model.bounds import OUTPUT_BYTES_MAX
from agent_gate.model.errors import Problem
from agent_gate.model.tool import Json
from tests.gates import ALLOW_ALL, a_gate, agent, approve, counter, outcome_of, pending, run_elsewhere, soon
from tests.scenarios.reaching import planned, problem, raised, reaches, refused, steps


@tool("broken")
async def broken() -> None:
    raise RuntimeError("no power")


@tool("endless", timeout_s=0.05)
async def endless() -> None:
    await asyncio.Event().wait()


@tool("verbose")
async def verbose() -> Json:
    return "x" * OUTPUT_BYTES_MAX


@reaches(2001)
async def unknown_tool(directory: Path) -> Problem:
    return await refused(directory, "nobody.knows")


@reaches(2002)
async def bad_arguments(directory: Path) -> Problem:
    return await refused(directory, "fs.read", file="a.txt")


@reaches(2003)
async def failed(directory: Path) -> Problem:
    return await refused(directory, "broken", broken, policy=ALLOW_ALL)


@reaches(2004)
async def tools_timeout(directory: Path) -> Problem:
    return await refused(directory, "endless", endless, policy=ALLOW_ALL)


@reaches(2005)
async def output_too_large(directory: Path) -> Problem:
    return await refused(directory, "verbose", verbose, policy=ALLOW_ALL)


@reaches(2006)
async def service_unavailable(directory: Path) -> Problem:
    return await refused(directory, "ha_get_states", policy=ALLOW_ALL)


@reaches(2007)
async def outcome_unknown(directory: Path) -> Problem:
    run_elsewhere(
        directory,
        """
        @tool("fatal", effect="write")
        async def fatal():
            os._exit(1)

        async def main():
            async with open_gate(ALLOW_ALL, directory / "gate.db", tools=[fatal]) as gate:
                await gate.call("fatal", request_id="once")
        """,
    )

    @tool("fatal", effect="write")
    async def fatal() -> None:
        raise AssertionError("performed twice")

    async with a_gate(directory, ALLOW_ALL, fatal, agent=agent("local")) as gate:
        return problem(await soon(gate.call("fatal", request_id="once")))


@reaches(2008)
async def conflict(directory: Path) -> Problem:
    (directory / "shared").write_text("old\n")
    tools = {
        "fs.read": {"allow_paths": ["./**"]},
        "fs.write": {"allow_paths": ["./**"]},
        "shell.run": {"allow_executables": ["sh"], "unchecked_executables": ["sh"], "writes": "ask"},
    }
    async with a_gate(directory, {"tools": tools}, working_dir=directory) as gate:
        question = await pending(gate, "shell.run", {"argv": ["sh", "-c", "echo new > shared"]})
        (directory / "shared").write_text("somebody else's\n")
        await approve(gate, question)
        return problem(await outcome_of(gate, question))


@reaches(3001)
async def plan_format(directory: Path) -> Problem:
    with pytest.raises(PlanValidationError) as error:
        load_plan({"version": "1.0", "name": "p", "steps": [{"tol": "fs.read"}]})
    return error.value.problem


@reaches(3002)
async def plan_empty(directory: Path) -> Problem:
    with pytest.raises(PlanValidationError) as error:
        load_plan({"version": "1.0", "name": "p", "steps": []})
    return error.value.problem


@reaches(3003)
async def plan_unknown_tool(directory: Path) -> Problem:
    async with a_gate(directory, ALLOW_ALL) as gate:
        return await raised(planned(gate, "nobody.knows"))


@reaches(3004)
async def plan_arguments(directory: Path) -> Problem:
    with pytest.raises(PlanValidationError) as error:
        load_plan(steps(("mail.send", {"text": "${steps.nothing.data.x}"})))
    return error.value.problem


@reaches(4001)
async def run_not_found(directory: Path) -> Problem:
    async with a_gate(directory, ALLOW_ALL) as gate:
        return await raised(replay_run(gate, "nope"))


async def tampered_run(directory: Path, *changes: str) -> Problem:
    """The first step whose replay parts from a record that somebody changed; the broken chain is told besides."""
    async with a_gate(directory, ALLOW_ALL, counter()) as gate:
        run = await run_plan(gate, load_plan(steps(("state.set", {"path": "x", "value": "hall"}))))
        with closing(sqlite3.connect(directory / "gate.db", isolation_level=None)) as connection:
            for sql in changes:
                assert connection.execute(sql).rowcount > 0
        mismatches = (await replay_run(gate, run.run_id)).mismatches
        first = next(mismatch for mismatch in mismatches if mismatch.code != 5004)
    return Problem(first.code, first.what)


OTHER_PLAN = 'UPDATE blobs SET data = CAST(replace(CAST(data AS TEXT), \'"name":"p"\', \'"name":"q"\') AS BLOB)'


@reaches(4002)
async def plan_mismatch(directory: Path) -> Problem:
    return await tampered_run(directory, f'{OTHER_PLAN} WHERE CAST(data AS TEXT) LIKE \'%"name":"p"%\'')


@reaches(4003)
async def step_mismatch(directory: Path) -> Problem:
    return await tampered_run(directory, "UPDATE entries SET tool = 'state.get' WHERE tool = 'state.set'")


@reaches(4004)
async def hash_mismatch(directory: Path) -> Problem:
    as_before = '"input_hash":"'
    return await tampered_run(
        directory, f"UPDATE entries SET body = replace(body, '{as_before}', '{as_before}0') WHERE tool = 'state.set'"
    )


async def opened(db: Path) -> None:
    async with open_gate(ALLOW_ALL, db):
        pass


@reaches(5001)
async def storage_connect(directory: Path) -> Problem:
    (directory / "letter.txt").write_text("dear anna\n" * 200)
    return await raised(opened(directory / "letter.txt"))


@reaches(5002)
async def storage_write(directory: Path) -> Problem:
    async with a_gate(directory, ALLOW_ALL) as gate:
        pass
    return problem(await gate.call("state.set", path="x", value=1))


@reaches(5003)
async def storage_read(directory: Path) -> Problem:
    async with a_gate(directory, ALLOW_ALL) as gate:
        with closing(sqlite3.connect(directory / "gate.db", isolation_level=None)) as connection:
            connection.execute("DROP VIEW runs")
        return await raised(replay_run(gate, "any"))


@reaches(5004)
async def storage_integrity(directory: Path) -> Problem:
    async with a_gate(directory, ALLOW_ALL) as gate:
        await gate.call("state.set", path="x", value=1)
    (directory / "gate.db").unlink()
    return await raised(opened(directory / "gate.db"))
