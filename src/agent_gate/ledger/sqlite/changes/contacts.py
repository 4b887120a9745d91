"""Contacts of the owner, sealed: what acts on their behalf."""

from __future__ import annotations

from hashlib import sha256

from agent_gate.ledger.sqlite.changes.handler import Handler, Writing
from agent_gate.model.work import DropContact, PutContact


def _put(writing: Writing, contact: PutContact) -> None:
    writing.cursor.execute("PRAGMA secure_delete = ON")  # a value that gives way leaves nothing behind in the file
    writing.cursor.execute(
        "INSERT INTO contact_info (key, value, updated_at) VALUES (?, ?, ?)"
        " ON CONFLICT (key) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at",
        (contact.key, contact.sealed, contact.at),
    )
    writing.told["sealed"] = sha256(contact.sealed).hexdigest()


def _drop(writing: Writing, contact: DropContact) -> None:
    writing.cursor.execute("PRAGMA secure_delete = ON")
    writing.cursor.execute("DELETE FROM contact_info WHERE key = ?", (contact.key,))


HANDLERS = (Handler(PutContact, _put), Handler(DropContact, _drop))
