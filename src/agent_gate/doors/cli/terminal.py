"""The person at a real terminal as an approver: each question is shown whole and answered there."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable

from agent_gate import Approver, Gate, GateError
from agent_gate.doors.cli import person, screen
from agent_gate.doors.cli.screen import HAS_RUN
from agent_gate.model.approval import Question
from agent_gate.model.policy import Policy
from agent_gate.sandbox.child import readable

LINE_BYTES_MAX = 4096
"""A terminal hands over no longer line."""


class TerminalNotifier:
    """Asks one question after the other; the screen is handed over while a person thinks."""

    def __init__(self, policy: Policy, hand_over: Callable[[bool], None] | None = None) -> None:
        """`hand_over(True)` frees the screen for a question, `hand_over(False)` takes it back."""
        # Whoever holds policy and database may answer for every role; two approvers they are not.
        self._who = Approver(person.name(), tuple(policy.roles))
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
            print(f"\nno longer asked: {resolution}{f' by {screen.safe(by)}' if by else ''}", file=sys.stderr)

    async def _answer(self, question: Question) -> None:
        assert self.gate is not None
        async with self._turn:
            self._hand_over(True)
            try:
                show(question)
                approve = await _says_yes("Allow it?")
            finally:
                self._hand_over(False)
        try:
            await self.gate.answer(question.call_id, approve=approve, by=self._who, nonce=question.nonce)
        except GateError as error:
            print(f"agent-gate: {screen.safe(error)}", file=sys.stderr)


async def _says_yes(question: str) -> bool:
    """A line of the terminal, waited for without a thread: one that waits for a line cannot be ended."""
    print(f"{question} {person.CHOICES} ", end="", file=sys.stderr, flush=True)
    await readable(sys.stdin.fileno())
    return person.means_yes(os.read(sys.stdin.fileno(), LINE_BYTES_MAX).decode(errors="replace"))


def may_answer(policy: Policy) -> bool:
    return policy.approvals_at_terminal and person.is_there()


def show(question: Question) -> None:
    """All of it: what cannot be seen cannot be agreed to."""
    for signature in question.signatures:
        print(screen.paint("ask", stream=sys.stderr), screen.safe(signature), file=sys.stderr)
    print(f"  arguments  {screen.safe(screen.encoded(dict(question.given)))}", file=sys.stderr)
    if question.written is not None:
        print(f"  {HAS_RUN}", file=sys.stderr)
    for line in screen.change_lines(question.written or ()):
        print(f"  {line}", file=sys.stderr)
    for reason in question.reasons:
        said = reason.get("text") or reason.get("rule") or ""
        print(f"  {screen.safe(reason['layer'])}  {screen.safe(said)}", file=sys.stderr)
