"""Looks at the ledger without changing it: its files, its schema, its anchor, who uses it and what is open."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from agent_gate.ledger.anchor import AnchorKey
from agent_gate.ledger.files import BEGIN_ANEW, LedgerFiles
from agent_gate.ledger.sqlite.connection import OLDEST, connect
from agent_gate.ledger.sqlite.locks import is_gone
from agent_gate.ledger.sqlite.migrate import HEADS, is_newer, named, revisions
from agent_gate.ledger.sqlite.trust import check_against_anchor, was_deleted
from agent_gate.model.diagnosis import FAIL, OK, WARN, Diagnosis
from agent_gate.model.errors import StorageError
from agent_gate.model.moment import epoch

LOCK_WAIT_S = 2.0
SQLITE_WAL_RESET_FIXED = (3, 51, 3)
DAY_S = 86_400
LAST_JUMP = "SELECT at, status, body ->> '$.by_s' FROM entries WHERE kind = 'clock' ORDER BY id DESC LIMIT 1"


def diagnose(files: LedgerFiles) -> Iterator[Diagnosis]:
    path = files.db
    if was_deleted(files):
        yield from _deleted(files)
        return
    if not path.exists():
        yield Diagnosis(
            "database", WARN, f"there is none at {path}", "make one with `agent-gate init`, or name it with --db"
        )
        return
    try:
        with closing(connect(path, read_only=True)) as connection:
            schema = _schema(connection, path)
            yield Diagnosis("database", OK, f"{path}, {path.stat().st_size / 1_048_576:.1f} MB")
            yield schema
            yield _permissions(files)
            if schema.status == OK:
                yield from _contents(connection, files)
    except StorageError as error:
        yield Diagnosis("database", FAIL, error.problem.detail, error.problem.suggestion)
    except sqlite3.Error as error:
        yield Diagnosis("database", FAIL, f"{path}: {error}", "restore it from a backup")


def _deleted(files: LedgerFiles) -> Iterator[Diagnosis]:
    """Tell of a deleted ledger: what runs still writes nowhere, and refuses every call until it is started again."""
    found = f"{files.db} is gone; its anchor {files.anchor.name} is not, so somebody deleted it"
    yield Diagnosis("database", FAIL, found, f"stop what runs on it, {BEGIN_ANEW}, and start again")
    if files.directory.is_dir():
        yield _instances(files)


def _schema(connection: sqlite3.Connection, path: Path) -> Diagnosis:
    found = revisions(connection)
    if found == HEADS:
        return Diagnosis("schema", OK, named(found))
    if not found:
        return Diagnosis("schema", FAIL, f"{path} is not a ledger of agent-gate", "name another file with --db")
    both = f"{named(found)}; ours is {named(HEADS)}"
    if is_newer(found):
        return Diagnosis("schema", FAIL, both, "upgrade agent-gate")
    return Diagnosis("schema", WARN, both, "run `agent-gate db upgrade`")


def _permissions(files: LedgerFiles) -> Diagnosis:
    paths = [files.db, files.anchor, files.directory, *sorted(files.directory.glob("*"))]
    loose = [path for path in paths if path.exists() and path.stat().st_mode & 0o077]
    if not loose:
        return Diagnosis("permissions", OK, "readable by their owner alone")
    found = ", ".join(f"{path.name} {path.stat().st_mode & 0o777:04o}" for path in loose)
    return Diagnosis("permissions", FAIL, found, f"take them back: chmod -R go-rwx {' '.join(map(str, loose))}")


def _contents(connection: sqlite3.Connection, files: LedgerFiles) -> Iterator[Diagnosis]:
    yield _anchor(connection, files)
    yield _instances(files)
    yield _open_work(connection)
    yield _questions(connection)
    yield _clock(connection)


def _clock(connection: sqlite3.Connection) -> Diagnosis:
    """A jump of the last day is worth a look: times, rates and windows before and after it do not compare."""
    (count,) = connection.execute("SELECT count(*) FROM entries WHERE kind = 'clock'").fetchone()
    if not count:
        return Diagnosis("clock", OK, "never set while the gate looked")
    at, direction, by_s = connection.execute(LAST_JUMP).fetchone()
    found = f"set {count} time{'s' if count > 1 else ''}; at {at} {direction} by {abs(by_s):,.0f} s"
    is_recent = abs(time.time() - epoch(at)) < DAY_S
    advice = "see who sets it, and run a time service" if is_recent else ""
    return Diagnosis("clock", WARN if is_recent else OK, found, advice)


def _anchor(connection: sqlite3.Connection, files: LedgerFiles) -> Diagnosis:
    """Only the ends of the chains; `verify` looks at everything."""
    entries = connection.execute("SELECT count(*) FROM entries").fetchone()[0]
    if not files.anchor_key.exists() or not files.anchor.exists():
        status = WARN if entries == 0 else FAIL
        return Diagnosis("anchor", status, "the anchor or its key is missing", "restore both from a backup")
    try:
        heads = check_against_anchor(connection, files, AnchorKey.of(files))
    except (StorageError, OSError, ValueError) as error:
        return Diagnosis("anchor", FAIL, str(error), "run `agent-gate verify` for the whole finding")
    chains = f"{len(heads)} chain{'' if len(heads) == 1 else 's'}"
    counted = f"{entries} {'entry' if entries == 1 else 'entries'}"
    return Diagnosis("anchor", OK, f"agrees with the ends of {chains}; {counted}")


def _instances(files: LedgerFiles) -> Diagnosis:
    """Under the writer lock, so that no process is met in the middle of its start."""
    names = [path.stem for path in files.directory.glob("*.lock") if not path.stem.startswith(("writer", "project-"))]
    with _writer_lock(files) as is_ours:
        if not is_ours:
            return Diagnosis(
                "processes", WARN, "the writer lock is taken for long", "see which process holds it: lslocks"
            )
        alive = sum(not is_gone(files, name) for name in names)
    left = f", and {len(names) - alive} that ended without a word" if len(names) > alive else ""
    return Diagnosis("processes", OK, f"{alive} at work{left}")


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


def _open_work(connection: sqlite3.Connection) -> Diagnosis:
    open_now, effects = (
        connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]  # noqa: S608 -- two constants
        for table in ("open_work", "outbox")
    )
    found = f"{open_now} calls and runs, {effects} effects"
    return Diagnosis("open work", OK, found)


def _questions(connection: sqlite3.Connection) -> Diagnosis:
    waiting, oldest = connection.execute(
        "SELECT count(*), min(created_at) FROM pending_requests WHERE resolution IS NULL"
    ).fetchone()
    return Diagnosis(
        "questions", OK, f"{waiting} waiting for an answer{f', the oldest since {oldest}' if oldest else ''}"
    )


def engine() -> Diagnosis:
    version = sqlite3.sqlite_version
    if sqlite3.sqlite_version_info < OLDEST:
        return Diagnosis("sqlite", FAIL, version, "use a Python that is linked with SQLite 3.38 or newer")
    if sqlite3.sqlite_version_info < SQLITE_WAL_RESET_FIXED:
        advice = (
            "older than 3.51.3: several writing connections can lose data when the WAL is reset; agent-gate writes and"
            " checkpoints under one lock, so its own processes are safe; let no other program write to the database"
        )
        return Diagnosis("sqlite", WARN, f"{version}, with the WAL-reset defect", advice)
    return Diagnosis("sqlite", OK, version)
