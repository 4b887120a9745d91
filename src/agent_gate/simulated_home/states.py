"""States, the contexts that they were written in, and how both look on the wire."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone

from agent_gate.model.tool import Json

ON = frozenset(("on", "open", "playing", "unlocked"))
"""States that count as on where they are grouped."""
_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def ulid(now: float) -> str:
    value = int(now * 1000) << 80 | secrets.randbits(80)
    return "".join(_ALPHABET[value >> shift & 31] for shift in range(125, -1, -5))


def iso(moment: float) -> str:
    return datetime.fromtimestamp(moment, timezone.utc).isoformat(timespec="microseconds")


@dataclass(frozen=True, slots=True)
class Context:
    id: str
    user_id: str | None = None
    parent_id: str | None = None

    def as_json(self) -> dict[str, Json]:
        return {"id": self.id, "parent_id": self.parent_id, "user_id": self.user_id}


@dataclass(frozen=True, slots=True)
class State:
    entity_id: str
    state: str
    attributes: Mapping[str, Json]
    changed_at: float
    updated_at: float
    context: Context = field(default_factory=lambda: Context(""))

    @property
    def domain(self) -> str:
        return self.entity_id.partition(".")[0]

    def as_json(self) -> dict[str, Json]:
        return {
            "entity_id": self.entity_id,
            "state": self.state,
            "attributes": dict(self.attributes),
            "last_changed": iso(self.changed_at),
            "last_updated": iso(self.updated_at),
            "context": self.context.as_json(),
        }
