"""A home as tools use it: what is known of it, and every way to ask and to act."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from agent_gate.config import HomeAssistantConfig
from agent_gate.model.bounds import HOME_ANSWER_S
from agent_gate.model.tool import Json
from agent_gate.ports.surroundings import Clock
from agent_gate.services.home_assistant.address import Address
from agent_gate.services.home_assistant.bounds import DEFAULT_BOUNDS, HomeBounds
from agent_gate.services.home_assistant.connection import Connection
from agent_gate.services.home_assistant.credentials import Token
from agent_gate.services.home_assistant.echoes import Echoes
from agent_gate.services.home_assistant.faults import AuthRefused, Lost, OutcomeUnknown, Unreachable
from agent_gate.services.home_assistant.hearing import Hearing
from agent_gate.services.home_assistant.home import Entity, Home
from agent_gate.services.home_assistant.link import EventHandler, Link
from agent_gate.services.home_assistant.reading import entities_of
from agent_gate.services.home_assistant.rest import Rest
from agent_gate.services.home_assistant.sync import Sync
from agent_gate.services.home_assistant.things import TokenUser

_ENDS_THE_CONNECTION = frozenset({("homeassistant", "restart"), ("homeassistant", "stop")})
"""Servers break every WebSocket before they answer on it; a REST request they answer first."""
_STATISTICS = ["mean", "min", "max", "sum", "state"]
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Called:
    """The result of a call of a service."""

    context_id: str | None
    """By which the home knows what it changed; None where nobody said."""
    changed: tuple[Entity, ...]
    """The last state of each entity that had changed when the call was over; slow devices report later."""
    response: Json = None


class HomeClient:
    """Raises Unreachable, Refused and OutcomeUnknown; a call of a service is never made twice."""

    def __init__(
        self,
        settings: HomeAssistantConfig,
        token: str,
        clock: Clock,
        *,
        look_up: Callable[[], Awaitable[str]] | None = None,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
        bounds: HomeBounds = DEFAULT_BOUNDS,
    ) -> None:
        """AuthRefused where the token cannot be one, whatever the server may think of it.

        `look_up` finds the token that was given last, where it may be replaced.
        """
        if not (token and token.isascii() and token.isprintable() and " " not in token):
            raise AuthRefused("the home assistant token is empty, or holds what no token holds; set it again")
        address = Address.of(settings)
        self.home, self.bounds = Home(clock), bounds
        self._token = Token(token, look_up)
        self.url = address.rest_url
        self._hearing, self._echoes = Hearing(), Echoes()
        self._rest = Rest(address, self._token, bounds)
        self._sync = Sync(self.home, self._hearing, self._echoes, self._rest, pause)
        self._connection = Connection(
            address,
            self._token,
            self._sync,
            ping_interval_s=settings.websocket_ping_interval,
            poll_interval_s=settings.poll_interval_seconds,
            pause=pause,
            jitter=jitter,
            bounds=bounds,
        )
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """AuthRefused where the token is refused; a server that cannot be reached is tried again in the background."""
        _log.info("home assistant at %s, token %s", self.url, self._token.named)
        self._running = asyncio.create_task(self._connection.run())
        try:
            async with asyncio.timeout(self.bounds.first_sight_s):
                await self._connection.tried.wait()
        except TimeoutError:
            _log.warning("%s", self.trouble)
        except BaseException:
            await self.close()
            raise
        if self._connection.refused is not None:
            await self.close()
            raise self._connection.refused

    async def close(self) -> None:
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait({self._running})
        await self._hearing.settle()
        await self._rest.close()

    @property
    def trouble(self) -> str:
        """One line; empty when all is well."""
        return self._connection.trouble

    @property
    def user(self) -> TokenUser | None:
        """Find whose token it is; None before the first connection, and where the server does not say."""
        return self._sync.user

    async def command(self, type: str, *, timeout_s: float = HOME_ANSWER_S, **fields: Json) -> Json:  # noqa: A002
        """A question over the WebSocket, which nothing changes by."""
        link = self._link()
        if link is None:
            raise self._unreachable()
        try:
            return await link.command(type, timeout_s=timeout_s, **fields)
        except Lost as lost:
            raise self._unreachable(lost) from None

    async def call_service(
        self,
        domain: str,
        service: str,
        *,
        target: Mapping[str, Json] | None,
        data: Mapping[str, Json],
        wants_response: bool,
        timeout_s: float,
        only_live: bool = False,
    ) -> Called:
        """Over the WebSocket; by REST only where that is down before anything was sent, or will not bring the answer.

        `only_live`: not even then, because who calls goes by what the connection has told until now.
        """
        if (domain, service) in _ENDS_THE_CONNECTION:
            self._refuse_if_final()
            return await self._call_by_rest(domain, service, {**data, **(target or {})}, wants_response, timeout_s)
        fields: dict[str, Json] = {"domain": domain, "service": service, "service_data": dict(data)}
        if target:
            fields["target"] = dict(target)
        if wants_response:
            fields["return_response"] = True
        with self._echoes.listening():
            result = await self._act("call_service", f"{domain}.{service}", timeout_s, fields)
            if result is not None:
                context_id = _context_id(result)
                changed = self._echoes.of(context_id) if context_id else ()
                return Called(context_id, changed, result.get("response"))
        if only_live:
            raise self._unreachable(Lost("the connection was lost", sent=False))
        return await self._call_by_rest(domain, service, {**data, **(target or {})}, wants_response, timeout_s)

    async def fire_event(self, event_type: str, data: Mapping[str, Json]) -> None:
        fields = {"event_type": event_type, "event_data": dict(data)}
        if await self._act("fire_event", event_type, HOME_ANSWER_S, fields) is None:
            try:
                await self._rest.fire_event(event_type, data)
            except Lost as lost:
                raise self._after(lost, event_type) from None

    async def history(self, entity_ids: Sequence[str], start: str, end: str) -> list[list[Mapping[str, Json]]]:
        """One list per entity that has rows; only the first row of each says whose it is."""
        self._refuse_if_final()
        try:
            return await self._rest.history(entity_ids, start, end)
        except Lost as lost:
            raise self._unreachable(lost) from None

    async def statistics(
        self, ids: Sequence[str], start: str, end: str, period: str
    ) -> Mapping[str, list[Mapping[str, Json]]]:
        """Rows by id, with `start` and `end` in epoch milliseconds; an id that is not known is left out."""
        found = await self.command(
            "recorder/statistics_during_period",
            start_time=start,
            end_time=end,
            statistic_ids=list(ids),
            period=period,
            types=_STATISTICS,
        )
        return found if isinstance(found, dict) else {}

    async def render(self, template: str) -> str:
        """Needs an administrator's token."""
        self._refuse_if_final()
        try:
            return await self._rest.render(template)
        except Lost as lost:
            raise self._unreachable(lost) from None

    def listen(self, event_type: str, handler: EventHandler) -> Callable[[], None]:
        """The handler gets each whole event, also after a reconnect; the returned function ends it."""
        return self._hearing.on(event_type, handler)

    async def settle(self) -> None:
        """Until every subscription that is under way is there, or is refused."""
        await self._hearing.settle()

    def heard_by(self, event_type: str) -> int:
        """The number of the connection by which it is heard now; 0 where nobody can hear it."""
        return self._hearing.heard_by(event_type)

    def _link(self) -> Link | None:
        link = self._connection.link
        return link if link is not None and link.is_open else None

    async def _act(
        self, command: str, what: str, timeout_s: float, fields: Mapping[str, Json]
    ) -> Mapping[str, Json] | None:
        """Return what the WebSocket answers; None where nothing was sent, so that REST may be tried."""
        self._refuse_if_final()
        link = self._link()
        if link is None:
            return None
        try:
            result = await link.command(command, timeout_s=timeout_s, **fields)
        except Lost as lost:
            if not lost.sent:
                return None
            raise self._after(lost, what) from None
        return result if isinstance(result, dict) else {}

    async def _call_by_rest(
        self, domain: str, service: str, body: Mapping[str, Json], wants_response: bool, timeout_s: float
    ) -> Called:
        try:
            rows, response = await self._rest.call_service(
                domain, service, body, wants_response=wants_response, timeout_s=timeout_s
            )
        except Lost as lost:
            raise self._after(lost, f"{domain}.{service}") from None
        last = {entity.entity_id: entity for entity in entities_of(rows)}
        ids = {entity.context_id for entity in last.values()} - {""}
        return Called(ids.pop() if len(ids) == 1 else None, tuple(last.values()), response)

    def _refuse_if_final(self) -> None:
        """A refused token is not shown again: each time counts as a failed login, and may get this host banned."""
        if self._connection.refused is not None:
            raise self._unreachable()

    def _unreachable(self, lost: Lost | None = None) -> Unreachable:
        detail = self.trouble or f"home assistant cannot be reached: {lost}"
        return Unreachable(detail, suggestion="" if self._connection.refused else "try again later")

    def _after(self, lost: Lost, what: str) -> Unreachable | OutcomeUnknown:
        if not lost.sent:
            return self._unreachable(lost)
        return OutcomeUnknown(
            f"nobody knows whether `{what}` happened: {lost}",
            suggestion="look at the states before you do it again",
        )


def _context_id(result: Mapping[str, Json]) -> str | None:
    context = result.get("context")
    found = context.get("id") if isinstance(context, dict) else None
    return found if isinstance(found, str) else None
