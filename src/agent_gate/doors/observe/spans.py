"""OpenTelemetry spans of the six stages, where an SDK is set up; without one, nothing."""

from __future__ import annotations

import time
from dataclasses import dataclass

from opentelemetry import trace
from opentelemetry.trace import ProxyTracerProvider, Span, StatusCode, Tracer

from agent_gate import __version__
from agent_gate.model.errors import Problem
from agent_gate.model.outcome import Outcome, Status
from agent_gate.ports import Clock, Observer


@dataclass(slots=True)
class _Open:
    call: Span
    stage: Span


class Spans:
    """One span for each call, below it one for each stage that it is in, in order."""

    def __init__(self, tracer: Tracer, clock: Clock) -> None:
        self._tracer, self._clock = tracer, clock
        self._open: dict[str, _Open] = {}

    def reached(self, call_id: str, stage: str, since: float | None = None) -> None:
        at = time.time_ns()
        if since is not None:
            at -= int((self._clock.monotonic() - since) * 1e9)
        found = self._open.get(call_id)
        if found is None:
            call = self._tracer.start_span("agent_gate.call", attributes={"agent_gate.call_id": call_id}, start_time=at)
            self._open[call_id] = _Open(call, self._stage(call, stage, at))
            return
        found.stage.end(at)
        found.stage = self._stage(found.call, stage, at)

    def ended(self, call_id: str, tool: str, outcome: Outcome | None) -> None:
        found = self._open.pop(call_id, None)
        if found is None:
            return
        found.call.set_attribute("agent_gate.tool", tool)
        if outcome is not None:
            found.call.set_attribute("agent_gate.status", outcome.status.value)
            if outcome.decision is not None:
                found.call.set_attribute("agent_gate.decision", outcome.decision.value)
            if outcome.error is not None:
                found.call.set_attribute("agent_gate.error", outcome.error.name)
        if outcome is None or outcome.status in (Status.ERROR, Status.UNKNOWN):
            found.call.set_status(StatusCode.ERROR)
        found.stage.end()
        found.call.end()

    def refused(self, problem: Problem) -> None: ...

    def _stage(self, call: Span, stage: str, at: int) -> Span:
        within = trace.set_span_in_context(call)
        return self._tracer.start_span(f"agent_gate.{stage}", within, start_time=at)


class Both:
    """Two who watch."""

    def __init__(self, first: Observer, second: Observer) -> None:
        self._first, self._second = first, second

    def reached(self, call_id: str, stage: str, since: float | None = None) -> None:
        self._first.reached(call_id, stage, since)
        self._second.reached(call_id, stage, since)

    def ended(self, call_id: str, tool: str, outcome: Outcome | None) -> None:
        self._first.ended(call_id, tool, outcome)
        self._second.ended(call_id, tool, outcome)

    def refused(self, problem: Problem) -> None:
        self._first.refused(problem)
        self._second.refused(problem)


def with_spans(observer: Observer, clock: Clock) -> Observer:
    """The observer, and spans beside it where somebody has set up an SDK."""
    provider = trace.get_tracer_provider()
    if isinstance(provider, ProxyTracerProvider):
        return observer
    return Both(observer, Spans(provider.get_tracer("agent_gate", __version__), clock))
