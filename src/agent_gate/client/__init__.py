"""GateClient: what an agent's program uses to make calls over the WebSocket door.

```python
async with GateClient("wss://gate.example:8443", token) as gate:
    outcome = await gate.call("fs.read", path="notes.txt")
```
It connects again by itself when the connection is lost, and repeats what was not answered; every call has a request
id, so nothing is done twice by that.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterable, Mapping
from ssl import SSLContext
from types import TracebackType
from typing import Self

from msgspec.structs import replace

from agent_gate.client.link import DEFAULT_DELAYS, Delays, GateUnreachable, Link, Refused
from agent_gate.model.outcome import Outcome
from agent_gate.model.tool import Json

__all__ = ["GateClient", "GateUnreachable"]


class GateClient:
    """One agent at its gate, for as long as the block runs."""

    def __init__(
        self,
        url: str,
        token: str,
        *,
        project: str | None = None,
        ssl: SSLContext | None = None,
        patient: bool = False,
        delays: Delays = DEFAULT_DELAYS,
    ) -> None:
        """`patient`: a server that is not there yet is waited for, not raised as GateUnreachable."""
        self._link, self._project = Link(url, token, ssl=ssl, patient=patient, delays=delays), project

    @property
    def agent_id(self) -> str:
        """The agent's id by the gate's own word."""
        return self._link.agent_id

    @property
    def pending(self) -> int:
        """Number of results that waited here at the last connect."""
        return self._link.pending

    async def __aenter__(self) -> Self:
        await self._link.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Calls that are under way go on at the gate, and their outcomes wait there."""
        await self._link.close()

    async def call(
        self,
        tool: str,
        args: Mapping[str, Json] | None = None,
        /,
        *,
        project: str | None = None,
        request_id: str | None = None,
        confirmed: bool = False,
        mode: str | None = None,
        wait: bool = True,
        timeout_s: float | None = None,
        **arguments: Json,
    ) -> Outcome:
        """The outcome of one call, whatever it is; `raise_for_status()` on it raises where it is no success.

        The exception names the tool and the call, but not the arguments: only the gate knows which are secret.
        TimeoutError after `timeout_s`: the call goes on, and the same `request_id` leads to it again. Arguments that
        have the name of an option are given as the mapping.
        """
        params: dict[str, Json] = {"tool": tool, "args": {**(args or {}), **arguments}}
        params["request_id"] = request_id or uuid.uuid4().hex
        options = {"project": project or self._project, "mode": mode}
        params.update((name, value) for name, value in options.items() if value is not None)
        if confirmed:
            params["confirmed"] = True
        if not wait:
            params["wait"] = False
        async with asyncio.timeout(timeout_s):
            return replace(await self._outcome("tool_request", params), tool=tool)

    async def simulate(self, tool: str, args: Mapping[str, Json] | None = None, **arguments: Json) -> Outcome:
        """Ask what would happen; nothing is done."""
        asked = self._placed({"tool": tool, "args": {**(args or {}), **arguments}})
        return replace(await self._outcome("simulate", asked), tool=tool)

    async def revert(
        self, *, snapshot_id: str | None = None, call_id: str | None = None, request_id: str | None = None
    ) -> Outcome:
        """Go back to a snapshot of the state, or undo one call: a call like any other."""
        target = {"snapshot_id": snapshot_id, "call_id": call_id}
        params = {name: value for name, value in target.items() if value is not None}
        return await self._outcome("revert", self._placed({**params, "request_id": request_id or uuid.uuid4().hex}))

    async def state(self) -> Outcome:
        """The project's state document as `data`."""
        return await self._outcome("get_state", self._placed({}))

    async def cancel(self, request_id: str) -> Outcome:
        """Take a call back that waits for a person; how it ended. GateError where that is too late."""
        return await self._outcome("cancel", {"request_id": request_id})

    async def results(self) -> list[Outcome]:
        """Fetch what was reached while nobody was connected; it stays there until it is acknowledged."""
        answer = await self._link.ask("get_pending_results", {})
        return [Outcome.from_json(fields) for fields in answer["results"]]

    async def acknowledge(self, ids: Iterable[str]) -> int:
        """These have arrived, by call id or request id; how many of them were waiting."""
        answer = await self._link.ask("ack_results", {"ids": list(ids)})
        return int(answer["acknowledged"])

    async def tools(self) -> list[dict[str, Json]]:
        answer = await self._link.ask("list_tools", {})
        return list(answer["tools"])

    async def execute_plan(self, plan: Mapping[str, Json]) -> dict[str, Json]:
        """`{run_id, status, outcomes}`; not repeated when the connection is lost, because the plan goes on."""
        return dict(await self._link.ask("execute_plan", self._placed({"plan": dict(plan)}), repeatable=False))

    def _placed(self, params: dict[str, Json]) -> dict[str, Json]:
        return params if self._project is None else {**params, "project": self._project}

    async def _outcome(self, method: str, params: Mapping[str, Json]) -> Outcome:
        try:
            return Outcome.from_json(await self._link.ask(method, params))
        except Refused as refused:
            return refused.outcome
