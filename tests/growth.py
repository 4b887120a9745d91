"""How work grows with its input: counted in lines of our own code that run, so that no clock and no load matters."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from types import FrameType
from typing import Any

_OURS = "/agent_gate/"
SLACK = 1.25
"""Twice the input may take so many times twice the lines: something is always done once, or for a block."""


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
    """Whether twice the size takes about twice the work, twice over."""
    counts = [lines_run(partial(work, size * times)) for times in (1, 2, 4)]
    return all(later <= 2 * SLACK * earlier + 200 for earlier, later in pairwise(counts))
