"""The MCP door: what a client can list and call, answered by the gate."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, TypeAlias

from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    Tool,
)
from msgspec import structs

from agent_gate import __version__
from agent_gate.doors.codes import mcp_error_of_outcome
from agent_gate.doors.mcp.calls import Calls, Progress
from agent_gate.doors.mcp.listing import GATE_RESULT, RESULT_TOOL, listed
from agent_gate.doors.mcp.names import by_client_name
from agent_gate.doors.mcp.results import agreed, asked, result_of
from agent_gate.doors.shapes import offered_to
from agent_gate.model.approval import Approver
from agent_gate.model.bounds import (
    MCP_SUBSCRIPTIONS_MAX,
    MCP_TOOLS_FRESH_MS,
    POLICY_POLL_INTERVAL_S,
)
from agent_gate.model.errors import GateError, ToolError
from agent_gate.model.nearest import did_you_mean
from agent_gate.model.outcome import Outcome, Status
from agent_gate.model.tool import Json

_log = logging.getLogger(__name__)

Context: TypeAlias = ServerRequestContext[Any, Any]

REQUEST_ID, CONFIRMED = "agent-gate/request_id", "agent-gate/confirmed"
"""Fields that a client may send with a call under `_meta`."""
INSTRUCTIONS = (
    "Every call goes through agent-gate: it is judged by a policy, and written down. A denial says why, and what would"
    " change it; do not try to get round it. Where a call is pending approval, a person has been asked: go on with"
    f" something else, then make the same call again with the same arguments, or use {GATE_RESULT}."
)


class McpDoor:
    """For one agent; a ConfigError where the names of two tools would be the same to a client."""

    def __init__(
        self, calls: Calls, approvers: Sequence[Approver] = (), poll_s: float = POLICY_POLL_INTERVAL_S
    ) -> None:
        self._calls, self._gate, self._approvers, self._poll_s = calls, calls.gate, approvers, poll_s
        self._tools = by_client_name(
            (registered.declaration.name for registered in self._gate.tools.all()), GATE_RESULT
        )
        self._list, self._listed_by = self._look_up(), self._gate.judge
        self._session: ServerSession | None = None
        self._changes = InMemorySubscriptionBus()
        self.server: Server[Any] = Server(
            "agent-gate",
            version=__version__,
            instructions=INSTRUCTIONS,
            cache_hints={"tools/list": CacheHint(MCP_TOOLS_FRESH_MS)},
            on_list_tools=self._on_list,
            on_call_tool=self._on_call,
            on_subscriptions_listen=ListenHandler(self._changes, max_subscriptions=MCP_SUBSCRIPTIONS_MAX),
        )

    def close(self) -> None:
        """Answer now whoever waits for a person."""
        self._calls.ending.set()

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Tells the client when another policy offers other tools, for as long as the block runs."""
        task = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait({task})

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self._poll_s)
            before = self._list
            if self._offered() != before:
                await self._changes.publish(ToolsListChanged())
                if self._session is not None:
                    await self._session.send_tool_list_changed()

    def _offered(self) -> list[Tool]:
        """Kept while the policy stays: clients ask for it again before each call."""
        if self._gate.judge is not self._listed_by:
            self._list, self._listed_by = self._look_up(), self._gate.judge
        return self._list

    def _look_up(self) -> list[Tool]:
        return [*(listed(tool) for tool in offered_to(self._calls.agent, self._gate)), RESULT_TOOL]

    async def _on_list(self, context: Context, _: PaginatedRequestParams | None) -> ListToolsResult:
        self._session = context.session
        return ListToolsResult(tools=self._offered())

    async def _on_call(self, context: Context, params: CallToolRequestParams) -> CallToolResult:
        try:
            return await self._answer(context, params)
        except MCPError:
            raise
        except GateError as error:
            return result_of(Outcome(call_id="", status=Status.ERROR, error=error.problem))
        except Exception as error:
            _log.exception("a call of agent %s failed", self._calls.agent.id)
            raise MCPError(INTERNAL_ERROR, f"the gate itself failed: {type(error).__name__}") from None

    async def _answer(self, context: Context, params: CallToolRequestParams) -> CallToolResult:
        args: dict[str, Json] = params.arguments or {}
        progress = _progress_of(context)
        if params.name == GATE_RESULT:
            return await self._shown(await self._calls.result(_call_id(args), progress))
        outcome = await self._calls.call(
            self._tools.get(params.name, params.name),
            args,
            request_id=_said(context, REQUEST_ID, str),
            confirmed=bool(_said(context, CONFIRMED, bool)),
            progress=progress,
        )
        error = mcp_error_of_outcome(outcome)
        if error is not None:
            outcome = self._in_their_names(outcome, params.name)
            raise MCPError(error, str(outcome.error), outcome.to_json())
        return await self._shown(outcome)

    def _in_their_names(self, outcome: Outcome, name: str) -> Outcome:
        """Of an unknown tool: the one that was probably meant, as clients call it."""
        assert outcome.error is not None
        offered = [tool.name for tool in self._offered()]
        problem = replace(outcome.error, suggestion=did_you_mean(name, offered, "see tools/list"))
        return structs.replace(outcome, error=problem)

    async def _shown(self, outcome: Outcome) -> CallToolResult:
        waits = ""
        if outcome.status is Status.PENDING_APPROVAL and (found := await self._gate.ledger.question(outcome.call_id)):
            question, resolution, approved_by = found
            is_agreed = resolution == "approved"
            waits = agreed(approved_by) if is_agreed else asked(question, approved_by, self._approvers)
        return result_of(outcome, waits)


def _progress_of(context: Context) -> Progress | None:
    """None where the client does not follow."""
    if not context.meta or "progress_token" not in context.meta:
        return None
    return context.session.report_progress


def _said(context: Context, key: str, kind: type) -> Any:
    """Read what the client says under `_meta`; None where it says nothing."""
    value = (context.meta or {}).get(key)
    if value is not None and type(value) is not kind:
        raise MCPError(INVALID_PARAMS, f"_meta[{key!r}] must be {'a text' if kind is str else 'true or false'}")
    return value


def _call_id(args: dict[str, Json]) -> str:
    call_id = args.get("call_id")
    if type(call_id) is not str or args.keys() != {"call_id"}:
        raise ToolError(f"{GATE_RESULT} takes one text: `call_id`", code=2002)
    return call_id
