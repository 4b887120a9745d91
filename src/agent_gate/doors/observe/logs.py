"""Structured logs: one JSON object a line on standard error, without secrets."""

from __future__ import annotations

import logging
import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TextIO
from urllib.parse import urlsplit

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from structlog.typing import EventDict, WrappedLogger

from agent_gate.config import Config
from agent_gate.model.visible import visible

HIDDEN = "[secret]"
_SECRET_KEYS = frozenset(("authorization", "cookie", "proxy-authorization", "set-cookie", "token", "password"))
_CREDENTIALS = re.compile(r"(?i)\b(bearer|basic)\s+[^\s\"',;]+")
_CREDENTIAL_NAME = re.compile(
    r"(?i)auth|cookie|token|secret|passw|passphrase|(api|access|private|signing)[_-]?key|credential|dsn"
).search
QUIETED = ("alembic", "httpcore", "httpcore2", "httpx", "httpx2", "mcp", "websockets.client")
"""Libraries that log every URL or message, in which somebody else's secret may stand, or each step of theirs."""
_SHORTEST_SECRET_CHARS = 4
"""Shorter ones would hide words that are none; a token of three letters hides nothing anyway."""

_log = structlog.stdlib.get_logger("agent_gate.http")


def secrets_of(config: Config) -> list[str]:
    """Every value of the configuration that must not be read in a log."""
    services = config.services
    found = [agent.token for agent in config.agents]
    found += [approver.token for approver in config.approvers]
    if config.messenger and config.messenger.telegram:
        found.append(config.messenger.telegram.token)
    if services.homeassistant:
        found.append(services.homeassistant.token)
        found.append(_password_in(services.homeassistant.url))
    for chain in config.chains.values():
        for step in chain:
            found += _secrets_in(step.metadata) + _credentials_in(step.metadata)
    found += _credentials_in(config.policies)
    return [secret for secret in found if len(secret) >= _SHORTEST_SECRET_CHARS]


def _secrets_in(metadata: Mapping[str, Any]) -> list[str]:
    """Of a policy of a chain: keys, values of headers, and values to be scrubbed."""
    found = [metadata.get("secret"), *metadata.get("values", ())]
    found += [key.get("key") for key in metadata.get("keys", ()) if isinstance(key, Mapping)]
    headers = metadata.get("headers")
    if isinstance(headers, Mapping):
        found += [part for value in headers.values() for part in (value, str(value).partition(" ")[2])]
    return [secret for secret in found if isinstance(secret, str) and len(secret) >= 8]


def _credentials_in(value: Any, *, named: bool = False) -> list[str]:
    """Text under a name like that of a credential, and passwords in URLs: what other packages' policies are given."""
    match value:
        case str():
            return [value if named and len(value) >= 8 else _password_in(value)]
        case Mapping():
            pairs = [(item, named or bool(_CREDENTIAL_NAME(str(key)))) for key, item in value.items()]
        case list() | tuple():
            pairs = [(item, named) for item in value]
        case _:
            return []
    return [text for item, is_named in pairs for text in _credentials_in(item, named=is_named)]


def _password_in(url: str) -> str:
    try:
        return urlsplit(url).password or ""
    except ValueError:
        return ""


class Redaction:
    """A processor that hides known secrets and credentials, wherever in an event they stand."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets: set[str] = set()
        self._known: re.Pattern[str] | None = None
        self.hide(*secrets)

    def hide(self, *secrets: str) -> None:
        """These too from now on: a secret may be found only after the log was opened."""
        self._secrets.update(secret for secret in secrets if len(secret) >= _SHORTEST_SECRET_CHARS)
        # The longer first: one may be the beginning of another.
        known = sorted(map(re.escape, self._secrets), key=len, reverse=True)
        self._known = re.compile("|".join(known)) if known else None

    def __call__(self, _: WrappedLogger, __: str, event: EventDict) -> EventDict:
        return {key: HIDDEN if key.lower() in _SECRET_KEYS else self._clean(value) for key, value in event.items()}

    def _clean(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, bytes):
            return self.text(value.decode(errors="backslashreplace"))
        if isinstance(value, Mapping):
            return {
                self._clean(key): HIDDEN if str(key).lower() in _SECRET_KEYS else self._clean(item)
                for key, item in value.items()
            }
        if isinstance(value, list | tuple | set | frozenset):
            return [self._clean(item) for item in value]
        return value if isinstance(value, bool | int | float) or value is None else self.text(repr(value))

    def text(self, value: str) -> str:
        if self._known:
            value = self._known.sub(HIDDEN, value)
        return _CREDENTIALS.sub(rf"\1 {HIDDEN}", value)


def configure_logs(level: str, secrets: Iterable[str], stream: TextIO | None = None) -> Redaction:
    """Whatever is logged here or by a library goes the same way: as JSON, cleaned, to standard error."""
    redaction = Redaction(secrets)
    shared: list[Callable[..., Any]] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.stdlib.ExtraAdder(),
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.StackInfoRenderer(),
                structlog.processors.format_exc_info,
                redaction,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in QUIETED:
        logging.getLogger(name).setLevel(logging.WARNING)
    return redaction


class RequestLog:
    """ASGI middleware: who asked for what and how it went; never what was in it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket") or not logging.getLogger("agent_gate.http").isEnabledFor(
            logging.INFO
        ):
            await self._app(scope, receive, send)
            return
        began, status = time.monotonic(), 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] in ("http.response.start", "websocket.http.response.start"):
                status = message["status"]
            elif message["type"] == "websocket.accept":
                status = 101
            await send(message)

        try:
            await self._app(scope, receive, sending)
        finally:
            _log.info(
                "request",
                kind=scope["type"],
                method=scope.get("method", "GET"),
                path=visible(scope["path"][:500]),
                status=status,
                duration_ms=round((time.monotonic() - began) * 1000, 3),
                client=(scope.get("client") or ("",))[0],
            )
