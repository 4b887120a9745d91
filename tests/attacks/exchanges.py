"""Requests as Envoy shows them to the policy agent by ext_proc, one message after the other."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from agent_gate.chain.policy import Policy
from agent_gate.config import ChainPolicyConfig, Config, GatewayConfig, RouteConfig, ServicesConfig, StorageConfig
from agent_gate.doors.policy_agent.envoy.ext_proc import NAME
from agent_gate.doors.policy_agent.proto import envoy_pb2 as pb
from tests.agents import Client, a_client, an_agent

LINE = {":method": "POST", ":scheme": "https", ":path": "/orders", ":authority": "shop.test"}
LATER: Mapping[str, pb.ProcessingRequest] = {
    "body": pb.ProcessingRequest(request_body=pb.HttpBody(body=b"x")),
    "last body": pb.ProcessingRequest(request_body=pb.HttpBody(body=b"x", end_of_stream=True)),
    "trailers": pb.ProcessingRequest(request_trailers=pb.HttpTrailers()),
    "response": pb.ProcessingRequest(
        response_headers=pb.HttpHeaders(
            headers=pb.HeaderMap(headers=[pb.HeaderValue(key=":status", raw_value=b"200")]), end_of_stream=True
        )
    ),
    "unknown": pb.ProcessingRequest(),
}


@asynccontextmanager
async def an_agent_before(
    directory: Path,
    routes: Sequence[Mapping[str, Any]],
    chains: Mapping[str, Sequence[ChainPolicyConfig]],
    *policies: Policy[Any],
) -> AsyncIterator[Client]:
    config = Config(GatewayConfig("127.0.0.1", 1), None, None, ServicesConfig(), StorageConfig())
    config = replace(config, chains={name: tuple(steps) for name, steps in chains.items()})
    made = tuple(RouteConfig(**route) for route in routes)
    agent = an_agent(directory / "s", *policies, config=config, routes=made)
    async with agent as path, a_client(path) as client:
        yield client


def shown(
    headers: Mapping[str, str], mode: str = "FULL_DUPLEX_STREAMED", then: Sequence[str] = ()
) -> list[pb.ProcessingRequest]:
    """Text of the headers stands for bytes, one character each."""
    fields = [
        pb.HeaderValue(key=name, raw_value=value.encode("latin-1")) for name, value in {**LINE, **headers}.items()
    ]
    head = pb.HttpHeaders(headers=pb.HeaderMap(headers=fields), end_of_stream=not then)
    modes = pb.ProtocolConfiguration(request_body_mode=mode, response_body_mode=mode)
    return [pb.ProcessingRequest(request_headers=head, protocol_config=modes), *(LATER[name] for name in then)]


async def answers(client: Client, messages: Sequence[pb.ProcessingRequest]) -> list[pb.ProcessingResponse] | None:
    """None where the stream does not end well."""
    process: Any = client.channel.stream_stream(
        f"/{NAME}/Process", pb.ProcessingRequest.SerializeToString, pb.ProcessingResponse.FromString
    )
    try:
        return [answer async for answer in process(iter(messages))]
    except grpc.aio.AioRpcError:
        return None


def outcome(found: Sequence[pb.ProcessingResponse] | None) -> str:
    """Envoy lets on what it is told to, and nothing after an answer in its place."""
    passed = found and all(answer.WhichOneof("response") != "immediate_response" for answer in found)
    return "allow" if passed else "deny"
