"""The anchor: signed lines outside the database that say how long each chain was and how it ended."""

from __future__ import annotations

import errno
import hmac
import os
import time
from base64 import b64decode, b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import orjson
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from agent_gate.ledger.files import LedgerFiles, open_private, read_or_make, sync_directory
from agent_gate.model.bounds import ANCHOR_COMPACT_BYTES, ANCHOR_SYNC_INTERVAL_S
from agent_gate.model.errors import StorageError
from agent_gate.ports.examining import Anchored, Heads
from agent_gate.system.regular_files import open_regular

LINE_BYTES_MAX = 1_048_576


@dataclass(frozen=True, slots=True)
class AnchorKey:
    """Signs once a second; in between, a keyed hash that only this key's holder can make stands for the signature."""

    private: Ed25519PrivateKey
    mac_key: bytes

    @classmethod
    def of(cls, files: LedgerFiles) -> AnchorKey:
        """This ledger's key; a lost one is not replaced, because that would bless whatever the database says now."""
        if files.anchor.exists() and files.anchor.stat().st_size and not files.anchor_key.exists():
            raise StorageError(
                f"the key of `{files.anchor}` is gone",
                code=5004,
                suggestion=f"restore `{files.anchor_key}` from a backup",
            )
        raw = read_or_make(files.anchor_key, lambda: Ed25519PrivateKey.generate().private_bytes_raw())
        if len(raw) != 32:
            raise StorageError(f"`{files.anchor_key}` is not a key", code=5004, suggestion="restore it from a backup")
        return cls(Ed25519PrivateKey.from_private_bytes(raw), sha256(b"agent-gate anchor mac" + raw).digest())

    def mac(self, payload: bytes) -> bytes:
        return b"m" + b64encode(hmac.digest(self.mac_key, payload, "sha256"))

    def sign(self, payload: bytes) -> bytes:
        return b"s" + b64encode(self.private.sign(payload))

    def vouches_for(self, payload: bytes, proof: bytes) -> bool:
        if proof[:1] == b"m":
            return hmac.compare_digest(proof, self.mac(payload))
        try:
            self.private.public_key().verify(b64decode(proof[1:], validate=True), payload)
        except (InvalidSignature, ValueError):
            return False
        return proof[:1] == b"s"


