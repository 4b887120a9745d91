"""One write on its way from bind to perform: what was there before is kept, then the act, then all is let go."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from agent_gate.model.bounds import FILE_LOCK_WAIT_S
from agent_gate.model.call import BoundCall
from agent_gate.model.errors import ToolError
from agent_gate.model.tool import Json
from agent_gate.model.visible import visible
from agent_gate.resolve import files
from agent_gate.resolve.copies import Copies
from agent_gate.resolve.files import OpenFile
from agent_gate.resolve.paths import Target
from agent_gate.resolve.texts import difference
from agent_gate.resolve.threads import FileThreads

Seen = TypeVar("Seen")

_LOCK_POLL_S = 0.005


class Holding:
    """A judged target and, once it is about to be changed, the file itself under its lock."""

    def __init__(self, threads: FileThreads, target: Target) -> None:
        self.threads, self.target = threads, target
        self._file: OpenFile | None = None

    @property
    def file(self) -> OpenFile:
        assert self._file is not None, "keep runs before act"
        return self._file

    @property
    def shown(self) -> str:
        return visible(self.target.path)

    async def lock(self, look: Callable[[OpenFile], Seen], *, append: bool = False) -> Seen:
        """The file as `look` sees it once it is locked.

        The thread is given back while somebody else has the lock: who has it may need one to finish.
        """
        for _ in range(int(FILE_LOCK_WAIT_S / _LOCK_POLL_S)):
            seen = await self.threads.run(partial(self._lock, look, append), self.target.descriptor)
            if seen:
                return seen[0]
            await asyncio.sleep(_LOCK_POLL_S)
        raise ToolError(
            f"`{self.shown}` is locked by another program", code=2006, suggestion="try again when it is done"
        )

    def _lock(self, look: Callable[[OpenFile], Seen], append: bool) -> tuple[Seen] | None:
        self._file = OpenFile.locked(self.target, append=append)
        return (look(self._file),) if self._file else None

    def content(self, file: OpenFile, bytes_max: int) -> bytes:
        if file.size > bytes_max:
            raise ToolError(
                f"`{self.shown}` has {file.size} bytes, too many to be kept for undoing ({bytes_max})",
                code=2005,
                suggestion="raise max_size_bytes of fs.write, or write another file",
            )
        return file.content(bytes_max)

    def release(self) -> None:
        if self._file is not None:
            self._file.descriptor.leave()
        self.target.release()


class Writing:
    """The binding of one `fs.write`."""

    def __init__(
        self,
        holding: Holding,
        data: bytes,
        *,
        append: bool,
        create_dirs: bool,
        bytes_max: int,
        copies: Copies | None = None,
    ) -> None:
        """`copies` are those of the simulation that a preview is a step of."""
        self._holding, self._data, self._copies = holding, data, copies
        self._append, self._create_dirs, self._bytes_max = append, create_dirs, bytes_max
        self._previous = b""

    async def keep(self, _: BoundCall) -> bytes | None:
        """The content before an overwrite. What an append adds can be cut off again, and a new file be removed."""
        holding = self._holding
        if holding.target.kind == "absent":
            self._refuse_if_impossible()
            return None
        if self._append:
            return await holding.lock(self._refuse_if_too_large, append=True)
        self._previous = await holding.lock(lambda file: holding.content(file, self._bytes_max))
        return self._previous

    def _refuse_if_too_large(self, file: OpenFile) -> None:
        if file.size + len(self._data) > self._bytes_max:
            raise ToolError(
                f"`{self._holding.shown}` would have more than {self._bytes_max} bytes by now",
                code=2005,
                suggestion="raise max_size_bytes of fs.write",
            )

    def _refuse_if_impossible(self) -> None:
        target, shown = self._holding.target, self._holding.shown
        if target.obstacle:
            raise ToolError(f"`{shown}` {target.obstacle}", suggestion="name a place that exists")
        if len(target.rest) > 1 and not self._create_dirs:
            raise ToolError(f"the directory of `{shown}` does not exist", suggestion="set create_dirs: true")

    async def preview(self, _: BoundCall) -> Json:
        """The change as a difference; the file is read, and stays as it is."""
        target, before = self._holding.target, b""
        if target.kind == "absent":
            self._refuse_if_impossible()
        else:
            reading = partial(files.read, target, self._bytes_max)
            before = await self._holding.threads.run(reading, target.descriptor)
        after = before + self._data if self._append else self._data
        word = "added" if target.kind == "absent" else "changed"
        changes = [{"path": target.path, "change": word, "diff": self._difference(before, after)}]
        shown = {"changes": changes if word == "added" or before != after else []}
        if self._copies is None:
            return shown
        await self._holding.threads.run(partial(self._copies.write, target.path, after))
        return {**self._told(len(before)), **shown}

    def _difference(self, before: bytes, after: bytes) -> str:
        return difference(before, after, f"a{self._holding.target.path}", f"b{self._holding.target.path}")

    async def act(self, _: BoundCall) -> Json:
        holding, data = self._holding, self._data
        absent = holding.target.kind == "absent"
        if absent:
            await holding.threads.run(partial(files.create, holding.target, data), holding.target.descriptor)
        elif self._append:
            await holding.threads.run(partial(holding.file.append, data), holding.file.descriptor)
        else:
            overwriting = partial(holding.file.overwrite, data, self._previous)
            await holding.threads.run(overwriting, holding.file.descriptor)
        return self._told(holding.file.size if not absent else 0)

    def _told(self, size_before: int) -> dict[str, Json]:
        target, size = self._holding.target, len(self._data)
        return {
            "path": target.path,
            "bytes_written": size,
            "created": target.kind == "absent",
            "size": size + (size_before if self._append else 0),
        }
