"""The undoing of one earlier write: only while the file still is as that write left it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from agent_gate.model.call import BoundCall
from agent_gate.model.errors import ToolError
from agent_gate.model.tool import Json
from agent_gate.resolve import files
from agent_gate.resolve.files import OpenFile
from agent_gate.resolve.texts import difference
from agent_gate.resolve.writing import Holding


@dataclass(frozen=True, slots=True)
class Restore:
    """An overwrite, which left one content where there was another."""

    left: bytes
    previous: bytes

    @property
    def inverse(self) -> Undoing:
        return Restore(self.previous, self.left)

    @property
    def size_after(self) -> int:
        return len(self.previous)


@dataclass(frozen=True, slots=True)
class Cut:
    """An append, which left these bytes at the end of a file that has had so many since."""

    left: bytes
    size: int

    @property
    def inverse(self) -> Undoing:
        return Add(self.left, self.size_after)

    @property
    def size_after(self) -> int:
        return self.size - len(self.left)


@dataclass(frozen=True, slots=True)
class Add:
    """A cut, which took these bytes from the end of a file that has had so many since."""

    taken: bytes
    size: int

    @property
    def inverse(self) -> Undoing:
        return Cut(self.taken, self.size_after)

    @property
    def size_after(self) -> int:
        return self.size + len(self.taken)


@dataclass(frozen=True, slots=True)
class Remove:
    """A new file with this content."""

    left: bytes

    @property
    def inverse(self) -> Undoing:
        return Create(self.left)

    @property
    def size_after(self) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class Create:
    """A removal of the file that had this content."""

    removed: bytes

    @property
    def inverse(self) -> Undoing:
        return Remove(self.removed)

    @property
    def size_after(self) -> int:
        return len(self.removed)


Undoing: TypeAlias = Restore | Cut | Add | Remove | Create


class Restoring:
    """The binding of a revert of `fs.write`."""

    def __init__(self, holding: Holding, call_id: str, undoing: Undoing, bytes_max: int) -> None:
        self._holding, self._call_id, self._undoing, self._bytes_max = holding, call_id, undoing, bytes_max

    async def keep(self, _: BoundCall) -> bytes | None:
        """Return what is there now, after it was seen to be what the call left."""
        holding, undoing = self._holding, self._undoing
        if isinstance(undoing, Create):
            if holding.target.kind != "absent":
                detail = f"`{holding.shown}` is there again since call `{self._call_id}`"
                raise ToolError(detail, suggestion="look at it")
            return None
        if holding.target.kind != "file":
            raise ToolError(f"`{holding.shown}` is gone since call `{self._call_id}`", suggestion="write it anew")
        if isinstance(undoing, Add):
            return await holding.lock(partial(self._has_size, undoing.size), append=True)
        return await holding.lock(partial(self._unchanged, undoing))

    def _has_size(self, size: int, file: OpenFile) -> None:
        if file.size != size:
            shown, call_id = self._holding.shown, self._call_id
            detail = f"`{shown}` has changed since call `{call_id}`: it had {size} bytes and has {file.size}"
            raise ToolError(detail, suggestion="bring it back by hand, or revert the later change first")

    def _unchanged(self, undoing: Restore | Cut | Remove, file: OpenFile) -> bytes:
        if isinstance(undoing, Cut):
            now, right_size = file.tail(len(undoing.left)), file.size == undoing.size
        else:
            now, right_size = self._holding.content(file, self._bytes_max), True
        if now != undoing.left or not right_size:
            raise self._changed(undoing, now)
        return now

    def _changed(self, undoing: Restore | Cut | Remove, now: bytes) -> ToolError:
        shown, call_id = self._holding.shown, self._call_id
        if isinstance(undoing, Restore) and now == undoing.previous:
            return ToolError(
                f"`{shown}` already is as it was before call `{call_id}`", suggestion="nothing is to be done"
            )
        diff = difference(undoing.left, now, f"as call {call_id} left it", "as it is now")
        return ToolError(
            f"`{shown}` has changed since call `{call_id}`:\n{diff}",
            suggestion="bring it back by hand, or revert the later change first",
        )

    async def act(self, _: BoundCall) -> Json:
        holding, run = self._holding, self._holding.threads.run
        if isinstance(self._undoing, Create):
            removed = self._undoing.removed
            await run(partial(files.create, holding.target, removed), holding.target.descriptor)
            return {"path": holding.target.path, "restored_bytes": len(removed)}
        file = holding.file
        match self._undoing:
            case Restore(left, previous):
                await run(partial(file.overwrite, previous, left), file.descriptor)
                return {"path": holding.target.path, "restored_bytes": len(previous)}
            case Cut(left, size):
                await run(partial(file.cut, size - len(left)), file.descriptor)
                return {"path": holding.target.path, "restored_bytes": size - len(left)}
            case Add(taken, size):
                await run(partial(file.append, taken), file.descriptor)
                return {"path": holding.target.path, "restored_bytes": size + len(taken)}
            case Remove():
                await run(file.remove, file.descriptor)
                return {"path": holding.target.path, "removed": True}
