"""Runs the policies of a chain one after the other; whatever goes wrong, the answer is not OK unless it was meant."""

from __future__ import annotations

import asyncio
import functools
import logging
import re
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, assert_never

from agent_gate.chain.accumulator import Accumulator, Failure, Response
from agent_gate.chain.context import RequestContext
from agent_gate.chain.faults import InstructionError, InvalidRequest, PolicyFailure
from agent_gate.chain.panics import told
from agent_gate.chain.policy import Policy, PolicyResult, StatusCode
from agent_gate.chain.prepared import Chain, OnFailure, PolicyRef, Step, prepare
from agent_gate.chain.registry import Registry
from agent_gate.chain.timing import ChainTimedOut, PolicyBlocked, PolicyCancelled, PolicyTimedOut, Timing
from agent_gate.config.settings import PolicyAgentConfig
from agent_gate.model.bounds import CHAIN_GRACE_S, CHAIN_HEALTH_TIMEOUT_S, CHAIN_WARNINGS_MAX

_log = logging.getLogger(__name__)

_SURROGATE = re.compile("[\ud800-\udfff]").search

COMPLETED = "policy chain completed"
COMPLETED_WITH_ERRORS = "policy chain completed with errors"


class Threads(Protocol):
    """A bounded pool for policies that block; a full one is an error."""

    def run(self, function: Callable[..., Any], arguments: dict[str, Any]) -> Coroutine[Any, Any, Any]: ...


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds of every chain, as an agent's configuration has them."""

    policy_timeout_s: float = 5.0
    body_bytes_max: int = 1_048_576
    state_bytes_max: int = 65_536
    fail_on_unknown: bool = True
    allow_empty_chain: bool = False
    grace_s: float = CHAIN_GRACE_S
    """For a policy to tidy up after its time."""

    @classmethod
    def of(cls, config: PolicyAgentConfig | None) -> Bounds:
        """As the configuration has them, and the defaults where it has no policy agent."""
        if config is None:
            return cls()
        return cls(
            config.policy_timeout_ms / 1000,
            config.max_body_size,
            config.max_state_size,
            config.fail_on_unknown,
            config.allow_empty_chain,
        )


