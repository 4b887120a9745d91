"""A run as it happens: a line for each step, and on a terminal a bar that moves."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from agent_gate import Outcome
from agent_gate.doors.cli import screen
from agent_gate.model.plan import Plan, PlanStep

if TYPE_CHECKING:
    from rich.progress import Progress

ICONS = {"success": "✓", "denied": "✗", "error": "!", "expired": "⌛", "unknown": "?", "pending_approval": "…"}


class LiveView:
    """Prints steps as they end; the bar steps aside while a person is asked something."""

    def __init__(self, steps: int, bar: Progress | None) -> None:
        self._steps, self._bar = steps, bar

    def step(self, index: int, step: PlanStep, outcome: Outcome) -> None:
        status = outcome.status.value
        took = ""
        if outcome.started_at is not None and outcome.ended_at is not None:
            took = screen.paint(f"{(outcome.ended_at - outcome.started_at) * 1000:.1f} ms", "dim")
        name = step.name or "  ".join(map(screen.shortened, outcome.signatures)) or step.tool
        screen.say(
            f"{screen.paint(ICONS[status], _style(status))} {index + 1}/{self._steps}  {screen.safe(name)}  {took}"
        )
        if outcome.error:
            screen.say(f"    {screen.safe(outcome.error)}")
        if self._bar:
            self._bar.advance(self._bar.task_ids[0])

    def hand_over(self, to_person: bool) -> None:
        if self._bar and to_person:
            self._bar.stop()
        elif self._bar:
            self._bar.start()


def _style(status: str) -> str:
    return {"success": "green", "denied": "red", "error": "red"}.get(status, "yellow")


@contextmanager
def live(plan: Plan, *, quiet: bool) -> Iterator[LiveView]:
    if quiet or not screen.on_terminal(sys.stdout):
        yield LiveView(len(plan.steps), None)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(file=sys.stdout, no_color=not screen.has_colour(sys.stdout), highlight=False)
    with Progress(*columns, console=console, transient=True) as progress:
        progress.add_task(screen.safe(plan.name or "run"), total=len(plan.steps))
        yield LiveView(len(plan.steps), progress)
