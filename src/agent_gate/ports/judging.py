"""Judgement of requests of somebody else's traffic; calls are judged by `policy.judge`, which is pure and no port."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from agent_gate.model.errors import Problem


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request of somebody else's traffic that is judged here and performed elsewhere."""

    agent_id: str
    signature: str
    """`http.request({METHOD} {scheme}://{authority}{path})`, which rules match."""
    method: str
    url: str
    """In its one spelling, without the query."""
    query_params: tuple[tuple[str, str], ...]
    body: bytes = field(repr=False)
    target: str = ""
    """The URL with its query, byte by byte as it was sent; empty where nobody knows."""
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Those on which an approval rests, names in lower case."""
    credentials: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Likewise, but never shown or stored in clear."""
    body_unseen: bool = False
    """True where a body follows that nobody could look at, so that nobody can agree to it."""


@dataclass(frozen=True, slots=True)
class RequestAllowed:
    """It may pass, this once."""


@dataclass(frozen=True, slots=True)
class RequestDenied:
    problem: Problem


@dataclass(frozen=True, slots=True)
class RequestHeld:
    """A person is asked; the caller may come again with the same request."""

    call_id: str
    retry_after_s: int


class RequestJudge(Protocol):
    async def judge_request(self, request: HttpRequest) -> RequestAllowed | RequestDenied | RequestHeld:
        """Never waits for a person.

        The same request finds its open question again; after an approval one such request is allowed, and the next
        one is a new question.
        """
        ...

    async def health_check(self) -> None:
        """GateError where it cannot judge, or could not write down that it has."""
        ...
