"""The health of a policy agent: each policy says how it is, and every way of asking gives the same answer."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2

from agent_gate.chain.builtin.gate import GatePolicy
from agent_gate.chain.builtin.jwt import Jwt
from agent_gate.chain.builtin.rate_limit import RateLimit
from agent_gate.chain.faults import PolicyFailure
from agent_gate.chain.policy import PolicyResult
from agent_gate.config import ChainPolicyConfig, Config, GatewayConfig, RouteConfig, ServicesConfig, StorageConfig
from agent_gate.doors.policy_agent.listening import AgentBounds
from agent_gate.doors.policy_agent.proto import policy_agent_pb2 as pb
from agent_gate.gate.traffic import Traffic
from agent_gate.model.bounds import JWKS_RETRY_S, JWKS_STALE_S
from agent_gate.model.errors import StorageError
from tests.agents import Client, Scripted, a_client, a_request, an_agent
from tests.gates import ALLOW_ALL, HandClock, a_gate, soon
from tests.unit.chain.builtin.asking import FakeJudge
from tests.unit.chain.builtin.tokens import AUDIENCE, ISSUER, jwk, rsa_key

Answer = health_pb2.HealthCheckResponse
NOBODY_LISTENS = "http://127.0.0.1:1/jwks?key=hunter2"
JWT: dict[str, Any] = {"algorithms": ["RS256"], "issuer": ISSUER, "audience": AUDIENCE}


async def passing(_: Any, __: Any) -> PolicyResult:
    return PolicyResult()


class Moody(Scripted):
    """Well or not, as the test says."""

    ailment = ""

    async def health_check(self) -> None:
        if self.ailment:
            raise PolicyFailure(self.ailment)


def with_jwt(**metadata: Any) -> Config:
    config = Config(GatewayConfig("127.0.0.1", 1), None, None, ServicesConfig(), StorageConfig())
    return replace(config, chains={"orders": (ChainPolicyConfig("jwt", metadata={**JWT, **metadata}),)})


async def own(client: Client) -> tuple[bool, str]:
    answer = await client.call("HealthCheck", pb.HealthCheckRequest(), pb.HealthCheckResponse)
    return answer.status == pb.HealthCheckResponse.HEALTHY, answer.message


async def standard(client: Client, service: str = "") -> int:
    method: Any = client.channel.unary_unary("/grpc.health.v1.Health/Check")
    answer = await method(health_pb2.HealthCheckRequest(service=service).SerializeToString())
    return Answer.FromString(answer).status


def watched(client: Client, service: str = "") -> Any:
    method: Any = client.channel.unary_stream(
        "/grpc.health.v1.Health/Watch", health_pb2.HealthCheckRequest.SerializeToString, Answer.FromString
    )
    return method(health_pb2.HealthCheckRequest(service=service))


async def test_the_standard_health_service_says_what_healthcheck_says(tmp_path: Path) -> None:
    moody = Moody("moody", passing)
    async with an_agent(tmp_path / "s", moody) as path, a_client(path) as client:
        for ailment, status in [("", Answer.SERVING), ("no database", Answer.NOT_SERVING), ("", Answer.SERVING)]:
            moody.ailment = ailment
            for service in ("", "agentgate.policy.v1.PolicyAgent"):
                assert await standard(client, service) == status
            assert (await own(client))[0] is not bool(ailment)
        with pytest.raises(grpc.aio.AioRpcError) as unknown:
            await standard(client, "shop")
    assert unknown.value.code() is grpc.StatusCode.NOT_FOUND


async def test_who_watches_the_health_is_told_of_each_change_and_of_the_end(tmp_path: Path) -> None:
    """Nobody else asks: the agent looks by itself."""
    moody = Moody("moody", passing)
    async with a_client(tmp_path / "s") as client:
        async with an_agent(tmp_path / "s", moody, bounds=AgentBounds(health_interval_s=0.005)):
            watching, other, unknown = watched(client), watched(client), watched(client, "shop")
            assert [(await soon(stream.read())).status for stream in (watching, other)] == [Answer.SERVING] * 2
            assert (await soon(unknown.read())).status == Answer.SERVICE_UNKNOWN
            moody.ailment = "no database"
            assert [(await soon(stream.read())).status for stream in (watching, other)] == [Answer.NOT_SERVING] * 2
            moody.ailment = ""
            assert [(await soon(stream.read())).status for stream in (watching, other)] == [Answer.SERVING] * 2
        assert [(await soon(stream.read())).status for stream in (watching, other)] == [Answer.NOT_SERVING] * 2
        assert [await soon(stream.read()) for stream in (watching, other, unknown)] == [grpc.aio.EOF] * 3


async def test_a_key_set_that_cannot_be_reached_makes_jwt_unhealthy_before_any_token_comes(tmp_path: Path) -> None:
    """The chain of a route: nobody has sent a request yet. Only the host of the URL is told."""
    config, route = with_jwt(jwks_url=NOBODY_LISTENS), RouteConfig("orders")
    async with an_agent(tmp_path / "s", config=config, routes=(route,)) as path, a_client(path) as client:
        healthy, message = await own(client)
        assert not healthy
        assert message == "policy jwt unhealthy: the keys at `127.0.0.1` cannot be read: ConnectError"
        assert await standard(client) == Answer.NOT_SERVING


async def test_a_file_of_keys_makes_jwt_healthy_only_while_it_holds_a_key(tmp_path: Path) -> None:
    clock, file = HandClock(), tmp_path / "keys.json"
    policy = Jwt(clock)
    policy.adopt(policy.prepare({**JWT, "jwks_file": str(file)}))
    with pytest.raises(PolicyFailure, match="cannot be read: FileNotFoundError"):
        await policy.health_check()
    file.write_text('{"keys": []}')
    clock.advance(JWKS_RETRY_S)
    with pytest.raises(PolicyFailure, match="holds no key that can be used"):
        await policy.health_check()
    file.write_text(json.dumps({"keys": [jwk(rsa_key(), "r")]}))
    clock.advance(JWKS_STALE_S)
    await policy.health_check()


async def test_keys_that_serve_on_while_their_source_is_down_are_healthy_until_they_are_too_old() -> None:
    clock, up = HandClock(), True

    async def fetch(_: str) -> bytes:
        if not up:
            raise OSError
        return json.dumps({"keys": [jwk(rsa_key(), "r")]}).encode()

    policy = Jwt(clock, fetch)
    policy.adopt(policy.prepare({**JWT, "jwks_url": "https://keys.example/jwks"}))
    await policy.health_check()
    up = False
    clock.advance(JWKS_STALE_S)
    await policy.health_check()
    clock.advance(JWKS_RETRY_S)
    with pytest.raises(PolicyFailure, match=r"`keys\.example` cannot be read: OSError"):
        await policy.health_check()


async def test_a_source_that_only_a_request_has_named_counts_for_as_long_as_it_is_used() -> None:
    """A mistake in a request's own chain must not make the agent unhealthy for ever."""

    async def down(_: str) -> bytes:
        raise OSError

    clock = HandClock()
    policy = Jwt(clock, down)
    policy.prepare({**JWT, "jwks_url": "https://typo.example/jwks"})
    with pytest.raises(PolicyFailure):
        await policy.health_check()
    clock.advance(JWKS_STALE_S + 1)
    await policy.health_check()


