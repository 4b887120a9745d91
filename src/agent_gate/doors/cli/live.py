"""A run as it happens: a line for each step, and on a terminal what runs now, for how long, and how much is left."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from agent_gate import Outcome
from agent_gate.doors.cli import screen
from agent_gate.model.ending import WRITES_STAY
from agent_gate.model.plan import Plan, PlanStep
from agent_gate.model.tool import Json
from agent_gate.model.verdict import Decision
from agent_gate.model.visible import visible

if TYPE_CHECKING:
    from agent_gate.doors.cli.progress_bar import ProgressBar

ICONS = {"success": "✓", "denied": "✗", "error": "!", "expired": "⌛", "unknown": "?", "pending_approval": "…"}
NAME_CHARS_MIN, NAME_CHARS_MAX = 20, 80
FILES_SHOWN_MAX = 10


class LiveView:
    """Prints steps as they end; what moves steps aside while a person is asked something."""

    def __init__(self, steps: int, moving: ProgressBar | None) -> None:
        self._steps, self._moving = steps, moving
        self._is_with_person = False

    def begin(self, index: int, step: PlanStep) -> None:
        if self._moving:
            name = screen.shortened(step.name or step.tool, NAME_CHARS_MAX)
            self._moving.begin_step(f"step {index + 1} of {self._steps}  {name}")

    def step(self, index: int, step: PlanStep, outcome: Outcome) -> None:
        if self._moving:
            self._moving.end_step()
        status = outcome.status.value
        took = ""
        if outcome.started_at is not None and outcome.ended_at is not None:
            took = _span(outcome.ended_at - outcome.started_at)
        place = f"{index + 1}/{self._steps}"
        name = visible(step.name or screen.signatures(outcome.signatures) or step.tool)
        if width := screen.columns():
            name = screen.shortened(name, max(NAME_CHARS_MIN, width - len(place) - len(took) - 7))
        icon, took = screen.paint(ICONS[status], _style(status)), screen.paint(took, "dim")
        screen.say(f"{icon} {place}  {name}  {took}".rstrip())
        if outcome.error:
            screen.say(f"    {visible(outcome.error)}")
        for line in screen.printed(outcome.data):
            screen.say(f"    {line}")
        if outcome.simulated:
            _print_simulated(outcome)
        elif outcome.files and (outcome.ok or outcome.message.startswith(WRITES_STAY)):
            _print_files(outcome.files)

    def tell(self, what: str) -> None:
        """A word to whoever watches, beside the steps; a person who is asked something has not ended the line."""
        begin = "\n" if self._is_with_person else ""
        print(f"{begin}{screen.paint(what, 'yellow', sys.stderr)}", file=sys.stderr, flush=True)

    def hand_over(self, to_person: bool) -> None:
        self._is_with_person = to_person
        if self._moving and to_person:
            self._moving.stop()
        elif self._moving:
            self._moving.start()


def _span(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.1f} s"


def _style(status: str) -> str:
    return {"success": "green", "denied": "red", "error": "red"}.get(status, "yellow")


def _print_simulated(outcome: Outcome) -> None:
    if outcome.simulation:
        screen.say(f"    {screen.paint(outcome.simulation, 'dim')}")
    if outcome.message:
        asked = [reason.text or reason.rule for reason in outcome.reasons if reason.decision is Decision.ASK]
        said = f"{outcome.message}: {'; '.join(asked)}" if asked else outcome.message
        screen.say(f"    {screen.paint(visible(said), 'dim')}")
    if not isinstance(outcome.data, Mapping) or "changes" not in outcome.data:
        return
    data = outcome.data
    if not data["changes"]:
        screen.say(f"    {screen.paint('no file would change', 'dim')}")
    for line in screen.change_lines(data["changes"]):
        screen.say(f"    {line}")


def _print_files(files: Sequence[Mapping[str, Json]]) -> None:
    """Print what a command changed; of many, the first."""
    for line in screen.change_lines(files[:FILES_SHOWN_MAX]):
        screen.say(f"    {line}")
    if len(files) > FILES_SHOWN_MAX:
        screen.say(f"    {screen.paint(f'and {len(files) - FILES_SHOWN_MAX} more', 'dim')}")


@contextmanager
def live(plan: Plan, *, quiet: bool) -> Iterator[LiveView]:
    if quiet or not screen.on_terminal(sys.stdout):
        yield LiveView(len(plan.steps), None)
        return
    # For speed: Rich takes 60 ms, and only a terminal shows what it draws.
    from agent_gate.doors.cli.progress_bar import ProgressBar  # noqa: PLC0415

    moving = ProgressBar.on_stdout(screen.shortened(plan.name or "run", NAME_CHARS_MAX), len(plan.steps))
    moving.start()
    try:
        yield LiveView(len(plan.steps), moving)
    finally:
        moving.stop()
