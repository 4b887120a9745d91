"""A disk that lost its power: what was synced is there, and each page of the rest is as it was at some moment since."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.shim import Recorded

PAGE_BYTES = 4096


@dataclass
class File:
    data: bytearray = field(default_factory=bytearray)
    """What is on the disk for certain."""
    pending: list[Recorded] = field(default_factory=list)
    """Writes and truncations since the last sync."""

    def sync(self) -> None:
        self.data = self._after(len(self.pending))
        self.pending.clear()

    def after_power_loss(self, chance: random.Random) -> bytes:
        """The system writes pages when it likes, each as it is then; the size is that of some moment, too."""
        last = len(self.pending)
        between = [chance.randint(0, last) for _ in range(3)]
        likely = [self._after(count) for count in chance.choice([[0], [last], [0, last], between])]
        size = len(chance.choice(likely))
        pages = []
        for start in range(0, size, PAGE_BYTES):
            page = bytes(chance.choice(likely)[start : start + PAGE_BYTES])
            pages.append(page.ljust(PAGE_BYTES, b"\0"))
        return b"".join(pages)[:size]

    def _after(self, count: int) -> bytearray:
        data = bytearray(self.data)
        for change in self.pending[:count]:
            if change.operation == "t":
                del data[change.offset :]
            data.extend(bytes(max(0, change.offset - len(data))))
            data[change.offset : change.offset + len(change.data)] = change.data
        return data


class Disk:
    """Files by name, as the recorded changes make them; a change of names lasts when any sync has followed it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files = {str(path): File(bytearray(path.read_bytes())) for path in folder.rglob("*") if path.is_file()}
        self._durable_names = dict(self._files)

    def apply(self, changes: Iterable[Recorded]) -> None:
        for change in changes:
            self._apply(change)

    def _apply(self, change: Recorded) -> None:
        path = change.path
        match change.operation:
            case "c":
                self._files.setdefault(path, File())
            case "w" | "t" if path in self._files:
                self._files[path].pending.append(change)
            case "s":
                if path in self._files:
                    self._files[path].sync()
                self._durable_names = dict(self._files)
            case "u":
                self._files.pop(path, None)
            case "l":
                self._files[change.data.decode()] = self._files[path]
            case "r":
                self._files[change.data.decode()] = self._files.pop(path)
            case _:
                pass

    def lose_power(self, folder: Path, chance: random.Random) -> None:
        """Write what a restart may find; SQLite's shared memory is made anew then."""
        names = self._files if chance.random() < 0.5 else self._durable_names
        for path, file in names.items():
            if not path.endswith("-shm"):
                target = folder / Path(path).relative_to(self._folder)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(file.after_power_loss(chance))
