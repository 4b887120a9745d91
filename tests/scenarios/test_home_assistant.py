"""A home behind the gate: its tools through every stage, at the doors of a server, and in local commands."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from agent_gate import Gate, open_gate
from agent_gate.client import GateClient
from agent_gate.config import HomeAssistantConfig
from agent_gate.model.errors import ConfigError, ToolError
from agent_gate.services.home_assistant.service import HomeAssistantService
from agent_gate.simulated_home import Running, simulated_home
from agent_gate.tools.home_assistant.declarations import HOME_ASSISTANT_TOOLS, ToolMeta
from tests.gates import ALLOW_ALL, a_gate, rows, stored_bytes, until
from tests.scenarios.test_cli import run
from tests.servers import ANNA_TOKEN, BOT_TOKEN, CONFIG, START_S, Process, a_process

NAMES = [tool.name for tool in HOME_ASSISTANT_TOOLS]
LIGHT = "light.kitchen_lights"
NOWHERE = "http://127.0.0.1:9"
"""A port that nobody listens on."""


@pytest.fixture
async def running() -> AsyncIterator[Running]:
    async with simulated_home() as found:
        yield found


@asynccontextmanager
async def a_home_gate(
    directory: Path, running: Running, policy: Any = ALLOW_ALL, **options: Any
) -> AsyncIterator[Gate]:
    settings = HomeAssistantConfig(running.url, running.token)
    async with a_gate(directory, policy, home_assistant=settings, **options) as gate:
        yield gate


def home_service(gate: Gate) -> HomeAssistantService:
    [found] = [service for service in gate.services if isinstance(service, HomeAssistantService)]
    return found


async def test_the_tools_of_a_home_are_there_in_their_order_with_all_that_a_model_needs(
    tmp_path: Path, running: Running
) -> None:
    async with a_home_gate(tmp_path, running) as gate:
        found = [registered.declaration for registered in gate.tools.all() if registered.service == "home_assistant"]
    assert [tool.name for tool in found] == NAMES
    for tool in found:
        assert tool.description.endswith(".")
        assert tool.input_schema["additionalProperties"] is False
        assert all(argument.get("description") for argument in tool.input_schema["properties"].values())


async def test_without_a_home_its_tools_say_that_none_is_configured(tmp_path: Path) -> None:
    async with a_gate(tmp_path) as gate:
        errors = [(await gate.call(name)).error for name in NAMES]
    assert {(error.code, error.detail) for error in errors if error} == {
        (2006, "Service not configured: homeassistant")
    }
    assert None not in errors


async def test_the_service_is_what_the_module_document_asks_for(tmp_path: Path, running: Running) -> None:
    async with a_home_gate(tmp_path, running) as gate:
        service = home_service(gate)
        assert (service.name, tuple(service.dependencies)) == ("home_assistant", ("contacts", "approvals"))
        assert service.config_schema is HomeAssistantConfig
        assert service.migration_revisions() == "home_assistant"
        assert service.tool_metadata() == {
            "ha_call_service": ToolMeta(arg_sensitivities={"data": True, "domain": True, "service": True})
        }
        assert await service.health_check()
        assert (await service.execute("ha_get_entity_state", {"entity_id": LIGHT}))["state"] == "on"
        with pytest.raises(ToolError, match="through the gate"):
            await service.execute("ha_call_service", {"domain": "light", "service": "turn_off", "entity_id": LIGHT})
        assert running.home.calls == []
        assert running.token not in repr(service) + repr(vars(service))


async def test_looking_is_judged_and_recorded_like_any_call(tmp_path: Path, running: Running) -> None:
    policy = {
        "rules": [
            {"pattern": "ha_get_state(light.*)", "action": "allow"},
            {"pattern": "ha_list_entities(*)", "action": "allow"},
            {"pattern": 'ha_get_history(*"person.*', "action": "deny"},
            {"pattern": "ha_get_history(*)", "action": "allow"},
        ],
        "boundary": "deny_by_default",
    }
    window: dict[str, Any] = {"start": "2026-01-01T00:00:00Z", "end": "2026-01-02T00:00:00Z"}
    async with a_home_gate(tmp_path, running, policy) as gate:
        outcomes = [
            await gate.call("ha_get_state", entity_id=LIGHT),
            await gate.call("ha_get_state", entity_id="lock.front_door"),
            await gate.call("ha_list_entities", area="Kitchen"),
            await gate.call("ha_get_history", entity_ids=[LIGHT], **window),
            await gate.call("ha_get_history", entity_ids=[LIGHT, "person.paulus"], **window),
            await gate.call("ha_get_states"),
        ]
        assert [outcome.status.value for outcome in outcomes] == [
            "success", "denied", "success", "success", "denied", "denied",
        ]  # fmt: skip
        recorded = rows(gate, "SELECT tool, status FROM entries WHERE call_id IS NOT NULL ORDER BY id")
        assert [row["tool"] for row in recorded] == [
            "ha_get_state", "ha_get_state", "ha_list_entities", "ha_get_history", "ha_get_history", "ha_get_states",
        ]  # fmt: skip


@pytest.mark.parametrize(
    ("tool", "args"),
    [
        ("ha_get_state", {"entity_id": "Light.Kitchen"}),
        ("ha_get_state", {"entity_id": ["light.a"]}),
        ("ha_list_entities", {"domain": "Light"}),
        ("ha_list_entities", {"room": "Kitchen"}),
        ("ha_list_services", {"domain": "light.turn_on"}),
        ("ha_get_history", {"start": "2026-01-01T00:00:00Z", "end": "2026-01-02T00:00:00Z"}),
        ("ha_get_history", {"entity_ids": [], "start": "2026-01-01T00:00:00Z", "end": "2026-01-02T00:00:00Z"}),
        ("ha_get_history", {"entity_ids": ["all"], "start": "2026-01-01T00:00:00Z", "end": "2026-01-02T00:00:00Z"}),
        ("ha_get_history", {"entity_ids": ["a.b,c.d"], "start": "2026-01-01T00:00:00Z", "end": "2026-01-02T00:00:00Z"}),
        ("ha_get_history", {"entity_ids": ["a.b\n"], "start": "2026-01-01T00:00:00Z", "end": "2026-01-02T00:00:00Z"}),
        ("ha_get_statistics", {"statistic_ids": ["a.b"], "start": "2026-01-01T00:00:00Z", "period": "year"}),
        ("ha_get_statistics", {"statistic_ids": [], "start": "2026-01-01T00:00:00Z", "period": "day"}),
        ("ha_render_template", {"template": ""}),
        ("ha_activate_scene", {"entity_id": LIGHT}),
        ("ha_activate_scene", {"entity_id": "scene.movie_night", "transition": -1}),
    ],
)
async def test_arguments_that_do_not_fit_are_refused_before_anything_is_asked(
    tmp_path: Path, running: Running, tool: str, args: dict[str, Any]
) -> None:
    async with a_home_gate(tmp_path, running) as gate:
        outcome = await gate.call(tool, args)
        assert outcome.error is not None
        assert (outcome.error.code, outcome.error.stage) == (2002, "bind")


async def test_a_number_that_is_too_large_for_the_record_makes_no_state_unreadable(
    tmp_path: Path, running: Running
) -> None:
    running.home.set_state("sensor.meter", "1", {"reading": 2**60, "small": 7})
    async with a_home_gate(tmp_path, running) as gate:
        outcome = await gate.call("ha_get_state", entity_id="sensor.meter")
        assert outcome.data["attributes"] == {"reading": float(2**60), "small": 7}
        assert (await gate.call("ha_get_states")).ok
        running.home.set_state("sensor.meter", "2", {"reading": 2**61})
        client = home_service(gate).client
        await until(lambda: client.home.entities["sensor.meter"].state == "2")
        assert (await gate.call("ha_get_state", entity_id="sensor.meter")).ok


async def test_a_template_is_no_part_of_the_signature_and_may_hold_any_letter(tmp_path: Path, running: Running) -> None:
    async with a_home_gate(tmp_path, running) as gate:
        outcome = await gate.call("ha_render_template", template="{{ [1, 2][0] * (3 + 4) }}?")
        assert (outcome.data, outcome.signatures) == ("7?", ("ha_render_template",))


async def test_the_token_is_found_with_the_owner_and_is_nowhere_in_the_clear(tmp_path: Path, running: Running) -> None:
    assert run(tmp_path, "init").returncode == 0
    assert run(tmp_path, "owner", "set", "home_assistant_token", stdin=running.token).returncode == 0
    hidden: list[str] = []
    async with open_gate(
        ALLOW_ALL, tmp_path / "agent-gate.db", home_assistant=HomeAssistantConfig(running.url), hide=hidden.append
    ) as gate:
        assert (await gate.call("ha_get_state", entity_id=LIGHT)).ok
        assert running.token.encode() not in stored_bytes(gate)
    assert hidden == [running.token]


async def test_without_a_token_opening_fails_and_says_what_to_do(
    tmp_path: Path, running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOME_ASSISTANT_TOKEN", raising=False)
    with pytest.raises(RuntimeError, match="home_assistant_token` contact_info entry"):
        async with a_gate(tmp_path, home_assistant=HomeAssistantConfig(running.url)):
            pass


async def test_a_token_that_is_refused_fails_with_the_server_s_words_and_without_the_token(
    tmp_path: Path, running: Running
) -> None:
    with pytest.raises(RuntimeError, match="Invalid access token or password") as raised:
        async with a_gate(tmp_path, home_assistant=HomeAssistantConfig(running.url, "a-token-of-nobody")):
            pass
    assert isinstance(raised.value, ConfigError)
    assert "a-token-of-nobody" not in str(raised.value)


async def test_a_home_that_cannot_be_reached_lets_the_gate_open_and_its_tools_say_so(tmp_path: Path) -> None:
    async with a_gate(tmp_path, home_assistant=HomeAssistantConfig(NOWHERE, "any-token")) as gate:
        assert not await home_service(gate).health_check()
        looked = await gate.call("ha_get_state", entity_id=LIGHT)
        acted = await gate.call("ha_call_service", domain="light", service="turn_on", entity_id=LIGHT)
        assert [outcome.error.code for outcome in (looked, acted) if outcome.error] == [2006, 2006]
        assert (await gate.call("state.get")).ok


def config_of(url: str, token: str = "") -> str:
    home = {"url": url, **({"token": token} if token else {})}
    return f"{CONFIG}services: {json.dumps({'homeassistant': home})}\n"


async def readiness(url: str) -> tuple[int, dict[str, str]]:
    headers = {"Authorization": f"Bearer {ANNA_TOKEN}"}
    async with httpx2.AsyncClient(base_url=url, headers=headers, trust_env=False) as anna:
        answer = await anna.get("/readyz")
        return answer.status_code, answer.json()["checks"]


async def failed(process: Process) -> tuple[int, dict[str, Any]]:
    """How a start ended that cannot go well, and what it said."""
    assert process.process.stdout is not None
    said = json.loads(await asyncio.wait_for(process.process.stdout.read(), START_S))
    code, errors = await process.ended()
    assert "Traceback" not in errors
    return code, said["error"]


async def test_a_server_serves_the_tools_of_a_home_and_no_log_shows_the_token(tmp_path: Path, running: Running) -> None:
    config = config_of(running.url)
    assert run(tmp_path, "init").returncode == 0
    assert run(tmp_path, "owner", "set", "home_assistant_token", stdin=running.token).returncode == 0
    async with a_process(tmp_path, "--log-level", "debug", policy=ALLOW_ALL, config=config) as server:
        told = await server.told("serving")
        async with GateClient(told["url"], BOT_TOKEN) as bot:
            assert set(NAMES) <= {tool["name"] for tool in await bot.tools()}
            assert (await bot.call("ha_get_state", entity_id=LIGHT)).data["state"] == "on"
            outcome = await bot.call("ha_call_service", domain="light", service="turn_off", entity_id=LIGHT)
            assert outcome.ok
        code, checks = await readiness(told["url"])
        assert (code, checks["service:home_assistant"]) == (200, "ok")
        server.signal(signal.SIGTERM)
        code, errors = await server.ended()
    assert code == 0
    assert running.home.states[LIGHT].state == "off"
    assert "home assistant" in errors
    assert running.token not in errors
    assert running.token.split(".")[-1] not in errors


async def test_a_server_starts_without_its_home_and_says_so_where_readiness_is_asked(tmp_path: Path) -> None:
    async with a_process(tmp_path, policy=ALLOW_ALL, config=config_of(NOWHERE, "any-token")) as server:
        code, checks = await readiness((await server.told("serving"))["url"])
    assert code == 503
    assert checks["database"] == "ok"
    assert checks["service:home_assistant"].startswith("failing: home assistant cannot be reached")


async def test_a_server_whose_home_refuses_the_token_ends_with_one_line(tmp_path: Path, running: Running) -> None:
    config = config_of(running.url, "a-token-of-nobody")
    async with a_process(tmp_path, policy=ALLOW_ALL, config=config) as server:
        code, error = await failed(server)
    assert (code, error["name"]) == (3, "config")
    assert "Invalid access token or password" in error["detail"]
    assert "owner set home_assistant_token" in error["suggestion"]


async def test_a_server_without_a_token_for_its_home_ends_with_one_line(
    tmp_path: Path, running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOME_ASSISTANT_TOKEN", raising=False)
    async with a_process(tmp_path, policy=ALLOW_ALL, config=config_of(running.url)) as server:
        code, error = await failed(server)
    assert (code, error["name"]) == (3, "config")
    assert "owner set home_assistant_token" in error["suggestion"]


PLAN = """
version: "1.0"
name: lights out
steps:
  - {tool: ha_get_state, args: {entity_id: light.kitchen_lights}}
  - {tool: ha_call_service, args: {domain: light, service: turn_off, entity_id: light.kitchen_lights}}
