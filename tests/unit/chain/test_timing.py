"""Time: what a policy gets, and that none can hold up a chain or slip something in late."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from agent_gate.chain.context import RequestContext
from agent_gate.chain.executor import Bounds
from agent_gate.chain.instruction import SetHeader
from agent_gate.chain.policy import PASSED, PolicyResult, StatusCode
from agent_gate.chain.prepared import PolicyRef
from agent_gate.chain.turn import TURN
from tests.gates import PATIENCE_S
from tests.unit.chain.scripted import Script, Scripted, an_executor, asks_for, never, returns, run
from tests.virtual_time import BACKEND, VirtualTimeLoop

LATE = PolicyResult(instructions=(SetHeader("late", "x"),))
PATIENT = Bounds(policy_timeout_s=60, grace_s=0.01)
SOON = Bounds(policy_timeout_s=0.01, grace_s=0.01)


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """Whatever else the machine does meanwhile, a policy that answers at once is in time."""
    return BACKEND


async def returns_late(_: RequestContext) -> PolicyResult:
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        return LATE
    raise AssertionError


async def fails_late(_: RequestContext) -> PolicyResult:
    try:
        await asyncio.Event().wait()
    finally:
        raise RuntimeError


async def tidies_up(_: RequestContext) -> PolicyResult:
    try:
        await asyncio.Event().wait()
    finally:
        await asyncio.sleep(0)
    return LATE


async def goes_on_regardless(_: RequestContext) -> PolicyResult:
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            continue


async def catches_everything(_: RequestContext) -> PolicyResult:
    for _attempt in range(3):
        try:
            await asyncio.Event().wait()
        except BaseException:
            continue
    return LATE


async def waits_for_a_task_that_goes_on(context: RequestContext) -> PolicyResult:
    stop = asyncio.get_running_loop().call_later

    async def inner() -> None:
        done = asyncio.Event()
        stop(0.2, done.set)
        while not done.is_set():
            try:
                await done.wait()
            except asyncio.CancelledError:
                continue

    await asyncio.create_task(inner())
    return LATE


async def spins(_: RequestContext) -> PolicyResult:
    while True:  # noqa: ASYNC110 -- it waits for nothing
        await asyncio.sleep(0)


async def blocks_the_loop(_: RequestContext) -> PolicyResult:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    loop.advance(0.03)
    return LATE


UNTIMELY: list[Script] = [
    never, returns_late, fails_late, tidies_up, goes_on_regardless, catches_everything,
    waits_for_a_task_that_goes_on, spins, blocks_the_loop,
]  # fmt: skip


@pytest.mark.parametrize("script", UNTIMELY, ids=lambda script: script.__name__)
async def test_whatever_a_policy_does_when_its_time_is_up_the_chain_goes_on_without_it(script: Script) -> None:
    last = Scripted("last", returns(PASSED))
    response = await run((Scripted("slow", script), "continue"), (last, "deny"), bounds=SOON)
    assert (response.passes, last.ended) == (True, 1)
    assert [failure.message for failure in response.failures] == ["policy execution timeout"]
    assert "late" not in response.context.headers
    assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]


@pytest.mark.parametrize("script", UNTIMELY, ids=lambda script: script.__name__)
async def test_the_deadline_of_a_chain_ends_it_with_timeout_whatever_on_failure_says(script: Script) -> None:
    last = Scripted("last", returns(PASSED))
    response = await run((Scripted("slow", script), "continue"), (last, "deny"), bounds=PATIENT, deadline_s=0.01)
    assert (response.status, response.policy_name, last.began) == (StatusCode.TIMEOUT, "slow", 0)


async def test_a_policy_that_blocks_the_loop_is_named_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing can stop it; the watchdog says where it is meanwhile, and the chain what it was."""
    await run((Scripted("waiting", never), "continue"), (Scripted("busy", blocks_the_loop), "continue"), bounds=SOON)
    told = [record.getMessage() for record in caplog.records if "everybody" in record.getMessage()]
    assert told == ["policy `busy` held everybody up for its whole time: it must await, or be `blocking`"]


