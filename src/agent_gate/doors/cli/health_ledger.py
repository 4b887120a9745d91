"""Looks at the ledger without changing it: its files, its schema, its anchor, who uses it and what is open."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from agent_gate.doors.cli import screen
from agent_gate.doors.cli.health import FAIL, OK, WARN, Row
from agent_gate.history.clock_jumps import clock_jumps, count_clock_jumps
from agent_gate.ledger.anchor import AnchorKey
from agent_gate.ledger.sqlite.connection import connect
from agent_gate.ledger.sqlite.files import BEGIN_ANEW, LedgerFiles
from agent_gate.ledger.sqlite.locks import is_gone
from agent_gate.ledger.sqlite.migrate import HEADS, is_newer, named, revisions
from agent_gate.ledger.sqlite.trust import check_against_anchor, was_deleted
from agent_gate.model.errors import StorageError
from agent_gate.model.moment import epoch

LOCK_WAIT_S = 2.0
DAY_S = 86_400


def ledger_rows(path: Path) -> Iterator[Row]:
    if was_deleted(LedgerFiles(path)):
        yield from _deleted(LedgerFiles(path))
        return
    if not path.exists():
        yield Row("database", WARN, f"there is none at {path}", "make one with `agent-gate init`, or name it with --db")
        return
    try:
        with closing(connect(path, read_only=True)) as connection:
            schema = _schema(connection, path)
            yield Row("database", OK, f"{path}, {path.stat().st_size / 1_048_576:.1f} MB")
            yield schema
            yield _permissions(LedgerFiles(path))
            if schema.status == OK:
                yield from _contents(connection, LedgerFiles(path))
    except StorageError as error:
        yield Row("database", FAIL, error.problem.detail, error.problem.suggestion)
    except sqlite3.Error as error:
        yield Row("database", FAIL, f"{path}: {error}", "restore it from a backup")


def _deleted(files: LedgerFiles) -> Iterator[Row]:
    """What runs still writes nowhere: it refuses every call until it is started again."""
    found = f"{files.db} is gone; its anchor {files.anchor.name} is not, so somebody deleted it"
    yield Row("database", FAIL, found, f"stop what runs on it, {BEGIN_ANEW}, and start again")
    if files.directory.is_dir():
        yield _instances(files)


def _schema(connection: sqlite3.Connection, path: Path) -> Row:
    found = revisions(connection)
    if found == HEADS:
        return Row("schema", OK, named(found))
    if not found:
        return Row("schema", FAIL, f"{path} is not a ledger of agent-gate", "name another file with --db")
    both = f"{named(found)}; ours is {named(HEADS)}"
    if is_newer(found):
        return Row("schema", FAIL, both, "upgrade agent-gate")
    return Row("schema", WARN, both, "run `agent-gate db upgrade`")


def _permissions(files: LedgerFiles) -> Row:
    paths = [files.db, files.anchor, files.directory, *sorted(files.directory.glob("*"))]
    loose = [path for path in paths if path.exists() and path.stat().st_mode & 0o077]
    if not loose:
        return Row("permissions", OK, "readable by their owner alone")
    found = ", ".join(f"{path.name} {path.stat().st_mode & 0o777:04o}" for path in loose)
    return Row("permissions", FAIL, found, f"take them back: chmod -R go-rwx {' '.join(map(str, loose))}")


def _contents(connection: sqlite3.Connection, files: LedgerFiles) -> Iterator[Row]:
    yield _anchor(connection, files)
    yield _instances(files)
    yield _open_work(connection)
    yield _questions(connection)
    yield _clock(connection)


def _clock(connection: sqlite3.Connection) -> Row:
    """A jump of the last day is worth a look: times, rates and windows before and after it do not compare."""
    count = count_clock_jumps(connection)
    if not count:
        return Row("clock", OK, "never set while the gate looked")
    (last,) = clock_jumps(connection, 1)
    found = f"set {count} time{'s' if count > 1 else ''}; at {last.at} {last.direction} by {abs(last.by_s):,.0f} s"
    is_recent = abs(time.time() - epoch(last.at)) < DAY_S
    advice = "see who sets it, and run a time service" if is_recent else ""
    return Row("clock", WARN if is_recent else OK, found, advice)


def _anchor(connection: sqlite3.Connection, files: LedgerFiles) -> Row:
    """Only the ends of the chains; `verify` looks at everything."""
    entries = connection.execute("SELECT count(*) FROM entries").fetchone()[0]
    if not files.anchor_key.exists() or not files.anchor.exists():
        status = WARN if entries == 0 else FAIL
        return Row("anchor", status, "the anchor or its key is missing", "restore both from a backup")
    try:
        heads = check_against_anchor(connection, files, AnchorKey.of(files))
    except (StorageError, OSError, ValueError) as error:
        return Row("anchor", FAIL, str(error), "run `agent-gate verify` for the whole finding")
    chains, counted = screen.count(len(heads), "chain"), screen.count(entries, "entry", "entries")
    return Row("anchor", OK, f"agrees with the ends of {chains}; {counted}")


def _instances(files: LedgerFiles) -> Row:
    """Under the writer lock, so that no process is met in the middle of its start."""
    names = [path.stem for path in files.directory.glob("*.lock") if not path.stem.startswith(("writer", "project-"))]
    with _writer_lock(files) as is_ours:
        if not is_ours:
            return Row("processes", WARN, "the writer lock is taken for long", "see which process holds it: lslocks")
        alive = sum(not is_gone(files, name) for name in names)
    left = f", and {len(names) - alive} that ended without a word" if len(names) > alive else ""
    return Row("processes", OK, f"{alive} at work{left}")


@contextmanager
def _writer_lock(files: LedgerFiles) -> Iterator[bool]:
    try:
        descriptor = os.open(files.writer_lock, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        yield True
        return
    try:
        yield _taken_in_time(descriptor)
    finally:
        os.close(descriptor)


def _taken_in_time(descriptor: int) -> bool:
    deadline = time.monotonic() + LOCK_WAIT_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
        time.sleep(0.02)


def _open_work(connection: sqlite3.Connection) -> Row:
    open_now, effects = (
        connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]  # noqa: S608 -- two constants
        for table in ("open_work", "outbox")
    )
    found = f"{open_now} calls and runs, {effects} effects"
    return Row("open work", OK, found)


def _questions(connection: sqlite3.Connection) -> Row:
    waiting, oldest = connection.execute(
        "SELECT count(*), min(created_at) FROM pending_requests WHERE resolution IS NULL"
    ).fetchone()
    return Row("questions", OK, f"{waiting} waiting for an answer{f', the oldest since {oldest}' if oldest else ''}")
