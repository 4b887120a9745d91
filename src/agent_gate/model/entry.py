"""Entries of the ledger: facts on their way into a project's chain, and as they stand in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from agent_gate.model.tool import Json
from agent_gate.model.word import Word

GATE_PROJECT = "_gate"
"""The chain for facts that belong to no project: policies, refusals at the door."""


class Kind(Word):
    RUN = "run"
    HELD = "held"
    ANSWERED = "answered"
    PERFORMING = "performing"
    COMMITTING = "committing"
    SETTLED = "settled"
    JUDGED = "judged"
    EFFECT = "effect"
    COMMAND = "command"
    REVERTED = "reverted"
    REPLAYED = "replayed"
    POLICY = "policy"
    TOOLS = "tools"
    PROJECT = "project"
    ERASED = "erased"
    DOOR = "door"
    GRANT = "grant"
    CONTACT = "contact"
    CLOCK = "clock"
    SCHEMA = "schema"


class Draft(Struct, frozen=True):
    """One entry before it has a place in the chain."""

    kind: Kind
    at: str
    body: bytes
    """Canonical JSON; holds the signatures and a random salt, so that an erased body cannot be guessed."""
    call_id: str | None = None
    run_id: str | None = None
    request_id: str | None = None
    agent_id: str | None = None
    tool: str | None = None
    signature: str | None = None
    status: str | None = None


class Entry(Struct, frozen=True):
    """One fact as it stands in the ledger."""

    project: str
    seq: int
    at: str
    kind: str
    run_id: str | None
    call_id: str | None
    request_id: str | None
    agent_id: str | None
    tool: str | None
    signature: str | None
    status: str | None
    body: bytes | None
    """None where it was erased."""
    body_hash: bytes
    prev_hash: bytes
    hash: bytes

    def to_json(self, body: Mapping[str, Json] | None) -> dict[str, Any]:
        fields: dict[str, Any] = {
            key: value
            for key in (
                "project",
                "seq",
                "at",
                "kind",
                "run_id",
                "call_id",
                "request_id",
                "agent_id",
                "tool",
                "signature",
                "status",
            )
            if (value := getattr(self, key)) is not None
        }
        fields["body"] = body
        fields |= {key: getattr(self, key).hex() for key in ("body_hash", "prev_hash", "hash")}
        return fields
