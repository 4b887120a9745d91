"""Envoy's streams: in which order a request may be shown, and that none ends well while something is still open."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from agent_gate.chain.context import RequestContext
from agent_gate.chain.instruction import SetBody, SetHeader, SetState
from agent_gate.chain.policy import PolicyResult
from agent_gate.config import ChainPolicyConfig, Config, GatewayConfig, RouteConfig, ServicesConfig, StorageConfig
from agent_gate.doors.policy_agent.envoy.ext_proc import NAME
from agent_gate.doors.policy_agent.listening import AgentBounds
from agent_gate.doors.policy_agent.proto import envoy_pb2 as pb
from agent_gate.model.bounds import AGENT_PIECE_BYTES
from tests.agents import Client, Scripted, a_client, a_request, an_agent
from tests.gates import soon

BUFFERED = pb.ProtocolConfiguration(
    request_body_mode=pb.ProcessingMode.BUFFERED, response_body_mode=pb.ProcessingMode.BUFFERED
)
BODY = pb.HttpBody(body=b"x", end_of_stream=True)


def headers(*more: tuple[str, str], end: bool = False, **line: str) -> pb.HttpHeaders:
    given = [(f":{name}", value) for name, value in line.items()] + list(more)
    values = [pb.HeaderValue(key=name, raw_value=value.encode()) for name, value in given]
    return pb.HttpHeaders(headers=pb.HeaderMap(headers=values), end_of_stream=end)


DUPLEX = pb.ProtocolConfiguration(
    request_body_mode=pb.ProcessingMode.FULL_DUPLEX_STREAMED, response_body_mode=pb.ProcessingMode.FULL_DUPLEX_STREAMED
)


def request(
    *more: tuple[str, str], end: bool = False, modes: pb.ProtocolConfiguration = BUFFERED
) -> pb.ProcessingRequest:
    length = () if end else (("content-length", "1"),)
    line = headers(*length, *more, method="GET", path="/x?y=1", scheme="https", authority="a.test", end=end)
    return pb.ProcessingRequest(request_headers=line, protocol_config=modes)


def response(status: str = "200", *, end: bool = False) -> pb.ProcessingRequest:
    length = () if end else (("content-length", "1"),)
    return pb.ProcessingRequest(response_headers=headers(*length, status=status, end=end))


@asynccontextmanager
async def an_agent_for(directory: Path, act: Any, bounds: AgentBounds | None = None) -> AsyncIterator[Client]:
    config = Config(GatewayConfig("127.0.0.1", 1), None, None, ServicesConfig(), StorageConfig())
    config = replace(config, chains={"all": (ChainPolicyConfig("both"),)})
    routes = (RouteConfig("all"),)
    agent = an_agent(directory / "s", Scripted("both", act), config=config, bounds=bounds, routes=routes)
    async with agent as path, a_client(path) as client:
        yield client


def opened(client: Client) -> Any:
    return client.opened(f"/{NAME}/Process", pb.ProcessingRequest, pb.ProcessingResponse)


async def said(stream: Any, message: pb.ProcessingRequest) -> pb.ProcessingResponse:
    await stream.write(message)
    answer: pb.ProcessingResponse = await soon(stream.read())
    return answer


async def passing(_: Mapping[str, Any], context: RequestContext) -> PolicyResult:
    return PolicyResult()


async def test_what_the_request_phase_tells_reaches_the_response_phase(tmp_path: Path) -> None:
    told: list[object] = []

    async def tell(_: Mapping[str, Any], context: RequestContext) -> PolicyResult:
        told.append((context.phase.value, context.response_status, context.body, dict(context.state)))
        return PolicyResult(instructions=(SetState("seen", context.query_params[0][1]),))

    async with an_agent_for(tmp_path, tell) as client:
        stream = opened(client)
        kinds = [
            (await said(stream, message)).WhichOneof("response")
            for message in (
                request(),
                pb.ProcessingRequest(request_body=BODY),
                response("404"),
                pb.ProcessingRequest(response_body=BODY),
                pb.ProcessingRequest(response_trailers=pb.HttpTrailers()),
            )
        ]
        await stream.done_writing()
        assert await soon(stream.code()) is grpc.StatusCode.OK
    assert kinds == ["request_headers", "request_body", "response_headers", "response_body", "response_trailers"]
    assert told == [("request", None, b"x", {}), ("response", 404, b"x", {"seen": "1"})]


@pytest.mark.parametrize(
    ("messages", "status"),
    [
        ([response("200")], 500),
        ([response("413")], 413),
        ([response("x")], 500),
        ([pb.ProcessingRequest(request_body=BODY)], 500),
        ([request(), response("200")], 500),
        ([request(end=True), response("abc")], 502),
    ],
)
async def test_what_no_policy_has_seen_is_refused(
    tmp_path: Path, messages: list[pb.ProcessingRequest], status: int
) -> None:
    async with an_agent_for(tmp_path, passing) as client:
        stream = opened(client)
        answers = [await said(stream, message) for message in messages]
    assert answers[-1].immediate_response.status.code == status


async def shouting(_: Mapping[str, Any], context: RequestContext) -> PolicyResult:
    return PolicyResult(instructions=(SetHeader("x-seen", str(len(context.body))), SetBody(context.body.upper())))


async def test_a_message_that_is_kept_goes_on_in_pieces_with_its_trailers(tmp_path: Path) -> None:
    size = AGENT_PIECE_BYTES // 2 + 1
    async with an_agent_for(tmp_path, shouting) as client:
        stream = opened(client)
        await stream.write(request(modes=DUPLEX))
        for _ in range(3):
            await stream.write(pb.ProcessingRequest(request_body=pb.HttpBody(body=b"x" * size)))
        await stream.write(pb.ProcessingRequest(request_trailers=pb.HttpTrailers()))
        answers = [await soon(stream.read()) for _ in range(4)]
    assert [answer.WhichOneof("response") for answer in answers] == [
        "request_headers", "request_body", "request_body", "request_trailers",
    ]  # fmt: skip
    (seen, length) = answers[0].request_headers.response.header_mutation.set_headers
    assert (seen.header.raw_value, length.header.raw_value) == (str(3 * size).encode(),) * 2
    pieces = [answer.request_body.response.body_mutation.streamed_response for answer in answers[1:3]]
    assert b"".join(piece.body for piece in pieces) == b"X" * 3 * size
    assert [piece.end_of_stream for piece in pieces] == [False, False]


@pytest.mark.parametrize("sizes", [(1_048_577,), (600_000, 448_577), (1_048_576, 1), (1,) * 2], ids=str)
async def test_a_body_is_refused_with_the_piece_that_makes_it_too_large(tmp_path: Path, sizes: tuple[int, ...]) -> None:
    async with an_agent_for(tmp_path, passing) as client:
        stream = opened(client)
        await stream.write(request(modes=DUPLEX))
        for size in sizes:
            await stream.write(pb.ProcessingRequest(request_body=pb.HttpBody(body=bytes(size))))
        if sum(sizes) < 1_048_577:
            await stream.write(pb.ProcessingRequest(request_body=pb.HttpBody(end_of_stream=True)))
            assert (await soon(stream.read())).WhichOneof("response") == "request_headers"
            return
        answer = await soon(stream.read())
        assert answer.immediate_response.status.code == 413
        again = await said(stream, pb.ProcessingRequest(request_body=BODY))
        assert again.immediate_response.status.code == 413, "and nothing comes after it"


async def test_a_response_that_is_too_large_is_kept_from_the_client(tmp_path: Path) -> None:
    async with an_agent_for(tmp_path, passing) as client:
        stream = opened(client)
        await said(stream, request(end=True, modes=DUPLEX))
        await stream.write(response())
        for _ in range(3):
            await stream.write(pb.ProcessingRequest(response_body=pb.HttpBody(body=bytes(400_000))))
        assert (await soon(stream.read())).immediate_response.status.code == 502


async def test_a_stream_that_ends_before_its_message_does_not_end_well(tmp_path: Path) -> None:
    async with an_agent_for(tmp_path, passing) as client:
        for modes in (DUPLEX, BUFFERED):
            stream = opened(client)
            await stream.write(request(modes=modes))
            if modes is BUFFERED:
                await soon(stream.read())
            await stream.done_writing()
            assert await soon(stream.code()) is grpc.StatusCode.INVALID_ARGUMENT


async def test_an_envoy_that_only_looks_on_is_told_that_nobody_guards_it(tmp_path: Path) -> None:
    message = request(end=True)
    message.observability_mode = True
    async with an_agent_for(tmp_path, passing) as client:
        with pytest.raises(grpc.aio.AioRpcError, match="observability_mode"):
            await said(opened(client), message)


@pytest.mark.parametrize(
    "more", [(":authority", "b.test"), (":path", "/y"), (":method", "GET"), ("host", "b.test")], ids=str
)
async def test_a_line_that_says_two_things_is_refused(tmp_path: Path, more: tuple[str, str]) -> None:
    async with an_agent_for(tmp_path, passing) as client:
        answer = await said(opened(client), request(more, end=True))
    assert answer.immediate_response.status.code == 400


async def test_a_second_request_on_one_stream_ends_it_with_an_error(tmp_path: Path) -> None:
    async with an_agent_for(tmp_path, passing) as client:
        stream = opened(client)
        await said(stream, request(end=True))
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await said(stream, request(end=True))
        assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_an_agent_that_ends_does_not_end_a_stream_of_envoys_well(tmp_path: Path) -> None:
    begun = asyncio.Event()

    async def hold(_: Mapping[str, Any], context: RequestContext) -> PolicyResult:
        begun.set()
        return await asyncio.Event().wait()  # type: ignore[return-value]  # never

    async with a_client(tmp_path / "s") as client:
        async with an_agent_for(tmp_path, hold, AgentBounds(drain_s=0.05)):
            waiting, held = opened(client), opened(client)
            await said(waiting, request())
            await held.write(request(end=True))
            await soon(begun.wait())
        assert await soon(waiting.code()) is not grpc.StatusCode.OK
        assert await soon(held.code()) is not grpc.StatusCode.OK


async def test_open_calls_are_bounded(tmp_path: Path) -> None:
    async with an_agent_for(tmp_path, passing, AgentBounds(streams_max=2)) as client:
        streams = [opened(client), opened(client)]
        for stream in streams:
            await said(stream, request())
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await soon(client.execute(a_request("both")))
        assert error.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        await said(streams[0], pb.ProcessingRequest(request_body=BODY))
