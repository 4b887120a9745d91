"""Questions about the past."""

from __future__ import annotations

from typing import Protocol

from agent_gate.model.tool import Json


class PastStates(Protocol):
    """Earlier states of projects, as JSON."""

    async def at(self, project: str, version: int | None, snapshot_id: str | None) -> Json: ...

    async def history(self, project: str, limit: int) -> Json: ...

    async def diff(self, project: str, before: int, after: int | None) -> Json: ...
