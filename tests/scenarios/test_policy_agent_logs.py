"""What the log of a policy agent tells: every request that was stopped, by whom and why; and never a secret."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from agent_gate.chain.context import RequestContext
from agent_gate.chain.faults import PolicyFailure
from agent_gate.chain.instruction import ImmediateResponse, RemoveHeader, SetBody
from agent_gate.chain.policy import PolicyResult, StatusCode, denied
from agent_gate.doors.policy_agent.proto import policy_agent_pb2 as pb
from tests.agents import Scripted, a_client, a_ref, a_request, an_agent
from tests.gates import soon


async def denying(_: Mapping[str, Any], __: RequestContext) -> PolicyResult:
    return denied("not today", 403)


async def answering(_: Mapping[str, Any], __: RequestContext) -> PolicyResult:
    return PolicyResult(instructions=(ImmediateResponse(204, (), b""),))


async def failing(_: Mapping[str, Any], __: RequestContext) -> PolicyResult:
    raise PolicyFailure("its database does not answer")


async def erring(_: Mapping[str, Any], __: RequestContext) -> PolicyResult:
    return PolicyResult(StatusCode.POLICY_ERROR, (), "cannot say")


async def flooding(_: Mapping[str, Any], __: RequestContext) -> PolicyResult:
    return PolicyResult(instructions=(SetBody(bytes(2_000_000)),))


async def never(_: Mapping[str, Any], __: RequestContext) -> PolicyResult:
    await asyncio.Event().wait()
    raise AssertionError


async def panicking(_: Mapping[str, Any], __: RequestContext) -> PolicyResult:
    try:
        raise KeyError("token-hunter2")
    except KeyError as error:
        raise RuntimeError("the password is hunter2") from error


async def removing(settings: Mapping[str, Any], _: RequestContext) -> PolicyResult:
    return PolicyResult(instructions=(RemoveHeader(settings.get("header", "x-absent")),))


POLICIES = [
    Scripted(act.__name__, act)
    for act in (denying, answering, failing, erring, flooding, never, panicking, removing)
]  # fmt: skip


async def ended(stream: Any) -> None:
    """In good order: gRPC would tell a later test's event loop of a stream that is broken off."""
    await stream.done_writing()
    assert await soon(stream.read()) is grpc.aio.EOF


def told(caplog: pytest.LogCaptureFixture, words: str) -> list[tuple[str, str]]:
    return [(record.levelname, record.getMessage()) for record in caplog.records if words in record.getMessage()]


@pytest.mark.parametrize("over", ["ExecutePolicies", "ExecutePoliciesStream"])
@pytest.mark.parametrize(
    ("policy", "deadline_ms", "level", "words"),
    [
        ("denying", 0, "INFO", "policy `denying`, POLICY_DENIED: not today"),
        ("answering", 0, "INFO", "policy `answering`, OK: "),
        ("failing", 0, "WARNING", "POLICY_DENIED: policy `failing` failed: its database does not answer"),
        ("erring", 0, "WARNING", "POLICY_DENIED: policy `erring` failed: cannot say"),
        ("flooding", 0, "WARNING", "POLICY_ERROR: policy `flooding`: body size exceeds limit: 2000000 > 1048576"),
        ("never", 0, "WARNING", "POLICY_DENIED: policy `never` failed: policy execution timeout"),
        ("never", 1, "WARNING", "TIMEOUT: the chain's time was up at policy `never`"),
        ("panicking", 0, "WARNING", "POLICY_DENIED: policy `panicking` failed: RuntimeError"),
        ("nobody", 0, "WARNING", "POLICY_DENIED: unknown policy: nobody"),
    ],
)
async def test_every_request_that_is_stopped_is_logged_once_with_its_policy_and_reason(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, over: str, policy: str, deadline_ms: int, level: str, words: str
) -> None:
    caplog.set_level(logging.INFO)
    request = a_request(policy)
    request.request_id, request.deadline_ms = "req-7", deadline_ms
    # Short only where nothing else will end it: a busy machine must not make a quick policy late.
    timeout_ms = 30 if policy == "never" and not deadline_ms else 60_000
    async with an_agent(tmp_path / "s", *POLICIES, policy_timeout_ms=timeout_ms) as path, a_client(path) as client:
        if over == "ExecutePolicies":
            await soon(client.execute(request))
        else:
            stream = client.stream()
            await stream.write(request)
            await soon(stream.read())
            await ended(stream)
    ((found_level, message),) = told(caplog, "was stopped")
    assert found_level == level
    assert message.startswith(f"request `req-7` was stopped by policy `{policy}`, ")
    assert message.endswith(words)


async def test_a_request_that_nothing_has_run_for_is_logged_too(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with an_agent(tmp_path / "s") as path, a_client(path) as client:
        with pytest.raises(grpc.aio.AioRpcError):
            await client.execute(a_request())
        stream = client.stream()
        await stream.write(a_request())
        assert (await soon(stream.read())).status.code == pb.Status.POLICY_ERROR
        await ended(stream)
    found = told(caplog, "refused before any policy")
    assert [(level, "the chain is empty" in message) for level, message in found] == [("INFO", True)] * 2


async def test_a_panic_is_logged_with_the_places_it_came_from_and_without_its_words(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with an_agent(tmp_path / "s", *POLICIES) as path, a_client(path) as client:
        answer = await client.execute(a_request("panicking"))
    assert "hunter2" not in answer.status.message
    ((level, message),) = told(caplog, "raised")
    assert level == "ERROR"
    assert message.startswith("policy `panicking` raised RuntimeError (because of KeyError) at ")
    assert message.endswith(f"test_policy_agent_logs.py:{panicking.__code__.co_firstlineno + 4} panicking")
    assert "hunter2" not in caplog.text


async def test_a_header_that_was_not_there_to_be_removed_is_warned_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Again only for debugging: most requests may lack a header that a chain removes from all."""
    caplog.set_level(logging.DEBUG)
    async with an_agent(tmp_path / "s", *POLICIES) as path, a_client(path) as client:
        for header in ("x-absent", "x-absent", "x-other"):
            assert (await client.execute(a_request(a_ref("removing", header=header)))).status.code == pb.Status.OK
    words = "policy `removing`: REMOVE_HEADER of `{}`, which is not there"
    assert told(caplog, "REMOVE_HEADER") == [
        ("WARNING", words.format("x-absent")),
        ("DEBUG", words.format("x-absent")),
        ("WARNING", words.format("x-other")),
    ]


async def test_warnings_that_never_repeat_do_not_pile_up(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A policy may take the names of headers from requests."""
    caplog.set_level(logging.WARNING)
    async with an_agent(tmp_path / "s", *POLICIES) as path, a_client(path) as client:
        stream = client.stream()
        for number in range(300):
            await stream.write(a_request(a_ref("removing", header=f"x-{number}")))
            await soon(stream.read())
        await ended(stream)
    assert len(told(caplog, "REMOVE_HEADER")) == 256
