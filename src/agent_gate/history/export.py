"""The record as JSON lines, one entry each, for whoever wants to keep or check it elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from agent_gate.model.entry import Entry
from agent_gate.ports.reading import EntryFilter, Reader


def export(reader: Reader, *, project: str | None = None, run_id: str | None = None) -> Iterator[bytes]:
    """Lines in the order of writing, as of one moment; the lines of a project are its chain, complete."""
    return (_line(entry) for entry in reader.entries(EntryFilter(project=project, run_id=run_id)))


def _line(entry: Entry) -> bytes:
    fields = entry.to_json(None)
    if entry.body is None:
        fields["erased"] = True
    else:
        fields["body"] = _object(entry.body)
    return orjson.dumps(fields) + b"\n"


def _object(body: bytes) -> Any:
    """The canonical bytes themselves, so that their hash can be taken from the line; a text where it is no JSON."""
    try:
        orjson.loads(body)
    except orjson.JSONDecodeError:
        return body.decode()
    return orjson.Fragment(body)
