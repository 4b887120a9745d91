"""Requests of an agent over its connection, by the names of JSON-RPC methods."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from agent_gate.config import load_plan
from agent_gate.doors.codes import Rpc, rpc_of_problem
from agent_gate.doors.context import ServerContext
from agent_gate.doors.reads import leave_to_read
from agent_gate.doors.shapes import offered_to, run_to_json, tool_to_json
from agent_gate.doors.websocket.params import checked, ids_of, mode_of, wrong
from agent_gate.doors.websocket.rpc import RpcError
from agent_gate.gate.plans import run_plan
from agent_gate.model.call import Agent, CallRequest, Presence
from agent_gate.model.outcome import Outcome
from agent_gate.model.tool import Json

DOOR = "websocket"
_CALL = ("request_id", "project", "confirmed", "mode", "wait")
_SIMULATED = ("args", "project", "confirmed", "mode")

Method: TypeAlias = Callable[["Session", Mapping[str, Json]], Awaitable[Json | Outcome]]


class Session:
    """One agent at a server's doors; where the agent is told an error, an RpcError or GateError is raised."""

    def __init__(self, context: ServerContext, agent: Agent) -> None:
        self.context, self.agent = context, agent
        self.presence = Presence()
        self._gate, self._mailbox = context.gate, context.mailbox

    async def greeting(self) -> Json:
        pending = await self._mailbox.count(self.agent)
        return {"status": "authenticated", "agent_id": self.agent.id, "pending": pending}

    async def auth(self, params: Mapping[str, Json]) -> Json:
        """Once more on a connection that has said who it is."""
        given = checked(params, ("token",))
        if self.context.identities.agent(given["token"]) is not self.agent:
            raise RpcError(Rpc.NOT_AUTHENTICATED, "this connection is another agent's; open a new one")
        return await self.greeting()

    def tool_request(self, params: Mapping[str, Json]) -> Awaitable[Outcome]:
        given = checked(params, ("tool",), ("args", *_CALL))
        return self._call(given["tool"], given.get("args", {}), given)

    async def revert(self, params: Mapping[str, Json]) -> Outcome:
        given = checked(params, (), ("snapshot_id", "call_id", *_CALL))
        if ("snapshot_id" in given) == ("call_id" in given):
            raise wrong("give either `snapshot_id` or `call_id`")
        if "snapshot_id" in given:
            return await self._call("state.revert", {"snapshot_id": given["snapshot_id"]}, given)
        return await self._call("gate.revert", {"call_id": given["call_id"]}, given)

    async def get_state(self, params: Mapping[str, Json]) -> Outcome:
        """The project's whole document as `data`: a call of `state.get` like any other, judged and recorded."""
        given = checked(params, (), ("project",))
        return await self._call("state.get", {"path": ""}, given)

    def _call(self, tool: str, args: Mapping[str, Json], options: Mapping[str, Any]) -> Awaitable[Outcome]:
        return self._gate.submit(
            CallRequest(
                self.agent,
                tool,
                args,
                options.get("project", "default"),
                options.get("request_id"),
                options.get("confirmed", False),
                mode_of(options) if "mode" in options else None,
                wait=options.get("wait", True),
                is_plain=True,
                door=DOOR,
                presence=self.presence,
            )
        )

    async def simulate(self, params: Mapping[str, Json]) -> Outcome:
        given = checked(params, ("tool",), _SIMULATED)
        request = CallRequest(
            self.agent,
            given["tool"],
            given.get("args", {}),
            given.get("project", "default"),
            confirmed=given.get("confirmed", False),
            mode=mode_of(given),
            door=DOOR,
        )
        outcome, _ = await self._gate.simulate(request, shows_state=False)
        return outcome

    async def execute_plan(self, params: Mapping[str, Json]) -> Json:
        given = checked(params, ("plan",), ("project", "mode"))
        mode = mode_of(given)
        run = await run_plan(
            self._gate,
            load_plan(given["plan"]),
            project=given.get("project", "default"),
            agent=self.agent,
            mode=mode.value if mode else None,
        )
        if run.problem:
            raise RpcError(rpc_of_problem(run.problem), str(run.problem), run_to_json(run))
        return run_to_json(run)

    async def _refusal(self, path: str) -> Outcome | None:
        """Say why something that the gate keeps of this agent is not shown; None where it is."""
        outcome = await self._gate.submit(leave_to_read(self.agent, path, presence=self.presence))
        return None if outcome.ok else outcome

    async def cancel(self, params: Mapping[str, Json]) -> Json | Outcome:
        """Return the end of the call that was taken back; whoever waits for it is told the same."""
        given = checked(params, ("request_id",))
        claimed = await self._gate.ledger.claimed(self.agent.id, given["request_id"])
        found = await self._gate.ledger.question(claimed[0]) if claimed else None
        has_ended = claimed is not None and (found is None or found[1] is not None)
        if claimed and has_ended and (refused := await self._refusal(f"/calls/{claimed[0]}")):  # that is a look
            return refused
        return (await self._gate.withdraw(self.agent, given["request_id"])).to_json()

    async def get_pending_results(self, params: Mapping[str, Json]) -> Json | Outcome:
        checked(params)
        if refused := await self._refusal("/results"):
            return refused
        return {"results": [outcome.to_json() for outcome in await self._mailbox.results(self.agent)]}

    async def ack_results(self, params: Mapping[str, Json]) -> Json:
        ids = ids_of(checked(params, ("ids",)))
        return {"acknowledged": await self._mailbox.acknowledge(self.agent, ids)}

    async def list_tools(self, params: Mapping[str, Json]) -> Json | Outcome:
        checked(params)
        if refused := await self._refusal("/tools"):
            return refused
        return {"tools": [tool_to_json(tool) for tool in offered_to(self.agent, self._gate)]}


METHODS: Mapping[str, Method] = {
    "auth": Session.auth,
    "tool_request": Session.tool_request,
    "get_pending_results": Session.get_pending_results,
    "ack_results": Session.ack_results,
    "cancel": Session.cancel,
    "list_tools": Session.list_tools,
    "execute_plan": Session.execute_plan,
    "simulate": Session.simulate,
    "get_state": Session.get_state,
    "revert": Session.revert,
}
