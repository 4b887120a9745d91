"""Sessions of people at the console: they expire, are bounded in number, and live in this process alone."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from hmac import compare_digest

from agent_gate.model.bounds import (
    CONSOLE_NOTICES_MAX,
    CONSOLE_SESSION_IDLE_S,
    CONSOLE_SESSION_S,
    CONSOLE_SESSIONS_MAX,
    CONSOLE_SESSIONS_OF_ONE_MAX,
)


@dataclass(frozen=True, slots=True)
class Notice:
    """The result of the last thing that somebody did, told on the next page."""

    text: str
    kind: str = "done"
    """`done`, `refused`, `waits`"""
    call_id: str = ""


@dataclass(slots=True)
class Session:
    approver_id: str
    began_at: float
    seen_at: float
    csrf_token: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    notices: list[Notice] = field(default_factory=list)

    def is_over(self, now: float) -> bool:
        return now - self.seen_at > CONSOLE_SESSION_IDLE_S or now - self.began_at > CONSOLE_SESSION_S

    def sent_from_here(self, token: str) -> bool:
        """Tell whether a form carries the token of this session."""
        return compare_digest(_digest(token), _digest(self.csrf_token))

    def tell(self, notice: Notice) -> None:
        self.notices = [*self.notices, notice][-CONSOLE_NOTICES_MAX:]

    def take_notices(self) -> list[Notice]:
        told, self.notices = self.notices, []
        return told


class Sessions:
    """Kept by the digest of the cookie, so that no look at this process's memory by key tells a cookie."""

    def __init__(self, monotonic: Callable[[], float], most: int = CONSOLE_SESSIONS_MAX) -> None:
        self._monotonic, self._most = monotonic, most
        self._sessions: OrderedDict[bytes, Session] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(self, approver_id: str) -> tuple[str, Session]:
        """A new session and the cookie that names it: never one that a browser brought along."""
        self._drop_expired()
        own = [key for key, session in self._sessions.items() if session.approver_id == approver_id]
        for key in own[: max(0, len(own) - CONSOLE_SESSIONS_OF_ONE_MAX + 1)]:
            del self._sessions[key]
        while len(self._sessions) >= self._most:
            self._sessions.popitem(last=False)
        now, cookie = self._monotonic(), secrets.token_urlsafe(32)
        session = self._sessions[_digest(cookie)] = Session(approver_id, now, now)
        return cookie, session

    def find(self, cookie: str, *, active: bool = True) -> Session | None:
        """The session of a cookie; `active` where a person did something, and not the page by itself."""
        key = _digest(cookie)
        session = self._sessions.get(key)
        if session is None:
            return None
        now = self._monotonic()
        if session.is_over(now):
            del self._sessions[key]
            return None
        if active:
            session.seen_at = now
            self._sessions.move_to_end(key)
        return session

    def end(self, cookie: str) -> None:
        self._sessions.pop(_digest(cookie), None)

    def _drop_expired(self) -> None:
        now = self._monotonic()
        for key in [key for key, session in self._sessions.items() if session.is_over(now)]:
            del self._sessions[key]


def _digest(text: str) -> bytes:
    return sha256(text.encode("utf-8", "surrogatepass")).digest()
