"""Contact info that the owner has given; the values stay sealed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agent_gate.ports.reading import Reader


@dataclass(frozen=True, slots=True)
class ContactKey:
    key: str
    updated_at: str

    def to_json(self) -> dict[str, Any]:
        return {"key": self.key, "updated_at": self.updated_at}


def list_contacts(reader: Reader) -> list[ContactKey]:
    return [ContactKey(*row) for row in reader.contacts()]
