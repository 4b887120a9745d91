"""The files of one ledger: where they are, made with 0600 and never wider."""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from agent_gate.model.errors import StorageError


@dataclass(frozen=True, slots=True)
class LedgerFiles:
    db: Path

    @property
    def anchor(self) -> Path:
        return self.db.with_name(self.db.name + ".anchor")

    @property
    def directory(self) -> Path:
        """Locks and keys."""
        return self.db.with_name(self.db.name + ".d")

    @property
    def writer_lock(self) -> Path:
        return self.directory / "writer.lock"

    @property
    def anchor_key(self) -> Path:
        return self.directory / "anchor.key"

    @property
    def secret_key(self) -> Path:
        return self.directory / "secret.key"

    def instance_lock(self, instance: str) -> Path:
        return self.directory / f"{instance}.lock"

    def create(self) -> None:
        """Make what is missing; existing files are narrowed to the owner."""
        try:
            self.directory.mkdir(mode=0o700, parents=False, exist_ok=True)
            for path in (self.db, self.writer_lock):
                os.close(open_private(path, os.O_RDWR | os.O_CREAT))
        except OSError as error:
            raise StorageError(
                f"cannot create `{self.db}`: {error.strerror}",
                code=5001,
                suggestion="name a directory that exists and can be written with --db or AGENT_GATE_DB",
            ) from error

    def read_or_make_secret(self) -> bytes:
        """The key that stands between a secret argument and its hash in the record."""
        return read_or_make(self.secret_key, lambda: secrets.token_bytes(32))


def open_private(path: Path, flags: int) -> int:
    descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
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
        return path.read_bytes()
    except FileNotFoundError:
        pass
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    descriptor = open_private(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        os.write(descriptor, make())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    try:
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink()
    return path.read_bytes()
