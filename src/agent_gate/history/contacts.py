"""Which contact info the owner has given; the values stay sealed."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Any

from agent_gate.ledger.sqlite.reader import rows_of


@dataclass(frozen=True, slots=True)
class ContactKey:
    key: str
    updated_at: str

    def to_json(self) -> dict[str, Any]:
        return {"key": self.key, "updated_at": self.updated_at}


def list_contacts(reader: sqlite3.Connection) -> list[ContactKey]:
    return [ContactKey(*row) for row in rows_of(reader, "SELECT key, updated_at FROM contact_info ORDER BY key")]
