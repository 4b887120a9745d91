"""The promise: no sequence of policies, failures and timeouts passes when a required policy did not run to its end."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from agent_gate.chain.accumulator import Response
from agent_gate.chain.context import RequestContext
from agent_gate.chain.executor import Bounds
from agent_gate.chain.instruction import ImmediateResponse, SetBody, SetHeader, SetState
from agent_gate.chain.policy import PolicyResult, StatusCode
from agent_gate.chain.prepared import OnFailure, PolicyRef
from tests.unit.chain.scripted import Script, Scripted, an_executor, asks_for, never, raises, returns
from tests.virtual_time import VirtualTimeLoop

BOUNDS = Bounds(policy_timeout_s=0.0005, body_bytes_max=10, state_bytes_max=50)


async def _fails_after_waiting(_: RequestContext) -> PolicyResult:
    await asyncio.sleep(0)
    raise RuntimeError


async def _passes_after_waiting(_: RequestContext) -> PolicyResult:
    await asyncio.sleep(0)
    return PolicyResult(instructions=(SetHeader("waited", "1"),))


async def _swallows_the_end_of_its_time(_: RequestContext) -> PolicyResult:
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        return PolicyResult(instructions=(SetHeader("late", "1"),))
    raise AssertionError


WELL: dict[str, Script] = {
    "passes": returns(PolicyResult()),
    "sets a header": asks_for(SetHeader("a", "b"), SetState("k", 1), SetBody(b"new")),
    "passes after waiting": _passes_after_waiting,
}
STOPPING: dict[str, Script] = {
    "denies": asks_for(status=StatusCode.POLICY_DENIED),
    "answers": asks_for(ImmediateResponse(200)),
    "denies and answers": asks_for(ImmediateResponse(403), status=StatusCode.POLICY_DENIED),
    "has too large a body": asks_for(SetBody(b"x" * 11)),
    "has too large a state": asks_for(SetState("k", "x" * 60)),
}
FAILING: dict[str, Script] = {
    "raises": raises(RuntimeError()),
    "exits": raises(SystemExit()),
    "is cancelled": raises(asyncio.CancelledError()),
    "returns nothing": returns(None),
    "reports an error": asks_for(SetHeader("a", "b"), status=StatusCode.POLICY_ERROR),
    "reports a timeout": asks_for(SetHeader("a", "b"), status=StatusCode.TIMEOUT),
    "never returns": never,
    "returns late": _swallows_the_end_of_its_time,
    "fails after waiting": _fails_after_waiting,
}
BEHAVIOURS = {**WELL, **STOPPING, **FAILING}

steps = st.tuples(
    st.one_of(st.sampled_from(list(WELL)), st.sampled_from(list(BEHAVIOURS)), st.just("is unknown")),
    st.sampled_from([each.value for each in OnFailure]),
)


def _run(chain: list[tuple[str, str]], deadline_s: float | None) -> tuple[Response, list[Scripted | None]]:
    policies = [
        Scripted(f"p{number}", BEHAVIOURS[behaviour]) if behaviour in BEHAVIOURS else None
        for number, (behaviour, _) in enumerate(chain)
    ]
    refs = [PolicyRef(f"p{number}", on_failure=on_failure) for number, (_, on_failure) in enumerate(chain)]
    executor = an_executor(*filter(None, policies), bounds=BOUNDS)
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(executor.execute(refs, RequestContext(), deadline_s=deadline_s)), policies


@given(st.lists(steps, min_size=1, max_size=6), st.sampled_from([None, None, 0.0, 0.001]))
def test_nothing_passes_unless_every_required_policy_ran_to_its_end_and_agreed(
    chain: list[tuple[str, str]], deadline_s: float | None
) -> None:
    response, policies = _run(chain, deadline_s)
    if not response.passes:
        assert response.status is not StatusCode.OK or response.immediate is not None
        return
    for (behaviour, on_failure), policy in zip(chain, policies, strict=True):
        assert behaviour != "is unknown" or on_failure != "deny"
        if on_failure == "deny":
            assert policy is not None
            assert (behaviour in WELL, policy.began, policy.ended) == (True, 1, 1)
    assert "late" not in response.context.headers


@given(st.lists(steps, min_size=1, max_size=6))
def test_the_executor_agrees_with_a_model_of_its_rules(chain: list[tuple[str, str]]) -> None:
    response, policies = _run(chain, None)
    status, ended_by, began = _model(chain)
    assert (response.status, response.policy_name) == (status, ended_by)
    assert [policy.began if policy else 0 for policy in policies] == began


def _model(chain: list[tuple[str, str]]) -> tuple[StatusCode, str, list[int]]:
    began = [0] * len(chain)
    skipping = False
    for number, (behaviour, on_failure) in enumerate(chain):
        if skipping and on_failure != "deny":
            continue
        name = f"p{number}"
        if behaviour == "is unknown":
            return StatusCode.POLICY_DENIED, name, began
        began[number] = 1
        match behaviour:
            case "answers":
                return StatusCode.OK, name, began
            case "denies" | "denies and answers":
                return StatusCode.POLICY_DENIED, name, began
            case "has too large a body" | "has too large a state":
                return StatusCode.POLICY_ERROR, name, began
            case _:
                pass
        if behaviour in FAILING:
            if on_failure == "deny":
                return StatusCode.POLICY_DENIED, name, began
            skipping = skipping or on_failure == "skip_remaining"
    return StatusCode.OK, "", began
