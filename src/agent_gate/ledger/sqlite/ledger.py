"""The ledger on SQLite: opens the file, hands work to the writer, answers short reads."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from agent_gate.compat import DocumentDatabase
from agent_gate.ledger.anchor import AnchorKey
from agent_gate.ledger.files import LedgerFiles
from agent_gate.ledger.sqlite import backing, service_tables, side_tables
from agent_gate.ledger.sqlite.bounds import DEFAULT_BOUNDS, LedgerBounds
from agent_gate.ledger.sqlite.changes import counters
from agent_gate.ledger.sqlite.clock_watch import ClockWatch
from agent_gate.ledger.sqlite.connection import UNREADABLE, connect
from agent_gate.ledger.sqlite.group import SELECT_HEAD
from agent_gate.ledger.sqlite.locks import InstanceLock, ProjectLocks, WriterLock, is_gone, remove_locks_of_the_gone
from agent_gate.ledger.sqlite.migrate import refuse_what_is_not_ours, upgrade
from agent_gate.ledger.sqlite.news import News
from agent_gate.ledger.sqlite.recovery import owed_work
from agent_gate.ledger.sqlite.rows import BARE_COLUMNS, ENTRY_COLUMNS, bare_request_of, entry_of
from agent_gate.ledger.sqlite.states import States
from agent_gate.ledger.sqlite.storage import SqliteStorage
from agent_gate.ledger.sqlite.trust import check_against_anchor, check_not_deleted
from agent_gate.ledger.sqlite.turns import Turns
from agent_gate.ledger.sqlite.undone import undone
from agent_gate.ledger.sqlite.writer import Writer
from agent_gate.model.approval import BareRequest, Question, question_of
from agent_gate.model.bounds import STATUS_AGE_MAX_S
from agent_gate.model.charge import Charge
from agent_gate.model.committed import Applied, Committed
from agent_gate.model.entry import GATE_PROJECT, Entry
from agent_gate.model.errors import StorageError
from agent_gate.model.grant import Grant
from agent_gate.model.moment import iso
from agent_gate.model.project import ProjectHead, ProjectState
from agent_gate.model.service_tables import Row as TableRow
from agent_gate.model.service_tables import Table, Value
from agent_gate.model.tool import Json
from agent_gate.model.undone import Undone
from agent_gate.model.work import (
    Change,
    Close,
    CreateProject,
    EndEffect,
    Open,
    QueueEffect,
    Resolve,
    SetStatus,
    Work,
)
from agent_gate.ports.ledger import LedgerFigures, Turn
from agent_gate.ports.surroundings import Clock, Ids
from agent_gate.ports.tools import FinishCommit

Found = TypeVar("Found")

_NOTED = (Open, QueueEffect, Close, EndEffect, CreateProject, SetStatus, Resolve)
"""Changes after which this process knows something that it did not."""


class SqliteLedger(DocumentDatabase):
    """One process's handle on a ledger that any number of processes may share.

    Short reads run on the caller's thread: on a local file they take microseconds and never wait for a writer.
    """

    def __init__(
        self,
        path: Path | str,
        clock: Clock,
        ids: Ids,
        finish_commit: FinishCommit | None = None,
        bounds: LedgerBounds = DEFAULT_BOUNDS,
    ) -> None:
        """`finish_commit` ends commits to files that a process left half-way; without it their calls stay open."""
        self.files = LedgerFiles(Path(path))
        self.storage = SqliteStorage(self.files.db, bounds=bounds)
        self.instance = ids.new()
        self.clock, self._ids, self._finish_commit, self._bounds = clock, ids, finish_commit, bounds
        self._live: set[str] = set()
        """Open work of this process that somebody here still works on."""
        self._statuses: dict[str, tuple[float, str]] = {}
        """Until when a project's status is taken from here, and the status."""
        self._effective: dict[str, tuple[float, str]] = {}
        """Likewise, with regard to the whole gate's."""
        self._project_locks = ProjectLocks(self.files, bounds.lock_wait_s)
        self._turns = Turns(self._project_locks, self._state, bounds)
        self._clock_watch = ClockWatch(clock, ids.salt)
        self._closed = False
        with ExitStack() as opened:
            try:
                self._open(opened)
            except (*UNREADABLE, OSError) as error:
                raise StorageError(
                    f"cannot open `{path}`: {error}", code=5001, suggestion="mend it, then try again"
                ) from error
            opened.pop_all()
        self._writer.start()

    def _open(self, opened: ExitStack) -> None:
        """Open all of it; what is opened before something fails is closed again."""
        refuse_what_is_not_ours(self.files.db)
        check_not_deleted(self.files)
        self.files.create()
        self._writer_lock = WriterLock(self.files, self._bounds.lock_wait_s)
        opened.callback(self._writer_lock.close)
        with self._writer_lock.held():
            upgrade(self.files.db)
            key = AnchorKey.of(self.files)
            self.files.read_or_make_secret()
            self._reader = connect(self.files.db, read_only=True, busy_timeout_s=self._bounds.busy_timeout_s)
            opened.callback(self._reader.close)
            self._states = States(self._reader)
            anchored = check_against_anchor(self._reader, self.files, key)
            self._instance_lock = InstanceLock(self.files, self.instance)
            opened.callback(self._instance_lock.release)
            self._writer = Writer(
                self.files, key, self._writer_lock, self.instance, self.clock.now, self._owed_work, self._bounds
            )
            opened.callback(self._writer.abandon)
            self._writer.anchor_what_is_missing(anchored)
            self._settle_the_past()
        self._news = News(self._reader, self.clock.monotonic, self._look_at_clock, self._bounds.answer_poll_s)

    def _settle_the_past(self) -> None:
        works = [*self._clock_watch.since_last_time(self._reader), *self._owed_work(self._reader)]
        for result in self._writer.commit_now(works):
            if isinstance(result, Exception):
                raise result
        remove_locks_of_the_gone(self.files)

    def _owed_work(self, connection: sqlite3.Connection) -> list[Work]:
        clock, salt = self.clock, self._ids.salt
        return owed_work(connection, self.files, self.instance, self._live, clock, salt, self._finish_commit)

    def figures(self) -> LedgerFigures:
        return self._writer.figures()

    def _look_at_clock(self) -> None:
        """That it was set is written before whatever follows."""
        work = self._clock_watch.look()
        if work is not None:
            self._writer.submit(work).add_done_callback(_heard)

    def commit(self, work: Work) -> Awaitable[Committed]:
        self._look_at_clock()
        noted = [change for change in work.changes if isinstance(change, _NOTED)]
        begun = [_id(change) for change in noted if isinstance(change, Open | QueueEffect)]
        self._live.update(begun)
        committing = self._writer.submit(work)
        if work.stands_on is not None:
            self._turns.note(work, committing)
        return self._noted(work, noted, begun, committing) if noted else committing

    async def _noted(
        self, work: Work, noted: Sequence[Change], begun: Sequence[str], committing: Awaitable[Committed]
    ) -> Committed:
        """Note that what is begun lives from now on, and what is done no longer; an answer is news for who waits."""
        applied = False
        try:
            result = await committing
            applied = isinstance(result, Applied)
        finally:
            if not applied:
                self._live.difference_update(begun)
            self._live.difference_update(_id(change) for change in noted if isinstance(change, Close | EndEffect))
        for change in noted:
            if isinstance(change, CreateProject | SetStatus):
                self._statuses.pop(work.project, None)
                self._effective.clear()
            elif isinstance(change, Resolve) and applied:
                self._news.tell(change.call_id)
        return result

    def lock_project(self, project: str) -> AbstractAsyncContextManager[None]:
        return self._project_locks.held(project)

    def turn(self, project: str, *, alone: bool = False) -> AbstractAsyncContextManager[Turn]:
        return self._turns.taken(project, self.commit, alone=alone)

    async def effective_status(self, project: str) -> str | None:
        known = self._effective.get(project)
        if known is not None and time.monotonic() < known[0]:
            return known[1]
        gate, status = await self.status(GATE_PROJECT), await self.status(project)
        if status is None:
            return "paused" if gate == "paused" else None
        effective = "paused" if gate == "paused" else status
        until = [self._statuses[one][0] for one in (GATE_PROJECT, project) if one in self._statuses]
        self._effective[project] = min(until), effective
        return effective

    async def status(self, project: str) -> str | None:
        known = self._statuses.get(project)
        now = time.monotonic()
        if known is not None and now < known[0]:
            return known[1]
        row = self._row(SELECT_HEAD, project)
        if row is None:
            return None
        self._statuses[project] = now + STATUS_AGE_MAX_S, row[4]
        return str(row[4])

    async def head(self, project: str) -> ProjectHead | None:
        row = self._row(SELECT_HEAD, project)
        return ProjectHead(project, *row) if row else None

    async def state(self, project: str) -> ProjectState:
        """The current state; a project that nothing has changed yet has its initial one, version 0."""
        return self._state(project)

    def _state(self, project: str) -> ProjectState:
        return self._ask(self._states.current, project)

    async def state_schema(self, project: str) -> Mapping[str, Json] | None:
        return self._ask(self._states.schema, project)

    async def snapshot(self, project: str, snapshot_id: str) -> ProjectState | None:
        return self._ask(self._states.named, project, snapshot_id)

    async def state_at(self, project: str, version: int) -> ProjectState:
        return self._ask(self._states.at, project, version)

    async def claimed(self, agent_id: str, request_id: str) -> tuple[str, str] | None:
        return self._look(backing.claimed, agent_id, request_id)

    async def entries_of(self, call_id: str, kind: str | None = None) -> Sequence[Entry]:
        found, values = ("call_id = ?", [call_id]) if kind is None else ("call_id = ? AND kind = ?", [call_id, kind])
        rows = self._rows(f"SELECT {ENTRY_COLUMNS} FROM entries WHERE {found} ORDER BY project, seq", *values)  # noqa: S608
        return [entry_of(row) for row in rows]

    async def undone(self, project: str, call_id: str) -> Undone | None:
        return self._look(undone, project, call_id)

    async def used(self, project: str, charge: Charge) -> float:
        """Tell how much is used; what no entries add up to is no count: rather nothing passes."""
        if not self._look(backing.counted, project, charge.scope):
            raise StorageError(
                f"the count `{charge.scope}` of project `{project}` is not what its entries add up to",
                code=5004,
                suggestion="run `agent-gate verify`",
            )
        return float(self._row(counters.SELECT_USED, project, charge.scope, charge.bucket - charge.window)[0])

    async def denied_since(self, project: str, signature: str, since: float) -> bool:
        row = self._row(
            "SELECT at, call_id FROM refusals WHERE project = ? AND signature = ? AND at > ?",
            project,
            signature,
            iso(since),
        )
        return row is not None and self._look(backing.is_refusal, project, signature, *row)

    async def question(self, call_id: str) -> tuple[Question, str | None, tuple[str, ...]] | None:
        row = self._row("SELECT question FROM pending_requests WHERE call_id = ?", call_id)
        return None if row is None or row[0] is None else self._answered(question_of(row[0]))

    def _answered(self, question: Question) -> tuple[Question, str | None, tuple[str, ...]]:
        """With how it was answered, as the entries say."""
        answers = self._look(backing.answers, question.call_id, question.nonce, question.approvers_required)
        return question, *answers

    async def is_as_put(self, call_id: str) -> bool:
        return self._look(backing.is_as_put, call_id)

    async def question_about(
        self, agent_id: str, bound_hash: str
    ) -> tuple[Question, str | None, tuple[str, ...]] | None:
        row = self._row(
            "SELECT question FROM pending_requests WHERE agent_id = ? AND question ->> '$.bound_hash' = ?"
            " ORDER BY resolution IS NULL, created_at, call_id LIMIT 1",
            agent_id,
            bound_hash,
        )
        if row is None:
            return None
        question = question_of(row[0])
        return self._answered(question) if self._look(backing.is_as_put, question.call_id) else None

    async def answer_to(self, call_id: str) -> tuple[str | None, tuple[str, ...]] | None:
        row = self._row("SELECT nonce, approvers_required FROM pending_requests WHERE call_id = ?", call_id)
        return None if row is None else self._look(backing.answers, call_id, *row)

    async def abandoned_by(self, call_id: str) -> str | None:
        row = self._row("SELECT instance FROM pending_requests WHERE call_id = ? AND question IS NOT NULL", call_id)
        return row[0] if row and (row[0] == self.instance or is_gone(self.files, row[0])) else None

    async def abandoned_calls(self) -> frozenset[str]:
        held: dict[str, list[str]] = {}
        for call_id, instance in self._rows(
            "SELECT call_id, instance FROM pending_requests"
            " WHERE question IS NOT NULL AND resolution IS NULL AND instance <> ?",
            self.instance,
        ):
            held.setdefault(instance, []).append(call_id)
        return frozenset(one for instance, calls in held.items() if is_gone(self.files, instance) for one in calls)

    async def questions(self) -> Sequence[Question]:
        rows = self._rows(
            "SELECT question FROM pending_requests WHERE question IS NOT NULL AND resolution IS NULL"
            " ORDER BY created_at"
        )
        return [question_of(row[0]) for row in rows]

    async def open_questions(self) -> Sequence[tuple[Question, tuple[str, ...]]]:
        rows = self._rows(
            "SELECT question FROM pending_requests WHERE question IS NOT NULL AND resolution IS NULL"
            " ORDER BY created_at, call_id"
        )
        found = [self._answered(question_of(row[0])) for row in rows]
        return [(question, approved_by) for question, resolution, approved_by in found if resolution is None]

    async def unsettled_questions(self) -> Sequence[Question]:
        rows = self._rows("SELECT question FROM pending_requests WHERE question IS NOT NULL ORDER BY created_at")
        return [question_of(row[0]) for row in rows]

    async def questions_of(self, agent_id: str) -> Sequence[str]:
        rows = self._rows(
            "SELECT call_id FROM pending_requests WHERE agent_id = ? AND question IS NOT NULL AND resolution IS NULL",
            agent_id,
        )
        return [row[0] for row in rows]

    def wait_for_answer(
        self, call_id: str, timeout_s: float | None = None, deadline: float | None = None
    ) -> Awaitable[None]:
        return self._news.of_answer(call_id, timeout_s, deadline)

    async def wait_for_change(self, timeout_s: float) -> None:
        await self._news.of_change(timeout_s)

    async def grants(self, at: float) -> Sequence[Grant]:
        return self._backed(self._rows(side_tables.LIVE_GRANTS, iso(at)))

    async def grants_of(self, project: str, agent_id: str, key: str, at: float) -> Sequence[Grant]:
        return self._backed(self._rows(side_tables.GRANTS_OF, project, agent_id, key, iso(at)))

    def _backed(self, rows: Sequence[Sequence[Any]]) -> list[Grant]:
        """The grants that entries tell of; a row by itself gives nothing."""
        return [grant for grant in map(side_tables.grant_of, rows) if self._look(backing.is_backed, grant)]

    async def waiting_results(self, agent_id: str, limit: int) -> Sequence[str]:
        return [row[0] for row in self._rows(side_tables.WAITING, agent_id, limit)]

    async def waiting_results_count(self, agent_id: str) -> int:
        return int(self._row(side_tables.WAITING_COUNT, agent_id)[0])

    async def messages(self, channel: str) -> Sequence[tuple[str, str]]:
        return [(row[0], row[1]) for row in self._rows(side_tables.MESSAGES, channel)]

    async def contact(self, key: str) -> bytes | None:
        row = self._row("SELECT value FROM contact_info WHERE key = ?", key)
        return bytes(row[0]) if row else None

    async def contacts(self) -> Sequence[tuple[str, str]]:
        return [(row[0], row[1]) for row in self._rows("SELECT key, updated_at FROM contact_info ORDER BY key")]

    async def rows_of(
        self, table: Table, where: Mapping[str, Value] = MappingProxyType({}), columns: Sequence[str] = ()
    ) -> Sequence[TableRow]:
        return self._look(service_tables.rows_of, table, where, columns)

    async def steps_taken(self, service: str) -> int:
        return self._look(service_tables.steps_taken, service)

    async def last_policy_hash(self) -> str | None:
        row = self._row("SELECT body ->> '$.policy_hash' FROM entries WHERE kind = 'policy' ORDER BY id DESC LIMIT 1")
        return row[0] if row else None

    async def last_tools_hash(self) -> str | None:
        row = self._row("SELECT body ->> '$.tools_hash' FROM entries WHERE kind = 'tools' ORDER BY id DESC LIMIT 1")
        return row[0] if row else None

    async def blob(self, hash: str) -> bytes | None:
        row = self._row("SELECT data FROM blobs WHERE hash = ?", hash)
        return bytes(row[0]) if row else None

    async def bare_request(self, request_id: str) -> BareRequest | None:
        row = self._row(f"SELECT {BARE_COLUMNS} FROM pending_requests WHERE request_id = ?", request_id)  # noqa: S608
        return bare_request_of(row) if row else None

    async def bare_requests_until(self, at: float) -> Sequence[BareRequest]:
        rows = self._rows(
            f"SELECT {BARE_COLUMNS} FROM pending_requests"  # noqa: S608
            " WHERE expires_at <= ? AND question IS NULL ORDER BY expires_at",
            iso(at),
        )
        return [bare_request_of(row) for row in rows]

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._news.close()
        # The writer's connection closes last, because only a writing one can empty the log.
        self._reader.close()
        self._writer.take_no_more()
        await asyncio.to_thread(self._finish)

    def _finish(self) -> None:
        self._writer.finish()
        self._instance_lock.release()
        self._writer_lock.close()

    def _row(self, sql: str, *values: object) -> Any:
        try:
            return self._reader.execute(sql, values).fetchone()
        except sqlite3.Error as error:
            raise StorageError(f"the ledger cannot be read: {error}", code=5003) from error

    def _look(self, question: Callable[..., Found], *values: object) -> Found:
        """Ask the entries a question of `backing`'s."""
        return self._ask(question, self._reader, *values)

    def _ask(self, question: Callable[..., Found], *values: object) -> Found:
        try:
            return question(*values)
        except (sqlite3.Error, ValueError, TypeError, LookupError, AttributeError) as error:
            raise StorageError(f"the ledger cannot be read: {error}", code=5003) from error

    def _rows(self, sql: str, *values: object) -> list[Any]:
        try:
            return self._reader.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise StorageError(f"the ledger cannot be read: {error}", code=5003) from error


def _id(change: Open | Close | QueueEffect | EndEffect) -> str:
    return change.id if isinstance(change, Open | Close) else change.effect_id


def _heard(noted: asyncio.Future[Committed]) -> None:
    """Ignore what cannot be written now: the work that follows will tell."""
    if not noted.cancelled():
        noted.exception()
