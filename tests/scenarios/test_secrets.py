"""Secret arguments: used, and never shown or stored in clear."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent_gate import Outcome, ToolError, run_plan, tool
from agent_gate.model.plan import Plan, PlanStep
from agent_gate.model.tool import Json
from agent_gate.ports.tools import Binding
from agent_gate.toolkit import REGISTERED, registered_tool
from tests.gates import (
    ALLOW_ALL,
    ASK_ALL,
    People,
    Tool,
    a_gate,
    agent,
    approve,
    code_of,
    deny,
    entries,
    outcome_of,
    pending,
    projects,
    stored_bytes,
)

SECRET = "hunter2-correct'horse\"battery"
"""With quotes, because messages and JSON spell them in their own ways."""
PARTS = (b"hunter2", b"battery")


def login(seen: list[str], **declared: Any) -> Tool:
    @tool("site.login", effect="write", secret=["password"], **declared)
    async def log_in(user: str, password: str = "", way: str = "quiet") -> Json:
        seen.append(password)
        if way == "raise":
            raise RuntimeError(f"{user} cannot log in with {password!r}, that is {password}")
        if way == "refuse":
            raise ToolError(f"wrong password {password}")
        if way == "echo":
            return {"headers": {"Authorization": f"Basic {password}"}, password: [password]}
        return "welcome"

    return log_in


def assert_nowhere(data: bytes | str) -> None:
    data = data.encode() if isinstance(data, str) else data
    for part in PARTS:
        assert part not in data


@pytest.mark.parametrize("way", ["quiet", "raise", "refuse", "echo"])
async def test_a_secret_reaches_the_tool_and_nothing_else(
    tmp_path: Path, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[str] = []
    caplog.set_level(logging.DEBUG)
    async with a_gate(tmp_path, ALLOW_ALL, login(seen)) as gate:
        outcome = await gate.call("site.login", user="anna", password=SECRET, way=way, request_id="r")
        assert seen == [SECRET]
        assert_nowhere(str(outcome.to_json()))
        assert outcome.signatures == (f"site.login(anna, {way})",)
        assert_nowhere(stored_bytes(gate))
    assert_nowhere(stored_bytes(gate) + caplog.text.encode())


async def test_a_person_sees_that_there_is_a_secret_and_not_what_it_is(tmp_path: Path) -> None:
    people, seen = People(), list[str]()
    async with a_gate(tmp_path, ASK_ALL, login(seen), people=people) as gate:
        asked = await pending(gate, "site.login", {"user": "anna", "password": SECRET})
        assert set(asked.args) == {"user", "password"}
        assert set(asked.args["password"]) == {"$secret"}
        assert_nowhere(str(asked) + str(await people.question()))
        await approve(gate, asked)
        assert ((await outcome_of(gate, asked)).ok, seen) == (True, [SECRET])
        other = await pending(gate, "site.login", {"user": "anna", "password": SECRET, "way": "raise"})
        await deny(gate, other)
        await outcome_of(gate, other)
        assert_nowhere(stored_bytes(gate))


@pytest.mark.parametrize(
    "args",
    [
        {"user": 3, "password": SECRET},
        {"user": "anna", "password": [SECRET]},
        {"user": "anna", "password": {"is": SECRET}},
        {"user": "anna", "passwort": SECRET},
        {"password": SECRET},
        {"user": "a", "password": SECRET, "way": 7},
    ],
)
async def test_a_secret_in_arguments_that_do_not_fit_is_kept_out_of_record_and_error(
    tmp_path: Path, args: dict[str, Json]
) -> None:
    async with a_gate(tmp_path, ALLOW_ALL, login([])) as gate:
        outcome = await gate.call("site.login", args)
        assert code_of(outcome) == 2002
        assert_nowhere(str(outcome.to_json()))
        assert_nowhere(stored_bytes(gate))
        [settled] = entries(gate, "settled")
        assert "args" in settled["body"]


async def test_a_secret_of_a_call_that_is_turned_away_is_kept_out_of_the_record(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ALLOW_ALL, login([])) as gate:
        args = {"user": "anna", "password": SECRET}
        ends: list[Outcome] = [await gate.call("site.login", args, agent=agent(projects=("home",)))]
        await projects(gate).lock("default")
        ends.append(await gate.call("site.login", args))
        ends.append(await gate.call("nobody.knows", args))
        assert [code_of(outcome) for outcome in ends] == [6003, 1017, 1017]
        assert len(entries(gate, "settled")) == 3
        assert_nowhere(stored_bytes(gate))


async def test_a_secret_in_a_plan_is_kept_out_of_the_stored_plan(tmp_path: Path) -> None:
    seen: list[str] = []
    steps = (
        PlanStep("site.login", {"user": "anna", "password": SECRET}, id="one"),
        PlanStep("site.login", {"user": "${steps.one.data.none}", "password": SECRET}),
    )
    async with a_gate(tmp_path, ALLOW_ALL, login(seen)) as gate:
        result = await run_plan(gate, Plan(steps))
        assert ([code_of(outcome) for outcome in result.outcomes], seen) == ([None, 3004], [SECRET])
        assert_nowhere(stored_bytes(gate))


async def test_a_secret_that_binding_complains_about_is_hidden(tmp_path: Path) -> None:
    function = login([])

    async def bind(request: Any, args: Any, judge: object) -> Binding:
        raise ValueError(f"cannot use {args['password']!r}")

    setattr(function, REGISTERED, replace(registered_tool(function), bind=bind))
    async with a_gate(tmp_path, ALLOW_ALL, function) as gate:
        outcome = await gate.call("site.login", user="anna", password=SECRET)
        assert code_of(outcome) == 2003
        assert_nowhere(str(outcome.to_json()))
        assert_nowhere(stored_bytes(gate))


async def test_a_secret_number_is_hidden_too(tmp_path: Path) -> None:
    @tool("safe.open", effect="write", secret=["pin"])
    async def open_safe(pin: int) -> Json:
        return {"tried": pin, "text": f"{pin} is right", "count": 12}

    async with a_gate(tmp_path, ALLOW_ALL, open_safe) as gate:
        outcome = await gate.call("safe.open", pin=73_591_846)
        assert outcome.data == {"tried": "***", "text": "*** is right", "count": 12}
        assert b"73591846" not in stored_bytes(gate)


async def test_equal_secrets_are_recognised_and_different_ones_told_apart(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ALLOW_ALL, login([])) as gate:
        for password in ("one", "one", "two"):
            await gate.call("site.login", user="anna", password=password)
        sealed = [row["body"]["args"]["password"]["$secret"] for row in entries(gate, "performing")]
        assert sealed[0] == sealed[1] != sealed[2]
        assert code_of(await gate.call("site.login", user="a", password="one", request_id="r")) is None
        assert (await gate.call("site.login", user="a", password="one", request_id="r")).ok
        assert code_of(await gate.call("site.login", user="a", password="two", request_id="r")) == 2002


async def test_another_ledger_seals_the_same_secret_otherwise(tmp_path: Path) -> None:
    sealed = []
    for name in ("one.db", "two.db"):
        async with a_gate(tmp_path, ALLOW_ALL, login([]), name=name) as gate:
            await gate.call("site.login", user="anna", password=SECRET)
            sealed.append(entries(gate, "performing")[0]["body"]["args"]["password"])
    assert sealed[0] != sealed[1]


async def test_conditions_may_look_at_a_secret_without_telling_it(tmp_path: Path) -> None:
    rule = {"pattern": "*", "action": "allow", "when": "len(inputs['password']) > 8 and inputs['password'] < 3"}
    async with a_gate(tmp_path, {"rules": [rule]}, login([])) as gate:
        outcome = await gate.call("site.login", user="anna", password=SECRET)
        assert code_of(outcome) == 1001
        assert_nowhere(str(outcome.to_json()))
        assert_nowhere(stored_bytes(gate))


async def test_an_unsigned_argument_is_shown_and_recorded_but_is_no_part_of_the_signature(tmp_path: Path) -> None:
    @tool("file.put", effect="write", unsigned=["content"], sensitive=["name"])
    async def put(name: str, content: str) -> None: ...

    async with a_gate(tmp_path, ASK_ALL, put) as gate:
        asked = await pending(gate, "file.put", {"name": "a", "content": "anything (at, all)"})
        assert asked.signatures == ("file.put(a)",)
        assert asked.args == {"name": "a", "content": "anything (at, all)"}
        assert asked.sensitive == ("name",)
        other = await pending(gate, "file.put", {"name": "a", "content": "else"})
        assert other.bound_hash != asked.bound_hash
