"""Every edge of the document's state machine (5.1), each by its name."""

from __future__ import annotations

import pytest

from agent_gate.chain.context import RequestContext
from agent_gate.chain.executor import COMPLETED, COMPLETED_WITH_ERRORS, Bounds
from agent_gate.chain.faults import InvalidRequest
from agent_gate.chain.instruction import ImmediateResponse, SetHeader
from agent_gate.chain.policy import PASSED, PolicyResult, StatusCode
from agent_gate.chain.prepared import PolicyRef
from tests.unit.chain.scripted import Scripted, an_executor, asks_for, raises, returns, run

OK, DENIED, ERROR, TIMEOUT = StatusCode
LENIENT = Bounds(fail_on_unknown=False)


def passing(name: str) -> Scripted:
    return Scripted(name, returns(PASSED))


def failing() -> Scripted:
    return Scripted("failing", raises(RuntimeError()))


async def test_receive_request_to_validate_request() -> None:
    only = passing("only")
    with pytest.raises(InvalidRequest):
        await an_executor(only).execute([PolicyRef("only", on_failure="perhaps")], RequestContext())
    assert not only.began


async def test_validate_request_to_initialize_accumulator_to_next_policy() -> None:
    response = await run((passing("only"), "deny"))
    assert (response.request_id, response.instructions, response.metadata) == ("r", [], {})


async def test_next_policy_to_check_policy_exists_to_execute_policy_found() -> None:
    only = passing("only")
    await run((only, "deny"))
    assert only.ended == 1


async def test_check_policy_exists_to_policy_not_found_to_handle_unknown_to_fail_request() -> None:
    first, last = passing("first"), passing("last")
    executor = an_executor(first, last)
    response = await executor.execute([PolicyRef("first"), PolicyRef("nobody"), PolicyRef("last")], RequestContext())
    assert (response.status, response.policy_name) == (DENIED, "nobody")
    assert (first.ended, last.began) == (1, 0)


async def test_handle_unknown_to_next_policy() -> None:
    last = passing("last")
    assert (await run((last, "deny"), others=["nobody", "nobody_else"], bounds=LENIENT)).passes
    assert last.ended == 1


async def test_execute_policy_to_collect_instructions_to_update_context_to_check_status() -> None:
    last = passing("last")
    response = await run((Scripted("first", asks_for(SetHeader("a", "b"))), "deny"), (last, "deny"))
    assert list(response.instructions) == [SetHeader("a", "b")]
    assert last.seen[0].headers.get("a") == "b"


async def test_check_status_to_stop_execution_on_deny() -> None:
    last = passing("last")
    denying = Scripted("denying", asks_for(SetHeader("a", "b"), status=DENIED, message="no"))
    response = await run((denying, "continue"), (last, "deny"))
    assert (response.status, response.message, response.policy_name) == (DENIED, "no", "denying")
    assert (response.passes, last.began) == (False, 0)
    assert list(response.instructions) == [SetHeader("a", "b")]


@pytest.mark.parametrize("status", [OK, DENIED])
async def test_check_status_to_stop_execution_on_immediate_response(status: StatusCode) -> None:
    last = passing("last")
    answer = ImmediateResponse(204)
    response = await run((Scripted("answering", asks_for(answer, status=status)), "continue"), (last, "deny"))
    assert (response.status, response.immediate, response.policy_name) == (status, answer, "answering")
    assert (response.passes, last.began) == (False, 0)


async def test_check_status_to_handle_error_to_stop_execution_on_deny() -> None:
    last = passing("last")
    response = await run((failing(), "deny"), (last, "deny"))
    assert (response.status, response.policy_name, last.began) == (DENIED, "failing", 0)


async def test_handle_error_to_next_policy_on_continue() -> None:
    last = passing("last")
    response = await run((failing(), "continue"), (last, "continue"))
    assert (response.passes, response.message, last.ended) == (True, COMPLETED_WITH_ERRORS, 1)


async def test_handle_error_to_return_response_on_skip_remaining() -> None:
    last = passing("last")
    response = await run((failing(), "skip_remaining"), (last, "continue"))
    assert (response.passes, response.message, last.began) == (True, COMPLETED_WITH_ERRORS, 0)


async def test_skip_remaining_does_not_skip_a_required_policy_that_denies() -> None:
    denying = Scripted("denying", asks_for(status=DENIED, message="no"))
    response = await run((failing(), "skip_remaining"), (passing("optional"), "continue"), (denying, "deny"))
    assert (response.status, response.policy_name) == (DENIED, "denying")


async def test_check_status_to_next_policy_on_ok_with_more_policies() -> None:
    policies = [passing(f"p{number}") for number in range(5)]
    await run(*((policy, "deny") for policy in policies))
    assert [policy.ended for policy in policies] == [1] * 5


async def test_check_status_to_return_response_on_ok_with_no_more_policies() -> None:
    response = await run((Scripted("only", returns(PolicyResult(message="own words"))), "deny"))
    assert (response.status, response.message, response.policy_name) == (OK, COMPLETED, "")
    assert response.passes


async def test_stop_execution_and_fail_request_to_return_response() -> None:
    earlier = Scripted("earlier", asks_for(SetHeader("a", "b")))
    stopped = await run((earlier, "deny"), (failing(), "deny"))
    assert (stopped.request_id, stopped.status, list(stopped.instructions)) == ("r", DENIED, [SetHeader("a", "b")])
