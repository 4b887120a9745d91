"""The executor of the request-policy chain: what it adds to five policies that do nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

from agent_gate.chain.context import RequestContext
from agent_gate.chain.executor import Executor
from agent_gate.chain.policy import PASSED, Policy, PolicyResult
from agent_gate.chain.prepared import PolicyRef
from agent_gate.chain.registry import Registry
from agent_gate.toolkit.threads import POOL
from bench.figure import Figure, at_most, taking_turns_us

REQUESTS = 200
POLICIES = 5
REFERENCE = "five plain calls, each with a copy of the headers as a dict"
HEADERS = {f"x-header-{number}": f"value {number}" for number in range(12)}


class Trivial(Policy[Mapping[str, Any]]):
    name = "trivial"

    def prepare(self, metadata: Mapping[str, Any]) -> Mapping[str, Any]:
        return metadata

    async def execute(self, settings: Mapping[str, Any], context: RequestContext) -> PolicyResult:
        return PASSED


def figures() -> Iterator[Figure]:
    registry = Registry()
    registry.register(Trivial())
    executor = Executor(registry, POOL)
    context = RequestContext.create(headers=HEADERS)
    refs = [PolicyRef("trivial")] * POLICIES
    chain = executor.prepare(refs, context)

    async def many_ready() -> None:
        for _ in range(REQUESTS):
            await executor.run(chain, context)

    async def many_unprepared() -> None:
        for _ in range(REQUESTS):
            await executor.execute(refs, context)

    def many_plain() -> None:
        for _ in range(REQUESTS):
            for _ in range(POLICIES):
                _plain({}, HEADERS.copy())

    with asyncio.Runner() as runner:
        assert runner.run(executor.run(chain, context)).passes
        ready, unprepared, plain = (
            each / REQUESTS
            for each in taking_turns_us(
                1, lambda: runner.run(many_ready()), lambda: runner.run(many_unprepared()), many_plain
            )
        )
    yield at_most("chain of five policies that do nothing", ready, plain, REFERENCE, "µs", 40)
    yield at_most("the same chain, prepared for each request", unprepared, plain, REFERENCE, "µs", 40)


def _plain(settings: Mapping[str, Any], context: Mapping[str, str]) -> PolicyResult:
    return PASSED
