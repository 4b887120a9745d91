"""The chain that requests of `http.get` go through: what it adds for a server, the agent neither sends nor sees."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from agent_gate.chain.accumulator import Response
from agent_gate.chain.configured import OUTBOUND, configured, refs_of, registry_of
from agent_gate.chain.context import Phase, RequestContext
from agent_gate.chain.executor import Bounds, Executor, Threads
from agent_gate.chain.faults import InvalidRequest
from agent_gate.chain.policy import StatusCode
from agent_gate.chain.prepared import PolicyRef
from agent_gate.chain.registry import Registry
from agent_gate.model.bounds import OUTBOUND_BODY_BYTES_MAX
from agent_gate.model.errors import GateError, PolicyDeniedError, ToolError
from agent_gate.model.redaction import Redactor
from agent_gate.policy.guards.headers import Headers
from agent_gate.policy.guards.urls import Url

if TYPE_CHECKING:
    from agent_gate.config import Config
    from agent_gate.ports.surroundings import Clock
    from agent_gate.services.http.exchange import Reply

_NO_CREDENTIALS = frozenset({"accept", "accept-language", "content-type", "user-agent"})
"""Headers whose values may stand in an answer: nothing secret is ever in them."""
_SCRUBBED_CHARS_MIN = 6
"""Length that `secret_scrub` takes; anything shorter would hide words that are none."""


def outbound_of(config: Config, threads: Threads, clock: Clock) -> Outbound | None:
    """The chain of a configuration, where it has one; its policies know no gate: calls of tools are judged already."""
    if OUTBOUND not in config.chains:
        return None
    bounds = Bounds.of(config.policy_agent)
    return Outbound(refs_of(config.chains[OUTBOUND]), registry_of(config.policies, clock), threads, bounds)


class Outbound:
    """Each request of each hop, and each answer, on its way between `http.get` and the wire."""

    def __init__(
        self, refs: Sequence[PolicyRef], registry: Registry, threads: Threads, bounds: Bounds | None = None
    ) -> None:
        """ConfigError where the chain cannot be used so."""
        bounds = replace(bounds or Bounds(), body_bytes_max=OUTBOUND_BODY_BYTES_MAX)
        self.sets = frozenset(name.lower() for name, _ in _set_headers(refs))
        """Names of headers that are not the agent's to give."""
        told_to_servers = _secrets(_set_headers(refs))
        scrub = [PolicyRef("secret_scrub", {"values": told_to_servers})] if told_to_servers else []
        self._redactor = Redactor(told_to_servers)
        self._chain = configured(OUTBOUND, [*refs, *scrub], registry, Executor(registry, threads, bounds))

    def refuse_ours(self, headers: Headers) -> None:
        """ToolError 2002 where the agent gives what the chain sets."""
        for name, _ in headers:
            if name in self.sets:
                raise ToolError(f"header `{name}` is the gate's to set", code=2002, suggestion="leave it out")

    async def request(self, url: Url, headers: Headers) -> tuple[Headers, RequestContext]:
        """The headers to send to this very URL, and what the answer is to be seen with."""
        context = await self._passed(url, headers=headers)
        if context.body:
            raise ToolError("the outbound chain gives the request a body, and http.get sends none")
        sent = _lower(context)
        for name, value in sent:
            if not (value.isascii() and value.isprintable()):
                raise ToolError(f"the outbound chain sets header `{name}` to what no header may hold")
        return sent, context

    async def response(self, url: Url, reply: Reply, asked: RequestContext) -> Reply:
        """The answer as the agent may see it, and as a redirect is followed."""
        context = await self._passed(
            url,
            phase=Phase.RESPONSE,
            headers=reply.headers,
            body=reply.body,
            response_status=reply.status,
            state=asked.state,
        )
        return replace(reply, headers=_lower(context), body=context.body)

    def hidden(self, error: GateError) -> GateError:
        """The same without what the server was told: an answer that nobody understands is quoted in it."""
        problem = error.problem
        return GateError.of(replace(problem, detail=self._redactor.text(problem.detail)))

    async def _passed(self, url: Url, **message: Any) -> RequestContext:
        """Return what became of a message that the chain lets pass; GateError where it does not."""
        try:
            context = RequestContext.create(
                method="GET",
                path=url.path,
                scheme=url.scheme,
                authority=url.authority,
                query_params=parse_qsl(url.query or "", keep_blank_values=True),
                **message,
            )
            response = await self._chain.run(context)
        except InvalidRequest as error:
            raise ToolError(f"the outbound chain cannot take it: {error.problem.detail}") from None
        if not response.passes:
            raise _refusal(response)
        return response.context


def _lower(context: RequestContext) -> Headers:
    return tuple((name.lower(), value) for name, value in context.headers)


def _refusal(response: Response) -> GateError:
    why = response.message or f"policy `{response.policy_name}` answers in the server's place"
    where = "see chains.outbound in the configuration of the gate"
    if response.status in (StatusCode.POLICY_DENIED, StatusCode.OK):
        return PolicyDeniedError(f"the outbound chain refuses it: {why}", suggestion=where)
    return ToolError(f"the outbound chain failed: {why}", suggestion=where)


def _set_headers(refs: Iterable[PolicyRef]) -> Iterator[tuple[str, str]]:
    """Headers that are set for servers, whichever they are."""
    for ref in refs:
        if ref.name == "set_headers" and ref.metadata.get("phase", "request") == "request":
            yield from ref.metadata.get("headers", {}).items()


def _secrets(headers: Iterable[tuple[str, str]]) -> list[str]:
    """The values, also without the word that says of which kind they are: a server may repeat either."""
    values: dict[str, None] = {}
    for name, value in headers:
        if name.lower() not in _NO_CREDENTIALS:
            values |= dict.fromkeys((value, value.partition(" ")[2]))
    return [value for value in values if len(value) >= _SCRUBBED_CHARS_MIN]
