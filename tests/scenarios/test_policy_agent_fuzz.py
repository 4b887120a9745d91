"""Twenty-four kinds of broken messages: the agent neither crashes nor hangs nor tells a secret, nor says yes."""

from __future__ import annotations

import logging
import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from agent_gate.config import ChainPolicyConfig, Config, GatewayConfig, RouteConfig, ServicesConfig, StorageConfig
from agent_gate.doors.policy_agent.proto import envoy_pb2 as envoy
from agent_gate.doors.policy_agent.proto import policy_agent_pb2 as pb
from tests.agents import Client, a_client, a_ref, a_request, an_agent
from tests.gates import soon

SAMPLES = 12
SECRET = "key-of-anna-0123456789abcdef"
EXECUTE = "/agentgate.policy.v1.PolicyAgent/ExecutePolicies"
STREAM = "/agentgate.policy.v1.PolicyAgent/ExecutePoliciesStream"
PROCESS = "/envoy.service.ext_proc.v3.ExternalProcessor/Process"
CHECK = "/envoy.service.auth.v3.Authorization/Check"
CALM = {
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.UNIMPLEMENTED,
}
"""What a broken message may be answered with; INTERNAL and UNKNOWN are none of them."""


def keyed(**context: Any) -> pb.PolicyRequest:
    """A request that the chain would let pass if it were whole: with the wrong key, so that nothing may pass."""
    headers = context.pop("headers", [("x-api-key", "key-of-nobody-0123456789")])
    return a_request(a_ref("api_key", keys=[{"id": "anna", "key": SECRET}]), headers=headers, **context)


def flipped(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.randint(1, 8)):
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def spliced(data: bytes, chance: random.Random) -> bytes:
    start, end = sorted(chance.sample(range(len(data)), 2))
    return data[:start] + data[end:] + data[start:end]


def nested(depth: int) -> bytes:
    """A Struct in a Struct in a Struct, by hand: the library would not make it."""
    data = b""
    for _ in range(depth):
        entry = b"\x0a\x01k\x12" + _length(b"\x2a" + _length(data))
        data = b"\x0a" + _length(entry)
    return b"\x12" + _length(b"\x0a\x07api_key\x1a" + _length(data))


def _length(data: bytes) -> bytes:
    size, head = len(data), b""
    while size > 127:
        head += bytes((size & 127 | 128,))
        size >>= 7
    return head + bytes((size,)) + data


def header(name: bytes, value: bytes) -> bytes:
    return (
        keyed().SerializeToString()
        + b"\x1a"
        + _length(b"\x0a" + _length(b"\x0a" + _length(name) + b"\x12" + _length(value)))
    )


def processing(*fields: tuple[str, bytes], **message: Any) -> bytes:
    values = [envoy.HeaderValue(key=name, raw_value=value) for name, value in fields]
    headers = envoy.HttpHeaders(headers=envoy.HeaderMap(headers=values), end_of_stream=True)
    return envoy.ProcessingRequest(request_headers=headers, **message).SerializeToString()


