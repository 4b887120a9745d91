"""A command of the WebSocket API: the shape that its message must have, and what it does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import UnionType
from typing import TypeAlias

from agent_gate.model.tool import Json
from agent_gate.simulated_home.session import Session

Message: TypeAlias = dict[str, Json]


class Refusal(Exception):
    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Command:
    act: Callable[[Session, Message], None]
    required: Mapping[str, type] = field(default_factory=dict)
    optional: Mapping[str, type | UnionType] = field(default_factory=dict)
    is_for_admins: bool = False

    def problems(self, message: Message) -> list[str]:
        """In the real server's words."""
        known = {**self.required, **self.optional}
        found = [
            f"expected {getattr(known[key], '__name__', 'str')} for dictionary value @ data['{key}']. Got {value!r}"
            for key, value in message.items()
            if key in known and not isinstance(value, known[key])
        ]
        extra = [key for key in message if key not in known and key not in ("id", "type")]
        found += [f"extra keys not allowed @ data['{key}']. Got {message[key]!r}" for key in extra]
        missing = [key for key in self.required if key not in message]
        return found + [f"required key not provided @ data['{key}']. Got None" for key in missing]
