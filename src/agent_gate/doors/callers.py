"""Callers at the doors over HTTP: known by the chain that is configured for it, otherwise by token.

A chain can only narrow: whom it names must be in the configuration, and where it names nobody a token is needed still.
"""

from __future__ import annotations

from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response as HttpResponse

from agent_gate.chain.accumulator import Response
from agent_gate.chain.builtin.identity import identity_of
from agent_gate.chain.configured import ConfiguredChain
from agent_gate.chain.context import RequestContext
from agent_gate.chain.faults import InvalidRequest
from agent_gate.chain.instruction import ImmediateResponse
from agent_gate.chain.policy import StatusCode
from agent_gate.doors.http import Caller, address_of, bearer_token, caller_of, holder_of, problem_response, token_in
from agent_gate.doors.identity import Identities
from agent_gate.doors.throttle import Throttle, seconds_of, slowed_down
from agent_gate.model.errors import IdentityError, Problem

_CODES = {401: 6002, 429: 1012}
"""Codes of the chain's refusals, by the status that it answers with; 6003 where it is another."""


_ORDINARY = frozenset(
    (
        *("accept", "accept-encoding", "accept-language", "connection", "content-length", "content-type", "host"),
        *("origin", "traceparent", "transfer-encoding", "user-agent"),
    )
)
"""Headers that say nothing of who sends a request."""


@dataclass(frozen=True, slots=True)
class Answered:
    """The chain, and nobody behind it, answers the request."""

    response: HttpResponse
    problem: Problem | None
    """None where it is no refusal."""


class Callers:
    """For one door, with its chain."""

    def __init__(self, identities: Identities, throttle: Throttle, chain: ConfiguredChain | None = None) -> None:
        self._identities, self._throttle, self._chain = identities, throttle, chain

    async def of(self, request: Request) -> Caller | Answered:
        """IdentityError where nobody known is named; who guesses is slowed down, by address."""
        address, shown = address_of(request), self._shown(request)
        if not shown:  # that is no guess
            return await self._identified(request)
        wait_s = self._throttle.wait_s(address, shown)
        if wait_s:
            return too_many(wait_s)
        try:
            caller = await self._identified(request)
        except IdentityError:
            self._throttle.failed(address)
            raise
        if not isinstance(caller, Answered):
            self._throttle.succeeded(address, shown)
        elif caller.problem is not None and caller.problem.code == _CODES[401]:
            self._throttle.failed(address)
        return caller

    async def refused_by_chain(self, request: Request) -> Answered | None:
        """For a request whose sender is known by other means; None where the chain, if there is one, lets it pass."""
        if self._chain is None:
            return None
        address = address_of(request)
        wait_s = self._throttle.wait_s(address)
        if wait_s:
            return too_many(wait_s)
        passed = await self._through(self._chain, request)
        if not isinstance(passed, Answered):
            return None
        if passed.problem is not None and passed.problem.code == _CODES[401]:
            self._throttle.failed(address)
        return passed

    def _shown(self, request: Request) -> str:
        """Return what the request shows of who sends it; empty where nothing. A chain may look at any header."""
        if self._chain is None:
            return bearer_token(request) or ""
        return "\n".join(f"{name}: {value}" for name, value in request.headers.items() if name not in _ORDINARY)

    async def _identified(self, request: Request) -> Caller | Answered:
        if self._chain is None:
            return caller_of(request, self._identities)
        passed = await self._through(self._chain, request)
        return passed if isinstance(passed, Answered) else self._named(passed)

    async def _through(self, chain: ConfiguredChain, request: Request) -> RequestContext | Answered:
        try:
            response = await chain.run(_context(request))
        except InvalidRequest as error:
            return Answered(problem_response(error.problem, 400), error.problem)
        return response.context if response.passes else _answered(response)

    def _named(self, context: RequestContext) -> Caller:
        """The credentials that the chain has used are not in the headers any more."""
        name, token = identity_of(context), token_in(context.headers.all("authorization"))
        if name is None:
            return holder_of(token, self._identities)
        agent, approver = self._identities.agents.get(name), self._identities.approvers.get(name)
        if agent is not None and approver is not None:
            raise IdentityError(f"`{name}` is an agent and an approver", suggestion="give one of them another id")
        caller = agent or approver
        if caller is None:
            raise IdentityError(f"`{name}` is not known here", suggestion="add it to agents or approvers in the config")
        other = token and (self._identities.agent(token) or self._identities.approver(token))
        if other and other != caller:
            raise IdentityError("the request carries credentials of two", suggestion="send those of one")
        return caller


def too_many(wait_s: float) -> Answered:
    problem = slowed_down(wait_s)
    return Answered(problem_response(problem, 429, {"retry-after": str(seconds_of(wait_s))}), problem)


def _context(request: Request) -> RequestContext:
    """The head of the request: bodies are read by who knows how large they may be."""
    return RequestContext.create(
        method=request.method,
        path=request.scope["raw_path"].decode("latin-1"),
        scheme=request.url.scheme,
        authority=request.headers.get("host", ""),
        query_params=request.query_params.multi_items(),
        client_ip=address_of(request),
        headers=[(name.decode("latin-1"), _text(value)) for name, value in request.headers.raw],
    )


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


def _answered(response: Response) -> Answered:
    if response.immediate is not None:
        return _immediate(response.immediate, response)
    denied = response.status in (StatusCode.POLICY_DENIED, StatusCode.OK)
    problem = Problem(6003, f"policy `{response.policy_name}` does not let this request pass", "see chains.api")
    return Answered(problem_response(problem, 403 if denied else 503), problem)


def _immediate(immediate: ImmediateResponse, response: Response) -> Answered:
    answer = HttpResponse(immediate.body, immediate.status)
    for name, value in immediate.headers:
        answer.headers.append(name, value)
    if immediate.status < 400:
        return Answered(answer, None)
    code = _CODES.get(immediate.status, 6003)
    return Answered(answer, Problem(code, response.message or f"policy `{response.policy_name}` refused"))
