"""Counts and durations of one server, in the form that Prometheus reads."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from operator import sub

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from agent_gate import __version__
from agent_gate.model.bounds import METRIC_TOOLS_MAX
from agent_gate.model.errors import Problem
from agent_gate.model.outcome import PENDING, Outcome
from agent_gate.ports.ledger import LedgerFigures
from agent_gate.ports.surroundings import Clock
from agent_gate.ports.watching import Reached

STAGES = ("admit", "bind", "decide", "hold", "perform", "settle")
OTHER = "other"
"""Stands for the tools that have no label of their own: there may be any number of names that nobody offers."""

STAGE_BOUNDS_S = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 60.0, 300.0, 900.0)
PASSED_MAX = 100
"""Calls whose stages wait to be placed."""
LAG_BOUNDS_S = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0)


class Durations:
    """A histogram; many at once are sorted first, which costs less than finding a place for each."""

    def __init__(self, bounds_s: tuple[float, ...]) -> None:
        self._bounds_s = bounds_s
        self._counts = [0] * (len(bounds_s) + 1)
        """Counts of those that were no longer than each bound; the last counts all."""
        self._sum_s = 0.0

    def add(self, seconds: float) -> None:
        self.add_all((seconds,))

    def add_all(self, durations_s: Iterable[float]) -> None:
        """Written by one thread."""
        ordered = sorted(durations_s)
        self._sum_s += sum(ordered)
        for number, bound_s in enumerate((*self._bounds_s, math.inf)):
            self._counts[number] += bisect_right(ordered, bound_s)

    def buckets(self) -> tuple[list[tuple[str, float]], float]:
        names = [*map(str, self._bounds_s), "+Inf"]
        return list(zip(names, map(float, self._counts), strict=True)), self._sum_s


class Meter(Collector):
    """Watches the calls of a gate; everything is kept here and written out when somebody asks."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tools: set[str] = set()
        self._calls: Counter[tuple[str, str, str]] = Counter()
        self._refusals: Counter[str] = Counter()
        self._looks: Counter[tuple[str, str]] = Counter()
        self._stages = {stage: Durations(STAGE_BOUNDS_S) for stage in STAGES}
        self._passed: list[tuple[Sequence[Reached], float]] = []
        """The stages of calls that ended, and when they did, until they are placed in the histograms."""
        self.responses: Counter[str] = Counter()
        """HTTP responses by status."""
        self.sockets = 0
        """WebSockets that are open."""
        self.lag = Durations(LAG_BOUNDS_S)
        self.blocked = 0
        """Number of times that the event loop did not answer for too long."""
        self.questions = self.results = self.under_way = 0
        """Figures of what waits for people, for agents and for its end, as they were read last."""
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
        if stages:
            self._passed.append((stages, self._clock.monotonic()))
            if len(self._passed) >= PASSED_MAX:
                self._place_stages()
        if outcome is not None and outcome.status is not PENDING:
            stage = outcome.error.stage if outcome.error else ""
            self._calls[tool if tool in self._tools else OTHER, outcome.status.text, stage] += 1

    def _place_stages(self) -> None:
        """Calls that took the same way are reckoned together, column by column."""
        ways: dict[tuple[str, ...], list[tuple[float, ...]]] = {}
        for stages, end in self._passed:
            way, begins = zip(*stages, strict=True)
            ways.setdefault(way, []).append((*begins, end))
        self._passed.clear()
        for way, moments in ways.items():
            columns = list(zip(*moments, strict=True))
            for stage, begins, ends in zip(way, columns[:-1], columns[1:], strict=True):
                self._stages[stage].add_all(map(sub, ends, begins))

    def refused(self, problem: Problem) -> None:
        self._refusals[problem.name] += 1

    def looked(self, door: str, place: str) -> None:
        self._looks[door, place] += 1

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
        self._place_stages()
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
        looks = CounterMetricFamily(
            "agent_gate_people_reads", "What people looked at, by the pattern of its path.", labels=("door", "place")
        )
        for labels, count in self._looks.items():
            looks.add_metric(labels, count)
        yield looks
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
