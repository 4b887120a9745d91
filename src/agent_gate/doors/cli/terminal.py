"""Questions of the gate that the person at the terminal answers."""

from __future__ import annotations

import asyncio
import math
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from agent_gate.doors.cli.person import CHOICES, forget_typed, is_person_there, means_yes, person_name
from agent_gate.doors.cli.question import COLUMNS_MIN, ROWS_MIN, Asked, in_full, in_short
from agent_gate.model.approval import Approver, Question
from agent_gate.model.errors import GateError
from agent_gate.model.policy import Policy
from agent_gate.model.visible import visible
from agent_gate.sandbox.child import readable

if TYPE_CHECKING:
    from agent_gate import Gate

LINE_BYTES_MAX = 4096
"""A terminal hands over no longer line."""
REST_S = 0.3
"""Keys that are on their way while a question is drawn were meant for something else."""


class TerminalNotifier:
    """Asks one question after the other; the screen is handed over while a person thinks."""

    def __init__(self, policy: Policy, hand_over: Callable[[bool], None] | None = None) -> None:
        """`hand_over(True)` frees the screen for a question, `hand_over(False)` takes it back."""
        # Whoever holds policy and database may answer for every role; two approvers they are not.
        self._who = Approver(person_name(), tuple(policy.roles))
        self._hand_over = hand_over or (lambda _: None)
        self._turn = asyncio.Lock()
        self._asking: dict[str, asyncio.Task[None]] = {}
        self.gate: Gate | None = None

    async def ask(self, question: Question) -> None:
        task = self._asking[question.call_id] = asyncio.create_task(self._answer(question))
        task.add_done_callback(lambda _: self._asking.pop(question.call_id, None))

    async def resolved(self, question: Question, resolution: str, by: str) -> None:
        """Nobody need answer any more what was answered elsewhere, has expired or was taken back."""
        task = self._asking.get(question.call_id)
        if task is not None and by != self._who.id:
            task.cancel()
            await asyncio.wait({task})
            print(f"\nno longer asked: {resolution}{f' by {visible(by)}' if by else ''}", file=sys.stderr)

    async def _answer(self, question: Question) -> None:
        assert self.gate is not None
        async with self._turn:
            self._hand_over(True)
            try:
                approve = await _agrees(Asked.by(question))
            finally:
                self._hand_over(False)
        try:
            await self.gate.answer(question.call_id, approve=approve, by=self._who, nonce=question.nonce)
        except GateError as error:
            print(f"agent-gate: {visible(error)}", file=sys.stderr)


async def _agrees(asked: Asked) -> bool:
    """Show all of it, screen by screen where it is long, and what is asked for last; then take the answer."""
    columns, rows = _size()
    if columns < COLUMNS_MIN or rows < ROWS_MIN:
        _print([f"denied: a terminal of {columns} × {rows} shows no question; {COLUMNS_MIN} × {ROWS_MIN} would do"])
        return False
    lines = in_full(asked, columns)
    if len(lines) >= rows:
        if not await _reads(lines, rows - 2):
            return False
        lines = in_short(asked, columns, rows - 2)
    _print(lines)
    return means_yes(await _typed(f"╰─ Allow it? {CHOICES} "))


async def _reads(lines: Sequence[str], rows: int) -> bool:
    """One screen after the other; whoever has seen enough of it for a no can say so at once."""
    parts = math.ceil(len(lines) / rows)
    for number in range(parts):
        _print(lines[number * rows : (number + 1) * rows])
        word = await _typed(f"╰─ part {number + 1} of {parts} · Enter: read on · a: all of it · n: deny ")
        if word is None or word.strip().lower() in ("n", "no"):
            return False
        if word.strip().lower() == "a":
            _print(lines[(number + 1) * rows :])
            return True
    return True


def _print(lines: Iterable[str]) -> None:
    print("\n".join(lines), file=sys.stderr, flush=True)


def _size() -> tuple[int, int]:
    """Of the terminal itself: an environment variable may be out of date, and a line longer than it thinks."""
    columns, rows = os.get_terminal_size(sys.stderr.fileno())
    return columns or 80, rows or 24


async def _typed(prompt: str) -> str | None:
    """A line of the terminal, begun after the prompt was shown; None at the end of all lines.

    It is waited for without a thread: one that waits for a line cannot be ended.
    """
    await asyncio.sleep(REST_S)
    forget_typed()
    print(prompt, end="", file=sys.stderr, flush=True)
    await readable(sys.stdin.fileno())
    return os.read(sys.stdin.fileno(), LINE_BYTES_MAX).decode(errors="replace") or None


def may_answer(policy: Policy) -> bool:
    return policy.approvals_at_terminal and is_person_there()
