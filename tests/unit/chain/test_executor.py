"""The executor: every row of the document's table of errors (10.1), and what it promises besides."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from agent_gate.chain.accumulator import Failure
from agent_gate.chain.context import Phase, RequestContext
from agent_gate.chain.executor import Bounds
from agent_gate.chain.faults import InvalidRequest, PolicyFailure
from agent_gate.chain.instruction import Continue, ImmediateResponse, SetBody, SetHeader, SetState
from agent_gate.chain.policy import PASSED, REQUEST_PHASE, PolicyResult, StatusCode
from agent_gate.chain.prepared import OnFailure, PolicyRef, in_phase
from agent_gate.chain.registry import Registry
from agent_gate.config.settings import PolicyAgentConfig
from tests.unit.chain.scripted import SOON, Scripted, an_executor, asks_for, never, raises, returns, run
from tests.virtual_time import BACKEND

OK, DENIED, ERROR, TIMEOUT = StatusCode
ANY_ON_FAILURE = [each.value for each in OnFailure]


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """Whatever else the machine does meanwhile, a policy that answers at once is in time."""
    return BACKEND


def passing(name: str = "next") -> Scripted:
    return Scripted(name, returns(PASSED))


async def test_row_unknown_policy_is_denied_with_fail_on_unknown() -> None:
    follower = passing()
    response = await run((follower, "deny"), others=["nobody"])
    assert (response.status, response.policy_name, response.message) == (DENIED, "nobody", "unknown policy: nobody")
    assert not follower.began


async def test_row_unknown_policy_is_skipped_without_fail_on_unknown() -> None:
    follower = passing()
    response = await run((follower, "deny"), others=["nobody"], bounds=Bounds(fail_on_unknown=False))
    assert (response.passes, follower.ended) == (True, 1)


async def test_row_policy_timeout_with_deny_is_denied() -> None:
    follower = passing()
    response = await run((Scripted("slow", never), "deny"), (follower, "deny"), bounds=SOON)
    assert (response.status, response.policy_name) == (DENIED, "slow")
    assert response.message == "policy `slow` failed: policy execution timeout"
    assert not follower.began


async def test_row_policy_timeout_with_continue_goes_on() -> None:
    follower = passing()
    response = await run((Scripted("slow", never), "continue"), (follower, "deny"), bounds=SOON)
    assert (response.passes, response.message) == (True, "policy chain completed with errors")
    assert response.failures == [Failure("slow", "policy execution timeout")]
    assert follower.ended


async def test_row_policy_timeout_with_skip_remaining_runs_only_what_is_required() -> None:
    optional, required, last = passing("optional"), passing("required"), passing("last")
    response = await run(
        (Scripted("slow", never), "skip_remaining"),
        (optional, "continue"),
        (required, "deny"),
        (last, "skip_remaining"),
        bounds=SOON,
    )
    assert response.passes
    assert (optional.began, required.ended, last.began) == (0, 1, 0)


@pytest.mark.parametrize("error", [RuntimeError("hunter2"), SystemExit("hunter2"), asyncio.CancelledError("hunter2")])
async def test_row_policy_panic_is_caught_and_is_an_error(error: BaseException) -> None:
    response = await run((Scripted("broken", raises(error)), "deny"))
    assert (response.status, response.policy_name) == (DENIED, "broken")
    assert "hunter2" not in response.message
    going_on = await run((Scripted("broken", raises(error)), "continue"), (passing(), "deny"))
    assert going_on.passes


@pytest.mark.parametrize("on_failure", ANY_ON_FAILURE)
async def test_row_context_update_error_stops_with_policy_error_whatever_on_failure_says(on_failure: str) -> None:
    async def bad_header(_: RequestContext) -> PolicyResult:
        return PolicyResult(instructions=(SetHeader("", "x"),))

    follower = passing()
    response = await run((Scripted("bad", bad_header), on_failure), (follower, "deny"))
    assert (response.status, response.policy_name) == (ERROR, "bad")
    assert not follower.began


@pytest.mark.parametrize("on_failure", ANY_ON_FAILURE)
@pytest.mark.parametrize(
    "instruction", [SetBody(b"x" * 11), SetState("k", "x" * 30), ImmediateResponse(200, {}, b"x" * 11)]
)
async def test_row_resource_limit_exceeded_rejects_the_instruction_with_policy_error(
    on_failure: str, instruction: Any
) -> None:
    follower = passing()
    context = RequestContext.create(body=b"old", state={"k": "old"}, headers={"h": "old"})
    response = await run(
        (Scripted("large", asks_for(SetHeader("h", "new"), instruction)), on_failure),
        (follower, "deny"),
        context=context,
        bounds=Bounds(body_bytes_max=10, state_bytes_max=20),
    )
    assert (response.status, response.policy_name) == (ERROR, "large")
    assert (response.context, list(response.instructions)) == (context, [])
    assert not follower.began


async def test_row_invalid_metadata_is_an_invalid_argument_before_anything_runs() -> None:
    first, strict = passing("first"), passing("strict")
    strict.metadata_schema = {"type": "object", "required": ["limit"]}  # type: ignore[misc]
    executor = an_executor(first, strict)
    with pytest.raises(InvalidRequest, match="metadata of policy `strict`"):
        await executor.execute([PolicyRef("first"), PolicyRef("strict", {"secret": "hunter2"})], RequestContext())
    assert not first.began


async def test_invalid_metadata_are_not_quoted() -> None:
    strict = passing("strict")
    strict.metadata_schema = {"type": "object", "properties": {"key": {"type": "integer"}}}  # type: ignore[misc]
    with pytest.raises(InvalidRequest) as failure:
        await an_executor(strict).execute([PolicyRef("strict", {"key": "hunter2"})], RequestContext())
    assert "hunter2" not in str(failure.value)


@pytest.mark.parametrize("phase", [Phase.REQUEST, Phase.RESPONSE])
async def test_an_empty_chain_is_an_invalid_argument_unless_it_is_allowed(phase: Phase) -> None:
    context = RequestContext(phase=phase)
    with pytest.raises(InvalidRequest, match="the chain is empty"):
        await an_executor().execute([], context)
    assert (await an_executor(bounds=Bounds(allow_empty_chain=True)).execute([], context)).passes


@pytest.mark.parametrize(
    "refs", [[PolicyRef("next", on_failure="allow")], [PolicyRef("next", on_failure="DENY")], [PolicyRef("next")] * 65]
)
async def test_a_malformed_chain_is_an_invalid_argument(refs: list[PolicyRef]) -> None:
    with pytest.raises(InvalidRequest):
        await an_executor(passing()).execute(refs, RequestContext())


async def test_an_unset_on_failure_denies() -> None:
    executor = an_executor(Scripted("broken", raises(RuntimeError())))
    response = await executor.execute([PolicyRef("broken", on_failure="")], RequestContext())
    assert response.status is DENIED


async def test_a_policy_of_another_version_is_unknown() -> None:
    response = await an_executor(passing()).execute([PolicyRef("next", version="9.9.9")], RequestContext())
    assert (response.status, response.message) == (DENIED, "unknown policy: next")


async def test_a_policy_runs_only_in_a_phase_that_it_supports() -> None:
    requests_only = passing("requests_only")
    requests_only.phases = REQUEST_PHASE  # type: ignore[misc]
    response_context = RequestContext(phase=Phase.RESPONSE, response_status=200)
    with pytest.raises(InvalidRequest, match="does not work in the response phase"):
        await an_executor(requests_only).execute([PolicyRef("requests_only")], response_context)
    registry = Registry()
    registry.register(requests_only)
    refs = [PolicyRef("requests_only"), PolicyRef("nobody")]
    assert in_phase(refs, Phase.REQUEST, registry) == refs
    assert in_phase(refs, Phase.RESPONSE, registry) == refs[1:]


async def test_a_chain_takes_contexts_of_its_own_phase_only() -> None:
    executor = an_executor(passing())
    chain = executor.prepare([PolicyRef("next")], RequestContext())
    with pytest.raises(InvalidRequest):
        await executor.run(chain, RequestContext(phase=Phase.RESPONSE, response_status=200))


@pytest.mark.parametrize("context", [RequestContext(body=b"x" * 11), RequestContext.create(state={"k": "x" * 30})])
async def test_a_context_beyond_the_limits_is_an_invalid_argument(context: RequestContext) -> None:
    follower = passing()
    with pytest.raises(InvalidRequest, match="exceeds limit"):
        await run((follower, "deny"), context=context, bounds=Bounds(body_bytes_max=10, state_bytes_max=20))
    assert not follower.began


@pytest.mark.parametrize(
    "result",
    [
        None,
        "OK",
        {"status": "OK"},
        PolicyResult(ERROR, message="own words"),
        PolicyResult("OK"),  # type: ignore[arg-type]
        PolicyResult(message=7),  # type: ignore[arg-type]
        PolicyResult(message="\ud800"),
        PolicyResult(instructions=7),  # type: ignore[arg-type]
        PolicyResult(metadata=7),  # type: ignore[arg-type]
    ],
)
async def test_no_result_and_an_error_result_are_failures(result: Any) -> None:
    response = await run((Scripted("odd", returns(result)), "deny"))
    assert (response.status, response.policy_name) == (DENIED, "odd")
    assert (await run((Scripted("odd", returns(result)), "continue"))).passes


async def test_a_policy_that_fails_in_its_own_words_is_quoted() -> None:
    response = await run((Scripted("jwt", raises(PolicyFailure("the keys cannot be had"))), "deny"))
    assert response.message == "policy `jwt` failed: the keys cannot be had"


@pytest.mark.parametrize("status", [ERROR, TIMEOUT])
async def test_a_failed_policys_instructions_are_dropped(status: StatusCode) -> None:
    follower = passing()
    failing = Scripted("failing", asks_for(SetHeader("x", "y"), SetState("k", 1), status=status))
    response = await run((failing, "continue"), (follower, "deny"))
    assert response.passes
    assert list(response.instructions) == []
    assert follower.seen == [RequestContext()]


async def test_a_later_policy_sees_what_an_earlier_one_changed() -> None:
    second = passing("second")
    first = Scripted("first", asks_for(SetHeader("x", "y"), SetBody(b"new"), SetState("who", "anna")))
    response = await run((first, "deny"), (second, "deny"))
    seen = second.seen[0]
    assert (seen.headers.get("X"), seen.body, seen.state["who"]) == ("y", b"new", "anna")
    assert response.context == seen
    assert list(response.instructions) == [SetHeader("x", "y"), SetBody(b"new"), SetState("who", "anna")]


async def test_nothing_of_a_policy_that_changed_its_state_in_place_reaches_the_next() -> None:
    async def vandal(context: RequestContext) -> PolicyResult:
        context.state["who"]["roles"].append("admin")
        context.headers.fields()["x-admin"] = (("x-admin", "1"),)
        return PASSED

    second = passing("second")
    context = RequestContext.create(state={"who": {"roles": []}})
    await run((Scripted("vandal", vandal), "deny"), (second, "deny"), context=context)
    assert second.seen == [RequestContext.create(state={"who": {"roles": []}})]


@pytest.mark.parametrize(
    "instructions",
    [(ImmediateResponse(200), Continue()), (ImmediateResponse(200), ImmediateResponse(500)), ("SET_HEADER",)],
)
async def test_instructions_that_make_no_sense_are_a_policy_error(instructions: Any) -> None:
    response = await run((Scripted("odd", returns(PolicyResult(instructions=instructions))), "continue"))
    assert response.status is ERROR


@pytest.mark.parametrize("metadata", [{"k": "x" * 20_000}, {"k": 1}, {1: "k"}, {"k": "\ud800"}])
async def test_metadata_of_a_result_are_bounded_text(metadata: Any) -> None:
    response = await run((Scripted("chatty", returns(PolicyResult(metadata=metadata))), "continue"))
    assert (response.status, response.metadata) == (ERROR, {})


async def test_metadata_of_all_results_are_told() -> None:
    first = Scripted("first", returns(PolicyResult(metadata={"a": "1", "b": "1"})))
    second = Scripted("second", returns(PolicyResult(metadata={"b": "2"})))
    assert (await run((first, "deny"), (second, "deny"))).metadata == {"a": "1", "b": "2"}


async def test_health_names_the_policies_that_ail_without_their_secrets() -> None:
    class Ailing(Scripted):
        async def health_check(self) -> None:
            raise PolicyFailure("no keys") if self.name == "a" else RuntimeError("hunter2")

    executor = an_executor(passing(), Ailing("a", never), Ailing("b", never))
    assert await executor.health() == {"a": "no keys", "b": "RuntimeError"}


def test_bounds_are_those_of_the_configuration() -> None:
    config = PolicyAgentConfig("/s", False, policy_timeout_ms=250, max_body_size=1, max_state_size=2)  # type: ignore[arg-type]
    config = replace(config, fail_on_unknown=False, allow_empty_chain=True)
    assert Bounds.of(config) == Bounds(0.25, 1, 2, False, True)


@pytest.mark.parametrize("on_failure", ["deny", "continue"])
@pytest.mark.parametrize(
    ("result", "told"),
    [
        (PolicyResult(ERROR, (), "its table is gone"), "its table is gone"),
        (PolicyResult(ERROR), "error"),
        (PolicyResult(TIMEOUT, (), "the shop was slow"), "the shop was slow"),
        (PolicyResult(TIMEOUT), "timeout"),
        (PolicyResult(OK, (), "\ud800"), "its message is no text"),
        (PolicyResult(OK, (), 7), "its message is no text"),  # type: ignore[arg-type]  # as another package might
        (None, "it returned no result"),
    ],
)
async def test_a_policy_that_failed_is_told_in_its_own_words_or_by_what_it_reported(
    result: Any, told: str, on_failure: str
) -> None:
    response = await run((Scripted("broken", returns(result)), on_failure))
    if on_failure == "deny":
        assert (response.status, response.policy_name) == (DENIED, "broken")
        assert response.message == f"policy `broken` failed: {told}"
    else:
        assert response.failures == [Failure("broken", told)]


@pytest.mark.parametrize("over", [0, 1])
async def test_a_context_may_be_as_large_as_the_bounds_and_not_a_byte_larger(over: int) -> None:
    bounds = Bounds(body_bytes_max=10, state_bytes_max=RequestContext.create(state={"k": "v"}).state.size_bytes())
    for context in (
        RequestContext.create(body=b"x" * (10 + over)),
        RequestContext.create(state={"k": "v" * (1 + over)}),
    ):
        if over:
            with pytest.raises(InvalidRequest, match="size exceeds limit"):
                await run((passing(), "deny"), context=context, bounds=bounds)
        else:
            assert (await run((passing(), "deny"), context=context, bounds=bounds)).passes
