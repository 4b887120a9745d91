"""The policy agent over its socket: what it answers, what it refuses, and how it begins and ends."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from agent_gate import __version__
from agent_gate.chain.context import RequestContext
from agent_gate.chain.faults import PolicyFailure
from agent_gate.chain.instruction import Continue, ImmediateResponse, RemoveHeader, SetBody, SetHeader, SetState
from agent_gate.chain.policy import PolicyResult
from agent_gate.doors.codes import Unreachable
from agent_gate.doors.policy_agent.listening import AgentBounds
from agent_gate.doors.policy_agent.proto import policy_agent_pb2 as pb
from agent_gate.doors.policy_agent.structs import json_of, struct_of
from tests.agents import Scripted, a_client, a_ref, a_request, an_agent
from tests.gates import PATIENCE_S, soon

INVALID, EXHAUSTED = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.RESOURCE_EXHAUSTED
KEY = "key-of-anna-0123456789abcdef"


async def every_kind(_: Mapping[str, Any], context: RequestContext) -> PolicyResult:
    given = (SetHeader("X-A", "1"), RemoveHeader("x-b"), SetBody(b"\xff"), SetState("k", {"n": [1, None]}), Continue())
    return PolicyResult(instructions=given, metadata={"told": "yes"})


async def answering(_: Mapping[str, Any], context: RequestContext) -> PolicyResult:
    return PolicyResult(instructions=(ImmediateResponse(302, [("Location", "/x"), ("a", "1"), ("a", "2")], b"go"),))


async def leaking(_: Mapping[str, Any], context: RequestContext) -> PolicyResult:
    raise RuntimeError("the password is hunter2")


async def waiting(settings: Mapping[str, Any], _: RequestContext) -> PolicyResult:
    await asyncio.sleep(settings.get("seconds", 60))
    return PolicyResult()


async def refused(awaitable: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await awaitable
    return error.value.code(), str(error.value.details())


async def test_every_instruction_travels(tmp_path: Path) -> None:
    async with an_agent(tmp_path / "s", Scripted("all", every_kind)) as path, a_client(path) as client:
        response = await client.execute(a_request("all"))
    kinds = [instruction.WhichOneof("instruction") for instruction in response.instructions]
    assert kinds == ["set_header", "remove_header", "set_body", "set_state", "continue"]
    header, removed, body, state, _ = response.instructions
    assert (header.set_header.name, header.set_header.value) == ("X-A", "1")
    assert (removed.remove_header.name, body.set_body.body) == ("x-b", b"\xff")
    assert (state.set_state.key, json_of(state.set_state.value)) == ("k", {"n": [1, None]})
    assert (response.request_id, response.status.code, dict(response.metadata)) == (
        "r-1",
        pb.Status.OK,
        {"told": "yes"},
    )


async def test_an_immediate_response_travels_whole_and_ends_the_chain(tmp_path: Path) -> None:
    policies = Scripted("answer", answering), Scripted("leak", leaking)
    async with an_agent(tmp_path / "s", *policies) as path, a_client(path) as client:
        response = await client.execute(a_request("answer", "leak"))
    (answer,) = (instruction.immediate_response for instruction in response.instructions)
    assert (answer.status_code, answer.body) == (302, b"go")
    assert [(h.name, h.value) for h in answer.headers] == [("Location", "/x"), ("a", "1"), ("a", "2")]
    assert (response.status.code, response.status.policy_name) == (pb.Status.OK, "answer")


async def test_the_context_arrives_as_it_was_sent(tmp_path: Path) -> None:
    seen: list[RequestContext] = []

    async def look(_: Mapping[str, Any], context: RequestContext) -> PolicyResult:
        seen.append(context)
        return PolicyResult()

    request = a_request(
        "look",
        method="POST",
        headers=[("X-Two", "1"), ("x-two", "2")],
        body=b"\0\xff",
        query_params=[pb.QueryParam(name="a", value="1"), pb.QueryParam(name="a", value="2")],
        client_ip="192.0.2.1",
        state=struct_of({"identity": {"id": "anna"}}),
        response_status=404,
    )
    request.phase = pb.RESPONSE
    async with an_agent(tmp_path / "s", Scripted("look", look)) as path, a_client(path) as client:
        await client.execute(request)
    (context,) = seen
    assert (context.method, context.path, context.scheme, context.authority) == ("POST", "/orders", "https", "api.test")
    assert (context.headers.all("X-TWO"), context.body, context.client_ip) == (("1", "2"), b"\0\xff", "192.0.2.1")
    assert (context.query_params, context.response_status) == ((("a", "1"), ("a", "2")), 404)
    assert dict(context.state) == {"identity": {"id": "anna"}}


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (a_request(), "the chain is empty"),
        (a_request(a_ref("api_key", keys=[{"id": "x"}])), "metadata of policy `api_key`"),
        (a_request(a_ref("set_headers", headers={"x": "y\n"})), "metadata of policy `set_headers`"),
        (a_request(a_ref("set_headers", "perhaps", headers={"x": "y"})), "on_failure"),
        (a_request(a_ref("set_headers", headers={"x": "y"}, phase="response")), "does not work in the request phase"),
        (a_request(*["all"] * 65), "more than 64 policies"),
        (a_request("all", method="GE T"), "the method is no token"),
        (a_request("all", headers=[("x y", "")]), "the name of a header is no token"),
        (a_request("all", headers=[("x", "a\r\nb")]), "header `x` holds a control character"),
        (a_request("all", path="/a b"), "`path`"),
        (a_request("all", response_status=200), "the response phase, and no other"),
        (a_request("all", body=bytes(1_048_577)), "body size exceeds limit"),
        (a_request("all", state=struct_of({"k": "x" * 65_536})), "state size exceeds limit"),
        (pb.PolicyRequest(policies=[a_ref("all")]), "the phase is missing"),
        (pb.PolicyRequest(policies=[a_ref("all")], phase=7), "the phase is missing or unknown"),  # type: ignore[arg-type]  # as another program might
        (b"\xff\xff\xff", "the bytes are no PolicyRequest"),
    ],
)  # fmt: skip
async def test_a_malformed_request_is_an_invalid_argument_and_nothing_runs(
    tmp_path: Path, request_: pb.PolicyRequest | bytes, words: str
) -> None:
    ran: list[object] = []

    async def note(_: Mapping[str, Any], context: RequestContext) -> PolicyResult:
        ran.append(context)
        return PolicyResult()

    async with an_agent(tmp_path / "s", Scripted("all", note)) as path, a_client(path) as client:
        code, details = await refused(client.execute(request_))
        stream: Any = client.channel.stream_stream("/agentgate.policy.v1.PolicyAgent/ExecutePoliciesStream")()
        await stream.write(request_ if isinstance(request_, bytes) else request_.SerializeToString())
        answer = pb.PolicyResponse.FromString(await stream.read())
    assert (code, words in details, ran) == (INVALID, True, [])
    assert (answer.status.code, answer.status.message) == (pb.Status.POLICY_ERROR, details)


async def test_a_message_beyond_the_bound_is_refused_unread(tmp_path: Path) -> None:
    async with an_agent(tmp_path / "s", max_body_size=1000, max_state_size=0) as path, a_client(path) as client:
        code, _ = await refused(client.execute(bytes(1_100_000)))
        assert code is EXHAUSTED
        assert (await client.execute(a_request(a_ref("set_headers", headers={"x": "y"})))).status.code == pb.Status.OK


async def test_the_text_of_an_exception_stays_here(tmp_path: Path) -> None:
    async with an_agent(tmp_path / "s", Scripted("leak", leaking)) as path, a_client(path) as client:
        response = await client.execute(a_request("leak"))
    assert response.status.code == pb.Status.POLICY_DENIED
    assert "hunter2" not in str(response)


async def test_what_cannot_be_sent_is_a_policy_error(tmp_path: Path) -> None:
    async def odd(_: Mapping[str, Any], context: RequestContext) -> PolicyResult:
        return PolicyResult(metadata={"lone": "\ud800"})

    async with an_agent(tmp_path / "s", Scripted("odd", odd)) as path, a_client(path) as client:
        assert (await client.execute(a_request("odd"))).status.code == pb.Status.POLICY_ERROR


async def test_a_deadline_ends_the_chain(tmp_path: Path) -> None:
    async with an_agent(tmp_path / "s", Scripted("wait", waiting)) as path, a_client(path) as client:
        request = a_request("wait")
        request.deadline_ms = 30
        assert (await soon(client.execute(request))).status.code == pb.Status.TIMEOUT


async def test_the_deadline_of_the_call_itself_ends_the_chain_too(tmp_path: Path) -> None:
    ended = asyncio.Event()

    async def wait(_: Mapping[str, Any], context: RequestContext) -> PolicyResult:
        try:
            return await waiting(_, context)
        finally:
            ended.set()

    async with an_agent(tmp_path / "s", Scripted("wait", wait)) as path, a_client(path) as client:
        with suppress(grpc.aio.AioRpcError):
            assert (await client.execute(a_request("wait"), timeout=0.2)).status.code == pb.Status.TIMEOUT
        await soon(ended.wait())


async def test_requests_above_the_limit_wait_a_moment_and_only_those_above_the_queue_are_turned_away(
    tmp_path: Path,
) -> None:
    begun, go_on = asyncio.Semaphore(0), asyncio.Event()

    async def hold(_: Mapping[str, Any], context: RequestContext) -> PolicyResult:
        begun.release()
        await go_on.wait()
        return PolicyResult()

    bounds = AgentBounds(queue_wait_s=2 * PATIENCE_S)
    agent = an_agent(tmp_path / "s", Scripted("hold", hold), bounds=bounds, max_concurrent_requests=2)
    async with agent as path, a_client(path) as client:
        held = [asyncio.ensure_future(client.execute(a_request("hold"))) for _ in range(2)]
        await soon(begun.acquire())
        await soon(begun.acquire())
        more = [asyncio.ensure_future(client.execute(a_request("hold"))) for _ in range(3)]
        (turned, *_), waiting = await soon(asyncio.wait(more, return_when=asyncio.FIRST_COMPLETED))
        code, details = await refused(turned)
        stream = client.stream()
        await stream.write(a_request("hold"))
        turned_away = await stream.read()
        config = await client.call("GetAgentConfig", pb.GetAgentConfigRequest(), pb.GetAgentConfigResponse)
        go_on.set()
        answers = await soon(asyncio.gather(*held, *waiting))
    assert (code, "max_concurrent_requests" in details) == (EXHAUSTED, True)
    assert (turned_away.status.code, turned_away.status.message) == (pb.Status.POLICY_ERROR, details)
    assert (config.agent_name, config.agent_version) == ("agent-gate", __version__)
    assert [answer.status.code for answer in answers] == [pb.Status.OK] * 4


async def test_a_stream_answers_in_order_and_goes_on_after_a_mistake(tmp_path: Path) -> None:
    async with an_agent(tmp_path / "s", Scripted("wait", waiting)) as path, a_client(path) as client:
        stream = client.stream()
        requests = [a_request(a_ref("wait", seconds=0.02)), a_request(), a_request(a_ref("wait", seconds=0))]
        for number, request in enumerate(requests):
            request.request_id = str(number)
            await stream.write(request)
        answers = [await soon(stream.read()) for _ in requests]
        await stream.done_writing()
        assert (await stream.read(), await stream.code()) == (grpc.aio.EOF, grpc.StatusCode.OK)
    told = [(answer.request_id, answer.status.code) for answer in answers]
    assert told == [("0", pb.Status.OK), ("1", pb.Status.POLICY_ERROR), ("2", pb.Status.OK)]


async def test_an_agent_that_ends_answers_what_runs_and_never_ends_a_stream_well(tmp_path: Path) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def hold(_: Mapping[str, Any], context: RequestContext) -> PolicyResult:
        begun.set()
        await go_on.wait()
        return PolicyResult()

    async with a_client(tmp_path / "s") as client:
        async with an_agent(tmp_path / "s", Scripted("hold", hold)):
            idle, busy = client.stream(), client.stream()
            await idle.write(a_request(a_ref("set_headers", headers={"x": "y"})))
            await idle.read()
            await busy.write(a_request("hold"))
            await soon(begun.wait())
            asyncio.get_running_loop().call_later(0.1, go_on.set)
        assert (await busy.read()).status.code == pb.Status.OK
        for stream in (idle, busy):
            assert await soon(stream.code()) is grpc.StatusCode.UNAVAILABLE
    assert not (tmp_path / "s").exists()


async def test_the_socket_is_ours_alone_and_can_be_taken_again(tmp_path: Path) -> None:
    for _ in range(2):
        async with an_agent(tmp_path / "own" / "s%20 é") as path, a_client(path):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            with pytest.raises(Unreachable, match="somebody listens"):
                async with an_agent(path):
                    pytest.fail("taken twice")


async def test_health_reflection_and_configuration(tmp_path: Path) -> None:
    class Ailing(Scripted):
        async def health_check(self) -> None:
            raise PolicyFailure("its database does not answer")

    async def asked(client: Any, method: str, request: Any, answer: Any) -> Any:
        return await client.channel.unary_unary(method, type(request).SerializeToString, answer.FromString)(request)

    check = "/grpc.health.v1.Health/Check"
    async with an_agent(tmp_path / "s") as path, a_client(path) as client:
        for name in ("", "agentgate.policy.v1.PolicyAgent"):
            request = health_pb2.HealthCheckRequest(service=name)
            found = await asked(client, check, request, health_pb2.HealthCheckResponse)
            assert found.status == health_pb2.HealthCheckResponse.SERVING
        well = await client.call("HealthCheck", pb.HealthCheckRequest(), pb.HealthCheckResponse)
        config = await client.call("GetAgentConfig", pb.GetAgentConfigRequest(), pb.GetAgentConfigResponse)
        stream: Any = client.channel.stream_stream(
            "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
            reflection_pb2.ServerReflectionRequest.SerializeToString,
            reflection_pb2.ServerReflectionResponse.FromString,
        )()
        await stream.write(reflection_pb2.ServerReflectionRequest(list_services=""))
        listed = await stream.read()
        stream.cancel()
    assert well.status == pb.HealthCheckResponse.HEALTHY
    infos = {info.name: info for info in config.supported_policies}
    assert {"api_key", "jwt", "rate_limit", "set_headers", "remove_headers", "body_size"} <= set(infos)
    assert list(infos["secret_scrub"].supported_phases) == [pb.RESPONSE]
    assert '"keys"' in infos["api_key"].metadata_schema
    services = {service.name for service in listed.list_services_response.service}
    assert services >= {"agentgate.policy.v1.PolicyAgent", "grpc.health.v1.Health"}
    async with an_agent(tmp_path / "s", Ailing("ail", leaking)) as path, a_client(path) as client:
        ill = await client.call("HealthCheck", pb.HealthCheckRequest(), pb.HealthCheckResponse)
    assert (ill.status, ill.message) == (
        pb.HealthCheckResponse.UNHEALTHY, "policy ail unhealthy: its database does not answer",
    )  # fmt: skip


async def test_the_same_chain_again_need_not_be_made_ready_again(tmp_path: Path) -> None:
    """And one with an unknown policy is looked at each time: it may be known by then."""
    prepared: list[object] = []

    class Counting(Scripted):
        def prepare(self, metadata: Mapping[str, Any]) -> Mapping[str, Any]:
            prepared.append(metadata)
            return metadata

    async def passing(_: Mapping[str, Any], context: RequestContext) -> PolicyResult:
        return PolicyResult()

    async with an_agent(tmp_path / "s", Counting("count", passing)) as path, a_client(path) as client:
        for _ in range(3):
            await client.execute(a_request(a_ref("count", a=1, b=2, c=3)))
        assert len(prepared) == 1
        await client.execute(a_request(a_ref("count", a=2)))
        unknown = [await client.execute(a_request("count", "nobody")) for _ in range(2)]
    assert len(prepared) == 4
    assert [answer.status.code for answer in unknown] == [pb.Status.POLICY_DENIED] * 2
