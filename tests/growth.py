"""How work grows with its input: counted in lines of our own code that run, so that no clock and no load matters."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

_OURS = "/agent_gate/"
TIMES, SLACK = 16, 3
"""So many times the input may take so many times as much again: squared it would be far more, and a text that is read a
little further before it is refused is not."""


def lines_run(work: Callable[[], object]) -> int:
    """How many lines of ours the work takes; those of other packages run too, and are not counted."""
    lines = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        return trace if _OURS in frame.f_code.co_filename else None

    earlier = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(earlier)
    return lines


def grows_linearly(work: Callable[[int], object], size: int) -> bool:
    few, many = (lines_run(partial(work, size * times)) for times in (1, TIMES))
    return many <= TIMES * SLACK * few + 1_000