"""


async def test_a_plan_and_a_revert_reach_the_home_of_a_configuration(tmp_path: Path, running: Running) -> None:
    (tmp_path / "plan.yaml").write_text(PLAN)
    (tmp_path / "policy.yaml").write_text(json.dumps({**ALLOW_ALL, "approvals": []}))
    (tmp_path / "config.yaml").write_text(f"services: {{homeassistant: {{url: '{running.url}'}}}}\n")
    given = {"HOME_ASSISTANT_TOKEN": running.token}
    ran = await asyncio.to_thread(run, tmp_path, "run", "plan.yaml", "-c", "config.yaml", "--json", **given)
    assert ran.returncode == 0, ran.stderr
    assert running.home.states[LIGHT].state == "off"
    call_id = json.loads(ran.stdout)["steps"][1]["call_id"]
    reverted = await asyncio.to_thread(run, tmp_path, "revert", call_id, "-c", "config.yaml", "--json", **given)
    assert reverted.returncode == 0, reverted.stdout
    assert running.home.states[LIGHT].state == "on"
    audit = json.loads(run(tmp_path, "audit", "--json").stdout)["entries"]
    assert len(audit) == 3


def test_a_configuration_without_a_home_is_not_taken_for_one(tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text(PLAN)
    (tmp_path / "policy.yaml").write_text(json.dumps(ALLOW_ALL))
    (tmp_path / "config.yaml").write_text("approval_timeout: 900\n")
    ran = run(tmp_path, "run", "plan.yaml", "-c", "config.yaml")
    assert (ran.returncode, b"has no services.homeassistant" in ran.stderr) == (3, True)
