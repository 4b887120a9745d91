"""The HTTP API is what its OpenAPI document says, whatever it is sent."""

from __future__ import annotations

import asyncio
import os
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from schemathesis.engine import events, from_schema

from agent_gate.doors import throttle
from agent_gate.doors.api import OPERATIONS, describe
from agent_gate.doors.api.operation import Who
from agent_gate.system.clock import SystemClock
from tests.gates import PATIENCE_S, counter, reader, sender
from tests.servers import ANNA_TOKEN, BOT_TOKEN, Served, a_server

POLICY = {
    "rules": [
        {"pattern": "mail.send", "action": "ask"},
        {"pattern": "note.read", "action": "deny"},
    ],
    "defaults": [{"pattern": "*", "action": "allow"}],
    "limits": {"steps": {"interactive": 1, "assisted": 5, "autonomous": 10}},
}
EXAMPLES = 300 if os.environ.get("AGENT_GATE_THOROUGH") == "1" else 10
"""Of each operation, besides those that its schema gives rise to one by one."""
CHECKS = {
    "content_type_conformance",
    "ignored_auth",
    "negative_data_rejection",
    "not_a_server_error",
    "positive_data_acceptance",
    "response_schema_conformance",
    "status_code_conformance",
    "unsupported_method",
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server in an event loop of a thread of its own: the examples are tried from this one."""
    running: list[Served] = []
    ready, over = threading.Event(), threading.Event()

    async def serve(directory: Path) -> None:
        tools = sender([]), reader([]), counter()
        async with a_server(directory, POLICY, *tools, clock=SystemClock(), approval_timeout_s=0.05) as one:
            # Tokens that are nobody's are among the examples: whoever sends so many would be slowed down.
            one.context.throttle._failures = throttle._Allowance(1_000_000, 1_000)
            running.append(one)
            ready.set()
            await asyncio.to_thread(over.wait)

    thread = threading.Thread(target=asyncio.run, args=(serve(tmp_path_factory.mktemp("api")),))
    thread.start()
    try:
        assert ready.wait(PATIENCE_S)
        yield running[0]
    finally:
        over.set()
        thread.join()


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def document_of(served: Served, token: str, who: Who) -> Any:
    """The operations that a token opens."""
    settings = {
        "headers": bearer(token),
        "generation": {"max-examples": EXAMPLES, "database": "none", "no-shrink": True},
    }
    config = schemathesis.Config.from_dict(settings)
    document = schemathesis.openapi.from_url(f"{served.url}/api/openapi.json", config=config, headers=bearer(token))
    return document.include(operation_id=[one.name for one in OPERATIONS if one.who in (who, Who.EITHER)])


def failures_of(event: events.ScenarioFinished) -> Iterator[str]:
    for checks in event.recorder.checks.values():
        for check in checks:
            if check.failure_info is not None:
                failure = check.failure_info.failure
                yield f"{event.label}: {failure.title}: {failure.message}\n{check.failure_info.code_sample}"


@pytest.mark.parametrize(
    ("token", "who"), [(BOT_TOKEN, Who.AGENT), (ANNA_TOKEN, Who.APPROVER)], ids=("agents", "approvers")
)
def test_schemathesis_finds_nothing(served: Served, token: str, who: Who) -> None:
    checked: Counter[str] = Counter()
    found: list[str] = []
    for event in from_schema(document_of(served, token, who)).execute():
        match event:
            case events.ScenarioFinished():
                checked.update(check.name for checks in event.recorder.checks.values() for check in checks)
                found += failures_of(event)
            case events.NonFatalError():
                found.append(str(event.info))
            case events.FatalError():
                found.append(str(event.exception))
            case _:
                pass
    assert not found, "\n\n".join(found)
    assert checked.keys() >= CHECKS


def test_every_operation_is_described_once_and_with_all_that_it_may_answer() -> None:
    document = describe()
    assert list(document["paths"]) == list(dict.fromkeys(f"/api/v1{one.path}" for one in OPERATIONS))
    names = [one["operationId"] for path in document["paths"].values() for one in path.values()]
    assert sorted(names) == sorted({one.name for one in OPERATIONS})
    for path in document["paths"].values():
        for one in path.values():
            assert {"400", "401", "403", "503"} <= one["responses"].keys()
            assert one["summary"]
