"""A plan: an ordered list of calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agent_gate.model.tool import Json


@dataclass(frozen=True, slots=True)
class PlanStep:
    tool: str
    args: Mapping[str, Json] = field(default_factory=dict)
    id: str = ""
    name: str = ""
    confirmed: bool = False

    def to_json(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"tool": self.tool, "args": dict(self.args)}
        if self.id:
            fields["id"] = self.id
        if self.name:
            fields["name"] = self.name
        if self.confirmed:
            fields["confirmed"] = True
        return fields


@dataclass(frozen=True, slots=True)
class Plan:
    steps: tuple[PlanStep, ...]
    name: str = ""
    description: str = ""
    version: str = "1.0"

    def to_json(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"version": self.version}
        if self.name:
            fields["name"] = self.name
        if self.description:
            fields["description"] = self.description
        fields["steps"] = [step.to_json() for step in self.steps]
        return fields