async def test_a_chain_without_time_runs_nothing() -> None:
    only = Scripted("only", returns(PASSED))
    response = await run((only, "continue"), deadline_s=0)
    assert (response.status, only.began) == (StatusCode.TIMEOUT, 0)


async def test_a_policy_that_waits_a_while_is_in_time() -> None:
    async def waits(_: RequestContext) -> PolicyResult:
        for _turn in range(3):
            await asyncio.sleep(0)
            await asyncio.sleep(0.001)
        return PolicyResult(instructions=(SetHeader("a", "b"),))

    policies = [(Scripted(f"p{number}", waits), "deny") for number in range(3)]
    response = await run(*policies, bounds=PATIENT)
    assert response.passes
    assert response.context.headers.get("a") == "b"


async def test_each_policy_has_its_own_time_though_there_is_one_timer() -> None:
    async def waits(_: RequestContext) -> PolicyResult:
        await asyncio.sleep(0.25)
        return PASSED

    policies = [(Scripted(f"p{number}", waits), "deny") for number in range(3)]
    response = await run(*policies, bounds=replace(PATIENT, policy_timeout_s=0.7))
    assert response.passes


async def test_the_one_timer_is_set_anew_for_a_policy_that_began_later() -> None:
    async def waits(_: RequestContext) -> PolicyResult:
        await asyncio.sleep(0.02)
        return PASSED

    async with asyncio.timeout(PATIENCE_S):
        response = await run(
            (Scripted("first", waits), "continue"),
            (Scripted("second", never), "continue"),
            bounds=replace(PATIENT, policy_timeout_s=0.05),
        )
    assert response.failures[-1].policy_name == "second"


async def test_the_time_to_tidy_up_of_one_policy_is_not_given_to_the_next() -> None:
    async def tidies_up_slowly(_: RequestContext) -> PolicyResult:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.001)
        raise AssertionError

    async with asyncio.timeout(PATIENCE_S):
        response = await run(
            (Scripted("first", tidies_up_slowly), "continue"),
            (Scripted("second", never), "continue"),
            bounds=replace(SOON, grace_s=600.0),
        )
    assert [failure.policy_name for failure in response.failures] == ["first", "second"]


async def test_policies_that_wait_for_nothing_set_no_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    set_for: list[float] = []

    def call_at(when: float, callback: Callable[..., object], *args: object, **more: object) -> asyncio.TimerHandle:
        set_for.append(when)
        return real(when, callback, *args, **more)  # type: ignore[arg-type]

    real = loop.call_at
    monkeypatch.setattr(loop, "call_at", call_at)
    policies = [(Scripted(f"p{number}", asks_for(SetHeader("a", "b"))), "deny") for number in range(5)]
    assert (await run(*policies)).passes
    assert set_for == []

    async def waits(_: RequestContext) -> PolicyResult:
        future = loop.create_future()
        loop.call_soon(future.set_result, None)
        await future
        return PASSED

    assert (await run(*[(Scripted(f"p{number}", waits), "deny") for number in range(5)])).passes
    assert len(set_for) == 1


async def test_timeouts_inside_a_policy_are_its_own_affair() -> None:
    async def patient(_: RequestContext) -> PolicyResult:
        try:
            async with asyncio.timeout(0.001):
                await asyncio.Event().wait()
        except TimeoutError:
            pass
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(0))
        return PolicyResult(instructions=(SetHeader("a", "b"),))

    response = await run((Scripted("patient", patient), "deny"), bounds=PATIENT)
    assert response.passes
    assert response.context.headers.get("a") == "b"


@pytest.mark.parametrize("script", [never, returns_late, tidies_up])
async def test_who_cancels_a_chain_ends_it(script: Script) -> None:
    last = Scripted("last", returns(PASSED))
    executor = an_executor(Scripted("slow", script), last, bounds=PATIENT)
    refs = [PolicyRef("slow", on_failure="continue"), PolicyRef("last", on_failure="continue")]
    task = asyncio.create_task(executor.execute(refs, RequestContext()))
    await asyncio.sleep(0.005)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not last.began


