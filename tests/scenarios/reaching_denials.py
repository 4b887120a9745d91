"""The ways to the codes 1xxx: calls that a real gate denies."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from agent_gate import load_plan, run_plan, tool
from agent_gate.model.errors import Problem
from agent_gate.model.tool import Json
from tests.gates import ALLOW_ALL, ASK_ALL, HandClock, a_gate, agent, deny, outcome_of, pending, projects, sender
from tests.scenarios.reaching import planned, problem, reaches, refused, steps


@reaches(1001)
async def policy(directory: Path) -> Problem:
    return await refused(directory, "state.delete", path="x")


@reaches(1002)
async def path(directory: Path) -> Problem:
    return await refused(directory, "fs.read", path="../elsewhere.txt")


@reaches(1003)
async def domain(directory: Path) -> Problem:
    return await refused(directory, "http.get", url="https://evil.test/")


@reaches(1004)
async def executable(directory: Path) -> Problem:
    return await refused(directory, "shell.run", argv=["git", "status"])


@reaches(1005)
async def token(directory: Path) -> Problem:
    return await refused(directory, "shell.run", argv=["echo", "rm", "-rf"])


@reaches(1006)
async def size(directory: Path) -> Problem:
    return await refused(directory, "fs.write", path="out/a.txt", content="123456789")


@reaches(1007)
async def quota(directory: Path) -> Problem:
    async with a_gate(directory, {**ALLOW_ALL, "max_calls_per_tool": 1}, sender([])) as gate:
        return await planned(gate, "mail.send", "mail.send")


@reaches(1008)
async def global_timeout(directory: Path) -> Problem:
    clock = HandClock()

    @tool("long.work")
    async def work() -> None:
        clock.advance(31)

    async with a_gate(directory, {**ALLOW_ALL, "global_timeout_seconds": 30}, work, clock=clock) as gate:
        return await planned(gate, "long.work", "long.work")


@reaches(1009)
async def role(directory: Path) -> Problem:
    return await refused(directory, "mail.send", sender([], required_roles=["admin"]), policy=ALLOW_ALL)


@reaches(1010)
async def confirmation(directory: Path) -> Problem:
    return await refused(directory, "mail.send", sender([], confirmation_required=True), policy=ALLOW_ALL)


@reaches(1011)
async def precondition(directory: Path) -> Problem:
    return await refused(directory, "mail.send", sender([], preconditions=["hour < 9"]), policy=ALLOW_ALL)


async def second_call(directory: Path, limits: Mapping[str, Json]) -> Problem:
    async with a_gate(directory, {**ALLOW_ALL, "limits": limits}, sender([])) as gate:
        assert (await gate.call("mail.send")).ok
        return problem(await gate.call("mail.send"))


@reaches(1012)
async def rate(directory: Path) -> Problem:
    return await second_call(directory, {"rate": {"per_minute": 1}})


@reaches(1013)
async def budget(directory: Path) -> Problem:
    return await second_call(directory, {"budget": {"daily": 1}})


@reaches(1014)
async def window(directory: Path) -> Problem:
    sundays = {"allowed": [{"days": ["sun"], "hours": ["08:00", "18:00"]}]}
    return await refused(directory, "mail.send", sender([]), policy={**ALLOW_ALL, "windows": sundays})


@reaches(1015)
async def person(directory: Path) -> Problem:
    async with a_gate(directory, ASK_ALL, sender([])) as gate:
        asked = await pending(gate, "mail.send")
        await deny(gate, asked)
        return problem(await outcome_of(gate, asked))


@reaches(1016)
async def approval_expired(directory: Path) -> Problem:
    clock = HandClock()
    async with a_gate(directory, ASK_ALL, sender([]), clock=clock, approval_timeout_s=60) as gate:
        asked = await pending(gate, "mail.send")
        clock.advance(60)
        return problem(await outcome_of(gate, asked))


@reaches(1017)
async def project(directory: Path) -> Problem:
    async with a_gate(directory, ALLOW_ALL, sender([]), agent=agent(projects=("*",))) as gate:
        await projects(gate).create("home")
        await projects(gate).lock("home")
        return problem(await gate.call("mail.send", project="home"))


@reaches(1018)
async def step_limit(directory: Path) -> Problem:
    async with a_gate(directory, {**ALLOW_ALL, "limits": {"steps": {"interactive": 1}}}, sender([])) as gate:
        result = await run_plan(gate, load_plan(steps("mail.send", "mail.send")), mode="interactive")
        assert result.problem is not None
        return result.problem


@reaches(1019)
async def private_address(directory: Path) -> Problem:
    return await refused(directory, "http.get", url="https://127.0.0.1/")


@reaches(1021)
async def protected_file(directory: Path) -> Problem:
    return await refused(directory, "fs.read", path="gate.db")


@reaches(1022)
async def cooldown(directory: Path) -> Problem:
    async with a_gate(directory, {**ASK_ALL, "cooldown_seconds": 60}, sender([])) as gate:
        asked = await pending(gate, "mail.send")
        await deny(gate, asked)
        await outcome_of(gate, asked)
        return problem(await gate.call("mail.send", wait=False))