class Anchor:
    """The writing side: a line for each group commit, and once a second (and at close) a signed one that is synced."""

    def __init__(self, files: LedgerFiles, key: AnchorKey) -> None:
        """Call it under the writer lock and after `read`: what a crash left of the last lines is cut off here."""
        self._files = files
        self._path = os.fspath(files.anchor)
        self._key = key
        self._unsigned: Heads = {}
        self._unsigned_since: float | None = None
        self._descriptor, self._inode = self._open()
        _cut_torn_lines(self._descriptor)
        self._end = _cut_partial_line(self._descriptor)

    def begin_if_new(self, at: str) -> None:
        """A signed line before the first entry, so that an anchor without lines is never an honest one."""
        if os.fstat(self._descriptor).st_size == 0:
            self._sign(at)
            for directory in (self._files.directory, self._files.anchor.parent):
                sync_directory(directory)

    def append(self, at: str, heads: Heads) -> None:
        self._follow_compaction()
        payload = _payload(at, heads)
        self._write(payload + b"\t" + self._key.mac(payload) + b"\n")
        self._unsigned |= heads
        if self._unsigned_since is None:
            self._unsigned_since = time.monotonic()

    def sync_in_s(self) -> float | None:
        """Tell how long until the next signed line is due; None while nothing waits for one."""
        if self._unsigned_since is None:
            return None
        return max(0.0, self._unsigned_since + ANCHOR_SYNC_INTERVAL_S - time.monotonic())

    def sync(self, at: str) -> None:
        """Sign what came since the last signed line; call it under the writer lock."""
        self._follow_compaction()
        self._sign(at)

    def _sign(self, at: str) -> None:
        os.fsync(self._descriptor)  # a signed line stands only on lines that no loss of power can tear any more
        payload = _payload(at, self._unsigned)
        self._write(payload + b"\t" + self._key.sign(payload) + b"\n")
        os.fsync(self._descriptor)
        self._unsigned = {}
        self._unsigned_since = None

    def compact_if_long(self, at: str) -> None:
        """Replace many lines by a signed one that says the same; call it under the writer lock."""
        if os.fstat(self._descriptor).st_size <= ANCHOR_COMPACT_BYTES:
            return
        self._unsigned = read(self._files.anchor, self._key)
        draft = self._files.anchor.with_name(self._files.anchor.name + ".new")
        self.close()
        self._descriptor = open_private(draft, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
        self._inode = os.fstat(self._descriptor).st_ino
        self._sign(at)
        draft.rename(self._files.anchor)
        sync_directory(self._files.anchor.parent)

    def close(self) -> None:
        """Once only: the number of a closed descriptor may already be another file's."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def _open(self) -> tuple[int, int]:
        descriptor = open_private(self._files.anchor, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        return descriptor, os.fstat(descriptor).st_ino

    def _follow_compaction(self) -> None:
        """Another process may have put a shorter file in place of ours."""
        try:
            current = os.stat(self._path).st_ino == self._inode
        except FileNotFoundError:
            current = False
        if not current:
            self.close()
            self._descriptor, self._inode = self._open()

    def _write(self, line: bytes) -> None:
        size = os.fstat(self._descriptor).st_size
        if size != self._end:
            # Another process wrote since, and may have been killed in the middle of its line.
            size = _cut_partial_line(self._descriptor)
        if os.write(self._descriptor, line) != len(line):
            os.ftruncate(self._descriptor, size)
            raise OSError(errno.ENOSPC, "no room for a line of the anchor")
        self._end = size + len(line)


def _payload(at: str, heads: Heads) -> bytes:
    return orjson.dumps([at, [[project, count, hash.hex()] for project, (count, hash) in heads.items()]])


def _cut_partial_line(descriptor: int) -> int:
    """Cut off what a process that was killed while writing left behind; returns the size of the rest."""
    size = os.fstat(descriptor).st_size
    if not size or os.pread(descriptor, 1, size - 1) == b"\n":
        return size
    tail = os.pread(descriptor, min(size, LINE_BYTES_MAX), max(0, size - LINE_BYTES_MAX))
    whole = size - len(tail) + tail.rfind(b"\n") + 1
    os.ftruncate(descriptor, whole)
    return whole


def _cut_torn_lines(descriptor: int) -> None:
    """Cut off lines of zeros: pages that were not yet written when the power failed; nothing signed follows them."""
    lines = os.pread(descriptor, os.fstat(descriptor).st_size, 0)
    zeros = lines.find(b"\0")
    if zeros >= 0:
        os.ftruncate(descriptor, lines.rfind(b"\n", 0, zeros) + 1)


def read(path: Path, key: AnchorKey) -> Heads:
    """The furthest count and its hash of each chain; a line that this key did not make is an integrity error.

    Zeros are what a loss of power left of lines that were not synced: never the first, and never before a signed one.
    """
    heads: Heads = {}
    torn = False
    for number, line in enumerate(_lines(path), 1):
        payload, _, proof = line.partition(b"\t")
        vouched = key.vouches_for(payload, proof)
        torn = torn or (number > 1 and not vouched and b"\0" in line)
        if torn and not (vouched and proof[:1] == b"s"):
            continue
        if torn or not vouched:
            raise StorageError(
                f"line {number} of `{path}` was not made with the ledger's key",
                code=5004,
                suggestion="compare with the copy that was sent elsewhere",
            )
        for project, count, hash_hex in orjson.loads(payload)[1]:
            if count >= heads.get(project, (0, b""))[0]:
                heads[project] = (count, bytes.fromhex(hash_hex))
    return heads


def examine(files: LedgerFiles, path: Path) -> Anchored:
    """Read the anchor at `path`, which may be a copy that was kept elsewhere, and say what is wrong with it."""
    if not path.is_file():
        if path != files.anchor:
            raise StorageError(f"there is no anchor at `{path}`", code=5001, suggestion="name the copy you kept")
        return Anchored("missing", wrong=f"the anchor `{path}` is missing")
    if not files.anchor_key.is_file():
        return Anchored("no_key", wrong=f"the anchor's key `{files.anchor_key}` is missing")
    try:
        heads = read(path, AnchorKey.of(files))
    except (StorageError, OSError, ValueError) as error:
        detail = error.problem.detail if isinstance(error, StorageError) else f"cannot read `{path}`: {error}"
        return Anchored("broken", wrong=detail)
    if is_blank(path):
        return Anchored("empty", wrong=f"the anchor `{path}` is empty")
    return Anchored("ok", heads)


def is_blank(path: Path) -> bool:
    """Tell whether it has no line at all, or does not exist."""
    return next(_lines(path), None) is None


def _lines(path: Path) -> Iterator[bytes]:
    """Whole lines; what a crash left of the last one was never acknowledged."""
    try:
        with open(open_regular(path), "rb") as file:
            yield from (line[:-1] for line in file if line.endswith(b"\n"))
    except FileNotFoundError:
        return
