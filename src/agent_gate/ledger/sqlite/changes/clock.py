"""The wall clock: how far it was set ahead of the time since the machine started."""

from __future__ import annotations

from agent_gate.ledger.sqlite.changes.handler import Handler, Writing
from agent_gate.ledger.sqlite.side_tables import known_offset
from agent_gate.model.bounds import CLOCK_JUMP_MIN_S
from agent_gate.model.committed import ClockKnown
from agent_gate.model.work import NoteClock


def _check(writing: Writing, note: NoteClock) -> ClockKnown | None:
    known = known_offset(writing.cursor, note.boot)
    return ClockKnown() if known is not None and abs(known - note.offset_s) < CLOCK_JUMP_MIN_S else None


def _note(writing: Writing, note: NoteClock) -> None:
    writing.cursor.execute("DELETE FROM clock")
    writing.cursor.execute("INSERT INTO clock VALUES (?, ?)", (note.boot, note.offset_s))


HANDLERS = (Handler(NoteClock, _note, _check),)
