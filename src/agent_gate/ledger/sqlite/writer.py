"""The writer thread: one transaction and one fsync for all who wait."""

from __future__ import annotations

import asyncio
import logging
import os
import queue
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from msgspec import Struct

from agent_gate.ledger.anchor import Anchor, AnchorKey
from agent_gate.ledger.files import LedgerFiles
from agent_gate.ledger.sqlite.bounds import DEFAULT_BOUNDS, LedgerBounds
from agent_gate.ledger.sqlite.connection import connect
from agent_gate.ledger.sqlite.locks import WriterLock
from agent_gate.ledger.sqlite.open_files import Gone, OpenFiles
from agent_gate.ledger.sqlite.transaction import Result, transact
from agent_gate.ledger.sqlite.trust import check_against_anchor, check_heads
from agent_gate.model.bounds import WAL_CHECKPOINT_BYTES, WRITER_GROUP_MAX
from agent_gate.model.committed import Committed
from agent_gate.model.errors import GateError, StorageError
from agent_gate.model.moment import iso
from agent_gate.model.work import Close, Work
from agent_gate.ports.examining import Heads
from agent_gate.ports.ledger import LedgerFigures

_log = logging.getLogger(__name__)


class Ticket(Struct, frozen=True):
    """One caller's work and where its result goes."""

    work: Work
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Committed]


