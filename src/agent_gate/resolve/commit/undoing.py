"""The changes that take a command's own changes back: only while every path still is as the command left it."""

from __future__ import annotations

import os
from collections.abc import Collection

from agent_gate.model.errors import ToolError
from agent_gate.model.outcome import Status
from agent_gate.model.visible import visible
from agent_gate.ports.tools import Recorded
from agent_gate.resolve.commit.change import Change
from agent_gate.resolve.commit.journal import Kept, decode
from agent_gate.resolve.commit.node import KINDS, Identity, Node, node_at
from agent_gate.resolve.own_watch import OwnWatch


def undoing(call: Recorded, own_files: OwnWatch) -> list[Change]:
    """ToolError where there is nothing to undo, or where something has changed since. May wait for a disk.

    What a command wrote that failed in the end was committed all the same; where it was not, nothing is as it left it.
    """
    if call.kept is None or call.outcome.status not in (Status.SUCCESS, Status.ERROR):
        if call.resources.get("writes") == "direct":
            how = "wrote to the disk itself (writes: direct), and nothing was kept that could be brought back"
        else:
            how = "changed no file that can be brought back"
        raise ToolError(f"call `{call.call_id}` {how}", code=2002, suggestion="see what it did")
    journal = decode(call.kept)
    paths = {kept.path for kept in journal.paths}
    changes = []
    for kept in journal.paths:
        now, status = _now(kept.path)
        if not _is_as_left(now, kept.after) or _holds_more(kept, paths):
            raise ToolError(
                f"`{visible(kept.path)}` has changed since call `{call.call_id}`",
                suggestion="bring it back by hand, or revert the later change first",
            )
        identity = Identity.of(status) if status else None
        links = status.st_nlink if status else 1
        same_as = own_files.name_of(status, kept.path) if status and now and now.kind == "file" else None
        own, content = own_files.kind_of(kept.path), journal.content(kept)
        changes.append(Change(kept.path, now, kept.before, identity, links, same_as, own, content))
    return changes


def _now(path: str) -> tuple[Node | None, os.stat_result | None]:
    try:
        status = os.lstat(path)
        if (status.st_mode & 0o170000) not in KINDS:
            return Node("special", 0), status
        return node_at(path, status), status
    except (FileNotFoundError, NotADirectoryError):
        return None, None
    except OSError as error:
        raise ToolError(f"`{visible(path)}` could not be looked at: {error.strerror}") from None


def _is_as_left(now: Node | None, left: Node | None) -> bool:
    if now is None or left is None:
        return now is left
    return now.is_like(left)


def _holds_more(kept: Kept, paths: Collection[str]) -> bool:
    """Tell whether a directory that the command made, and that would go, holds what the command did not make."""
    if kept.before is not None or kept.after is None or kept.after.kind != "directory":
        return False
    return any(f"{kept.path}/{name}" not in paths for name in os.listdir(kept.path))
