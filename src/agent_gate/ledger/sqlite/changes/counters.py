"""Counts behind rates, budgets and quotas."""

from __future__ import annotations

import sqlite3

from agent_gate.ledger.sqlite.changes.handler import Handler, Writing
from agent_gate.model.charge import Charge
from agent_gate.model.committed import NoRoom
from agent_gate.model.work import Release

SELECT_USED = "SELECT coalesce(sum(amount), 0) FROM counters WHERE project = ? AND scope = ? AND bucket > ?"


def _check_charge(writing: Writing, charge: Charge) -> NoRoom | None:
    used = _used(writing.cursor, writing.project, charge)
    return None if charge.has_room(used) else NoRoom(charge, used)


def _used(cursor: sqlite3.Connection, project: str, charge: Charge) -> float:
    row = cursor.execute(SELECT_USED, (project, charge.scope, charge.bucket - charge.window)).fetchone()
    return float(row[0])


def _charge(writing: Writing, charge: Charge) -> None:
    count(writing.cursor, writing.project, charge.scope, charge.bucket, charge.amount, charge.window)
    _tell(writing, "charges", charge)


def _release(writing: Writing, change: Release) -> None:
    charge = change.charge
    count(writing.cursor, writing.project, charge.scope, charge.bucket, -charge.amount, charge.window)
    _tell(writing, "releases", charge)


def _tell(writing: Writing, name: str, charge: Charge) -> None:
    writing.told.setdefault(name, []).append([charge.scope, charge.bucket, charge.amount, charge.window])
    writing.is_counted = True


def count(cursor: sqlite3.Connection, project: str, scope: str, bucket: int, amount: float, window: int) -> None:
    cursor.execute(
        "INSERT INTO counters VALUES (?, ?, ?, ?)"
        " ON CONFLICT (project, scope, bucket) DO UPDATE SET amount = amount + excluded.amount",
        (project, scope, bucket, amount),
    )
    cursor.execute(
        "DELETE FROM counters WHERE project = ? AND scope = ? AND bucket <= ?", (project, scope, bucket - window)
    )


def forget_quotas(cursor: sqlite3.Connection, project: str, run_id: str) -> None:
    """Of a run that is over."""
    cursor.execute(
        "DELETE FROM counters WHERE project = ? AND scope >= ? AND scope < ?",
        (project, f"run:{run_id}:", f"run:{run_id};"),
    )


HANDLERS = (Handler(Charge, _charge, _check_charge), Handler(Release, _release))
