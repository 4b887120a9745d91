"""One measured figure, and the ways to measure it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

TURNS = 31


@dataclass(frozen=True)
class Figure:
    name: str
    ours: float
    reference: float
    reference_is: str
    unit: str
    ratio: float
    goal: str
    met: bool

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def at_most(name: str, ours: float, reference: float, reference_is: str, unit: str, times: float) -> Figure:
    """Ours may be so many times the reference."""
    ratio = ours / reference
    return Figure(name, ours, reference, reference_is, unit, ratio, f"at most {times:g} ×", ratio <= times)


def at_least(name: str, ours: float, reference: float, reference_is: str, unit: str, times: float) -> Figure:
    """Ours must be so many times the reference."""
    ratio = ours / reference
    return Figure(name, ours, reference, reference_is, unit, ratio, f"at least {times:g} ×", ratio >= times)


def microseconds_each(work: Callable[[], object], times: int) -> float:
    """The median of five rounds, each the mean of many calls."""
    rounds = []
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(times):
            work()
        rounds.append((time.perf_counter() - start) / times)
    return statistics.median(rounds) * 1e6


def taking_turns_us(times: int, *works: Callable[[], object]) -> list[float]:
    """Of each, the median of many short rounds that take turns, in processor time: for works that wait for nothing.

    So neither a busy machine nor a change of its clock rate can favour one of them.
    """
    rounds: list[list[float]] = [[] for _ in works]
    for _ in range(TURNS):
        for work, durations in zip(works, rounds, strict=True):
            start = time.process_time()
            for _ in range(times):
                work()
            durations.append((time.process_time() - start) / times)
    return [median_us(durations) for durations in rounds]


def median_us(durations_s: Sequence[float]) -> float:
    return statistics.median(durations_s) * 1e6
