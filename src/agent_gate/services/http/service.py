"""`http.get`: a name is looked up only where nothing refuses it, and each redirect is judged like a call of its own."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from agent_gate.model.bounds import LOOKUP_TIMEOUT_S, SHOWN_CHARS_MAX
from agent_gate.model.call import BoundCall, CallRequest, Facts
from agent_gate.model.errors import GateError, PolicyDeniedError, ToolError
from agent_gate.model.policy import UrlGuard
from agent_gate.model.tool import Json, ToolDeclaration
from agent_gate.model.verdict import Decision, Verdict
from agent_gate.policy.guards.fetches import Fetch, found, read_fetch
from agent_gate.policy.guards.headers import Headers, for_other_origin
from agent_gate.policy.guards.urls import Url
from agent_gate.policy.judge import Judge
from agent_gate.ports.ledger import Ledger
from agent_gate.ports.surroundings import Clock
from agent_gate.ports.tools import Binding, RegisteredTool
from agent_gate.resolve.names import Resolver, SystemResolver, addresses_of
from agent_gate.services.http.body import readable
from agent_gate.toolkit import make_registered_tool
from agent_gate.tools.http import HTTP_GET

if TYPE_CHECKING:
    from agent_gate.services.http.exchange import Network, Reply
    from agent_gate.services.http.outbound import Outbound


@dataclass(frozen=True, slots=True)
class _Errand:
    """One call of `http.get`, with all that judging its redirects needs."""

    fetch: Fetch
    request: CallRequest
    args: Mapping[str, Json]
    judge: Judge
    facts: Facts

    @property
    def section(self) -> UrlGuard:
        section = self.judge.policy.guards.http_get
        assert section is not None, "a guarded tool without a section is denied"
        return section

    def verdict(self, url: Url, addresses: Sequence[str] = ()) -> Verdict:
        """Judge a URL by the whole policy, on behalf of this call."""
        args = {**self.args, "url": url.text}
        bound = BoundCall("", self.request, args, args, (url.signature,), "", url.resources)
        return self.judge.decide(bound, replace(self.facts, found=found(addresses)), HTTP_GET)

    def must_allow(self, url: Url, addresses: Sequence[str]) -> None:
        """PolicyDeniedError where a redirect is denied, or a person would have to be asked in the middle of a fetch."""
        verdict = self.verdict(url, addresses)
        _must_not_be_denied(verdict, url)
        if verdict.decision is Decision.ALLOW or self._was_agreed_to(url, verdict):
            return
        asked = "; ".join(reason.text or reason.rule for reason in verdict.reasons)
        raise PolicyDeniedError(
            f"`{_shown(url)}` would need a person's agreement ({asked})", suggestion="call that URL itself"
        )

    def _was_agreed_to(self, url: Url, verdict: Verdict) -> bool:
        """True where a person has said yes to all that is asked here: to a host, port or scheme that is not listed."""
        own = self.fetch.url
        if url.origin != own.origin or any(reason.layer != "guard" for reason in verdict.reasons):
            return False
        return any(reason.layer == "guard" for reason in self.verdict(own).reasons if reason.decision is Decision.ASK)


class HttpService:
    name = "http"

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        *,
        can_ask: bool = True,
        outbound: Outbound | None = None,
        resolver: Resolver | None = None,
        network: Network | None = None,
        tls: ssl.SSLContext | None = None,
        lookup_timeout_s: float = LOOKUP_TIMEOUT_S,
    ) -> None:
        self._ledger, self._clock, self._can_ask = ledger, clock, can_ask
        self._outbound = outbound
        self._resolver = resolver or SystemResolver()
        self._network, self._tls = network, tls
        self._lookup_timeout_s = lookup_timeout_s

    def tools(self) -> Sequence[ToolDeclaration]:
        return (HTTP_GET,)

    def registered_tools(self) -> Sequence[RegisteredTool]:
        return [make_registered_tool(HTTP_GET, self.name, bind=self._bind)]

    async def execute(self, tool_name: str, args: Mapping[str, Json]) -> Json:  # noqa: ARG002 -- the service's shape
        raise ToolError(f"`{tool_name}` runs inside the gate, on addresses that were judged")

    async def _bind(self, request: CallRequest, args: Mapping[str, Json], judge: Judge) -> Binding:
        fetch = read_fetch(args)
        if self._outbound:
            self._outbound.refuse_ours(fetch.headers)
        facts = await self._facts(request, fetch, judge)
        errand = _Errand(fetch, request, args, judge, facts)
        if fetch.url.is_address:
            return self._binding(errand, [fetch.url.host])
        bound = self._binding(errand, [])
        # Where a person is asked first, the name is looked up when the call is performed; in a simulation, never.
        return bound if request.simulate else replace(bound, look_further=partial(self._looked_up, errand))

    def _binding(self, errand: _Errand, addresses: list[str]) -> Binding:
        fetch = errand.fetch
        act = partial(self._fetch, errand, addresses)
        return Binding(fetch.signatures, fetch.resources, act=act, found=found(addresses))

    async def _looked_up(self, errand: _Errand) -> Binding:
        return self._binding(errand, await self._look_up(errand, errand.fetch.url))

    async def _facts(self, request: CallRequest, fetch: Fetch, judge: Judge) -> Facts:
        """As the gate will see them, but for what has been used up: that refuses no URL."""
        now, cooldown = self._clock.now(), judge.policy.cooldown_seconds
        mode, ceiling = request.modes
        state = await self._ledger.state(request.project) if judge.needs_state(HTTP_GET) else None
        return Facts(
            at=now,
            mode=mode,
            roles=request.agent.roles,
            confirmed=request.confirmed,
            policy_hash="",
            state_version=state.version if state else 0,
            state=state.document if state else None,
            can_ask=self._can_ask,
            refused_recently=cooldown > 0
            and await self._ledger.denied_since(request.project, fetch.signatures[0], now - cooldown),
            ceiling=ceiling,
        )

    async def _look_up(self, errand: _Errand, url: Url) -> list[str]:
        left_s = min(self._lookup_timeout_s, _limit_s(errand))
        if errand.request.run_ends_at is not None:
            left_s = min(left_s, errand.request.run_ends_at - self._clock.monotonic())
        return await addresses_of(url.host, self._resolver, left_s)

    async def _fetch(self, errand: _Errand, addresses: Sequence[str], _: BoundCall) -> Json:
        limit_s = _limit_s(errand)
        scope = asyncio.timeout(limit_s)
        try:
            async with scope:
                return await self._follow(errand, addresses)
        except TimeoutError:
            if not scope.expired():
                raise
            raise ToolError(
                f"`{errand.fetch.url.authority}` did not answer in full within {limit_s:g} s",
                code=2004,
                suggestion="try again, or raise timeout_seconds",
            ) from None

    async def _follow(self, errand: _Errand, addresses: Sequence[str]) -> Json:
        """From redirect to redirect, each looked up and judged anew, until an answer is final."""
        url, headers, section = errand.fetch.url, errand.fetch.headers, errand.section
        addresses = addresses or await self._agreed(errand)
        left: list[str] = []
        while (reply := await self._ask(url, addresses, headers, section)).location is not None:
            if len(left) == section.max_redirects:
                raise ToolError(
                    f"`{_shown(errand.fetch.url)}` redirects more than {len(left)} times",
                    suggestion="raise max_redirects",
                )
            left.append(url.text)
            target = _target(url, reply.location)
            addresses = await self._cleared(errand, target)
            if target.origin != url.origin:
                headers = for_other_origin(headers)
            url = target
        return {
            "status_code": reply.status,
            "headers": _joined(reply.headers),
            **readable(reply.body, reply.first("content-type")),
            "url": url.text,
            **({"redirects": left} if left else {}),
        }

    async def _agreed(self, errand: _Errand) -> list[str]:
        """Addresses to dial for the call's own URL, to which a person has said yes; a deny still wins."""
        addresses = await self._look_up(errand, errand.fetch.url)
        _must_not_be_denied(errand.verdict(errand.fetch.url, addresses), errand.fetch.url)
        return addresses

    async def _cleared(self, errand: _Errand, url: Url) -> list[str]:
        """Addresses to dial for a redirect that the policy allows without asking anybody once more."""
        addresses = [url.host] if url.is_address else []
        errand.must_allow(url, addresses)
        if not addresses:
            addresses = await self._look_up(errand, url)
            errand.must_allow(url, addresses)
        return addresses

    async def _ask(self, url: Url, addresses: Sequence[str], headers: Headers, section: UrlGuard) -> Reply:
        """One hop; what the outbound chain adds goes to this URL and no further."""
        import httpcore2  # noqa: PLC0415 -- a fifth of a second that only those who fetch pay

        from agent_gate.services.http import exchange  # noqa: PLC0415 -- it imports httpcore2

        if self._network is None:
            self._network = httpcore2.AnyIOBackend()
        if self._tls is None and url.scheme == "https":
            self._tls = ssl.create_default_context()
        send = partial(
            exchange.get,
            url,
            addresses,
            bytes_max=section.max_response_bytes,
            network=self._network,
            tls=self._tls,
        )
        if self._outbound is None:
            return await send(headers=headers)
        sent, asked = await self._outbound.request(url, headers)
        try:
            reply = await send(headers=sent)
        except GateError as error:
            raise self._outbound.hidden(error) from None
        return await self._outbound.response(url, reply, asked)


def _limit_s(errand: _Errand) -> float:
    limit_s = errand.section.timeout_seconds
    return min(float(errand.args.get("timeout", limit_s)), limit_s)


def _target(url: Url, location: str) -> Url:
    try:
        return url.join(location)
    except GateError as error:
        raise PolicyDeniedError(
            f"the redirect of `{_shown(url)}` is refused: {error.problem.detail}", code=1003
        ) from None


def _must_not_be_denied(verdict: Verdict, url: Url) -> None:
    if verdict.problem is not None:
        problem = verdict.problem
        raise PolicyDeniedError(
            f"`{_shown(url)}` is refused: {problem.detail}",
            code=problem.code,
            suggestion=problem.suggestion,
        )


def _joined(headers: Sequence[tuple[str, str]]) -> dict[str, str]:
    joined: dict[str, str] = {}
    for name, value in headers:
        joined[name] = f"{joined[name]}, {value}" if name in joined else value
    return joined


def _shown(url: Url) -> str:
    return url.text[:SHOWN_CHARS_MAX]
