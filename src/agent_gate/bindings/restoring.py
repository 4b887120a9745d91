"""The undoing of one earlier write: only while the file still is as that write left it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from agent_gate.bindings.files import OpenFile
from agent_gate.bindings.texts import difference
from agent_gate.bindings.writing import Holding
from agent_gate.model.call import BoundCall
from agent_gate.model.errors import ToolError
from agent_gate.model.tool import Json


@dataclass(frozen=True, slots=True)
class Restore:
    """An overwrite, which left one content where there was another."""

    left: bytes
    previous: bytes


@dataclass(frozen=True, slots=True)
class Cut:
    """An append, which left these bytes at the end of a file that has had so many since."""

    left: bytes
    size: int


@dataclass(frozen=True, slots=True)
class Remove:
    """A new file with this content."""

    left: bytes


Undoing: TypeAlias = Restore | Cut | Remove


class Restoring:
    """The binding of a revert of `fs.write`."""

    def __init__(self, holding: Holding, call_id: str, undoing: Undoing, bytes_max: int) -> None:
        self._holding, self._call_id, self._undoing, self._bytes_max = holding, call_id, undoing, bytes_max

    async def keep(self, _: BoundCall) -> bytes:
        """What is there now, after it was seen to be what the call left."""
        holding = self._holding
        if holding.target.kind != "file":
            raise ToolError(f"`{holding.shown}` is gone since call `{self._call_id}`", suggestion="write it anew")
        return await holding.lock(self._unchanged)

    def _unchanged(self, file: OpenFile) -> bytes:
        undoing = self._undoing
        if isinstance(undoing, Cut):
            now, right_size = file.tail(len(undoing.left)), file.size == undoing.size
        else:
            now, right_size = self._holding.content(file, self._bytes_max), True
        if now != undoing.left or not right_size:
            raise self._changed(now)
        return now

    def _changed(self, now: bytes) -> ToolError:
        shown, call_id, undoing = self._holding.shown, self._call_id, self._undoing
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
        holding, undoing = self._holding, self._undoing
        file, run = holding.file, holding.threads.run
        match undoing:
            case Restore(left, previous):
                await run(partial(file.overwrite, previous, left), file.descriptor)
                return {"path": holding.target.path, "restored_bytes": len(previous)}
            case Cut(left, size):
                await run(partial(file.cut, size - len(left)), file.descriptor)
                return {"path": holding.target.path, "restored_bytes": size - len(left)}
            case Remove():
                await run(file.remove, file.descriptor)
                return {"path": holding.target.path, "removed": True}
