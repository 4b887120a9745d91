"""Rows of the ledger as values: whoever only looks back needs these, and nothing that writes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from agent_gate.model.approval import BareRequest
from agent_gate.model.entry import Entry
from agent_gate.model.moment import epoch

ENTRY_COLUMNS = (
    "project, seq, at, kind, run_id, call_id, request_id, agent_id, tool, signature, status,"
    " body, body_hash, prev_hash, hash"
)
BARE_COLUMNS = "call_id, request_id, tool_name, args, signature, created_at, expires_at"


def bare_request_of(row: Sequence[Any]) -> BareRequest:
    call_id, request_id, tool_name, args, signature, created_at, expires_at = row
    return BareRequest(
        call_id, request_id, tool_name, orjson.loads(args), signature, epoch(created_at), epoch(expires_at)
    )


def entry_of(row: tuple[Any, ...]) -> Entry:
    body = row[11]
    fields = row if body is None else (*row[:11], body.encode(), *row[12:])
    return Entry(*fields)
