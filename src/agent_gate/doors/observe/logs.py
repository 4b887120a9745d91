"""Structured logs: one JSON object a line on standard error, without secrets."""

from __future__ import annotations

import logging
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TextIO
from urllib.parse import urlsplit

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from structlog.typing import EventDict, WrappedLogger

from agent_gate.config import Config
from agent_gate.config.declaration import declared_fields
from agent_gate.model.credentials import AUTHORIZATION, SHAPES, is_credential_name
from agent_gate.model.redaction import HIDDEN_IN_LOGS, Redactor
from agent_gate.model.visible import visible

_SECRET_KEYS = ("authorization", "cookie", "proxy-authorization", "set-cookie", "token", "password")
_SHAPES = (AUTHORIZATION, *(shape for name, shape in SHAPES.items() if name != "bearer"))
"""Of a header the name of its scheme stays."""
QUIETED = ("alembic", "httpcore", "httpcore2", "httpx", "httpx2", "mcp", "websockets.client")
"""Libraries that log every URL or message, in which somebody else's secret may stand, or each step of theirs."""
_SHORTEST_SECRET_CHARS = 4
"""Shorter ones would hide words that are none; a token of three letters hides nothing anyway."""

_log = structlog.stdlib.get_logger("agent_gate.http")


def secrets_of(config: Config) -> list[str]:
    """Every value of the configuration that must not be read in a log."""
    found = list(_settings_in(config))
    for chain in config.chains.values():
        for step in chain:
            found += _secrets_in(step.metadata) + _credentials_in(step.metadata)
    found += _credentials_in(config.policies)
    return [secret for secret in found if len(secret) >= _SHORTEST_SECRET_CHARS]


_ORIGIN_RE = re.compile(r"https?://[^/?#@]*/?")
"""A server's bare address, which no secret is in: operators look for it in a log."""


def _settings_in(section: Any) -> Iterator[str]:
    """Every setting that is declared secret or has the name of a credential, and passwords in URLs, in any section."""
    match section:
        case Mapping():
            yield from _settings_in([*section.values()])
        case list() | tuple():
            for part in section:
                yield from _settings_in(part)
        case _:
            known = fields(section) if is_dataclass(section) else ()
            declared = declared_fields(section.__class__) if known else ()
            declared_secret = {one.name for one in declared if one.setting.secret}
            for setting in known:
                value = getattr(section, setting.name)
                if isinstance(value, str):
                    is_secret = setting.name in declared_secret or is_credential_name(setting.name)
                    yield _password_in(value)
                    if is_secret and not _ORIGIN_RE.fullmatch(value):
                        yield value
                else:
                    yield from _settings_in(value)


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
            pairs = [(item, named or bool(is_credential_name(str(key)))) for key, item in value.items()]
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


def log_redactor(secrets: Iterable[str]) -> Redactor:
    """Hides these, and what has the name or the shape of a credential, wherever in an event it stands."""
    return Redactor(secrets, _SHAPES, names=_SECRET_KEYS, mark=HIDDEN_IN_LOGS, chars_min=_SHORTEST_SECRET_CHARS)


def _as_data(value: Any) -> Any:
    """Whatever was logged, as JSON can have it."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case bytes():
            return value.decode(errors="backslashreplace")
        case Mapping():
            return {_as_data(key): _as_data(item) for key, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_as_data(item) for item in value]
        case _:
            return repr(value)


def configure_logs(level: str, secrets: Iterable[str], stream: TextIO | None = None) -> Redactor:
    """Send whatever is logged here or by a library the same way: as JSON, cleaned, to standard error.

    Returns what cleans it: a secret may be found only after the log was opened.
    """
    redactor = log_redactor(secrets)

    def redact(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
        cleaned: EventDict = redactor.data(_as_data(event))
        return cleaned

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
                redact,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in QUIETED:
        logging.getLogger(name).setLevel(logging.WARNING)
    return redactor


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
