"""Journal that a commit writes into the ledger before its first step: steps, paths before and after, old contents."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from agent_gate.model.errors import GateError
from agent_gate.resolve.commit.change import Change
from agent_gate.resolve.commit.layer import conflict
from agent_gate.resolve.commit.node import Node, content_of
from agent_gate.resolve.commit.units import Unit

_LENGTH_BYTES = 8


class Kept(Struct, frozen=True, omit_defaults=True):
    """One path, as it was and as the commit leaves it."""

    path: str
    before: Node | None = None
    after: Node | None = None
    at: int = 0
    """Offset of a file's old content, behind the journal."""


class Journal(Struct, frozen=True):
    units: list[Unit]
    paths: list[Kept]
    contents: bytes = b""

    def content(self, kept: Kept) -> bytes:
        size = kept.before.size if kept.before and kept.before.kind == "file" else 0
        return self.contents[kept.at : kept.at + size]


def encode(units: Sequence[Unit], changes: Sequence[Change]) -> bytes:
    """GateError 2008 where an old content is not there any more. May wait for a disk."""
    contents: list[bytes] = []
    paths: list[Kept] = []
    at = 0
    for change in changes:
        paths.append(Kept(change.path, change.before, change.after, at))
        if change.before is not None and change.before.kind == "file":
            contents.append(_old_content(change.path, change.before))
            at += len(contents[-1])
    told = msgspec.json.encode({"units": list(units), "paths": paths})
    return b"".join((len(told).to_bytes(_LENGTH_BYTES, "big"), told, *contents))


def _old_content(path: str, before: Node) -> bytes:
    try:
        return content_of(path, before)
    except OSError:
        raise GateError.of(conflict(path)) from None


class _Told(Struct):
    units: list[Unit]
    paths: list[Kept]


def decode(data: bytes) -> Journal:
    length = int.from_bytes(data[:_LENGTH_BYTES], "big")
    told = msgspec.json.decode(data[_LENGTH_BYTES : _LENGTH_BYTES + length], type=_Told)
    return Journal(told.units, told.paths, data[_LENGTH_BYTES + length :])
