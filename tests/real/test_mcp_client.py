"""A home over MCP: the official client, `agent-gate mcp`, and Home Assistant, simulated and real."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent_gate.simulated_home import simulated_home
from tests.mcp_clients import a_client, outcome_of, text_of
from tests.real.homes import real_home

__all__ = ["real_home"]

NINE = {
    "ha_get_entity_state",
    "ha_list_entities",
    "ha_list_areas",
    "ha_list_services",
    "ha_get_history",
    "ha_get_statistics",
    "ha_render_template",
    "ha_call_service",
    "ha_activate_scene",
}
"""The tools of the module document."""
ALLOWED = ("ha_get_*", "ha_list_*", "ha_render_template", "ha_call_service([!c]*)")
POLICY = {
    "rules": [
        *({"pattern": pattern, "action": "allow"} for pattern in ALLOWED),
        {"pattern": "ha_call_service(lock.*)", "action": "deny", "description": "doors stay shut"},
    ]
}
LIGHT = "light.kitchen_lights"


@asynccontextmanager
async def a_home(kind: str, request: pytest.FixtureRequest) -> AsyncIterator[Any]:
    if kind == "real":
        yield request.getfixturevalue("real_home")
        return
    async with simulated_home() as running:
        yield running


@pytest.fixture(params=["simulated", "real"])
async def directory(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Path]:
    """With everything that a gate needs whose agent may use a home."""
    async with a_home(request.param, request) as home:
        config = {
            "gateway": {"host": "127.0.0.1", "port": 8443},
            "agents": [{"id": "bot", "token": "token-of-the-bot-0123456789abcdef"}],
            "approvers": [{"id": "anna", "token": "token-of-anna-0123456789abcdef"}],
            "services": {"homeassistant": {"url": home.url, "token": home.token}},
        }
        (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
        (tmp_path / "policy.yaml").write_text(yaml.safe_dump(POLICY))
        yield tmp_path
        assert home.token not in (tmp_path / "mcp.log").read_text()


async def test_all_nine_tools_of_the_module_work_through_the_gate(directory: Path) -> None:
    now = datetime.now(timezone.utc)
    earlier = (now - timedelta(days=2)).isoformat()
    calls: dict[str, dict[str, Any]] = {
        "ha_list_areas": {},
        "ha_list_entities": {"domain": "light", "area": "Kitchen"},
        "ha_list_services": {"domain": "light"},
        "ha_get_history": {"entity_ids": [LIGHT], "start": earlier, "end": now.isoformat()},
        "ha_get_statistics": {
            "statistic_ids": ["kitchen_sink:temperature_outdoor"],
            "start": earlier,
            "end": now.isoformat(),
            "period": "hour",
        },
        "ha_render_template": {"template": f"{{{{ states('{LIGHT}') }}}}"},
    }
    async with a_client(directory, "-c", "config.yaml") as client:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        off = await client.call_tool("ha_call_service", _turn("off"))
        on = await client.call_tool("ha_call_service", _turn("on"))
        state = await client.call_tool("ha_get_entity_state", {"entity_id": LIGHT})
        results = {name: await client.call_tool(name, args) for name, args in calls.items()}
        scene = await client.call_tool("ha_activate_scene", {"entity_id": "scene.movie_night"})
    assert set(listed) >= NINE
    assert all(listed[name].description for name in NINE)
    answers = {**results, "off": off, "on": on, "state": state, "scene": scene}
    assert {name: outcome_of(result)["status"] for name, result in answers.items()} == dict.fromkeys(answers, "success")
    data = {name: json.loads(text_of(result)) for name, result in answers.items()}
    assert data["state"]["state"] == "on"
    assert data["ha_render_template"] == "on"
    assert LIGHT in json.dumps(data["ha_list_entities"])
    assert "Kitchen" in json.dumps(data["ha_list_areas"])
    assert "turn_on" in json.dumps(data["ha_list_services"])
    assert LIGHT in json.dumps(data["ha_get_history"])
    assert data["ha_get_statistics"]["rows"]


async def test_a_lock_stays_shut_however_it_is_named(directory: Path) -> None:
    ways: list[tuple[str, dict[str, Any]]] = [
        ("ha_call_service", {"domain": "lock", "service": "unlock", "entity_id": "lock.front_door"}),
        ("ha_call_service", {"domain": "homeassistant", "service": "turn_off", "entity_id": ["lock.front_door"]}),
        ("ha_call_service", {"domain": "lock", "service": "unlock", "entity_id": "all"}),
        ("ha_activate_scene", {"entity_id": "scene.good_night"}),
    ]
    async with a_client(directory, "-c", "config.yaml") as client:
        results = [await client.call_tool(tool, args) for tool, args in ways]
        state = await client.call_tool("ha_get_entity_state", {"entity_id": "lock.front_door"})
    assert [outcome_of(result)["error"]["code"] for result in results] == [1001] * len(ways)
    assert all("doors stay shut" in text_of(result) for result in results)
    assert json.loads(text_of(state))["state"] == "locked"


async def test_a_question_about_the_home_names_the_thing_it_is_about(directory: Path) -> None:
    warm = {"domain": "climate", "service": "set_temperature", "data": {"temperature": 21}}
    async with a_client(directory, "-c", "config.yaml") as client:
        asked = await client.call_tool("ha_call_service", {**warm, "entity_id": "climate.heatpump"})
    assert (asked.is_error, outcome_of(asked)["status"]) == (False, "pending_approval")
    assert "ha_call_service(climate.set_temperature, climate.heatpump)" in text_of(asked)
    assert "who can answer: anna" in text_of(asked)


def _turn(how: str) -> dict[str, Any]:
    return {"domain": "light", "service": f"turn_{how}", "target": {"entity_id": LIGHT}}
