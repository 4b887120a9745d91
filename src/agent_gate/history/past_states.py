"""Earlier states for tools, none looked for very long."""

from __future__ import annotations

from agent_gate.history import state
from agent_gate.history.readings import Readings
from agent_gate.model.bounds import READ_S
from agent_gate.model.tool import Json
from agent_gate.ports.reading import Reader


class PastStates:
    """Of the projects of one ledger."""

    def __init__(self, readings: Readings) -> None:
        self._readings = readings

    async def at(self, project: str, version: int | None, snapshot_id: str | None) -> Json:
        return await self._readings.ask(
            lambda reader: state.show(reader, project, version, snapshot_id).to_json(), READ_S
        )

    async def history(self, project: str, limit: int) -> Json:
        def versions(reader: Reader) -> Json:
            return {"versions": [change.to_json() for change in state.history(reader, project, limit)]}

        return await self._readings.ask(versions, READ_S)

    async def diff(self, project: str, before: int, after: int | None) -> Json:
        def compared(reader: Reader) -> Json:
            with reader.one_moment():
                last = state.show(reader, project).version if after is None else after
                return {"from": before, "to": last, "diff": state.diff(reader, project, before, last)}

        return await self._readings.ask(compared, READ_S)
