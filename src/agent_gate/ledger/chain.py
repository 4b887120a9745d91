"""The hash chain: how an entry gets its place and its hash."""

from __future__ import annotations

from hashlib import sha256

import orjson

from agent_gate.model.entry import Draft

GENESIS = bytes(32)
"""The hash before a project's first entry."""


def header_bytes(
    project: str,
    seq: int,
    at: str,
    kind: str,
    run_id: str | None,
    call_id: str | None,
    request_id: str | None,
    agent_id: str | None,
    tool: str | None,
    status: str | None,
    body_hash: bytes,
) -> bytes:
    """Canonical JSON of what the chain covers: keys in sorted order, all values text or integers."""
    return orjson.dumps(
        {
            "agent_id": agent_id,
            "at": at,
            "body_hash": body_hash.hex(),
            "call_id": call_id,
            "kind": kind,
            "project": project,
            "request_id": request_id,
            "run_id": run_id,
            "seq": seq,
            "status": status,
            "tool": tool,
        }
    )


def link(prev_hash: bytes, header: bytes) -> bytes:
    return sha256(prev_hash + header).digest()


def seal(project: str, seq: int, prev_hash: bytes, draft: Draft) -> tuple[tuple[object, ...], bytes]:
    """The row of `entries` that a draft becomes, and its hash, which is the new head."""
    body_hash = sha256(draft.body).digest()
    header = header_bytes(
        project,
        seq,
        draft.at,
        draft.kind.text,
        draft.run_id,
        draft.call_id,
        draft.request_id,
        draft.agent_id,
        draft.tool,
        draft.status,
        body_hash,
    )
    hash = link(prev_hash, header)
    row = (
        project,
        seq,
        draft.at,
        draft.kind.text,
        draft.run_id,
        draft.call_id,
        draft.request_id,
        draft.agent_id,
        draft.tool,
        draft.signature,
        draft.status,
        draft.body.decode(),
        body_hash,
        prev_hash,
        hash,
    )
    return row, hash
