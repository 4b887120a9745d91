"""Permission rules as people write them."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class PermissionRule:
    pattern: str
    action: str
    description: str = ""
    when: str = ""


@dataclass(frozen=True)
class Permissions:
    defaults: list[PermissionRule] = field(default_factory=list)
    rules: list[PermissionRule] = field(default_factory=list)