class Executor:
    def __init__(self, registry: Registry, threads: Threads, bounds: Bounds | None = None) -> None:
        self._registry, self._threads = registry, threads
        self.bounds = bounds or Bounds()
        self._warned: set[str] = set()

    def prepare(self, refs: Sequence[PolicyRef], context: RequestContext) -> Chain:
        """A chain for this context's phase; it can be kept and run again."""
        return prepare(refs, context.phase, self._registry, allow_empty=self.bounds.allow_empty_chain)

    async def execute(
        self,
        refs: Sequence[PolicyRef],
        context: RequestContext,
        *,
        request_id: str = "",
        deadline_s: float | None = None,
    ) -> Response:
        """InvalidRequest, before anything runs, where chain, metadata or context are malformed."""
        return await self.run(self.prepare(refs, context), context, request_id=request_id, deadline_s=deadline_s)

    async def run(
        self, chain: Chain, context: RequestContext, *, request_id: str = "", deadline_s: float | None = None
    ) -> Response:
        self._admit(chain, context)
        gathered = Accumulator(request_id, context)
        timing = Timing(deadline_s, self.bounds.grace_s)
        try:
            return await self._run(chain.steps, gathered, timing)
        finally:
            timing.close()
            if gathered.warnings:
                self._warn(gathered.warnings)

    def _admit(self, chain: Chain, context: RequestContext) -> None:
        bounds = self.bounds
        if chain.phase is not context.phase:
            raise InvalidRequest(f"a chain for the {chain.phase.value} phase cannot take a {context.phase.value}")
        if len(context.body) > bounds.body_bytes_max:
            raise InvalidRequest(
                f"body size exceeds limit: {len(context.body)} > {bounds.body_bytes_max}",
                suggestion="send less, or raise max_body_size",
            )
        if context.state and context.state.size_bytes() > bounds.state_bytes_max:
            raise InvalidRequest(
                f"state size exceeds limit: more than {bounds.state_bytes_max} bytes",
                suggestion="send less, or raise max_state_size",
            )

    async def _run(self, steps: Sequence[Step], gathered: Accumulator, timing: Timing) -> Response:
        bounds = self.bounds
        skipping = False
        for step in steps:
            policy, name = step.policy, step.name
            if skipping and not step.required:
                continue
            if policy is None:
                if bounds.fail_on_unknown:
                    return _stopped(gathered, StatusCode.POLICY_DENIED, f"unknown policy: {name}", name)
                _log.warning("unknown policy `%s` is skipped", name)
                continue
            try:
                result = await timing.within(
                    self._started(policy, step.settings, gathered.context), bounds.policy_timeout_s, name
                )
                failure = _failure_in(result)
                if failure is None:
                    answers = (result.instructions or result.metadata) and gathered.add(
                        name, result, bounds.body_bytes_max, bounds.state_bytes_max
                    )
                    if answers or result.status is StatusCode.POLICY_DENIED:
                        return _stopped(gathered, result.status, result.message, name, logging.INFO)
                    continue
            except InstructionError as error:
                return _stopped(gathered, StatusCode.POLICY_ERROR, f"policy `{name}`: {error.problem.detail}", name)
            except ChainTimedOut:
                return _stopped(gathered, StatusCode.TIMEOUT, f"the chain's time was up at policy `{name}`", name)
            except (Exception, SystemExit) as error:
                failure = _failure_of(error, name)
            match step.on_failure:
                case OnFailure.DENY:
                    return _stopped(gathered, StatusCode.POLICY_DENIED, f"policy `{name}` failed: {failure}", name)
                case OnFailure.SKIP_REMAINING:
                    skipping = True
                case OnFailure.CONTINUE:
                    pass
                case _:
                    assert_never(step.on_failure)
            _log.warning("policy `%s` failed, the chain goes on: %s", name, failure)
            gathered.failures.append(Failure(name, failure))
        return gathered.build(StatusCode.OK, COMPLETED_WITH_ERRORS if gathered.failures else COMPLETED)

    def _started(
        self, policy: Policy[Any], settings: Any, context: RequestContext
    ) -> Coroutine[Any, Any, PolicyResult]:
        if policy.blocking:
            return self._threads.run(functools.partial(policy.execute, settings, context), {})
        return policy.execute(settings, context)  # type: ignore[return-value]  # the registry takes no other

    def _warn(self, warnings: Sequence[str]) -> None:
        """The first time aloud: a chain that removes a header which is mostly absent would fill the log otherwise."""
        for warning in warnings:
            is_new = warning not in self._warned and len(self._warned) < CHAIN_WARNINGS_MAX
            if is_new:
                self._warned.add(warning)
            _log.log(logging.WARNING if is_new else logging.DEBUG, "%s", warning)

    async def health(self) -> dict[str, str]:
        """Ask each policy, and return what ails those that cannot do their work."""
        policies = self._registry.policies()
        found = await asyncio.gather(*map(_ailment, policies))
        return {policy.name: ailment for policy, ailment in zip(policies, found, strict=True) if ailment}


def _stopped(
    gathered: Accumulator, status: StatusCode, message: str, name: str, level: int = logging.WARNING
) -> Response:
    """The chain's end before its last policy: a warning where something failed, else what a policy is there for."""
    _log.log(level, "request `%s` was stopped by policy `%s`, %s: %s", gathered.request_id, name, status.name, message)
    return gathered.build(status, message, name)


async def _ailment(policy: Policy[Any]) -> str:
    try:
        async with asyncio.timeout(CHAIN_HEALTH_TIMEOUT_S):
            await policy.health_check()
    except PolicyFailure as error:
        return error.problem.detail
    except (Exception, SystemExit) as error:
        return type(error).__name__
    return ""


def _failure_in(result: object) -> str | None:
    """Find what a policy says of itself; None where it did its work."""
    if type(result) is not PolicyResult:
        return "it returned no result"
    if result.message and not _is_text(result.message):
        return "its message is no text"
    match result.status:
        case StatusCode.OK | StatusCode.POLICY_DENIED:
            return None
        case StatusCode.TIMEOUT:
            return result.message or "timeout"
        case _:
            return result.message or "error"


def _is_text(message: object) -> bool:
    return isinstance(message, str) and not _SURROGATE(message)


def _failure_of(error: BaseException, name: str) -> str:
    """Its own words only where it meant them to be read: any other text may hold a secret."""
    match error:
        case PolicyFailure():
            return error.problem.detail
        case PolicyBlocked():
            _log.error("policy `%s` held everybody up for its whole time: it must await, or be `blocking`", name)
            return "policy execution timeout"
        case PolicyTimedOut():
            return "policy execution timeout"
        case PolicyCancelled():
            return "it was cancelled"
        case _:
            _log.error("policy `%s` raised %s", name, told(error))
            return type(error).__name__
