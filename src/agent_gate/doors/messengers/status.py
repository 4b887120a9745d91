"""The status of a question, as the ledger tells it: open, or ended by whom, when and with what outcome."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agent_gate.doors.messengers.render import moment, one_line
from agent_gate.model.approval import Question
from agent_gate.model.codec import restore
from agent_gate.model.entry import Entry
from agent_gate.model.moment import epoch
from agent_gate.model.record import answered_at, answered_by, outcome_of
from agent_gate.ports.ledger import Ledger
from agent_gate.ports.surroundings import Clock


@dataclass(frozen=True, slots=True)
class Open:
    question: Question
    approved_by: tuple[str, ...]
    unattended: str = ""
    """Note for whoever answers, where the process that holds the call is gone."""


@dataclass(frozen=True, slots=True)
class Ended:
    headline: str
    about: str
    """One line of what was asked, for where nobody remembers the whole question."""
    final: bool
    """True where nothing more will be said of it: a call that was allowed still has to be performed."""
    recorded: bool = True
    """False where only the clock says so: an answer that was given in time may still be on its way into the ledger."""
    resolution: str = "expired"
    """`approved`, `denied`, `expired` or `withdrawn`."""
    by: tuple[str, ...] = ()
    """People whose answers counted."""
    at: float = 0.0


CHANGED = Ended(
    "Changed since it was shown: it can no longer be answered here.", "", final=False, resolution="withdrawn"
)
"""The stored question is not the one that was shown, though it claims to be."""
NOT_CONCERNED = Ended("It needs no answer from here any more.", "", final=True, resolution="withdrawn")
"""Others are asked still."""


async def status_of(call_id: str, ledger: Ledger, clock: Clock) -> Open | Ended:
    found = await ledger.question(call_id)
    if found is not None and found[1] is None:
        question, _, approved_by = found
        if question.left_s(clock) > 0:
            return Open(question, approved_by)
        overdue = f"Expired at {moment(question.expires_at)}: no answer is recorded."
        about = _about_question(question)
        return Ended(overdue, about, final=False, recorded=False, at=question.expires_at)
    entries = await ledger.entries_of(call_id)
    about = _about_question(found[0]) if found else _about_entries(entries)
    answer = next((entry for entry in reversed(entries) if entry.kind == "answered"), None)
    outcome = _outcome_line(entries)
    if answer is None:
        return Ended(outcome or "Ended", about, final=True, resolution="withdrawn")
    at = answered_at(answer)
    match answer.status:
        case "approved":
            by = _approvers(answer, entries)
            headline = f"Allowed by {one_line(', '.join(by)) or 'somebody'} at {moment(at)}"
            told = f"{headline}\n{outcome or 'Not performed yet.'}"
            return Ended(told, about, final=bool(outcome), resolution="approved", by=by, at=at)
        case "denied":
            by = tuple(filter(None, (answered_by(answer),)))
            headline = f"Denied by {one_line(''.join(by)) or 'somebody'} at {moment(at)}. Nothing was done."
            return Ended(headline, about, final=True, resolution="denied", by=by, at=at)
        case "withdrawn":
            headline = f"Withdrawn by the agent at {moment(at)}. Nothing was done."
            return Ended(headline, about, final=True, resolution="withdrawn", at=at)
        case _:
            at = _deadline(entries) or at
            headline = f"Expired at {moment(at)}: nobody answered in time. Nothing was done."
            return Ended(headline, about, final=True, at=at)


def _deadline(entries: Sequence[Entry]) -> float | None:
    """That of the question, which is earlier than the moment when somebody noticed that it had passed."""
    held = [restore(entry.body) for entry in entries if entry.kind == "held" and entry.body]
    return epoch(held[-1]["expires_at"]) if held else None


def _approvers(answer: Entry, entries: Sequence[Entry]) -> tuple[str, ...]:
    """All whose yes counted: those to the same showing of the question."""
    nonce = _nonce(answer)
    names = (answered_by(entry) for entry in entries if entry.kind == "answered" and _nonce(entry) == nonce)
    return tuple(filter(None, names))


def _nonce(entry: Entry) -> str:
    return str(restore(entry.body)["nonce"]) if entry.body else ""


def _outcome_line(entries: Sequence[Entry]) -> str:
    outcome = outcome_of(entries)
    if outcome is None:
        return ""
    detail = f": {outcome.error.detail}" if outcome.error else ""
    return f"Outcome: {outcome.status.value}{one_line(detail)}"


def _about_question(question: Question) -> str:
    return _about(question.call_id, question.agent_id, "\n".join(question.signatures))


def _about_entries(entries: Sequence[Entry]) -> str:
    if not entries:
        return ""
    first = entries[0]
    return _about(first.call_id or "", first.agent_id or "", first.signature or first.tool or "")


def _about(call_id: str, agent_id: str, signatures: str) -> str:
    return f"Call {one_line(call_id)} of agent {one_line(agent_id)}: {one_line(signatures)}"
