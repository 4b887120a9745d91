"""The people of a simulated home and their long-lived tokens."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

_HEAD = base64.urlsafe_b64encode(b'{"alg":"HS256","typ":"JWT"}').rstrip(b"=").decode()


def new_token() -> str:
    """Shaped as the real ones: a JWT, whose first characters tell nothing apart."""
    return f"{_HEAD}.{secrets.token_urlsafe(48)}.{secrets.token_urlsafe(32)}"


@dataclass(frozen=True, slots=True)
class User:
    name: str
    group: Literal["admin", "user", "read-only"]
    id: str = field(default_factory=lambda: secrets.token_hex(16))
    token: str = field(default_factory=new_token, repr=False)

    @property
    def is_admin(self) -> bool:
        return self.group == "admin"

    @property
    def may_control(self) -> bool:
        return self.group != "read-only"


class Users:
    """Find a user by token; a revoked token is forgotten."""

    def __init__(self, users: Iterable[User]) -> None:
        self._by_token = {user.token: user for user in users}

    def by_token(self, token: str) -> User | None:
        return self._by_token.get(token)

    def by_id(self, user_id: str | None) -> User | None:
        return next((user for user in self._by_token.values() if user.id == user_id), None)

    def add(self, user: User) -> None:
        self._by_token[user.token] = user

    def revoke(self, token: str) -> None:
        self._by_token.pop(token, None)
