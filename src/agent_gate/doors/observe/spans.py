"""OpenTelemetry spans of the six stages, where an SDK is set up; without one, nothing."""

from __future__ import annotations

import time
from collections.abc import Sequence

from opentelemetry import trace
from opentelemetry.trace import ProxyTracerProvider, StatusCode, Tracer

from agent_gate import __version__
from agent_gate.model.errors import Problem
from agent_gate.model.outcome import Outcome, Status
from agent_gate.ports.surroundings import Clock
from agent_gate.ports.watching import Observer, Reached


class Spans:
    """One span for each call, below it one for each stage that it was in, in order; made when it has ended."""

    def __init__(self, tracer: Tracer, clock: Clock) -> None:
        self._tracer, self._clock = tracer, clock

    def ended(self, call_id: str, tool: str, outcome: Outcome | None, stages: Sequence[Reached] = ()) -> None:
        if not stages:
            return
        now, now_ns = self._clock.monotonic(), time.time_ns()
        begins = [now_ns - int((now - since) * 1e9) for _, since in stages]
        attributes = {"agent_gate.call_id": call_id, "agent_gate.tool": tool}
        call = self._tracer.start_span("agent_gate.call", attributes=attributes, start_time=begins[0])
        within = trace.set_span_in_context(call)
        for (stage, _), begin, end in zip(stages, begins, [*begins[1:], now_ns], strict=True):
            self._tracer.start_span(f"agent_gate.{stage}", within, start_time=begin).end(end)
        if outcome is not None:
            call.set_attributes(_told(outcome))
        if outcome is None or outcome.status in (Status.ERROR, Status.UNKNOWN):
            call.set_status(StatusCode.ERROR)
        call.end(now_ns)

    def refused(self, problem: Problem) -> None: ...

    def looked(self, door: str, place: str) -> None: ...


def _told(outcome: Outcome) -> dict[str, str]:
    told = {"agent_gate.status": outcome.status.value}
    if outcome.decision is not None:
        told["agent_gate.decision"] = outcome.decision.value
    if outcome.error is not None:
        told["agent_gate.error"] = outcome.error.name
    return told


class Both:
    """Two who watch."""

    def __init__(self, first: Observer, second: Observer) -> None:
        self._first, self._second = first, second

    def ended(self, call_id: str, tool: str, outcome: Outcome | None, stages: Sequence[Reached] = ()) -> None:
        self._first.ended(call_id, tool, outcome, stages)
        self._second.ended(call_id, tool, outcome, stages)

    def refused(self, problem: Problem) -> None:
        self._first.refused(problem)
        self._second.refused(problem)

    def looked(self, door: str, place: str) -> None:
        self._first.looked(door, place)
        self._second.looked(door, place)


def with_spans(observer: Observer, clock: Clock) -> Observer:
    """The observer, and spans beside it where somebody has set up an SDK."""
    provider = trace.get_tracer_provider()
    if isinstance(provider, ProxyTracerProvider):
        return observer
    return Both(observer, Spans(provider.get_tracer("agent_gate", __version__), clock))