LINE = ((":method", b"GET"), (":path", b"/x"), (":scheme", b"https"), (":authority", b"a.test"))
_BODY = envoy.HttpBody(body=b"x", end_of_stream=True)
_LATER_PARTS = (envoy.ProcessingRequest(request_body=_BODY), envoy.ProcessingRequest(response_body=_BODY))
Make = Callable[[random.Random], bytes]
KINDS: Mapping[str, tuple[str, Make]] = {
    "random bytes": (EXECUTE, lambda chance: chance.randbytes(chance.randint(1, 400))),
    "flipped bits": (EXECUTE, lambda chance: flipped(keyed().SerializeToString(), chance)),
    "cut short": (EXECUTE, lambda chance: keyed().SerializeToString()[: chance.randint(1, 80)]),
    "parts in another order": (EXECUTE, lambda chance: spliced(keyed().SerializeToString(), chance)),
    "another message": (EXECUTE, lambda _: pb.PolicyResponse(status=pb.Status(code=pb.Status.OK)).SerializeToString()),
    "nested too deep": (EXECUTE, lambda chance: nested(chance.randint(40, 4000))),
    "a value without a kind": (
        EXECUTE,
        lambda _: b"\x12" + _length(b"\x0a\x01x\x1a" + _length(b"\x0a\x05\x0a\x01k\x12\x00")),
    ),
    "a number that is none": (
        EXECUTE,
        lambda chance: a_request(
            a_ref("rate_limit", limit=chance.choice((float("nan"), float("inf"))))
        ).SerializeToString(),
    ),
    "text that is not UTF-8": (EXECUTE, lambda chance: b"\x0a" + _length(b"\xff" + chance.randbytes(8))),
    "a length beyond the end": (EXECUTE, lambda chance: b"\x12\xff\xff\xff\xff\x07" + chance.randbytes(16)),
    "numbers of fields that nobody has": (EXECUTE, lambda chance: b"\xfa\xff\x7f" + _length(chance.randbytes(32))),
    "unknown phase": (EXECUTE, lambda chance: keyed().SerializeToString() + bytes((0x20, chance.randint(3, 127)))),
    "header names that are none": (
        EXECUTE,
        lambda chance: header(chance.choice((b"", b":path", b"a b", b"a\r\nb", b"\xc3\xa9")), b"x"),
    ),
    "header values that are none": (
        EXECUTE,
        lambda chance: header(b"x", chance.choice((b"\r\nset-cookie: a", b"\0", b"\x7f", b"\n"))),
    ),
    "thousands of headers": (
        EXECUTE,
        lambda chance: keyed(headers=[("x", "y")] * chance.randint(257, 5000)).SerializeToString(),
    ),
    "thousands of policies": (
        EXECUTE,
        lambda chance: a_request(*["api_key"] * chance.randint(65, 5000)).SerializeToString(),
    ),
    "a body beyond the bound": (
        EXECUTE,
        lambda chance: keyed(body=bytes(chance.randint(1_048_577, 4_000_000))).SerializeToString(),
    ),
    "broken requests on a stream": (STREAM, lambda chance: flipped(keyed().SerializeToString(), chance)),
    "random bytes on a stream": (STREAM, lambda chance: chance.randbytes(chance.randint(1, 400))),
    "ext_proc: flipped bits": (PROCESS, lambda chance: flipped(processing(*LINE), chance)),
    "ext_proc: no headers at all": (PROCESS, lambda chance: processing(*chance.sample(LINE, chance.randint(0, 3)))),
    "ext_proc: parts out of order": (PROCESS, lambda chance: chance.choice(_LATER_PARTS).SerializeToString()),
    "ext_proc: header bytes": (PROCESS, lambda chance: processing(*LINE, ("x-api-key", chance.randbytes(40)))),
    "ext_authz: flipped bits": (CHECK, lambda chance: flipped(_check_request(), chance)),
}


def _check_request() -> bytes:
    http = envoy.AttributeContext.HttpRequest(method="GET", path="/x", scheme="https", host="a.test")
    http.headers["x-api-key"] = "key-of-nobody-0123456789"
    request = envoy.AttributeContext.Request(http=http)
    return envoy.CheckRequest(attributes=envoy.AttributeContext(request=request)).SerializeToString()


def test_there_are_twenty_four_kinds() -> None:
    assert len(KINDS) == 24


@dataclass
class Said:
    """Everything that came back."""

    answers: list[bytes]
    errors: list[grpc.aio.AioRpcError]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_broken_message_is_refused_and_the_agent_lives(
    tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    method, make = KINDS[kind]
    chance = random.Random(kind)
    said = Said([], [])
    async with _agent(tmp_path) as client:
        for _ in range(SAMPLES):
            await soon(_send(client, method, make(chance), said))
        allowed = await client.execute(keyed(headers=[("x-api-key", SECRET)]))
    assert allowed.status.code == pb.Status.OK
    assert {error.code() for error in said.errors} <= CALM
    assert not [answer for answer in said.answers if _is_yes(method, answer)]
    told = b"".join(said.answers) + str([error.details() for error in said.errors]).encode()
    assert SECRET.encode() not in told
    assert b"Traceback" not in told
    assert SECRET not in caplog.text


async def _send(client: Client, method: str, data: bytes, said: Said) -> None:
    try:
        if method in (STREAM, PROCESS):
            stream: Any = client.channel.stream_stream(method)()
            await stream.write(data)
            await stream.done_writing()
            async for answer in stream:
                said.answers.append(answer)
        else:
            call: Any = client.channel.unary_unary(method)
            said.answers.append(await call(data))
    except grpc.aio.AioRpcError as error:
        said.errors.append(error)


def _is_yes(method: str, answer: bytes) -> bool:
    """Whether Envoy or another proxy would let the request pass."""
    if method == PROCESS:
        return not envoy.ProcessingResponse.FromString(answer).HasField("immediate_response")
    if method == CHECK:
        return envoy.CheckResponse.FromString(answer).status.code == 0
    return bool(pb.PolicyResponse.FromString(answer).status.code == pb.Status.OK)


@asynccontextmanager
async def _agent(directory: Path) -> AsyncIterator[Client]:
    step = ChainPolicyConfig("api_key", metadata={"keys": [{"id": "anna", "key": SECRET}]})
    config = Config(GatewayConfig("127.0.0.1", 1), None, None, ServicesConfig(), StorageConfig())
    config = replace(config, chains={"api": (step,)})
    async with (
        an_agent(directory / "s", config=config, routes=(RouteConfig("api"),)) as path,
        a_client(path) as client,
    ):
        yield client