async def test_a_chain_that_is_cancelled_when_a_policy_has_just_been_woken_ends() -> None:
    woken = asyncio.Event()

    async def waits(_: RequestContext) -> PolicyResult:
        await woken.wait()
        await asyncio.Event().wait()
        raise AssertionError

    task = asyncio.create_task(run((Scripted("slow", waits), "continue"), bounds=PATIENT))
    await asyncio.sleep(0.005)
    woken.set()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_policy_whose_work_was_cancelled_by_another_has_failed() -> None:
    async def waits_in_vain(_: RequestContext) -> PolicyResult:
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        loop.call_soon(future.cancel)
        await future
        raise AssertionError

    last = Scripted("last", returns(PASSED))
    response = await run((Scripted("vain", waits_in_vain), "continue"), (last, "deny"), bounds=PATIENT)
    assert (response.passes, last.ended) == (True, 1)
    assert [failure.message for failure in response.failures] == ["it was cancelled"]


async def test_a_policy_that_fails_after_waiting_has_failed() -> None:
    async def fails(_: RequestContext) -> PolicyResult:
        await asyncio.sleep(0.001)
        raise ValueError

    response = await run((Scripted("failing", fails), "deny"), bounds=PATIENT)
    assert response.message == "policy `failing` failed: ValueError"


async def test_a_chain_that_is_left_behind_itself_closes_its_policy() -> None:
    closed: list[str] = []

    async def waits(_: RequestContext) -> PolicyResult:
        try:
            await asyncio.Event().wait()
        except GeneratorExit:
            closed.append("closed")
            raise
        raise AssertionError

    chain = run((Scripted("slow", waits), "continue"), bounds=PATIENT)
    chain.send(None)
    chain.close()
    assert closed == ["closed"]


async def test_what_is_no_future_cannot_be_waited_for() -> None:
    class Odd:
        def __await__(self):  # type: ignore[no-untyped-def]
            yield "odd"

    async def awaits_odd(_: RequestContext) -> PolicyResult:
        await Odd()
        return PASSED

    response = await run((Scripted("odd", awaits_odd), "deny"))
    assert response.message == "policy `odd` failed: RuntimeError"


async def test_chains_that_run_at_once_do_not_disturb_each_other() -> None:
    executor = an_executor(Scripted("slow", never), Scripted("quick", asks_for(SetHeader("a", "b"))), bounds=SOON)
    refs = [PolicyRef("slow", on_failure="continue"), PolicyRef("quick")]
    responses = await asyncio.gather(*(executor.execute(refs, RequestContext()) for _ in range(50)))
    assert all(response.passes and len(response.failures) == 1 for response in responses)


async def test_whose_turn_it_is_is_known_while_a_policy_runs_and_never_while_it_waits_or_afterwards() -> None:
    """A watchdog that finds the loop stuck reads it: a name that stayed behind would blame the innocent."""
    seen: list[str] = []

    async def looks(_: RequestContext) -> PolicyResult:
        seen.append(TURN.policy)
        return PASSED

    async def waits(_: RequestContext) -> PolicyResult:
        seen.append(TURN.policy)
        asyncio.get_running_loop().call_soon(lambda: seen.append(TURN.policy))
        await asyncio.sleep(0.001)
        seen.append(TURN.policy)
        return PASSED

    async def fails(_: RequestContext) -> PolicyResult:
        raise RuntimeError

    steps = [("quick", looks), ("slow", waits), ("broken", fails), ("last", looks)]
    await run(*((Scripted(name, script), "continue") for name, script in steps), bounds=PATIENT)
    assert seen == ["quick", "slow", "", "slow", "last"]
    assert TURN.policy == ""
    await run((Scripted("broken", fails), "deny"), bounds=PATIENT)
    assert TURN.policy == ""
