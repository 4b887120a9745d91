"""The gate's own files as recorded runs knew them, so that judging again protects what was protected then."""

from __future__ import annotations

from agent_gate.model.codec import restore
from agent_gate.model.entry import Kind
from agent_gate.ports.reading import EntryFilter, Reader


def own_files(reader: Reader) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """List what no tool may write, and what none may read either: each path of any recorded run, once."""
    protected: dict[str, None] = {}
    secret: dict[str, None] = {}
    for entry in reader.entries(EntryFilter(kinds=(Kind.RUN,), holding='"surroundings":')):
        around = restore(entry.body or b"{}").get("surroundings", {})
        protected.update(dict.fromkeys(around.get("protected", ())))
        secret.update(dict.fromkeys(around.get("secret", ())))
    return tuple(protected), tuple(secret)
