"""Every route of every door has a line that says what judges it, and is judged as its line says."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest
from mcp import Client
from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute

from agent_gate.config import ApproverConfig
from agent_gate.doors.mcp.calls import Calls
from agent_gate.doors.mcp.door import McpDoor
from agent_gate.doors.policy_agent import listening
from agent_gate.doors.websocket.methods import METHODS
from agent_gate.hosts.server import build_app
from tests.agents import an_agent
from tests.gates import ANNA, PATIENCE_S, Row, a_gate, agent, entries, rows, sender
from tests.scenarios.visiting import another
from tests.servers import BOT_TOKEN, Served, a_config, a_context, a_raw_agent, a_server

TABLE = Path(__file__).parents[2] / "docs" / "reference" / "doors.md"
VIEWER_TOKEN, SCRIBE_TOKEN = "token-of-a-viewer-0123456789abcdef", "token-of-a-scribe-0123456789abcdef"
POLICY: dict[str, Any] = {
    "rules": [{"pattern": "*", "action": "allow"}],
    "roles": {"scribe": {"max_risk": "low", "effects": ["write"]}},
}


class Line(NamedTuple):
    method: str
    path: str
    agent: str
    person: str


def _lines() -> list[Line]:
    row = re.compile(r"\| (\w+) \| `(\S+)` \| (.+) \| (.+) \|")
    return [Line(*found.groups()) for line in TABLE.read_text().splitlines() if (found := row.fullmatch(line))]


LINES = _lines()
API = [line for line in LINES if line.path.startswith("/api")]
CONSOLE = [line for line in LINES if line.path.startswith("/console")]


def _config() -> Any:
    config = a_config()
    more = (
        ApproverConfig("vera", VIEWER_TOKEN, roles=("viewer",)),
        ApproverConfig("sam", SCRIBE_TOKEN, roles=("scribe",)),
    )
    return replace(config, approvers=(*config.approvers, *more))


def _walked(routes: list[BaseRoute], prefix: str = "") -> Iterator[tuple[str, str]]:
    for route in routes:
        match route:
            case Mount():
                yield from _walked(list(route.routes), prefix + route.path)
            case WebSocketRoute():
                yield "WEBSOCKET", prefix + route.path
            case Route():
                path = prefix + route.path.replace(":path}", "}")
                methods = route.methods or getattr(route.endpoint, "_operations")  # noqa: B009 -- of an API's place
                yield from ((method, path) for method in methods if method != "HEAD")
            case _:
                raise AssertionError(f"a route of an unknown kind: {route}")


def _routes_of(app: Any) -> list[BaseRoute]:
    while not hasattr(app, "routes"):
        app = app._app
    found: list[BaseRoute] = list(app.routes)
    return found


async def test_every_route_of_a_server_has_its_line(tmp_path: Path) -> None:
    async with a_context(tmp_path) as context:
        walked = list(_walked(_routes_of(build_app(context))))
    told = [(line.method, line.path) for line in LINES if line.path.startswith("/")]
    assert sorted(told) == sorted(set(walked))


def test_every_method_of_the_websocket_has_its_line() -> None:
    assert [line.path for line in LINES if line.method == "RPC"] == list(METHODS)


async def test_every_request_of_mcp_has_its_line(tmp_path: Path) -> None:
    async with a_gate(tmp_path) as gate:
        door = McpDoor(Calls(gate, agent(), "default", 1.0))
        handled = set(door.server._request_handlers)
    assert {line.path for line in LINES if line.method == "MCP"} == handled


async def test_every_method_of_the_policy_agent_has_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    noted: list[Any] = []
    made = listening._server

    def noting(*given: Any) -> Any:
        server: Any = made(*given)
        add = server.add_generic_rpc_handlers

        def note(handlers: Any) -> None:
            noted.extend(handlers)
            add(handlers)

        server.add_generic_rpc_handlers = note
        return server

    monkeypatch.setattr(listening, "_server", noting)
    async with an_agent(tmp_path / "agent.sock"):
        served = {name.lstrip("/") for handler in noted for name in handler._method_handlers}
    assert {line.path for line in LINES if line.method == "GRPC"} == served


@asynccontextmanager
async def _a_place(directory: Path) -> AsyncIterator[tuple[Served, dict[str, str]]]:
    """A server with something to look at, and what the names in paths stand for."""
    async with (
        a_server(directory, POLICY, sender([]), config=_config()) as served,
        _client(served, BOT_TOKEN) as bot,
    ):
        plan = {"version": "1.0", "steps": [{"tool": "state.set", "args": {"path": "/a", "value": 1}}]}
        run = (await bot.post("/api/v1/plans", json={"plan": plan})).json()
        call_id = run["outcomes"][0]["call_id"]
        yield (
            served,
            {"id": call_id, "call_id": call_id, "run_id": run["run_id"], "grant_id": "x", "project": "default"},
        )


def _client(served: Served, token: str) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=served.url, headers={"Authorization": f"Bearer {token}"}, timeout=PATIENCE_S)


BODIES: dict[str, Any] = {
    "/api/v1/calls": {"tool": "state.get", "args": {}},
    "/api/v1/simulate": {"tool": "state.get", "args": {}},
    "/api/v1/plans": {"plan": {"version": "1.0", "steps": [{"tool": "state.get", "args": {}}]}},
    "/api/v1/results/ack": {"ids": []},
    "/api/v1/revert": {"snapshot_id": "x"},
    "/api/v1/policy/check": {"tool": "state.get", "args": {}},
}


async def _ask(client: httpx2.AsyncClient, line: Line, names: dict[str, str]) -> httpx2.Response:
    body = BODIES.get(line.path)
    return await client.request(line.method, line.path.format(**names), **({"json": body} if body else {}))


def _settled(served: Served) -> list[Row]:
    return entries(served.gate, "settled")


@pytest.mark.parametrize("line", API, ids=lambda line: f"{line.method} {line.path}")
async def test_an_agents_request_is_judged_as_its_line_says(tmp_path: Path, line: Line) -> None:
    async with _a_place(tmp_path) as (served, names), _client(served, BOT_TOKEN) as bot:
        before = len(_settled(served))
        answer = await _ask(bot, line, names)
        written = [entry["tool"] for entry in _settled(served)[before:]]
        if line.agent == "refused":
            assert (answer.status_code, answer.json()["error"]["code"], written) == (403, 6003, [])
            return
        if line.agent == "unknown":
            assert (answer.status_code, answer.json()["error"]["code"], written) == (401, 6002, [])
            return
        assert answer.status_code == 200, answer.text
        if line.agent == "leave":
            assert written == ["gate.read"]
        elif line.agent.startswith("call") and "imagined" not in line.agent:
            assert len(written) == 1
            named = re.findall(r"`(\S+)`", line.agent)
            assert not named or written[0] in named
        await served.context.approvals.pause(ANNA, "")
        paused = await _ask(bot, line, names)
        if line.agent.startswith(("call", "leave")) or "leave" in line.agent:
            assert '"code":1017' in paused.text
            assert '"document"' not in paused.text


@pytest.mark.parametrize(
    "line", [line for line in API if line.agent == "leave" or "state." in line.agent], ids=lambda line: line.path
)
async def test_what_an_agent_reads_can_be_denied_by_a_rule(tmp_path: Path, line: Line) -> None:
    denied = {"rules": [*({"pattern": one, "action": "deny"} for one in ("state.get*", "gate.read*", "state.revert*")),
                        {"pattern": "*", "action": "allow"}]}  # fmt: skip
    async with a_server(tmp_path, denied, config=_config()) as served, _client(served, BOT_TOKEN) as bot:
        await bot.post("/api/v1/calls", json={"tool": "state.set", "args": {"path": "/a", "value": "secret"}})
        names = dict.fromkeys(("id", "run_id", "call_id"), "x")
        answer = await _ask(bot, line, names)
        last = _settled(served)[-1]
    assert '"code":1001' in answer.text or '"code":2002' in answer.text
    assert "secret" not in answer.text
    assert last["status"] in ("denied", "error")


@pytest.mark.parametrize("line", [line for line in API if line.person == "role"], ids=lambda line: line.path)
async def test_what_people_read_over_the_api_is_judged_by_role_and_counted(tmp_path: Path, line: Line) -> None:
    async with _a_place(tmp_path) as (served, names):
        before = len(_settled(served))
        await served.context.approvals.pause(ANNA, "")
        async with _client(served, VIEWER_TOKEN) as vera, _client(served, SCRIBE_TOKEN) as sam:
            assert (await _ask(vera, line, names)).status_code == 200
            refused = await _ask(sam, line, names)
            figures = (await vera.get("/metrics")).text
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, 1009)
        place = line.path.removeprefix("/api").removeprefix("/v1")
        assert f'agent_gate_people_reads_total{{door="http",place="{place}"}} 1.0' in figures
        assert len(_settled(served)) == before


SEEN = [line for line in CONSOLE if line.method == "GET" and line.person == "role" and "events" not in line.path]


@pytest.mark.parametrize("line", SEEN, ids=lambda line: line.path)
async def test_what_people_see_in_the_console_is_judged_by_role_and_counted(tmp_path: Path, line: Line) -> None:
    async with _a_place(tmp_path) as (served, names):
        app = build_app(served.context)

        async def seen(token: str | None) -> httpx2.Response:
            async with another(served.context, app, token) as visitor:
                return await visitor.client.get(line.path.format(**names))

        assert (await seen(VIEWER_TOKEN)).status_code == 200
        refused, nobody = await seen(SCRIBE_TOKEN), await seen(None)
        looks = getattr(served.gate.observer, "_looks")  # noqa: B009 -- a meter's
    assert (refused.status_code, nobody.status_code) == (403, 303)
    assert "no role that may look" in refused.text
    assert looks == {("console", line.path): 1}


async def test_reads_over_the_websocket_are_calls_too(tmp_path: Path) -> None:
    async with a_server(tmp_path, POLICY, config=_config()) as served, a_raw_agent(served) as bot:
        await bot.ask("tool_request", tool="state.set", args={"path": "/a", "value": 1}, request_id="r-1")
        before = len(_settled(served))
        for method, params in (
            ("get_pending_results", {}),
            ("list_tools", {}),
            ("cancel", {"request_id": "r-1"}),
            ("get_state", {}),
        ):
            assert "code" not in await bot.ask(method, **params)
        assert [entry["tool"] for entry in _settled(served)[before:]] == ["gate.read"] * 3 + ["state.get"]
        await served.context.approvals.pause(ANNA, "")
        for method in ("get_pending_results", "list_tools", "get_state"):
            assert (await bot.ask(method))["data"]["error"]["code"] == 1017
        assert (await bot.ask("cancel", request_id="r-1"))["data"]["error"]["code"] == 1017


async def test_what_became_of_a_call_is_a_call_over_mcp_too(tmp_path: Path) -> None:
    policy = {"rules": [{"pattern": "gate.read(/calls/*)", "action": "deny"}, {"pattern": "*", "action": "allow"}]}
    async with a_gate(tmp_path, policy) as gate:
        made = await gate.call("state.set", {"path": "/a", "value": "secret"}, agent=agent())
        door = McpDoor(Calls(gate, agent(), "default", 1.0))
        async with Client(door.server) as client:
            told = await client.call_tool("gate_result", {"call_id": made.call_id})
        (last,) = rows(gate, "SELECT tool, status FROM entries ORDER BY id DESC LIMIT 1")
    assert told.is_error
    assert "secret" not in str(told)
    assert last == {"tool": "gate.read", "status": "denied"}


async def test_an_agent_has_its_answers_though_everything_is_asked_about(tmp_path: Path) -> None:
    policy = {"rules": [{"pattern": "*", "action": "ask"}], "boundary": "deny_by_default"}
    async with a_server(tmp_path, policy, sender([]), config=_config()) as served, _client(served, BOT_TOKEN) as bot:
        held = await bot.post("/api/v1/calls", json={"tool": "mail.send", "args": {}, "wait": False})
        answer = await bot.get(f"/api/v1/calls/{held.json()['call_id']}")
    assert (answer.status_code, answer.json()["status"]) == (202, "pending_approval")


async def test_a_simulation_shows_an_agent_no_state(tmp_path: Path) -> None:
    """Nothing of it is recorded."""
    async with _a_place(tmp_path) as (served, _), _client(served, BOT_TOKEN) as bot, a_raw_agent(served) as other:
        before = len(entries(served.gate))
        wish = {"tool": "state.get", "args": {"path": "/a"}}
        alone = (await bot.post("/api/v1/simulate", json=wish)).json()
        steps = [
            {"tool": "state.get", "args": {"path": "/a"}, "id": "g"},
            {"tool": "state.set", "args": {"path": "/b", "value": "${steps.g.data}"}},
        ]
        plan = {"plan": {"version": "1.0", "steps": steps}, "simulate": True}
        planned = (await bot.post("/api/v1/plans", json=plan)).json()
        socket = await other.ask("simulate", **wish)
        assert len(entries(served.gate)) == before
    assert (alone["status"], "data" in alone, "data" in socket) == ("success", False, False)
    assert [one["status"] for one in planned["outcomes"]] == ["success", "unknown"]