class Writer:
    """Owns the writing connection. A storage error stops it; it reopens and checks before it writes again."""

    def __init__(
        self,
        files: LedgerFiles,
        key: AnchorKey,
        lock: WriterLock,
        instance: str,
        now: Callable[[], float],
        on_reopen: Callable[[sqlite3.Connection], Sequence[Work]],
        bounds: LedgerBounds = DEFAULT_BOUNDS,
    ) -> None:
        """Call it under the writer lock. `on_reopen` names the work that a reopened ledger owes its past."""
        self._files, self._key, self._lock, self._instance = files, key, lock, instance
        self._now, self._on_reopen, self._bounds = now, on_reopen, bounds
        self._transact = transact
        self._waiting: deque[Ticket] = deque()
        self._calls: queue.SimpleQueue[None] = queue.SimpleQueue()
        """Each wakes the thread up."""
        self._calling: set[asyncio.AbstractEventLoop] = set()
        """Event loops that will wake it at the end of their turn, once for all that they wanted written in it."""
        self._connection = connect(files.db, busy_timeout_s=bounds.busy_timeout_s)
        self._anchor = Anchor(files, key)
        self._anchor.begin_if_new(iso(now()))
        self._anchor.compact_if_long(iso(now()))
        self._open_files = OpenFiles(files)
        self._acknowledged: Heads = {}
        self._broken_since: float | None = None
        self._why_broken: Exception | None = None
        self._wal_bytes = 0
        self._truncate_log_if_huge()
        self._closed = False
        self._commits = self._works = 0
        self._more_waits = False
        """True where the last group had its full size, so that more may wait for which nobody calls any more."""
        self._thread = threading.Thread(target=self._serve, name="agent-gate-writer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def submit(self, work: Work) -> asyncio.Future[Committed]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Committed] = loop.create_future()
        if self._closed:
            future.set_exception(StorageError("the ledger is closed"))
        elif len(self._waiting) >= self._bounds.writer_queue_max and work.find(Close) is None:
            # How an act ended is always taken: there are no more of those than intents that were taken.
            future.set_exception(StorageError("too many writes are waiting", suggestion="try again later"))
        else:
            self._waiting.append(Ticket(work, loop, future))
            if loop not in self._calling:
                self._calling.add(loop)
                loop.call_soon(self._call_thread, loop)
        return future

    def _call_thread(self, loop: asyncio.AbstractEventLoop) -> None:
        self._calling.discard(loop)
        if self._calls.empty():  # otherwise it is about to look, and will find this too
            self._calls.put(None)

    def figures(self) -> LedgerFigures:
        return LedgerFigures(self._commits, self._works, len(self._waiting))

    def anchor_what_is_missing(self, anchored: Heads) -> None:
        """Anchor what a crash left without its line; call it under the writer lock, before the thread runs."""
        rows = self._connection.execute("SELECT project, seq, hash FROM heads WHERE seq > 0").fetchall()
        missing = {project: (seq, hash) for project, seq, hash in rows if anchored.get(project) != (seq, hash)}
        if missing:
            self._anchor.append(iso(self._now()), missing)

    def commit_now(self, works: Sequence[Work]) -> list[Result]:
        """Under the writer lock, before the thread runs or while it reopens: work that the past needs."""
        return _for_each(works, *self._transaction(partial(list, works)))

    def take_no_more(self) -> None:
        """Call it where `submit` is called, so that nothing can be queued behind the end."""
        if not self._closed:
            self._closed = True
            self._calls.put(None)

    def abandon(self) -> None:
        """Close what is open; harmless where it is closed already."""
        self._anchor.close()
        with suppress(sqlite3.Error):
            self._connection.close()

    def finish(self) -> None:
        """Write what waits, then close the connection and the anchor."""
        self._thread.join()

    def _serve(self) -> None:
        while self._waiting or not self._closed:
            try:
                self._wait()
                if self._waiting or self._is_broken:
                    self._commit_group()
                self._sync_anchor_if_due()
            except Exception as error:  # a defect of ours; without this thread nobody would ever be answered
                _log.exception("the writer of the ledger failed")
                self._stop(error)
        self._close_files()

    @property
    def _is_broken(self) -> bool:
        return self._broken_since is not None

    def _wait(self) -> None:
        """Until the end of a turn of an event loop that wants something written, or until something else is due.

        Not merely until there is work: its first pieces would be a group of their own, with an fsync of their own.
        """
        if not self._more_waits:
            with suppress(queue.Empty):
                mending_s = self._bounds.writer_reopen_after_s
                self._calls.get(timeout=mending_s if self._is_broken else self._anchor.sync_in_s())

    def _deliver(self, tickets: Sequence[Ticket], results: Sequence[Result]) -> None:
        """One wake-up for each event loop, however many of its callers waited."""
        by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Committed], Result]]] = {}
        for ticket, result in zip(tickets, results, strict=True):
            by_loop.setdefault(ticket.loop, []).append((ticket.future, result))
        for loop, pairs in by_loop.items():
            try:
                loop.call_soon_threadsafe(_resolve_all, pairs)
            except RuntimeError:
                continue  # that loop is closed: nobody waits there any more

    def _commit_group(self) -> None:
        """Commit, anchor, answer, and tidy up while the callers go on.

        The anchor's line takes microseconds while they wait, and many times that against them: each system call would
        have to win the interpreter back.
        """
        tickets: list[Ticket] = []

        def take() -> list[Work]:
            """All that waits, up to the bound of one group."""
            tickets.extend(self._waiting.popleft() for _ in range(min(len(self._waiting), WRITER_GROUP_MAX)))
            return [ticket.work for ticket in tickets]

        results: list[Result] = []
        fault: Exception | None = None
        try:
            with self._lock.held():
                results, fault = self._commit(take)
        except Exception as error:  # whatever it is, somebody waits for each of the works that were taken
            fault = self._stop(error)
        if fault is not None and not tickets:  # it failed before anything was taken
            take()
        self._commits, self._works = self._commits + 1, self._works + len(tickets)
        self._more_waits = len(tickets) == WRITER_GROUP_MAX
        self._deliver(tickets, _for_each(tickets, results, fault))
        if self._wal_bytes >= WAL_CHECKPOINT_BYTES and not self._is_broken:
            self._start_log_over()

    def _commit(self, take: Callable[[], Sequence[Work]]) -> tuple[list[Result], Exception | None]:
        """Results up to the fault, if there is one; nothing is raised, because a caller waits for each of them."""
        try:
            if self._is_broken:
                self._reopen()
            self._open_files.check()
            return self._transaction(take)
        except Gone as error:
            return [], self._stop(error)
        except GateError as error:
            return [], error
        except Exception as error:
            return [], self._stop(error)

    def _transaction(self, take: Callable[[], Sequence[Work]]) -> tuple[list[Result], Exception | None]:
        done = self._transact(self._connection, take, self._instance)
        self._open_files.check()  # before anybody is told: what went to a file without a name is lost
        self._wal_bytes += done.wal_bytes
        if done.moved:
            self._anchor_what_moved(done.moved)
        return done.results, None if done.fault is None else self._stop(done.fault)

    def _anchor_what_moved(self, moved: Heads) -> None:
        self._acknowledged |= moved
        try:
            self._anchor.append(iso(self._now()), moved)
        except Exception as error:
            self._stop(error)  # committed all the same: only the next group is refused until it can be anchored

    def _start_log_over(self) -> None:
        """Write over the write-ahead log in place: a file that grows makes every fsync twice as slow."""
        try:
            with self._lock.held():
                self._wal_bytes = 0
                self._checkpoint("RESTART")
        except (sqlite3.Error, StorageError) as error:
            self._stop(error)

    def _truncate_log_if_huge(self) -> None:
        """Processes that live too briefly to reach the bound each leave a little, and a reader keeps the log alive."""
        with suppress(FileNotFoundError):
            if os.stat(f"{self._files.db}-wal").st_size > 2 * WAL_CHECKPOINT_BYTES:
                self._checkpoint("TRUNCATE")

    def _checkpoint(self, how: str) -> None:
        self._connection.execute("PRAGMA busy_timeout = 20")
        self._connection.execute(f"PRAGMA wal_checkpoint({how})").fetchone()
        self._connection.execute(f"PRAGMA busy_timeout = {int(self._bounds.busy_timeout_s * 1000)}")

    def _stop(self, error: Exception) -> StorageError:
        """After a failed write nothing in memory can be trusted: refuse until the files are opened and checked anew."""
        known = self._why_broken if self._is_broken else None
        if known is None or (isinstance(error, Gone) and not isinstance(known, Gone)):
            _log.error("the ledger cannot be written, and every call is refused: %s", error)
        self._broken_since, self._why_broken = time.monotonic(), error
        if isinstance(error, Gone):
            return error
        return StorageError(
            f"the ledger cannot be written: {error}", suggestion="free space or mend the disk; it reopens by itself"
        )

    def _reopen(self) -> None:
        """Open anew: what is acknowledged must be there, and the anchor must take it, before anything follows."""
        assert self._broken_since is not None
        if isinstance(self._why_broken, Gone):
            self._open_files.check()
        if time.monotonic() < self._broken_since + self._bounds.writer_reopen_after_s:
            raise StorageError(
                f"the ledger could not be written a moment ago: {self._why_broken}", suggestion="try again in a second"
            )
        self._broken_since = time.monotonic()
        self._open_files.check()
        self._connection.close()
        self._anchor.close()
        self._connection = connect(self._files.db, busy_timeout_s=self._bounds.busy_timeout_s)
        self._open_files = OpenFiles(self._files)
        check_heads(self._connection, self._acknowledged)
        check_against_anchor(self._connection, self._files, self._key)
        self._anchor = Anchor(self._files, self._key)
        self._anchor.append(iso(self._now()), self._acknowledged)
        self._anchor.sync(iso(self._now()))
        self._broken_since = None
        for result in self.commit_now(self._on_reopen(self._connection)):
            if isinstance(result, Exception):
                raise result
        if self._is_broken:
            raise StorageError("the anchor cannot be written", suggestion="mend the disk; it reopens by itself")

    def _sync_anchor_if_due(self) -> None:
        if not self._is_broken and self._anchor.sync_in_s() == 0.0:
            try:
                with self._lock.held():
                    self._open_files.check()
                    self._anchor.sync(iso(self._now()))
            except (OSError, StorageError) as error:
                self._stop(error)

    def _close_files(self) -> None:
        """Nothing that was acknowledged depends on a clean close."""
        with suppress(OSError, StorageError), self._lock.held():
            if not self._is_broken and self._anchor.sync_in_s() is not None:
                self._anchor.sync(iso(self._now()))
            self.abandon()
        self.abandon()


def _for_each(works: Sequence[object], results: list[Result], fault: Exception | None) -> list[Result]:
    """The results, and the fault for those that it left without one."""
    return results if fault is None else results + [fault] * (len(works) - len(results))


def _resolve_all(pairs: Sequence[tuple[asyncio.Future[Committed], Result]]) -> None:
    for future, result in pairs:
        if future.done():
            continue
        if isinstance(result, Exception):
            future.set_exception(result)
        else:
            future.set_result(result)
