"""What becomes of a request that the chain of a door answers itself."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.requests import Request

from agent_gate.chain.configured import ConfiguredChain, configured
from agent_gate.chain.executor import Executor
from agent_gate.chain.instruction import ImmediateResponse
from agent_gate.chain.policy import PolicyResult, StatusCode
from agent_gate.chain.prepared import PolicyRef
from agent_gate.chain.registry import Registry
from agent_gate.doors.callers import Answered, Callers
from agent_gate.doors.identity import Identities
from agent_gate.doors.throttle import Throttle
from agent_gate.model.bounds import GUESSES_PER_MINUTE
from agent_gate.toolkit.threads import BlockingPool
from tests.agents import Scripted
from tests.gates import HandClock
from tests.servers import a_config


def a_request() -> Request:
    return Request(
        {
            "type": "http",
            "method": "GET",
            "scheme": "http",
            "path": "/api/v1/tools",
            "raw_path": b"/api/v1/tools",
            "query_string": b"",
            "client": ("192.0.2.1", 1),
            "server": ("gate.test", 80),
            "headers": [(b"host", b"gate.test"), (b"x-api-key", b"something")],
        }
    )


def chain_of(result: PolicyResult) -> ConfiguredChain:
    async def act(_: Any, __: Any) -> PolicyResult:
        return result

    registry = Registry()
    registry.register(Scripted("answer", act))
    return configured("api", [PolicyRef("answer")], registry, Executor(registry, BlockingPool(1)))


async def answered(status: int, policy_status: StatusCode, times: int = 1) -> list[Answered]:
    response = ImmediateResponse(status, [("x-from", "chain")], b"said")
    chain = chain_of(PolicyResult(policy_status, (response,), "why"))
    callers = Callers(Identities(a_config()), Throttle(HandClock().monotonic), chain)
    found = [await callers.of(a_request()) for _ in range(times)]
    assert all(isinstance(one, Answered) for one in found)
    return [one for one in found if isinstance(one, Answered)]


@pytest.mark.parametrize("policy_status", [StatusCode.OK, StatusCode.POLICY_DENIED])
@pytest.mark.parametrize(
    ("status", "code"),
    [(200, None), (204, None), (302, None), (399, None), (400, 6003), (401, 6002), (403, 6003), (429, 1012)],
)
async def test_an_answer_of_the_chain_below_400_is_no_refusal_and_is_given_as_it_is(
    status: int, code: int | None, policy_status: StatusCode
) -> None:
    (one,) = await answered(status, policy_status)
    assert (one.response.status_code, one.response.body, one.response.headers["x-from"]) == (status, b"said", "chain")
    assert (one.problem.code if one.problem else None) == code


async def test_who_is_answered_by_a_preflight_or_a_redirect_is_not_taken_for_one_who_guesses() -> None:
    found = await answered(204, StatusCode.OK, times=GUESSES_PER_MINUTE + 5)
    assert {one.response.status_code for one in found} == {204}
    guessing = await answered(401, StatusCode.POLICY_DENIED, times=GUESSES_PER_MINUTE + 5)
    assert guessing[-1].response.status_code == 429
