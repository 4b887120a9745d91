"""The lines at the foot of a terminal that move while a run goes on: how far it is, and what runs now."""

from __future__ import annotations

import sys
import time
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar as Bar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from agent_gate.doors.cli import screen

BAR_WIDTH = 40
FRAMES_PER_SECOND = 8


class ProgressBar:
    """Drawn anew by a thread of its own, so that it also moves while the run waits for something."""

    def __init__(self, console: Console, name: str, steps: int) -> None:
        self._name, self._steps = name, steps
        self._done = 0
        self._running = ""
        self._began = self._step_began = time.monotonic()
        self._spinner = Spinner("dots")
        self._console = console
        self._live: Live | None = None

    @classmethod
    def on_stdout(cls, name: str, steps: int) -> Self:
        console = Console(file=sys.stdout, no_color=not screen.has_colour(sys.stdout), highlight=False)
        return cls(console, name, steps)

    def start(self) -> None:
        """Below whatever is on the screen now: what was drawn before is gone, and what was said since stays."""
        self._live = Live(
            console=self._console, get_renderable=self._drawn, transient=True, refresh_per_second=FRAMES_PER_SECOND
        )
        self._live.start()

    def stop(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def begin_step(self, name: str) -> None:
        self._running, self._step_began = name, time.monotonic()

    def end_step(self) -> None:
        self._running = ""
        self._done += 1

    def _drawn(self) -> RenderableType:
        now = time.monotonic()
        whole = Table.grid(padding=(0, 1))
        whole.add_row(
            Text(self._name),
            Bar(self._steps, self._done, BAR_WIDTH),
            Text(f"{self._done}/{self._steps}"),
            Text(clock_time(now - self._began), style="dim"),
        )
        if not self._running:
            return whole
        step = Table.grid(padding=(0, 1))
        step.add_column()
        step.add_column(no_wrap=True, overflow="ellipsis")
        step.add_column(no_wrap=True, style="dim")
        step.add_row(self._spinner, Text(self._running), Text(clock_time(now - self._step_began)))
        return Group(step, whole)


def clock_time(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
