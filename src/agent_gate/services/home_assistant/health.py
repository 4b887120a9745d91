"""Health of a home, in a line: whether it is there, its version, and what the token may do."""

from __future__ import annotations

from dataclasses import dataclass

from agent_gate.model.tool import Json
from agent_gate.services.home_assistant.things import TokenUser


@dataclass(frozen=True, slots=True)
class HomeHealth:
    url: str
    version: str
    """Empty where nobody knows."""
    user: TokenUser | None
    trouble: str = ""
    """Empty where it is there."""

    @property
    def told(self) -> str:
        """One line."""
        if self.trouble:
            return f"{self.url}: {self.trouble}; it is tried again"
        whose = self.user.told if self.user else "whose token it is, it does not say"
        return f"Home Assistant {self.version} at {self.url}; {whose}"

    def to_json(self) -> dict[str, Json]:
        told: dict[str, Json] = {"url": self.url, "is_there": not self.trouble, "version": self.version}
        if self.user:
            told |= {"user": self.user.name, "is_admin": self.user.is_admin}
        return {**told, "trouble": self.trouble} if self.trouble else told
