"""Standing grants: given, used, taken back."""

from __future__ import annotations

import orjson

from agent_gate.ledger.sqlite.backing import is_backed
from agent_gate.ledger.sqlite.changes.handler import Handler, Writing
from agent_gate.ledger.sqlite.side_tables import GRANT_COLUMNS, LIVE_GRANT, grant_of
from agent_gate.model.committed import GrantSpent
from agent_gate.model.grant import Grant
from agent_gate.model.moment import iso
from agent_gate.model.work import GiveGrant, RevokeGrant, UseGrant


def _give(writing: Writing, change: GiveGrant) -> None:
    writing.cursor.execute(
        f"INSERT INTO grants ({GRANT_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608
        _row_of(change.grant),
    )


def _check_live(writing: Writing, change: UseGrant | RevokeGrant) -> GrantSpent | None:
    writing.group.write()  # uses of the same group count too
    row = writing.cursor.execute(LIVE_GRANT, (change.grant_id, change.at)).fetchone()
    return None if row and is_backed(writing.cursor, grant_of(row)) else GrantSpent(change.grant_id)


def _use(writing: Writing, change: UseGrant) -> None:
    writing.cursor.execute("UPDATE grants SET uses_left = uses_left - 1 WHERE grant_id = ?", (change.grant_id,))
    writing.drafts.append(change.entry)


def _revoke(writing: Writing, change: RevokeGrant) -> None:
    writing.cursor.execute("UPDATE grants SET revoked_at = ? WHERE grant_id = ?", (change.at, change.grant_id))


def _row_of(grant: Grant) -> tuple[object, ...]:
    return (
        grant.grant_id,
        grant.project,
        grant.agent_id,
        grant.tool,
        "\n".join(grant.signatures),
        grant.key,
        grant.given_by,
        orjson.dumps(grant.roles).decode(),
        grant.call_id,
        iso(grant.created_at),
        iso(grant.expires_at),
        grant.uses,
        grant.uses_left,
    )


HANDLERS = (
    Handler(GiveGrant, _give),
    Handler(UseGrant, _use, _check_live),
    Handler(RevokeGrant, _revoke, _check_live),
)
