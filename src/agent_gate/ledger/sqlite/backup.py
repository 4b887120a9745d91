"""Backup: a copy of a ledger that verifies on its own, made while others write."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from agent_gate.ledger.files import LedgerFiles, open_private, sync_directory
from agent_gate.ledger.sqlite.locks import WriterLock
from agent_gate.ledger.sqlite.reader import open_reader
from agent_gate.model.errors import StorageError
from agent_gate.ports.storage import Backup

PAGES_PER_STEP = 4_096


def backup(path: Path | str, target: Path | str, *, progress: Callable[[int, int], None] | None = None) -> Backup:
    """Copy database, anchor and keys to `target`, `<target>.anchor` and `<target>.d/`; nothing is overwritten.

    The keys are part of it, because without them the copy could not be verified: guard it like the ledger.
    `progress` hears of pages done and pages in all.
    """
    source, copy = LedgerFiles(Path(path)), LedgerFiles(Path(target))
    with closing(open_reader(source.db)) as reader, _undone_on_failure(copy):
        _make_room(copy)
        with reader.one_moment():
            with _still(source):
                entries = reader.count_entries()
                _copy(source.anchor, copy.anchor)
            _copy_database(reader.connection, copy.db, progress)
        for key in (source.anchor_key, source.secret_key):
            _copy(key, copy.directory / key.name)
        sync_directory(copy.directory)
        sync_directory(copy.db.parent)
    return Backup(copy.db, entries, copy.db.stat().st_size)


def _make_room(copy: LedgerFiles) -> None:
    for path in (copy.db, copy.anchor, copy.directory):
        if os.path.lexists(path):
            raise _Taken(path)
    try:
        copy.directory.mkdir(mode=0o700)
        os.close(open_private(copy.db, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
    except FileExistsError as error:
        raise _Taken(Path(error.filename)) from error


class _Taken(StorageError):
    """Somebody else's file: it is not ours to remove."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"`{path}` exists already", code=5001, suggestion="name another target")


@contextmanager
def _undone_on_failure(copy: LedgerFiles) -> Iterator[None]:
    try:
        yield
    except _Taken:
        raise
    except BaseException as error:
        for path in (copy.db, copy.anchor):
            path.unlink(missing_ok=True)
        shutil.rmtree(copy.directory, ignore_errors=True)
        if isinstance(error, OSError | sqlite3.Error):
            raise StorageError(
                f"cannot write the backup `{copy.db}`: {error}", suggestion="name a directory with room for it"
            ) from error
        raise


@contextmanager
def _still(source: LedgerFiles) -> Iterator[None]:
    """Nobody writes inside, so that anchor and database are of the same moment; the copying itself needs no lock."""
    if not source.writer_lock.exists():
        yield
        return
    lock = WriterLock(source)
    try:
        with lock.held():
            yield
    finally:
        lock.close()


def _copy(source: Path, target: Path) -> None:
    if not source.exists():
        return
    with source.open("rb") as original:
        descriptor = open_private(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        with open(descriptor, "wb") as duplicate:
            shutil.copyfileobj(original, duplicate)
            duplicate.flush()
            os.fsync(descriptor)


def _copy_database(reader: sqlite3.Connection, target: Path, progress: Callable[[int, int], None] | None) -> None:
    """From the moment that the reader holds; the copy is one file that needs no log beside it."""

    def tell(_: int, remaining: int, total: int) -> None:
        if progress:
            progress(total - remaining, total)

    with closing(sqlite3.connect(target, isolation_level=None)) as duplicate:
        duplicate.execute("PRAGMA synchronous = FULL")
        reader.backup(duplicate, pages=PAGES_PER_STEP, progress=tell)
        duplicate.execute("PRAGMA journal_mode = DELETE")
