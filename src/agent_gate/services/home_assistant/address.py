"""Addresses of a home: two from one URL, and how TLS is checked."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit, urlunsplit

from agent_gate.config import HomeAssistantConfig
from agent_gate.model.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Address:
    rest_url: str
    """Without a slash at its end."""
    websocket_url: str
    tls: ssl.SSLContext | None
    """None where the URL says http."""

    @classmethod
    def of(cls, settings: HomeAssistantConfig) -> Address:
        """The scheme follows the URL, whose path is kept; `verify_ssl` only says whether certificates are checked."""
        parts = _parts(settings.url)
        secure = parts.scheme == "https"
        path = parts.path.rstrip("/").removesuffix("/api")
        return cls(
            urlunsplit((parts.scheme, parts.netloc, path, "", "")),
            urlunsplit(("wss" if secure else "ws", parts.netloc, f"{path}/api/websocket", "", "")),
            _context(verified=settings.verify_ssl) if secure else None,
        )


def _parts(url: str) -> SplitResult:
    try:
        parts = urlsplit(url.strip())
        usable = parts.port != 0 and parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        parts, usable = urlsplit(""), False
    if usable and "@" not in parts.netloc:
        return parts
    fault = "holds a user or a password" if usable else "is no address of a server"
    raise ConfigError(
        f"services.homeassistant.url {fault}", suggestion="write http://host:8123, or https:// where it speaks TLS"
    )


def _context(*, verified: bool) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if not verified:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
