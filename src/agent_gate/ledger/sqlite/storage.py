"""A ledger in a file of SQLite's: the one class that the rest of agent-gate meets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

from agent_gate.ledger import anchor
from agent_gate.ledger.files import WAY_OUT, LedgerFiles
from agent_gate.ledger.sqlite.backup import backup
from agent_gate.ledger.sqlite.bounds import DEFAULT_BOUNDS, LedgerBounds
from agent_gate.ledger.sqlite.connection import connect
from agent_gate.ledger.sqlite.diagnosis import diagnose, engine
from agent_gate.ledger.sqlite.locks import WriterLock
from agent_gate.ledger.sqlite.migrate import HEAD, upgrade
from agent_gate.ledger.sqlite.reader import STEPS_BETWEEN_LOOKS, SqliteReader, open_reader
from agent_gate.ledger.sqlite.trust import set_aside, was_deleted
from agent_gate.model.diagnosis import Diagnosis
from agent_gate.ports.examining import Anchored
from agent_gate.ports.ledger import Ledger
from agent_gate.ports.reading import NoLedgerError
from agent_gate.ports.storage import Backup
from agent_gate.ports.surroundings import Clock, Ids
from agent_gate.ports.tools import FinishCommit


class SqliteStorage:
    """Fills the port `Storage`."""

    schema = HEAD

    def __init__(
        self,
        path: str | Path,
        steps_between_looks: int = STEPS_BETWEEN_LOOKS,
        bounds: LedgerBounds = DEFAULT_BOUNDS,
    ) -> None:
        """`steps_between_looks`: how often a reader looks whether it is to give up, in steps of SQLite's machine."""
        self._files = LedgerFiles(Path(path))
        self._steps_between_looks, self._bounds = steps_between_looks, bounds

    @property
    def path(self) -> Path:
        return self._files.db

    @property
    def directory(self) -> Path:
        return self._files.directory

    def open(self, clock: Clock, ids: Ids, finish_commit: FinishCommit | None = None) -> Ledger:
        from agent_gate.ledger.sqlite.ledger import SqliteLedger  # noqa: PLC0415 -- it has a storage; this opens it

        return SqliteLedger(self.path, clock, ids, finish_commit, self._bounds)

    def reader(self, *, at_work: bool = False) -> SqliteReader:
        if at_work and not self.path.is_file():
            raise NoLedgerError(f"`{self.path}` is gone", suggestion=WAY_OUT)
        return open_reader(self.path, self._steps_between_looks)

    def upgrade(self) -> bool:
        self._files.create()
        lock = WriterLock(self._files, self._bounds.lock_wait_s)
        try:
            with lock.held():
                return upgrade(self.path)
        finally:
            lock.close()

    def backup(self, target: Path, progress: Callable[[int, int], None] | None = None) -> Backup:
        return backup(self.path, target, progress=progress)

    def forget_erased(self) -> None:
        """Empty the write-ahead log: what was erased from the database must not stay in it."""
        lock = WriterLock(self._files, self._bounds.lock_wait_s)
        try:
            with lock.held(), closing(connect(self.path)) as connection:
                # Where somebody reads for longer, the log is overwritten later instead.
                connection.execute("PRAGMA busy_timeout = 1000")
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        finally:
            lock.close()

    def anchored(self, copy: Path | None = None) -> Anchored:
        return anchor.examine(self._files, copy or self._files.anchor)

    def secret(self) -> bytes:
        return self._files.secret_key.read_bytes()

    def size_bytes(self) -> int:
        return self.path.stat().st_size

    def was_deleted(self) -> bool:
        return was_deleted(self._files)

    def set_aside(self, at: str) -> Sequence[Path]:
        return set_aside(self._files, at)

    def engine(self) -> Diagnosis:
        return engine()

    def diagnose(self) -> Iterator[Diagnosis]:
        return diagnose(self._files)
