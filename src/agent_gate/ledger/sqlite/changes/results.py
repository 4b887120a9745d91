"""Results that wait for agents which are away."""

from __future__ import annotations

from agent_gate.ledger.sqlite.changes.handler import Handler, Writing
from agent_gate.model.work import LeaveResult, TakeResults


def _leave(writing: Writing, left: LeaveResult) -> None:
    row = (left.agent_id, left.call_id, left.request_id, left.at)
    writing.cursor.execute("INSERT INTO waiting_results VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING", row)


def _take(writing: Writing, taken: TakeResults) -> None:
    for id in taken.ids:
        writing.cursor.execute(
            "DELETE FROM waiting_results WHERE agent_id = ? AND (call_id = ? OR request_id = ?)",
            (taken.agent_id, id, id),
        )


HANDLERS = (Handler(LeaveResult, _leave), Handler(TakeResults, _take))
