"""One entry in its chain: whether it still is what was hashed, and follows from the one before it."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

from agent_gate.ledger.chain import GENESIS, header_bytes, link
from agent_gate.model.entry import Entry
from agent_gate.ports.reading import Reader


@dataclass(frozen=True, slots=True)
class Link:
    entry: Entry
    holds: bool
    is_erased: bool


def link_of(reader: Reader, entry: Entry) -> Link:
    """`verify` looks at everything and at the anchor; this is the one entry and the one before it."""
    before = reader.entry_at(entry.project, entry.seq - 1)
    header = header_bytes(
        entry.project,
        entry.seq,
        entry.at,
        entry.kind,
        entry.run_id,
        entry.call_id,
        entry.request_id,
        entry.agent_id,
        entry.tool,
        entry.status,
        entry.body_hash,
    )
    holds = (
        entry.prev_hash == (before.hash if before else GENESIS if entry.seq == 1 else None)
        and link(entry.prev_hash, header) == entry.hash
        and (entry.body is None or sha256(entry.body).digest() == entry.body_hash)
    )
    return Link(entry, holds, entry.body is None)
