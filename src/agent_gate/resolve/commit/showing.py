"""Changes to files as people are shown them: each with its difference, as far as there is room."""

from __future__ import annotations

from collections.abc import Iterable

from agent_gate.model.bounds import CHANGES_SHOWN_CHARS_MAX, DIFF_BYTES_MAX
from agent_gate.model.tool import Json
from agent_gate.model.visible import visible
from agent_gate.resolve.commit.change import Change
from agent_gate.resolve.commit.node import Node, content_of
from agent_gate.resolve.texts import difference


def shown_changes(changes: Iterable[Change]) -> list[dict[str, Json]]:
    """May wait for a disk. Beyond the room for differences, sizes and hashes stand for contents."""
    left = CHANGES_SHOWN_CHARS_MAX
    found: list[dict[str, Json]] = []
    for change in changes:
        told: dict[str, Json] = {"path": change.path, "change": change.word}
        text = _difference(change) if left > 0 else _by_hash(change)
        if text:
            told["diff"] = text
            left -= len(text)
        found.append(told)
    return found


def _difference(change: Change) -> str:
    before, after = change.before, change.after
    if change.word == "mode" or _kind(before) == "directory" or _kind(after) == "directory":
        return _meta(before, after)
    if "link" in (_kind(before), _kind(after)) or change.obstacle:
        return "\n".join(f"{sign}{_told(node)}" for sign, node in (("-", before), ("+", after)) if node)
    if max(node.size for node in (before, after) if node) > DIFF_BYTES_MAX:
        return _by_hash(change)
    try:
        old = content_of(change.stands_at or change.path, before) if before else b""
        new = change.content() if after else b""
    except OSError:
        return _by_hash(change)
    return "\n".join(filter(None, (difference(old, new, f"a{change.path}", f"b{change.path}"), _modes(before, after))))


def _modes(before: Node | None, after: Node | None) -> str:
    """A mode that changes with the content, and a new file that can be executed."""
    if before and after and before.mode != after.mode:
        return _meta(before, after)
    return f"+mode {after.mode:04o}" if after and not before and after.mode & 0o111 else ""


def _by_hash(change: Change) -> str:
    sides = (("-", change.before), ("+", change.after))
    return "\n".join(f"{sign}{_told(node)}" for sign, node in sides if node)


def _told(node: Node) -> str:
    if node.kind == "link":
        return f"link to {visible(node.target)}"
    return f"{node.size} bytes, sha256 {node.sha256}" if node.kind == "file" else node.kind


def _meta(before: Node | None, after: Node | None) -> str:
    if before is None or after is None:
        return "\n".join(f"{sign}{node.kind}" for sign, node in (("-", before), ("+", after)) if node)
    if before.kind != after.kind:
        return f"-{before.kind}\n+{after.kind}"
    if before.mode != after.mode:
        return f"-mode {before.mode:04o}\n+mode {after.mode:04o}"
    return "times or attributes" if before.mtime_ns != after.mtime_ns or before.attributes != after.attributes else ""


def _kind(node: Node | None) -> str:
    return node.kind if node else ""
