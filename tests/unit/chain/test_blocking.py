"""Policies that block: in threads of their own, and never longer than their time."""

from __future__ import annotations

import asyncio

from agent_gate.chain.context import RequestContext
from agent_gate.chain.executor import Bounds
from agent_gate.chain.policy import StatusCode
from agent_gate.chain.prepared import PolicyRef
from tests.gates import PATIENCE_S
from tests.unit.chain.scripted import SOON, Blocking, an_executor

DENIED = StatusCode.POLICY_DENIED


async def test_blocking_policies_run_in_threads_and_a_full_pool_is_a_failure() -> None:
    blocking = Blocking()
    executor = an_executor(blocking, bounds=Bounds(policy_timeout_s=PATIENCE_S), threads=1)
    refs = [PolicyRef("blocking")]
    first = asyncio.create_task(executor.execute(refs, RequestContext()))
    await asyncio.sleep(0)
    assert (await executor.execute(refs, RequestContext())).status is DENIED
    blocking.let_go.set()
    assert (await first).passes


async def test_a_blocked_threads_late_result_is_discarded_and_its_slot_stays_taken() -> None:
    blocking = Blocking()
    executor = an_executor(blocking, bounds=SOON, threads=1)
    refs = [PolicyRef("blocking")]
    assert (await executor.execute(refs, RequestContext())).status is DENIED
    late = await executor.execute(refs, RequestContext())
    assert late.message == "policy `blocking` failed: ToolError"
    blocking.let_go.set()
    assert await asyncio.to_thread(blocking.done.wait, 20)
