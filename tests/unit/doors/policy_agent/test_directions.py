"""Every order in which Envoy's messages can come: nothing passes that its chain has not let pass."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_gate.chain.context import RequestContext
from agent_gate.chain.executor import Bounds, Executor
from agent_gate.chain.faults import InvalidRequest
from agent_gate.chain.policy import PolicyResult, StatusCode
from agent_gate.chain.registry import Registry
from agent_gate.config import ChainPolicyConfig, PolicyAgentConfig, RouteConfig
from agent_gate.doors.policy_agent.envoy.directions import FIRST, NEXT, Act, Event, Holding, Stage, move
from agent_gate.doors.policy_agent.envoy.exchange import Exchange
from agent_gate.doors.policy_agent.envoy.kernel import Kernel
from agent_gate.doors.policy_agent.envoy.room import Room
from agent_gate.doors.policy_agent.proto import envoy_pb2 as pb
from agent_gate.doors.policy_agent.running import Running
from agent_gate.model.bounds import AGENT_KEPT_BYTES_MAX
from agent_gate.toolkit.threads import BlockingPool
from tests.agents import Scripted

MODES = pb.ProcessingMode.BodySendMode.values()
DUPLEX, BUFFERED = pb.ProcessingMode.FULL_DUPLEX_STREAMED, pb.ProcessingMode.BUFFERED
BODY_BYTES_MAX = 8


def headers(*fields: tuple[str, str], end: bool) -> pb.HttpHeaders:
    values = [pb.HeaderValue(key=name, raw_value=value.encode()) for name, value in fields]
    return pb.HttpHeaders(headers=pb.HeaderMap(headers=values), end_of_stream=end)


LINE = ((":method", "POST"), (":path", "/x"), (":scheme", "https"), (":authority", "a.test"))
OK, LENGTH = (":status", "200"), ("content-length", "1")
PIECE, LAST_PIECE = pb.HttpBody(body=b"x"), pb.HttpBody(body=b"x", end_of_stream=True)
MESSAGES: Mapping[str, pb.ProcessingRequest] = {
    "request": pb.ProcessingRequest(request_headers=headers(*LINE, end=False)),
    "request of known length": pb.ProcessingRequest(request_headers=headers(*LINE, LENGTH, end=False)),
    "upgrade": pb.ProcessingRequest(request_headers=headers(*LINE, ("upgrade", "websocket"), end=False)),
    "whole request": pb.ProcessingRequest(request_headers=headers(*LINE, end=True)),
    "request body": pb.ProcessingRequest(request_body=PIECE),
    "last request body": pb.ProcessingRequest(request_body=LAST_PIECE),
    "large request body": pb.ProcessingRequest(request_body=pb.HttpBody(body=b"x" * (BODY_BYTES_MAX + 1))),
    "request trailers": pb.ProcessingRequest(request_trailers=pb.HttpTrailers()),
    "response": pb.ProcessingRequest(response_headers=headers(OK, end=False)),
    "response of known length": pb.ProcessingRequest(response_headers=headers(OK, LENGTH, end=False)),
    "whole response": pb.ProcessingRequest(response_headers=headers(OK, end=True)),
    "response body": pb.ProcessingRequest(response_body=PIECE),
    "last response body": pb.ProcessingRequest(response_body=LAST_PIECE),
    "response trailers": pb.ProcessingRequest(response_trailers=pb.HttpTrailers()),
    "unknown": pb.ProcessingRequest(),
}


@dataclass
class Played:
    """What Envoy would have let on, and what the policies had seen by then."""

    allows: bool
    ran: list[RequestContext] = field(default_factory=list)
    shown: dict[str, bytes] = field(default_factory=lambda: {"request": b"", "response": b""})
    let_on: list[str] = field(default_factory=list)
    """By kind of answer: what does not pass is an immediate response, or no answer."""
    refused: bool = False

    async def act(self, _: Mapping[str, Any], context: RequestContext) -> PolicyResult:
        self.ran.append(context)
        return PolicyResult(StatusCode.OK if self.allows else StatusCode.POLICY_DENIED)


def kernel_of(played: Played, *, bodies: bool = True) -> Kernel:
    registry = Registry()
    registry.register(Scripted("both", played.act))
    executor = Executor(registry, BlockingPool(1), Bounds(body_bytes_max=BODY_BYTES_MAX))
    settings = PolicyAgentConfig("s", routes=(RouteConfig("all", bodies=bodies),))
    return Kernel({"all": (ChainPolicyConfig("both"),)}, settings, registry, executor, Running(9))


def shown(name: str, mode: int | None = None) -> pb.ProcessingRequest:
    message = pb.ProcessingRequest()
    message.CopyFrom(MESSAGES[name])
    if mode is not None:
        modes = message.protocol_config
        modes.request_body_mode = modes.response_body_mode = mode  # type: ignore[assignment]  # its number
    return message


async def play(names: Sequence[str], mode: int, *, bodies: bool, allows: bool) -> Played:
    played = Played(allows)
    kernel = kernel_of(played, bodies=bodies)
    exchange = Exchange(kernel)
    for number, name in enumerate(names):
        message = shown(name, mode if number == 0 else None)
        try:
            answers = await exchange.answers(message)
        except InvalidRequest:
            break
        for kind in ("request", "response"):
            played.shown[kind] += getattr(message, f"{kind}_body").body
        for answer in answers:
            check(answer, played, mode, name, bodies=bodies)
    exchange.close()
    assert kernel.room.free == AGENT_KEPT_BYTES_MAX, "what was kept is given back"
    return played


def check(answer: pb.ProcessingResponse, played: Played, mode: int, name: str, *, bodies: bool) -> None:
    kind = answer.WhichOneof("response")
    assert kind is not None
    if kind == "immediate_response":
        played.refused = True
        return
    assert not played.refused, "after a refusal nothing passes"
    phase = kind.partition("_")[0]
    runs = [context for context in played.ran if context.phase.value == phase]
    if name == f"{phase} of known length" and mode == BUFFERED and bodies and not runs:
        return
    assert played.allows
    assert len(runs) == 1, "each chain has run, once"
    assert [context.phase.value for context in played.ran][:1] == ["request"]
    assert not bodies or runs[0].body == played.shown[phase], "and has seen the whole body"
    played.let_on.append(kind)


@pytest.mark.parametrize("bodies", [True, False])
@pytest.mark.parametrize("mode", MODES)
async def test_no_order_of_three_messages_gets_past_the_chain(mode: int, bodies: bool) -> None:
    for names in itertools.product(MESSAGES, repeat=3):
        await play(names, mode, bodies=bodies, allows=True)


@given(st.lists(st.sampled_from(sorted(MESSAGES)), max_size=12), st.sampled_from(MODES), st.booleans(), st.booleans())
async def test_no_order_of_messages_gets_past_the_chain(
    names: list[str], mode: int, bodies: bool, allows: bool
) -> None:
    played = await play(names, mode, bodies=bodies, allows=allows)
    assert allows or not played.let_on


@given(st.lists(st.sampled_from(sorted(MESSAGES)), max_size=8), st.sampled_from([DUPLEX, BUFFERED]))
async def test_a_whole_request_before_anything_else_always_passes(more: list[str], mode: int) -> None:
    played = await play(["whole request", *more], mode, bodies=True, allows=True)
    assert played.let_on[0] == "request_headers"


async def test_what_all_exchanges_keep_together_is_bounded_and_given_back() -> None:
    kernel = kernel_of(Played(allows=True))
    kernel.room = Room(2)
    first, second = Exchange(kernel), Exchange(kernel)
    for exchange in (first, second):
        assert await exchange.answers(shown("request", DUPLEX)) == []
        assert await exchange.answers(shown("request body")) == []
    (refused,) = await second.answers(shown("request body"))
    assert refused.immediate_response.status.code == 503
    assert await first.answers(shown("request body")) == [], "there is room again"
    first.close()
    assert kernel.room.free == 2


def test_the_table_lets_nothing_pass_that_was_not_judged() -> None:
    """From the first message on, along every path: a stage in which something passes is reached by judging only."""
    moves = [*FIRST.values(), *NEXT.values()]
    judged = {found.stage for found in moves if found.act is Act.JUDGE}
    passing = {stage for (stage, _), found in NEXT.items() if found.act is Act.LET_ON}
    assert passing <= judged
    assert not passing & {found.stage for found in moves if found.act in (Act.KEEP, Act.AWAIT_BODY)}


@pytest.mark.parametrize("holding", Holding)
@pytest.mark.parametrize("event", Event)
@pytest.mark.parametrize("stage", Stage)
def test_the_table_has_an_answer_to_everything(stage: Stage, event: Event, holding: Holding) -> None:
    found = move(stage, event, holding)
    named = (stage, event) in NEXT or (stage, event) == (Stage.UNSEEN, Event.HEADERS)
    assert named or found == (Act.REFUSE, Stage.OVER)
