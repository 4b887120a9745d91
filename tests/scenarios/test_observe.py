"""What can be seen of a server: whether it is well, its figures, its logs, its traces, and a loop that hangs."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import threading
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx2
import pytest
import structlog
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import ProxyTracerProvider
from prometheus_client.parser import text_string_to_metric_families
from websockets.asyncio.client import connect

from agent_gate.config import (
    Config,
    HomeAssistantConfig,
    MessengerConfig,
    ServicesConfig,
    TelegramConfig,
)
from agent_gate.doors.bounds import DoorBounds
from agent_gate.doors.observe import Observation, configure_logs, secrets_of
from agent_gate.doors.observe.logs import QUIETED, log_redactor
from agent_gate.doors.observe.metrics import OTHER, STAGES, Meter
from agent_gate.doors.observe.watchdog import Watchdog
from agent_gate.history.archive import open_archive
from agent_gate.history.readings import Readings
from agent_gate.hosts.server import build_app
from agent_gate.model.errors import StorageError
from agent_gate.model.outcome import Outcome, Status
from agent_gate.model.redaction import HIDDEN_IN_LOGS as HIDDEN
from agent_gate.model.tool import Json, ToolDeclaration
from agent_gate.ports.watching import Reached
from tests.gates import ALLOW_ALL, ASK_ALL, PATIENCE_S, HandClock, counter, reader, sender, until
from tests.servers import ANNA_TOKEN, BOT_TOKEN, CLERK_TOKEN, Served, a_config, a_context, a_server


def client_of(served: Served, token: str | None = ANNA_TOKEN) -> httpx2.AsyncClient:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return httpx2.AsyncClient(base_url=served.url, headers=headers, timeout=PATIENCE_S)


async def call(served: Served, tool: str, token: str = BOT_TOKEN, **fields: Any) -> Json:
    async with client_of(served, token) as client:
        return (await client.post("/api/v1/calls", json={"tool": tool, "args": {}, **fields})).json()


async def figures(served: Served) -> dict[tuple[str, ...], float]:
    """Each sample by its name and the values of its labels."""
    async with client_of(served) as client:
        response = await client.get("/metrics")
    assert response.status_code == 200, response.text
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(response.text)
        for sample in family.samples
    }


def with_a_monitor() -> Config:
    config = a_config()
    return replace(config, agents=(config.agents[0], replace(config.agents[1], roles=("monitor",))))


async def test_who_only_looks_at_the_figures_can_do_nothing(tmp_path: Path) -> None:
    async with a_server(tmp_path, ALLOW_ALL, reader([]), counter(), config=with_a_monitor()) as served:
        for tool in ("note.read", "counter.add"):
            assert (await call(served, tool, CLERK_TOKEN))["error"]["name"] == "role_denied"


async def test_only_liveness_is_told_without_a_token(tmp_path: Path) -> None:
    async with a_server(tmp_path, config=with_a_monitor()) as served:
        for token, expected in (
            (None, (200, 401, 401)),
            ("of-nobody", (200, 401, 401)),
            (BOT_TOKEN, (200, 403, 403)),
            (CLERK_TOKEN, (200, 200, 200)),
            (ANNA_TOKEN, (200, 200, 200)),
        ):
            async with client_of(served, token) as client:
                answers = [(await client.get(path)).status_code for path in ("/healthz", "/readyz", "/metrics")]
            assert tuple(answers) == expected
        assert (await figures(served))["agent_gate_refusals_total", "not_authenticated"] == 4
        assert (await figures(served))["agent_gate_refusals_total", "not_entitled"] == 2


class Lamp:
    """A service that says how it is."""

    name = "lamp"
    dependencies: Sequence[str] = ()

    def __init__(self) -> None:
        self.well = True

    def tools(self) -> Sequence[ToolDeclaration]:
        return ()

    async def start(self) -> None: ...

    async def execute(self, tool_name: str, args: Mapping[str, Json]) -> Json:
        raise NotImplementedError

    async def health_check(self) -> bool:
        return self.well

    async def close(self) -> None: ...


EVERY_TIME = DoorBounds(ready_for_s=-1)
"""Whoever asks has everything looked at again."""


async def ready(served: Served) -> tuple[int, Json]:
    async with client_of(served) as client:
        response = await client.get("/readyz")
        return response.status_code, response.json()["checks"]


async def test_a_server_is_ready_when_everything_is_and_says_what_is_not(tmp_path: Path) -> None:
    lamp = Lamp()

    async def quick() -> bool:
        return True

    async def messenger() -> str:
        return "the bot is not in the chat"

    async with a_server(tmp_path, services=[lamp], bounds=EVERY_TIME) as served:
        checks = served.context.checks
        status, told = await ready(served)
        assert (status, set(told.values())) == (200, {"ok"})
        assert {"database", "service:lamp"} <= told.keys()

        lamp.well = False
        checks["quick"] = quick
        checks["messenger"] = messenger
        checks["broken"] = _raises
        status, told = await ready(served)
        assert status == 503
        expected = {"service:lamp": "failing", "quick": "ok", "broken": "failing", "database": "ok"}
        expected["messenger"] = "failing: the bot is not in the chat"
        assert {name: told[name] for name in expected} == expected

        lamp.well = True
        del checks["broken"], checks["messenger"]
        assert (await ready(served))[0] == 200
        served.context.closing.set()
        assert (await ready(served))[1]["server"] == "closing"


async def test_a_check_that_does_not_answer_is_not_waited_for(tmp_path: Path) -> None:
    async with a_server(tmp_path, bounds=EVERY_TIME) as served:
        served.context.checks["slow"] = asyncio.Event().wait
        served.context.bounds = replace(EVERY_TIME, health_check_s=0.05)
        status, told = await ready(served)
    assert (status, told["slow"]) == (503, "silent")


async def _raises() -> bool:
    raise StorageError("no")


async def test_a_server_whose_database_cannot_be_used_is_not_ready(tmp_path: Path) -> None:
    async with a_server(tmp_path, bounds=EVERY_TIME) as served, client_of(served) as client:
        with patch.object(type(served.gate.ledger), "commit", side_effect=StorageError("the disk is full")):
            unwritable = await client.get("/readyz")
        served.context.readings = Readings(open_archive(tmp_path / "elsewhere.db"))
        unreadable = await client.get("/readyz")
    for response in (unwritable, unreadable):
        assert (response.status_code, response.json()["checks"]["database"]) == (503, "failing")


async def test_many_who_ask_at_once_are_one_look(tmp_path: Path) -> None:
    asked = 0

    async def check() -> bool:
        nonlocal asked
        asked += 1
        return True

    async with a_server(tmp_path) as served, client_of(served) as client:
        served.context.checks["it"] = check
        served.context.bounds = DoorBounds(ready_for_s=3_600)
        answers = await asyncio.gather(*(client.get("/readyz") for _ in range(20)))
    assert ({answer.status_code for answer in answers}, asked) == ({200}, 1)


async def test_calls_are_counted_by_tool_status_and_the_stage_that_refused(tmp_path: Path) -> None:
    policy = {"rules": [{"pattern": "note.*", "action": "deny"}, {"pattern": "*", "action": "allow"}]}
    async with a_server(tmp_path, policy, sender([]), reader([])) as served:
        for tool in ("mail.send", "mail.send", "note.read", "made.up.1", "made.up.2"):
            await call(served, tool)
        await call(served, "mail.send", project="of-others")
        found = await figures(served)
    counted = {labels[1:]: value for labels, value in found.items() if labels[0] == "agent_gate_calls_total"}
    assert counted == {
        ("", "success", "mail.send"): 2,
        ("decide", "denied", "note.read"): 1,
        ("bind", "error", OTHER): 2,
        ("admit", "denied", "mail.send"): 1,
    }
    assert found["agent_gate_stage_seconds_count", "decide"] == 3
    assert found["agent_gate_stage_seconds_count", "perform"] == 2
    assert found["agent_gate_calls_under_way",] == 0
    assert found["agent_gate_ledger_commits_total",] > 0
    assert found["agent_gate_ledger_works_total",] >= found["agent_gate_ledger_commits_total",]
    assert found["agent_gate_http_responses_total", "200"] == 6


async def test_what_waits_and_who_is_connected_is_told(tmp_path: Path) -> None:
    async with a_server(tmp_path, ASK_ALL, sender([])) as served:
        pending = await call(served, "mail.send", wait=False)
        async with connect(served.ws_url):
            found = await figures(served)
        assert found["agent_gate_open_questions",] == 1
        assert found["agent_gate_calls_under_way",] == 1
        assert found["agent_gate_websockets",] == 1
        async with client_of(served) as client:
            await client.post(f"/api/v1/pending/{pending['call_id']}/approve")
            await client.post("/api/v1/pause")
        await served.gate.result(pending["call_id"])
        found = await figures(served)
        assert found["agent_gate_open_questions",] == 0
        assert found["agent_gate_waiting_results",] == 1
        assert found["agent_gate_paused",] == 1
        async with client_of(served) as client:
            open_metrics = await client.get(
                "/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"}
            )
        assert open_metrics.headers["content-type"].startswith("application/openmetrics-text")
        assert open_metrics.text.endswith("# EOF\n")


def test_tools_without_number_have_one_label() -> None:
    meter = Meter(HandClock())
    meter.offer(f"tool.{number}" for number in range(10_000))
    for number in range(10_000):
        meter.ended("c", f"tool.{number}", Outcome(call_id="c", status=Status.SUCCESS))
    assert len({tool for tool, _, _ in meter._calls}) == 201


class Noted:
    """An observer that keeps what it sees."""

    def __init__(self) -> None:
        self.stages: list[str] = []
        self.endings: list[str] = []

    def ended(self, call_id: str, tool: str, outcome: Any, stages: Sequence[Reached] = ()) -> None:
        self.stages += [stage for stage, _ in stages]
        self.endings.append(outcome.status.value)

    def refused(self, problem: Any) -> None: ...

    def looked(self, door: str, place: str) -> None: ...


async def test_an_observer_sees_each_stage_in_its_turn(tmp_path: Path) -> None:
    policy = {"rules": [{"pattern": "mail.*", "action": "ask"}], "defaults": [{"pattern": "*", "action": "allow"}]}
    async with a_context(tmp_path, policy, sender([]), reader([]), counter()) as context:
        gate, bot = context.gate, context.identities.agents["bot"]
        for tool, stages in (
            ("note.read", ["admit", "bind", "decide", "perform", "settle"]),
            ("counter.add", ["admit", "bind", "decide", "perform", "settle"]),
            ("mail.send", ["admit", "bind", "decide", "hold", "bind", "decide", "perform", "settle"]),
            ("no.tool", ["admit", "bind", "settle"]),
        ):
            gate.observer = noted = Noted()
            outcome = await gate.call(tool, {}, agent=bot, wait=False)
            if tool == "mail.send":
                await context.approvals.answer(outcome.call_id, approve=True, by=context.identities.approvers["anna"])
                await gate.result(outcome.call_id)
            await until(lambda: noted.endings)  # noqa: B023
            assert (noted.stages, len(noted.endings)) == (stages, 1)


SECRETS = ("s3cret-token", "s3cret-token-longer", "pässwörd")


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """What a server logs; afterwards logging is as it was."""
    stream, root = io.StringIO(), logging.getLogger()
    before, level = root.handlers[:], root.level
    quiet = {name: logging.getLogger(name).level for name in QUIETED}
    configure_logs("info", SECRETS, stream)
    try:
        yield stream
    finally:
        root.handlers[:] = before
        root.setLevel(level)
        for name, was in quiet.items():
            logging.getLogger(name).setLevel(was)
        structlog.reset_defaults()


def lines_of(log: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.getvalue().splitlines()]


def test_a_secret_that_is_found_after_the_log_was_opened_is_hidden_from_then_on() -> None:
    redactor = log_redactor(SECRETS)
    redactor.hide("found-later-s3cret-token", "abc")
    assert redactor.text("found-later-s3cret-token, s3cret-token, abc") == f"{HIDDEN}, {HIDDEN}, abc"


def test_what_has_the_shape_of_a_credential_is_hidden_in_logs_and_so_is_a_secret_in_a_url() -> None:
    redactor = log_redactor(["s3cret/token"])
    said = "GET /?key=s3cret%2Ftoken with ghp_" + "a1B2" * 9
    assert redactor.text(said) == f"GET /?key={HIDDEN} with {HIDDEN}"


def test_a_log_is_one_json_object_a_line_without_secrets(log: io.StringIO) -> None:
    ours, theirs = structlog.stdlib.get_logger("ours"), logging.getLogger("theirs")
    ours.info(
        "connected with s3cret-token-longer", token="anything", seen={"Authorization": "Bearer x", "a": ["pässwörd"]}
    )
    theirs.warning("GET /?key=%s\nAuthorization: Bearer abc.def", "s3cret-token")
    theirs.info("b", extra={"body": b"s3cret-token", "what": RuntimeError("pässwörd")})
    try:
        raise ValueError("s3cret-token is wrong")
    except ValueError:
        theirs.exception("failed")
    ours.debug("not told")
    lines = lines_of(log)
    assert [line["level"] for line in lines] == ["info", "warning", "info", "error"]
    assert lines[0]["event"] == f"connected with {HIDDEN}"
    assert lines[0]["token"] == HIDDEN
    assert lines[0]["seen"] == {"Authorization": HIDDEN, "a": [HIDDEN]}
    assert lines[1]["event"] == f"GET /?key={HIDDEN}\nAuthorization: Bearer {HIDDEN}"
    assert lines[2]["body"] == HIDDEN
    assert "ValueError" in lines[3]["exception"]
    assert all(line["logger"] in ("ours", "theirs") and line["timestamp"].endswith("Z") for line in lines)
    assert not any(secret in log.getvalue() for secret in (*SECRETS, "p\\u00e4ssw\\u00f6rd", "abc.def"))


def test_every_secret_of_a_configuration_is_known() -> None:
    config = a_config(
        messenger=MessengerConfig("telegram", TelegramConfig("telegram-token", 1, [1])),
        services=ServicesConfig(HomeAssistantConfig("http://me:home-password@home", "home-token")),
    )
    known = secrets_of(config)
    assert {BOT_TOKEN, ANNA_TOKEN, "telegram-token", "home-token", "home-password"} <= set(known)
    assert "" not in known
    hidden = log_redactor(known).data({"event": f"{BOT_TOKEN} telegram-token"})
    assert hidden == {"event": f"{HIDDEN} {HIDDEN}"}


async def test_requests_are_logged_without_what_is_in_them(tmp_path: Path, log: io.StringIO) -> None:
    async with a_server(tmp_path, ALLOW_ALL, sender([])) as served:
        await call(served, "mail.send", args={"text": "a private matter"})
        async with client_of(served, "s3cret-token") as client:
            await client.get("/api/v1/entries?tool=a-private-matter")
        async with connect(served.ws_url):
            pass
        await until(lambda: len(lines_of(log)) >= 3)
    lines = [line for line in lines_of(log) if line["event"] == "request"]
    shown = [(line["kind"], line["method"], line["path"], line["status"]) for line in lines]
    assert shown[:2] == [("http", "POST", "/api/v1/calls", 200), ("http", "GET", "/api/v1/entries", 401)]
    assert ("websocket", "GET", "/ws", 101) in shown
    assert all(line["duration_ms"] >= 0 and line["client"] == "127.0.0.1" for line in lines)
    assert not any(word in log.getvalue() for word in ("private", BOT_TOKEN, "s3cret-token"))


@asynccontextmanager
async def traced(directory: Path, policy: Any, *tools: Any) -> AsyncIterator[tuple[Served, InMemorySpanExporter]]:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with patch.object(trace, "get_tracer_provider", return_value=provider):
        async with a_server(directory, policy, *tools) as served:
            yield served, exporter


async def test_each_stage_is_a_span_of_its_call_and_the_call_one_of_its_callers_trace(tmp_path: Path) -> None:
    policy = {"rules": [{"pattern": "note.*", "action": "deny"}, {"pattern": "*", "action": "allow"}]}
    caller = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    async with traced(tmp_path, policy, sender([]), reader([])) as (served, exporter):
        async with client_of(served, BOT_TOKEN) as client:
            await client.post("/api/v1/calls", json={"tool": "mail.send", "args": {}}, headers=caller)
            await until(lambda: len(exporter.get_finished_spans()) == 6)
            spans = {span.name: span for span in exporter.get_finished_spans()}
            exporter.clear()
            await client.post("/api/v1/calls", json={"tool": "note.read", "args": {}})
        await until(lambda: any(span.name == "agent_gate.call" for span in exporter.get_finished_spans()))
        denied = {span.name: span for span in exporter.get_finished_spans()}
    made = spans.pop("agent_gate.call")
    assert list(spans) == [f"agent_gate.{stage}" for stage in STAGES if stage != "hold"]
    assert all(_parent(span) == made.context.span_id for span in spans.values())
    assert (f"{made.context.trace_id:032x}", f"{_parent(made):016x}") == tuple(caller["traceparent"].split("-")[1:3])
    attributes = dict(made.attributes or {})
    assert attributes.pop("agent_gate.call_id")
    assert attributes == {
        "agent_gate.tool": "mail.send",
        "agent_gate.status": "success",
        "agent_gate.decision": "allow",
    }
    assert (denied["agent_gate.call"].attributes or {})["agent_gate.error"] == "policy_denied"
    assert "agent_gate.perform" not in denied


def _parent(span: ReadableSpan) -> int:
    assert span.parent is not None
    return span.parent.span_id


async def test_without_an_sdk_there_are_no_spans(tmp_path: Path) -> None:
    with patch.object(trace, "get_tracer_provider", return_value=ProxyTracerProvider()):
        async with a_context(tmp_path) as context:
            assert Observation(context).meter is context.gate.observer


async def test_a_loop_that_hangs_is_told_with_the_place_where_it_hangs(caplog: pytest.LogCaptureFixture) -> None:
    lags: list[float] = []
    noticed = threading.Event()

    def hang_on_purpose() -> None:
        noticed.wait(2.0)

    watchdog = Watchdog(lags.append, noticed.set, interval_s=0.005, blocked_s=0.1)
    with caplog.at_level(logging.WARNING, "agent_gate.watchdog"):
        async with watchdog.watching():
            # A busy machine may hang by itself just before, and each time is told once.
            for _ in range(10):
                seen = len(lags)
                await until(lambda: len(lags) > seen)  # noqa: B023
                noticed.clear()
                hang_on_purpose()
                if "hang_on_purpose" in caplog.text:
                    break
    assert "hang_on_purpose" in caplog.text
    assert max(lags) > 0


async def test_the_watchdog_of_a_server_feeds_its_figures(tmp_path: Path) -> None:
    async with a_context(tmp_path) as context:
        observation = Observation(context)
        assert build_app(context, observation) is not None
        async with observation.watching():
            await until(lambda: observation.meter.lag.buckets()[0][-1][1] > 0)
