"""The files of one ledger: where they are, made with 0600 and never wider."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from agent_gate.model.bounds import KEY_BYTES_MAX
from agent_gate.model.errors import StorageError
from agent_gate.model.ledger_names import ANCHOR, DIRECTORY, ledger_names
from agent_gate.system.regular_files import open_regular, read_regular

ULID_CHARS = 26


@dataclass(frozen=True, slots=True)
class LedgerFiles:
    db: Path

    def beside(self, end: str) -> Path:
        """A file whose name begins with the database's."""
        return self.db.with_name(self.db.name + end)

    @property
    def anchor(self) -> Path:
        return self.beside(ANCHOR)

    @property
    def directory(self) -> Path:
        """Locks and keys."""
        return self.beside(DIRECTORY)

    @property
    def writer_lock(self) -> Path:
        return self.directory / "writer.lock"

    @property
    def anchor_key(self) -> Path:
        return self.directory / "anchor.key"

    @property
    def secret_key(self) -> Path:
        return self.directory / "secret.key"

    def all(self) -> tuple[Path, ...]:
        """Every file and directory, also those that SQLite makes and removes beside the database."""
        return tuple(map(Path, ledger_names(str(self.db))))

    def instance_lock(self, instance: str) -> Path:
        return self.directory / f"{instance}.lock"

    def instance_locks(self) -> list[Path]:
        return [path for path in self.directory.glob("*.lock") if len(path.stem) == ULID_CHARS]

    def project_lock(self, project: str) -> Path:
        return self.directory / f"project-{sha256(project.encode()).hexdigest()[:16]}.lock"

    def project_queue(self, project: str) -> Path:
        """Locked by whoever has the project's lock next."""
        return self.project_lock(project).with_suffix(".next")

    def create(self) -> None:
        """Make what is missing; existing files are narrowed to the owner."""
        try:
            os.close(open_private(self.db, os.O_RDWR | os.O_CREAT))
            self.directory.mkdir(mode=0o700, parents=False, exist_ok=True)
            self.directory.chmod(0o700)
            os.close(open_private(self.writer_lock, os.O_RDWR | os.O_CREAT))
        except OSError as error:
            raise StorageError(
                f"cannot create `{self.db}`: {error.strerror}",
                code=5001,
                suggestion="name a directory that exists and can be written with --db or AGENT_GATE_DB",
            ) from error

    def read_or_make_secret(self) -> bytes:
        """The key that stands between a secret argument and its hash in the record."""
        key = read_or_make(self.secret_key, lambda: os.urandom(32))
        if len(key) != 32:
            raise StorageError(f"`{self.secret_key}` is not a key", code=5004, suggestion="restore it from a backup")
        return key


BEGIN_ANEW = "restore it from a backup, or begin a new ledger with `agent-gate init --force`"
WAY_OUT = f"`agent-gate doctor` tells more; stop agent-gate, {BEGIN_ANEW}, and start again"


def open_private(path: Path, flags: int) -> int:
    descriptor = open_regular(path, flags | os.O_NOFOLLOW)
    if os.fstat(descriptor).st_mode & 0o077:
        os.fchmod(descriptor, 0o600)
    return descriptor


def sync_directory(path: Path) -> None:
    """A new file's name is durable only when its directory is."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_or_make(path: Path, make: object) -> bytes:
    """A key file's bytes; the first process to need it makes it, whole or not at all."""
    assert callable(make)
    try:
        return read_regular(path, KEY_BYTES_MAX)
    except FileNotFoundError:
        pass
    draft = path.with_name(f"{path.name}.{os.urandom(8).hex()}")
    try:
        _write_durably(draft, make())
        with suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink(missing_ok=True)
    sync_directory(path.parent)
    return read_regular(path, KEY_BYTES_MAX)


def _write_durably(path: Path, data: bytes) -> None:
    descriptor = open_private(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        if os.write(descriptor, data) != len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
