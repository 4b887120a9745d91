"""The tools `fs.read` and `fs.write`: files of this machine, each resolved once and used as it was judged."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

from agent_gate.model.bounds import FILE_JOBS_MAX, FILE_THREADS_MAX, OUTPUT_BYTES_MAX, OWN_TEXT_BYTES_MAX
from agent_gate.model.call import BoundCall, CallRequest
from agent_gate.model.codec import sha256_hex
from agent_gate.model.errors import ToolError
from agent_gate.model.policy import PathGuard
from agent_gate.model.tool import Json, ToolDeclaration
from agent_gate.model.visible import visible
from agent_gate.policy.encoding import encoded_text
from agent_gate.policy.judge import Judge
from agent_gate.ports.tools import Binding, Recorded, RegisteredTool
from agent_gate.resolve import files
from agent_gate.resolve.copied_paths import CopiedPaths
from agent_gate.resolve.copies import Copies
from agent_gate.resolve.own_nearby import start_of
from agent_gate.resolve.paths import PathResolver, Target
from agent_gate.resolve.restoring import Cut, Remove, Restore, Restoring, Undoing
from agent_gate.resolve.texts import BASE64, as_base64, as_bytes, as_text, encoding_named
from agent_gate.resolve.threads import FileThreads
from agent_gate.resolve.writing import Holding, Writing
from agent_gate.toolkit import make_registered_tool
from agent_gate.tools.files import FS_READ, FS_WRITE

_UTF_8 = "utf-8"
_THREADS = FileThreads(FILE_THREADS_MAX, FILE_JOBS_MAX)


class FilesystemService:
    name = "filesystem"

    def __init__(
        self,
        resolver: PathResolver,
        threads: FileThreads = _THREADS,
        place_for_copies: Callable[[Sequence[str]], Awaitable[str]] | None = None,
    ) -> None:
        """`place_for_copies` finds a directory for what a simulation writes, outside of what commands may write."""
        self._resolver, self._threads = resolver, threads
        self._place_for_copies = place_for_copies

    def tools(self) -> Sequence[ToolDeclaration]:
        return (FS_READ, FS_WRITE)

    def registered_tools(self) -> Sequence[RegisteredTool]:
        return [
            make_registered_tool(FS_READ, self.name, bind=self._bind_read),
            make_registered_tool(FS_WRITE, self.name, bind=self._bind_write, undo=self._bind_undo),
        ]

    async def execute(self, tool_name: str, args: Mapping[str, Json]) -> Json:  # noqa: ARG002 -- the service's shape
        raise ToolError(f"`{tool_name}` acts on what was judged: call it through the gate")

    async def _bind_read(self, request: CallRequest, args: Mapping[str, Json], judge: Judge) -> Binding:
        encoding = BASE64 if args.get("binary") else encoding_named(args.get("encoding", _UTF_8))
        target = await self._resolve(args["path"], _copies(request))
        bytes_max = min(_bytes_max(judge.policy.guards.fs_read), OUTPUT_BYTES_MAX)

        async def act(_: BoundCall) -> Json:
            return await self._threads.run(partial(_read, target, bytes_max, encoding), target.descriptor)

        signatures, resources, found = _described("fs.read", target, None, append=False)
        return Binding(signatures, resources, act, release=target.release, found=found, copies=bool(target.copy))

    async def _bind_write(self, request: CallRequest, args: Mapping[str, Json], judge: Judge) -> Binding:
        data, append, copies = _content(args), _appends(args), _copies(request)
        if copies is not None:
            await self._open(copies, judge.policy.guards.fs_write)
        target = await self._resolve(args["path"], copies)
        writing = Writing(
            holding := Holding(self._threads, target),
            data,
            append=append,
            create_dirs=args.get("create_dirs", False),
            bytes_max=_bytes_max(judge.policy.guards.fs_write),
            copies=copies,
        )
        signatures, resources, found = _described("fs.write", target, data, append=append)
        if own := _own_with(self._resolver, target, data, append=append):
            found["own"] = own
        return Binding(
            signatures,
            resources,
            writing.act,
            release=holding.release,
            found=found,
            keep=writing.keep,
            preview=writing.preview,
            copies=copies is not None,
        )

    async def _bind_undo(self, call: Recorded, judge: Judge) -> Binding:
        undoing = _undoing(call)
        path = call.resources["path"]
        target = await self._resolve(path)
        holding = Holding(self._threads, target)
        if target.path != path:
            holding.release()
            raise ToolError(f"`{visible(path)}` now leads to `{visible(target.path)}`", suggestion="look there")
        restoring = Restoring(holding, call.call_id, undoing, _bytes_max(judge.policy.guards.fs_write))
        found = {**target.found, "size": undoing.size_after}
        return Binding(
            (_signature("fs.write", path),),
            {"path": path, **target.identity},
            restoring.act,
            release=holding.release,
            found=found,
            keep=restoring.keep,
        )

    async def _resolve(self, path: str, copies: Copies | None = None) -> Target:
        resolver = self._resolver if copies is None else CopiedPaths(self._resolver, copies)
        at_once = resolver.resolve_at_once(path)
        return await self._threads.run(partial(resolver.resolve, path)) if at_once is None else at_once

    async def _open(self, copies: Copies, section: PathGuard | None) -> None:
        """A place for copies, before the first is made."""
        if not copies.is_open:
            find, writable = self._place_for_copies, _roots(section, self._resolver.working_dir)
            place = await find(writable) if find is not None else tempfile.gettempdir()
            await self._threads.run(partial(copies.open, place))


def _roots(section: PathGuard | None, working_dir: str) -> list[str]:
    """Directories below which something may be written."""
    fixed = [pattern.partition("*")[0] for pattern in (section.allow_paths if section else ())]
    return [os.path.normpath(os.path.join(working_dir, path)) for path in fixed]


def _copies(request: CallRequest) -> Copies | None:
    return request.copies if isinstance(request.copies, Copies) else None


def bind_for_check(tool: str, args: Mapping[str, Json], resolver: PathResolver) -> Binding:
    """Signatures, resources and what was found, of a call that is judged and not made; nothing stays open."""
    data = _content(args) if tool == "fs.write" else None
    target = resolver.resolve(args["path"])
    target.release()
    signatures, resources, found = _described(tool, target, data, append=_appends(args))
    own = _own_with(resolver, target, data, append=_appends(args)) if data is not None else ""
    return Binding(signatures, resources, found={**found, "own": own} if own else found)


def _described(
    tool: str, target: Target, data: bytes | None, *, append: bool
) -> tuple[tuple[str, ...], dict[str, Json], dict[str, Json]]:
    resources: dict[str, Json] = {"path": target.path, **target.identity}
    found = target.found
    if data is not None:
        resources["sha256"] = sha256_hex(data)
        if target.status is not None and not append:
            # Whoever agrees has seen what is there now; a content that came later is nobody's to overwrite.
            resources["changed_ns"] = str(target.status.st_ctime_ns)
        found["size"] = len(data) + (found.get("size", 0) if append else 0)
    return (_signature(tool, target.path),), resources, found


def _own_with(resolver: PathResolver, target: Target, data: bytes, *, append: bool) -> str:
    """Tell whether the file is, or by this content would be, one of the gate's own."""

    def content() -> bytes:
        before = start_of(target.path, OWN_TEXT_BYTES_MAX + 1) if append else b""
        return (before or b"") + data

    return resolver.own_files.kind_with(target.path, content)


