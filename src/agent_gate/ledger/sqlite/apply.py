"""One piece of work inside the writer's transaction: every check first, then every write."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from agent_gate.ledger.chain import seal
from agent_gate.ledger.sqlite import backing
from agent_gate.ledger.sqlite.changes.handler import Writing
from agent_gate.ledger.sqlite.changes.table import HANDLERS
from agent_gate.ledger.sqlite.group import ENTRY_WAL_BYTES, WORK_WAL_BYTES, Chain, Group
from agent_gate.model.committed import Applied, Committed, NotOpen, Refused, StateMoved
from agent_gate.model.entry import Draft
from agent_gate.model.work import CreateProject, Work


def apply(group: Group, work: Work, instance: str) -> Committed:
    """Commit-time truth: what was checked earlier is checked again here, under the writer lock."""
    chain = group.chain(work.project)
    refused = _check_project(group, work, chain)
    if refused is not None:
        return refused
    if not work.changes:
        assert chain is not None
        return _write_entries(group, chain, work.entries)
    writing = Writing(group, work, instance)
    refused = _check_changes(writing)
    if refused is not None:
        return refused
    touches_tables = False
    for change in work.changes:
        handler = HANDLERS[type(change)]
        handler.write(writing, change)
        touches_tables = touches_tables or not handler.is_written_with_group
    if touches_tables:
        group.wal_bytes += WORK_WAL_BYTES
    return _write_entries(group, writing.chain, _told(writing))


def _check_project(group: Group, work: Work, chain: Chain | None) -> Refused | None:
    if chain is None:
        return None if work.find(CreateProject) else NotOpen("missing")
    if work.stands_on is not None and not chain.is_at(work.stands_on):
        # Before all else: what is refused for another reason is told with the facts that it was judged by.
        return StateMoved(chain.state_version)
    if work.must_be_open and (status := group.status(chain)) != "open":
        return NotOpen(status)
    return None


def _check_changes(writing: Writing) -> Refused | None:
    for change in writing.work.changes:
        check = HANDLERS[type(change)].check
        refused = None if check is None else check(writing, change)
        if refused is not None:
            return refused
    return None


def _told(writing: Writing) -> Sequence[Draft]:
    """The entries, the first of them with what the changes tell."""
    drafts, fields = writing.work.entries, writing.told
    if writing.is_counted:
        fields["totals"] = backing.totals(writing.cursor, writing.project)
    if fields and drafts:
        drafts = (replace(drafts[0], body=backing.with_work(drafts[0].body, fields)), *drafts[1:])
    return (*writing.drafts, *drafts) if writing.drafts else drafts


def _write_entries(group: Group, chain: Chain, drafts: Sequence[Draft]) -> Applied:
    for draft in drafts:
        chain.seq += 1
        row, chain.hash = seal(chain.project, chain.seq, chain.hash, draft)
        group.rows.append(row)
        group.wal_bytes += ENTRY_WAL_BYTES + len(draft.body)
        chain.is_moved = True
    return Applied(chain.seq, chain.hash, chain.state_version)
