"""A ledger's place: opens it to work and to look back, and looks after it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from agent_gate.model.diagnosis import Diagnosis
from agent_gate.ports.examining import Anchored
from agent_gate.ports.ledger import Ledger
from agent_gate.ports.reading import Reader
from agent_gate.ports.surroundings import Clock, Ids
from agent_gate.ports.tools import FinishCommit


class Backup(Struct, frozen=True):
    path: Path
    entries: int
    size_bytes: int

    def to_json(self) -> dict[str, Any]:
        return {"path": str(self.path), "entries": self.entries, "size_bytes": self.size_bytes}


class Storage(Protocol):
    """A backend is one package that fills this, and one line each in `ledger/storage.py` and `ledger/reader.py`."""

    schema: str
    """The schema of this release."""

    @property
    def path(self) -> Path: ...

    @property
    def directory(self) -> Path:
        """The directory of the keys, and of what commits to files leave until they are done."""
        ...

    def open(self, clock: Clock, ids: Ids, finish_commit: FinishCommit | None = None) -> Ledger:
        """For work; made where there is none, and brought to this release's schema.

        `finish_commit` ends commits to files that a process left half-way; without it their calls stay open.
        """
        ...

    def reader(self, *, at_work: bool = False) -> Reader:
        """To look back; raises 5001 where there is no ledger of this release's schema.

        `at_work`: this process has it open for work, so that one that is not there was removed meanwhile.
        """
        ...

    def upgrade(self) -> bool:
        """Bring it to this release's schema, and tell whether that was needed."""
        ...

    def backup(self, target: Path, progress: Callable[[int, int], None] | None = None) -> Backup:
        """Copy all of it while others write; the copy verifies on its own.

        `progress` hears of parts done and parts in all.
        """
        ...

    def forget_erased(self) -> None:
        """Remove what was erased from wherever the storage keeps it for a while."""
        ...

    def anchored(self, copy: Path | None = None) -> Anchored:
        """The anchor as it is, or a copy of it that was kept elsewhere."""
        ...

    def secret(self) -> bytes:
        """The key that the owner's values are sealed with."""
        ...

    def size_bytes(self) -> int: ...

    def was_deleted(self) -> bool:
        """Tell whether there was a ledger here once that somebody removed."""
        ...

    def set_aside(self, at: str) -> Sequence[Path]:
        """Keep what a deleted ledger left, so that a new one can begin, and nobody can say that there was none."""
        ...

    def engine(self) -> Diagnosis:
        """The library that it rests on."""
        ...

    def diagnose(self) -> Iterator[Diagnosis]:
        """Look at it without changing it: its files, its schema, its anchor, who uses it and what is open."""
        ...
