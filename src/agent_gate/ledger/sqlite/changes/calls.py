"""Calls and runs under way: request ids, what is open, what is undone, effects that wait."""

from __future__ import annotations

from hashlib import sha256

from agent_gate.ledger.sqlite import backing
from agent_gate.ledger.sqlite.changes.counters import forget_quotas
from agent_gate.ledger.sqlite.changes.handler import Handler, Writing
from agent_gate.ledger.sqlite.undone import undone
from agent_gate.model.committed import AlreadyClosed, RequestTaken
from agent_gate.model.entry import Kind
from agent_gate.model.undone import Undone
from agent_gate.model.work import Claim, Close, EndEffect, Open, QueueEffect, Undo


def _check_claim(writing: Writing, claim: Claim) -> RequestTaken | None:
    key = claim.agent_id, claim.request_id
    taken = writing.group.claims.get(key) or backing.claimed(writing.cursor, *key)
    return RequestTaken(*taken) if taken else None


def _claim(writing: Writing, claim: Claim) -> None:
    writing.cursor.execute(
        "INSERT INTO requests VALUES (?, ?, ?, ?) ON CONFLICT (agent_id, request_id)"
        " DO UPDATE SET call_id = excluded.call_id, input_hash = excluded.input_hash",
        (claim.agent_id, claim.request_id, claim.call_id, claim.input_hash),
    )
    writing.group.claims[claim.agent_id, claim.request_id] = claim.call_id, claim.input_hash
    writing.told["claim"] = claim.input_hash


def _open(writing: Writing, change: Open) -> None:
    row = (change.id, change.kind, writing.project, writing.instance)
    writing.cursor.execute("INSERT INTO open_work VALUES (?, ?, ?, ?)", row)


def _check_close(writing: Writing, change: Close) -> AlreadyClosed | None:
    found = writing.cursor.execute("SELECT 1 FROM open_work WHERE id = ?", (change.id,)).fetchone()
    return None if found else AlreadyClosed(change.id)


def _close(writing: Writing, change: Close) -> None:
    writing.cursor.execute("DELETE FROM open_work WHERE id = ?", (change.id,))
    entries = writing.work.entries
    if entries and entries[0].kind is Kind.RUN:
        forget_quotas(writing.cursor, writing.project, change.id)


def _check_undo(writing: Writing, change: Undo) -> Undone | None:
    writing.group.write()  # an undoing of the same group is found among the entries too
    return undone(writing.cursor, writing.project, change.call_id)


def _undo(_writing: Writing, _change: Undo) -> None:
    """Nothing besides the entry of the call that undoes: it names the one that is undone."""


def _queue_effect(writing: Writing, effect: QueueEffect) -> None:
    row = (effect.effect_id, writing.project, effect.call_id, effect.tool, effect.payload.decode(), writing.instance)
    writing.cursor.execute("INSERT INTO outbox VALUES (?, ?, ?, ?, ?, ?)", row)
    told = [effect.effect_id, writing.instance, sha256(effect.payload).hexdigest()]
    writing.told.setdefault("effects", []).append(told)


def _end_effect(writing: Writing, change: EndEffect) -> None:
    writing.cursor.execute("DELETE FROM outbox WHERE effect_id = ?", (change.effect_id,))


HANDLERS = (
    Handler(Claim, _claim, _check_claim),
    Handler(Open, _open),
    Handler(Close, _close, _check_close),
    Handler(Undo, _undo, _check_undo),
    Handler(QueueEffect, _queue_effect),
    Handler(EndEffect, _end_effect),
)
