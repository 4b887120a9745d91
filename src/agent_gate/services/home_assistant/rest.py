"""The home's REST interface: what is only there, and what serves while the WebSocket is down."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx2
import orjson

from agent_gate.model.bounds import HOME_ANSWER_S
from agent_gate.model.codec import restore
from agent_gate.model.errors import ToolError
from agent_gate.model.tool import Json
from agent_gate.services.home_assistant.address import Address
from agent_gate.services.home_assistant.bounds import DEFAULT_BOUNDS, HomeBounds
from agent_gate.services.home_assistant.credentials import Token
from agent_gate.services.home_assistant.faults import AuthRefused, Lost, Refused, one_line

logging.getLogger("httpcore2").setLevel(logging.WARNING)
logging.getLogger("httpx2").setLevel(logging.WARNING)

_CONNECTIONS_MAX = 8
_NEVER_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.UnsupportedProtocol)
_REFUSALS = {
    400: (
        "invalid_format",
        "home assistant does not take this, and does not say why",
        "check names and values of the fields",
    ),
    401: ("unauthorized", "the gate's token may not do this", "an administrator's token may"),
    403: ("forbidden", "home assistant turns this host away", "see ip_bans.yaml there"),
    404: ("not_found", "home assistant does not know this", "check the names"),
    405: ("not_found", "home assistant does not know this", "check the names"),
    500: (
        "home_assistant_error",
        "home assistant failed on this, and does not say why",
        "the entity may not support it, or a value is out of its range",
    ),
}
"""Its plain answers give no reason."""


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    body: bytes

    def json(self) -> Json:
        try:
            return restore(self.body)
        except ValueError:
            raise Lost("what it answers is not JSON", sent=True) from None


class Rest:
    """Raises Lost where no answer comes, and Refused where it is no."""

    def __init__(self, address: Address, token: Token, bounds: HomeBounds = DEFAULT_BOUNDS) -> None:
        self._url, self._token, self._bounds = address.rest_url, token, bounds
        self._client = httpx2.AsyncClient(
            headers={"Accept-Encoding": "identity", "User-Agent": "agent-gate"},
            verify=address.tls or False,  # False only where there is no TLS to verify
            trust_env=False,
            follow_redirects=False,
            limits=httpx2.Limits(max_connections=_CONNECTIONS_MAX),
        )

    async def close(self) -> None:
        await self._client.aclose()

    async def config(self) -> Mapping[str, Json]:
        """AuthRefused where the token is not good: everyone may read this."""
        answer = await self._exchange("GET", "/api/config", self._bounds.handshake_s)
        if answer.status == httpx2.codes.UNAUTHORIZED:
            raise AuthRefused("home assistant refuses the token")
        found = _accepted(answer).json()
        return found if isinstance(found, dict) else {}

    async def states(self) -> list[Json]:
        return _rows(await self._ask("GET", "/api/states"))

    async def services(self) -> list[Json]:
        return _rows(await self._ask("GET", "/api/services"))

    async def history(self, entity_ids: Sequence[str], start: str, end: str) -> list[Json]:
        params = {
            "filter_entity_id": ",".join(entity_ids),
            "end_time": end,
            "minimal_response": "",
            "significant_changes_only": "",
        }
        return _rows(await self._ask("GET", f"/api/history/period/{quote(start, safe='')}", params=params))

    async def render(self, template: str) -> str:
        answer = await self._ask("POST", "/api/template", body={"template": template})
        return answer.body.decode("utf-8", "replace")

    async def fire_event(self, event_type: str, data: Mapping[str, Json]) -> None:
        await self._ask("POST", f"/api/events/{quote(event_type, safe='')}", body=data)

    async def call_service(
        self, domain: str, service: str, body: Mapping[str, Json], *, wants_response: bool, timeout_s: float
    ) -> tuple[list[Json], Json]:
        """States that were written, and what the service answered; the body is flat: target and data in one."""
        path = f"/api/services/{quote(domain, safe='')}/{quote(service, safe='')}"
        params = {"return_response": ""} if wants_response else None
        found = (await self._ask("POST", path, body=body, params=params, timeout_s=timeout_s)).json()
        if isinstance(found, dict):
            return found.get("changed_states") or [], found.get("service_response")
        return found if isinstance(found, list) else [], None

    async def _ask(
        self,
        method: str,
        path: str,
        *,
        body: Json = None,
        params: Mapping[str, str] | None = None,
        timeout_s: float = HOME_ANSWER_S,
    ) -> _Answer:
        return _accepted(await self._exchange(method, path, timeout_s, body, params))

    async def _exchange(
        self, method: str, path: str, timeout_s: float, body: Json = None, params: Mapping[str, str] | None = None
    ) -> _Answer:
        headers = {"Authorization": f"Bearer {self._token.value}"}
        content: dict[str, Any] = {"headers": headers}
        if body is not None:
            content = {"content": orjson.dumps(body), "headers": {**headers, "Content-Type": "application/json"}}
        timeout = httpx2.Timeout(timeout_s, connect=self._bounds.handshake_s)
        try:
            async with (
                asyncio.timeout(timeout_s),
                self._client.stream(
                    method, f"{self._url}{path}", params=params, timeout=timeout, **content
                ) as response,
            ):
                return _Answer(response.status_code, await _bounded(response, self._bounds.message_bytes_max))
        except _NEVER_SENT as error:
            raise Lost(one_line(str(error)).lower() or "it cannot be reached", sent=False) from None
        except (TimeoutError, httpx2.TimeoutException):
            raise Lost(f"it did not answer within {timeout_s:g} s", sent=True) from None
        except httpx2.HTTPError as error:
            raise Lost(one_line(str(error)).lower() or "the connection was lost", sent=True) from None


async def _bounded(response: httpx2.Response, bytes_max: int) -> bytes:
    parts, size = [], 0
    async for part in response.aiter_bytes():
        size += len(part)
        if size > bytes_max:
            raise ToolError(
                f"home assistant answers with more than {bytes_max} bytes",
                code=2005,
                suggestion="ask for less: fewer entities, or a shorter time",
            )
        parts.append(part)
    return b"".join(parts)


def _accepted(answer: _Answer) -> _Answer:
    if answer.status in (httpx2.codes.OK, httpx2.codes.CREATED):
        return answer
    if answer.status not in _REFUSALS:  # of something in front of the home, mostly
        raise Lost(f"it answers with status {answer.status}", sent=True)
    reason, detail, suggestion = _REFUSALS[answer.status]
    told = _message(answer.body)
    raise Refused(reason, told) if told else Refused(reason, detail, suggestion=suggestion)


def _message(body: bytes) -> str:
    """Read what the server says in JSON; its plain texts only repeat the status."""
    try:
        told = orjson.loads(body)
    except orjson.JSONDecodeError:
        return ""
    return str(told.get("message") or "") if isinstance(told, dict) else ""


def _rows(answer: _Answer) -> list[Json]:
    found = answer.json()
    return found if isinstance(found, list) else []