async def test_a_rate_limit_that_can_count_nobody_new_is_unhealthy_until_it_can() -> None:
    clock = HandClock()
    policy = RateLimit(clock, keys_max=2)
    settings = policy.prepare({"limit": 1, "per_seconds": 60})
    for key in (b"anna", b"bob"):
        assert policy._wait_ns(settings, key) == 0
    with pytest.raises(PolicyFailure, match="2 callers are being counted"):
        await policy.health_check()
    clock.advance(61)
    await policy.health_check()


async def test_a_gate_that_cannot_judge_makes_its_policy_unhealthy() -> None:
    class Broken(FakeJudge):
        async def health_check(self) -> None:
            raise StorageError("the disk is full", code=5002)

    await GatePolicy(FakeJudge()).health_check()
    with pytest.raises(PolicyFailure, match="the gate cannot judge: the disk is full"):
        await GatePolicy(Broken()).health_check()


async def test_the_desk_of_a_gate_is_healthy_until_it_closes(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ALLOW_ALL) as gate:
        async with Traffic(gate, {}) as traffic:
            await GatePolicy(traffic).health_check()
        with pytest.raises(PolicyFailure, match="closing"):
            await GatePolicy(traffic).health_check()


async def test_what_changes_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    moody = Moody("moody", passing)
    async with an_agent(tmp_path / "s", moody) as path, a_client(path) as client:
        moody.ailment = "no database"
        for _ in range(3):
            await own(client)
        await client.execute(a_request("moody"))
        moody.ailment = ""
        await own(client)
    told = [record.getMessage() for record in caplog.records if "healthy" in record.getMessage()]
    assert told == ["policy `moody` is unhealthy: no database", "policy `moody` is healthy again"]
