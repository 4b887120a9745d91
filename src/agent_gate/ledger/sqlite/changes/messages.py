"""Messages in which messengers have shown questions."""

from __future__ import annotations

from agent_gate.ledger.sqlite.changes.handler import Handler, Writing
from agent_gate.model.work import DropMessage, KeepMessage


def _keep(writing: Writing, message: KeepMessage) -> None:
    writing.cursor.execute(
        "INSERT INTO question_messages VALUES (?, ?, ?)"
        " ON CONFLICT (channel, call_id) DO UPDATE SET reference = excluded.reference",
        (message.channel, message.call_id, message.reference),
    )


def _drop(writing: Writing, message: DropMessage) -> None:
    row = (message.channel, message.call_id)
    writing.cursor.execute("DELETE FROM question_messages WHERE channel = ? AND call_id = ?", row)


HANDLERS = (Handler(KeepMessage, _keep), Handler(DropMessage, _drop))
