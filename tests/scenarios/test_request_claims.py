"""A request over any door cannot lower its own caution: saying a field of it never turns ask or deny into allow."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client

from agent_gate.config.plan_file import PLAN_FORMAT
from agent_gate.doors.api.calls import OPERATIONS
from agent_gate.doors.api.schemas import COMPONENTS
from agent_gate.doors.mcp import door as mcp_door
from agent_gate.doors.mcp.calls import Calls
from agent_gate.doors.websocket import methods
from agent_gate.gate.gate import Gate
from agent_gate.model.call import CallRequest
from agent_gate.model.outcome import Status
from agent_gate.model.tool import Mode
from tests.gates import PATIENCE_S, projects, sender
from tests.servers import BOT_TOKEN, RawAgent, Served, a_config, a_raw_agent, a_server

SAID: Mapping[str, tuple[Any, ...]] = {
    "mode": tuple(mode.value for mode in Mode),
    "confirmed": (True, False),
    "project": ("default", "other", "nobodys"),
    "request_id": ("one", "two"),
    "wait": (True, False),
}
"""Whatever a request may say beside its tool and arguments, over any door."""
WHAT_IS_WANTED = {"tool", "args"}
NOT_TAKEN: Mapping[str, Any] = {
    "roles": ["admin"],
    "cost": 0,
    "risk": "low",
    "effect": "read",
    "agent": "clerk",
    "agent_id": "clerk",
    "door": "",
    "run_id": "r",
    "simulate": False,
    "timeout": 1,
    "can_ask": True,
    "policy": {"rules": []},
}
"""What a request may not say at all."""
POLICIES: Mapping[str, Mapping[str, Any]] = {
    "high risk": {"rules": [{"pattern": "*", "action": "allow"}], "declare": {"mail.send": {"risk": "high"}}},
    "an ask": {"rules": [{"pattern": "mail.*", "action": "ask"}]},
    "a deny": {"rules": [{"pattern": "mail.*", "action": "deny"}, {"pattern": "*", "action": "allow"}]},
    "a cost": {
        "rules": [{"pattern": "*", "action": "allow"}],
        "declare": {"mail.send": {"cost": 50}},
        "approvals": [{"min_cost": 10, "approver_role": "admin"}],
    },
    "a role": {
        "rules": [{"pattern": "*", "action": "allow"}],
        "declare": {"mail.send": {"required_roles": ["treasurer"]}},
        "roles": {"treasurer": {"max_risk": "high"}},
    },
    "a condition": {"rules": [{"pattern": "*", "action": "allow", "when": "confirmed or mode == 'interactive'"}]},
    "silence": {"boundary": "deny_by_default"},
}
"""Each keeps an autonomous agent with role admin from sending mail by itself."""

Say = Callable[[Mapping[str, Any]], Awaitable[bool]]
"""Makes the call with these fields, and tells whether it was taken and performed."""


def test_every_field_of_a_request_is_in_the_table() -> None:
    plan_step = PLAN_FORMAT.schema["properties"]["steps"]["items"]["properties"]
    run_plan = next(one for one in OPERATIONS if one.name == "runPlan")
    assert run_plan.body is not None
    assert set(COMPONENTS["Call"]["properties"]) == {*SAID, *WHAT_IS_WANTED}
    assert set(COMPONENTS["SimulatedCall"]["properties"]) <= {*SAID, *WHAT_IS_WANTED}
    assert set(methods._CALL) == set(SAID)
    assert set(methods._SIMULATED) <= {*SAID, *WHAT_IS_WANTED}
    assert set(plan_step) == {*WHAT_IS_WANTED, "id", "name", "confirmed"}
    assert set(run_plan.body["properties"]) == {"plan", "project", "mode", "simulate"}
    assert {mcp_door.REQUEST_ID, mcp_door.CONFIRMED} == {"agent-gate/request_id", "agent-gate/confirmed"}


def test_no_door_lets_a_request_say_what_the_table_forbids() -> None:
    for taken in (COMPONENTS["Call"]["properties"], COMPONENTS["SimulatedCall"]["properties"], methods._CALL):
        assert NOT_TAKEN.keys().isdisjoint(taken)
    assert COMPONENTS["Call"]["additionalProperties"] is False


def _config() -> Any:
    config = a_config()
    bot, *others = config.agents
    autonomous = replace(bot, mode=Mode.AUTONOMOUS, roles=("admin",), projects=("default", "other"))
    return replace(config, agents=(autonomous, *others))


def _over_http(client: httpx2.AsyncClient) -> Say:
    async def say(fields: Mapping[str, Any]) -> bool:
        answer = await client.post("/calls", json={"tool": "mail.send", "args": {"text": "x"}, **fields})
        return answer.status_code == 200 and answer.json()["status"] == "success"

    return say


def _as_a_plan(client: httpx2.AsyncClient) -> Say:
    async def say(fields: Mapping[str, Any]) -> bool:
        step = {"tool": "mail.send", "args": {"text": "x"}}
        step |= {key: value for key, value in fields.items() if key == "confirmed"}
        body = {key: value for key, value in fields.items() if key in ("project", "mode")}
        plan = {"version": "1.0", "name": "p", "steps": [step]}
        answer = await client.post("/plans", json={"plan": plan, **body})
        return answer.status_code == 200 and answer.json()["status"] == "completed"

    return say


def _over_websocket(agent: RawAgent) -> Say:
    async def say(fields: Mapping[str, Any]) -> bool:
        answer = await agent.ask("tool_request", tool="mail.send", args={"text": "x"}, **fields)
        return bool(answer.get("status") == "success")

    return say


def _over_mcp(client: Client) -> Say:
    async def say(fields: Mapping[str, Any]) -> bool:
        meta: Any = {f"agent-gate/{key}": fields[key] for key in ("request_id", "confirmed") if key in fields}
        return not (await client.call_tool("mail_send", {"text": "x"}, meta=meta)).is_error

    return say


def _as_a_library(gate: Gate, served: Served) -> Say:
    async def say(fields: Mapping[str, Any]) -> bool:
        outcome = await gate.call("mail.send", {"text": "x"}, agent=served.agent(), **fields)
        return outcome.status is Status.SUCCESS

    return say


def _sayings() -> list[dict[str, Any]]:
    """Each field with each of its values, and everything at once."""
    alone = [{name: value} for name, values in SAID.items() for value in values]
    together = {"confirmed": True, "project": "other", "request_id": "all", "wait": True}
    return [{}, *alone, *({**together, "mode": mode} for mode in SAID["mode"])]


@pytest.mark.parametrize("why", POLICIES)
async def test_saying_a_field_over_any_door_performs_nothing_that_was_not_allowed(tmp_path: Path, why: str) -> None:
    """Nobody can be asked here, so that what waits for a person is denied at once."""
    acts: list[str] = []
    async with a_server(tmp_path, POLICIES[why], sender(acts, risk="low"), config=_config(), approvers=()) as served:
        gate, headers = served.gate, {"Authorization": f"Bearer {BOT_TOKEN}"}
        await projects(gate).create("other")
        door = mcp_door.McpDoor(Calls(gate, served.agent(), "default", 1.0))
        async with (
            httpx2.AsyncClient(base_url=f"{served.url}/api/v1", headers=headers, timeout=PATIENCE_S) as http,
            a_raw_agent(served) as agent,
            Client(door.server) as mcp,
        ):
            doors = {
                "http": _over_http(http),
                "plan": _as_a_plan(http),
                "websocket": _over_websocket(agent),
                "mcp": _over_mcp(mcp),
                "library": _as_a_library(gate, served),
            }
            performed = [(name, fields) for name, say in doors.items() for fields in _sayings() if await say(fields)]
            refused = [
                (name, await doors[name]({field: value}))
                for name in ("http", "websocket")
                for field, value in NOT_TAKEN.items()
            ]
    assert performed == []
    assert not any(taken for _, taken in refused)
    assert acts == []


async def test_a_confirmation_is_still_what_a_tool_that_requires_one_waits_for(tmp_path: Path) -> None:
    acts: list[str] = []
    policy = {"rules": [{"pattern": "*", "action": "allow"}]}
    async with a_server(tmp_path, policy, sender(acts, confirmation_required=True), config=_config()) as served:
        say = _as_a_library(served.gate, served)
        assert not await say({"mode": "interactive"})
        assert await say({"confirmed": True, "mode": "interactive"})
    assert acts == ["x"]


async def test_a_stricter_mode_does_not_make_room_for_more_steps(tmp_path: Path) -> None:
    policy = {
        "rules": [{"pattern": "*", "action": "allow"}],
        "limits": {"steps": {"interactive": 10, "assisted": 10, "autonomous": 1}},
    }
    plan = {"version": "1.0", "name": "p", "steps": [{"tool": "mail.send", "args": {"text": "x"}}] * 2}
    acts: list[str] = []
    async with (
        a_server(tmp_path, policy, sender(acts), config=_config()) as served,
        a_raw_agent(served) as agent,
    ):
        for mode in SAID["mode"]:
            refused = await agent.ask("execute_plan", plan=plan, mode=mode)
            assert refused["data"]["error"]["code"] == 1018
    assert acts == []


def test_a_wish_has_no_field_that_a_door_could_fill_in_unnoticed() -> None:
    """What the stages read of a request is what the table speaks of, or is filled in by the gate's own code."""
    ours = {"agent", "run_id", "step_index", "simulate", "copies", "run_ends_at", "is_plain", "door", "presence"}
    assert set(CallRequest.__struct_fields__) == {*SAID, *WHAT_IS_WANTED, *ours}