def _signature(tool: str, path: str) -> str:
    return f"{tool}({encoded_text('path', path)})"


def _content(args: Mapping[str, Json]) -> bytes:
    return as_bytes(args["content"], args.get("encoding", _UTF_8))


def _appends(args: Mapping[str, Json]) -> bool:
    return args.get("mode") == "append"


def _bytes_max(section: PathGuard | None) -> int:
    """Without a section the guard denies, and nothing is read or written at all."""
    return section.max_size_bytes if section else 0


def _read(target: Target, bytes_max: int, encoding: str) -> Json:
    shown = visible(target.path)
    if target.kind == "absent":
        raise ToolError(f"`{shown}` {target.obstacle or 'does not exist'}", suggestion="look at the spelling")
    data = files.read(target, bytes_max)
    content = as_base64(data) if encoding == BASE64 else as_text(data, encoding, shown)
    return {"path": target.path, "content": content, "encoding": encoding, "size": len(data)}


def _undoing(call: Recorded) -> Undoing:
    """Say what is to be done to the file, from what the ledger knows of the call."""
    if call.undoes is not None:
        return _undoing(call.undoes).inverse
    left = _content(call.args)
    if call.found.get("type") == "absent":
        return Remove(left)
    if _appends(call.args):
        return Cut(left, (call.outcome.data or call.found)["size"])
    if call.kept is None:
        raise ToolError(f"what call `{call.call_id}` wrote over was not kept", suggestion="look for a backup")
    return Restore(left, call.kept)
