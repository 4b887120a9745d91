"""Policies that do as they are told, and executors that hold them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from agent_gate.chain.accumulator import Response
from agent_gate.chain.context import Phase, RequestContext
from agent_gate.chain.executor import Bounds, Executor
from agent_gate.chain.instruction import Instruction
from agent_gate.chain.policy import BOTH_PHASES, Policy, PolicyResult, StatusCode
from agent_gate.chain.prepared import PolicyRef
from agent_gate.chain.registry import Registry
from agent_gate.model.tool import Json
from agent_gate.toolkit.threads import BlockingPool

Script = Callable[[RequestContext], Awaitable[Any]]

SOON = Bounds(policy_timeout_s=0.01)
"""For chains in which a policy never answers."""


class Scripted(Policy[Mapping[str, Json]]):
    """Runs a script, and notes when it began and when it came to its end."""

    phases = BOTH_PHASES
    metadata_schema = {"type": "object"}  # noqa: RUF012 -- a schema is read only

    def __init__(self, name: str, script: Script) -> None:
        self.name = name  # type: ignore[misc]  # many of one class
        self._script = script
        self.began = self.ended = 0
        self.seen: list[RequestContext] = []
        self.initialized_with: Mapping[str, Json] | None = None

    def initialize(self, config: Mapping[str, Json]) -> None:
        self.initialized_with = config

    def prepare(self, metadata: Mapping[str, Json]) -> Mapping[str, Json]:
        return metadata

    async def execute(self, settings: Mapping[str, Json], context: RequestContext) -> PolicyResult:
        self.began += 1
        self.seen.append(context)
        result: PolicyResult = await self._script(context)
        self.ended += 1
        return result


class Blocking(Policy[Mapping[str, Json]]):
    """Blocks its thread until it is let go."""

    name = "blocking"
    blocking = True

    def __init__(self) -> None:
        self.let_go = threading.Event()
        self.done = threading.Event()

    def prepare(self, metadata: Mapping[str, Json]) -> Mapping[str, Json]:
        return metadata

    def execute(self, settings: Mapping[str, Json], context: RequestContext) -> PolicyResult:
        self.let_go.wait(20)
        self.done.set()
        return PolicyResult(message=threading.current_thread().name)


def returns(result: Any) -> Script:
    async def script(_: RequestContext) -> Any:
        return result

    return script


def asks_for(*instructions: Instruction, status: StatusCode = StatusCode.OK, message: str = "") -> Script:
    return returns(PolicyResult(status, instructions, message))


def raises(error: BaseException) -> Script:
    async def script(_: RequestContext) -> PolicyResult:
        raise error

    return script


async def never(_: RequestContext) -> PolicyResult:
    await asyncio.Event().wait()
    raise AssertionError


def an_executor(*policies: Policy[Any], bounds: Bounds | None = None, threads: int = 1) -> Executor:
    registry = Registry()
    for policy in policies:
        registry.register(policy)
    return Executor(registry, BlockingPool(threads), bounds)


async def run(
    *steps: tuple[Policy[Any], str],
    context: RequestContext | None = None,
    bounds: Bounds | None = None,
    deadline_s: float | None = None,
    others: Sequence[str] = (),
) -> Response:
    """A chain of policies, each with its `on_failure`; others are names that nobody knows, before them."""
    executor = an_executor(*(policy for policy, _ in steps), bounds=bounds)
    refs = [*map(PolicyRef, others), *(PolicyRef(policy.name, on_failure=on_failure) for policy, on_failure in steps)]
    return await executor.execute(refs, context or RequestContext(), request_id="r", deadline_s=deadline_s)


def a_response(headers: Mapping[str, str] | Sequence[tuple[str, str]] = (), body: bytes = b"", **more: Any) -> Any:
    return RequestContext.create(phase=Phase.RESPONSE, response_status=200, headers=headers, body=body, **more)
