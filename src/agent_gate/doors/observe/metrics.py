"""Counts and durations of one server, in the form that Prometheus reads."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from agent_gate import __version__
from agent_gate.model.errors import Problem
from agent_gate.model.limits import METRIC_TOOLS_MAX
from agent_gate.model.outcome import PENDING, Outcome
from agent_gate.ports import Clock, LedgerFigures, Reached

STAGES = ("admit", "bind", "decide", "hold", "perform", "settle")
OTHER = "other"
"""Stands for the tools that have no label of their own: there may be any number of names that nobody offers."""

STAGE_BOUNDS_S = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 60.0, 300.0, 900.0)
UNPLACED_MAX = 1_000
LAG_BOUNDS_S = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0)


class Durations:
    """A histogram; what is added waits in a list, because sorting many costs less than finding a place for each."""

    def __init__(self, bounds_s: tuple[float, ...]) -> None:
        self._bounds_s = bounds_s
        self._counts = [0] * (len(bounds_s) + 1)
        """How many were no longer than each bound; the last counts all."""
        self._sum_s = 0.0
        self.unplaced: list[float] = []

    def add(self, seconds: float) -> None:
        self.unplaced.append(seconds)
        if len(self.unplaced) >= UNPLACED_MAX:
            self.place()

    def place(self) -> None:
        """Into the buckets; written by one thread."""
        self.unplaced.sort()
        self._sum_s += sum(self.unplaced)
        for number, bound_s in enumerate((*self._bounds_s, math.inf)):
            self._counts[number] += bisect_right(self.unplaced, bound_s)
        self.unplaced.clear()

    def buckets(self) -> tuple[list[tuple[str, float]], float]:
        self.place()
        names = [*map(str, self._bounds_s), "+Inf"]
        return list(zip(names, map(float, self._counts), strict=True)), self._sum_s


class Meter(Collector):
    """Watches the calls of a gate; everything is kept here and written out when somebody asks."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tools: set[str] = set()
        self._calls: Counter[tuple[str, str, str]] = Counter()
        self._refusals: Counter[str] = Counter()
        self._stages = {stage: Durations(STAGE_BOUNDS_S) for stage in STAGES}
        self._unplaced = {stage: durations.unplaced for stage, durations in self._stages.items()}
        self.responses: Counter[str] = Counter()
        """HTTP responses by status."""
        self.sockets = 0
        """WebSockets that are open."""
        self.lag = Durations(LAG_BOUNDS_S)
        self.blocked = 0
        """How often the event loop did not answer for too long."""
        self.questions = self.results = self.under_way = 0
        """What waits for people, for agents and for its end, as it was read last."""
        self.paused = False
        self.ledger = LedgerFigures(0, 0, 0)
        self.registry = CollectorRegistry(auto_describe=False)
        self.registry.register(self)
        ProcessCollector(registry=self.registry)

    def ended(
        self,
        call_id: str,  # noqa: ARG002 -- the shape of an observer
        tool: str,
        outcome: Outcome | None,
        stages: Sequence[Reached] = (),
    ) -> None:
        until = self._clock.monotonic()
        for stage, since in reversed(stages):
            self._unplaced[stage].append(until - since)
            until = since
        if len(self._unplaced["admit"]) >= UNPLACED_MAX:
            for durations in self._stages.values():
                durations.place()
        if outcome is not None and outcome.status is not PENDING:
            stage = outcome.error.stage if outcome.error else ""
            self._calls[tool if tool in self._tools else OTHER, outcome.status.text, stage] += 1

    def refused(self, problem: Problem) -> None:
        self._refusals[problem.name] += 1

    def offer(self, tools: Iterator[str]) -> None:
        """The names that get a label of their own, as many as there is room for."""
        for tool in tools:
            if len(self._tools) < METRIC_TOOLS_MAX:
                self._tools.add(tool)

    def collect(self) -> Iterator[Metric]:
        calls = CounterMetricFamily(
            "agent_gate_calls", "Calls that ended, and the stage that refused.", labels=("tool", "status", "stage")
        )
        for labels, count in self._calls.items():
            calls.add_metric(labels, count)
        yield calls
        stages = HistogramMetricFamily(
            "agent_gate_stage_seconds", "How long calls were in each stage.", labels=("stage",)
        )
        for stage, durations in self._stages.items():
            buckets, sum_s = durations.buckets()
            stages.add_metric((stage,), buckets, sum_s)
        yield stages
        yield from self._counters()
        yield from self._gauges()
        buckets, sum_s = self.lag.buckets()
        yield HistogramMetricFamily(
            "agent_gate_event_loop_lag_seconds", "How late the event loop was.", buckets=buckets, sum_value=sum_s
        )

    def _counters(self) -> Iterator[Metric]:
        refusals = CounterMetricFamily(
            "agent_gate_refusals", "Requests that were turned away at a door.", labels=("reason",)
        )
        for reason, count in self._refusals.items():
            refusals.add_metric((reason,), count)
        yield refusals
        responses = CounterMetricFamily("agent_gate_http_responses", "HTTP responses.", labels=("status",))
        for status, count in self.responses.items():
            responses.add_metric((status,), count)
        yield responses
        for name, text, value in (
            ("agent_gate_ledger_commits", "Transactions of the ledger, one fsync each.", self.ledger.commits),
            ("agent_gate_ledger_works", "Pieces of work in them.", self.ledger.works),
            ("agent_gate_event_loop_blocked", "Times that the event loop did not answer.", self.blocked),
        ):
            yield CounterMetricFamily(name, text, value=value)

    def _gauges(self) -> Iterator[Metric]:
        for name, text, value in (
            ("agent_gate_open_questions", "Questions that wait for a person.", self.questions),
            ("agent_gate_waiting_results", "Outcomes that their agents have not fetched.", self.results),
            ("agent_gate_calls_under_way", "Calls that have no outcome yet.", self.under_way),
            ("agent_gate_websockets", "WebSockets that are open.", self.sockets),
            ("agent_gate_ledger_queue", "Work that waits to be written.", self.ledger.waiting),
            ("agent_gate_paused", "1 while everything is denied.", int(self.paused)),
        ):
            yield GaugeMetricFamily(name, text, value=value)
        build = GaugeMetricFamily("agent_gate_build", "The release.", labels=("version",))
        build.add_metric((__version__,), 1)
        yield build
