"""A policy's sight of the request or response: a value that no policy can change, so that one serves them all."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from agent_gate.chain.faults import InvalidRequest
from agent_gate.chain.headers import GivenHeaders, Headers, is_token, is_value
from agent_gate.chain.state import State
from agent_gate.model.bounds import CHAIN_HEADERS_BYTES_MAX, CHAIN_HEADERS_MAX, URL_CHARS_MAX
from agent_gate.model.codec import CodecError
from agent_gate.model.tool import Json

_READABLE = re.compile(r"[^\x00-\x20\x7f\ud800-\udfff]*").fullmatch
_LEGAL_TEXT = re.compile(r"[^\x00-\x1f\x7f\ud800-\udfff]*").fullmatch


class Phase(Enum):
    REQUEST = "request"
    RESPONSE = "response"


@dataclass(frozen=True, slots=True)
class RequestContext:
    """In the response phase headers, body and status are the response's; the rest is still the request's.

    An instruction leads to a new context that shares what did not change.
    """

    method: str = "GET"
    path: str = "/"
    """Without the query."""
    scheme: str = "https"
    authority: str = ""
    query_params: tuple[tuple[str, str], ...] = ()
    client_ip: str = ""
    headers: Headers = field(default_factory=Headers)
    body: bytes = field(default=b"", repr=False)
    state: State = field(default_factory=State)
    phase: Phase = Phase.REQUEST
    response_status: int | None = None
    raw_query: str | None = None
    """The query as it was sent, each byte a character; None where there is none, or only its parameters are known."""
    body_unseen: bool = False
    """True where a body follows that no policy is shown."""

    @classmethod
    def create(
        cls,
        *,
        method: str = "GET",
        path: str = "/",
        scheme: str = "https",
        authority: str = "",
        query_params: Mapping[str, str] | Iterable[tuple[str, str]] = (),
        client_ip: str = "",
        headers: GivenHeaders = (),
        body: bytes = b"",
        state: Mapping[str, Json] | None = None,
        phase: Phase = Phase.REQUEST,
        response_status: int | None = None,
        raw_query: str | None = None,
        body_unseen: bool = False,
    ) -> RequestContext:
        """A context from outside; InvalidRequest names the first thing that HTTP does not know."""
        params = query_params.items() if isinstance(query_params, Mapping) else query_params
        context = cls(
            method,
            path,
            scheme,
            authority,
            tuple(params),
            client_ip,
            Headers(headers),
            bytes(body),
            _state(state),
            phase,
            response_status,
            raw_query,
            body_unseen,
        )
        _check(context)
        return context

    def with_changes(self, headers: Headers, body: bytes, state: State) -> RequestContext:
        return RequestContext(
            self.method,
            self.path,
            self.scheme,
            self.authority,
            self.query_params,
            self.client_ip,
            headers,
            body,
            state,
            self.phase,
            self.response_status,
            self.raw_query,
            self.body_unseen,
        )


def _state(given: Mapping[str, Json] | None) -> State:
    try:
        return State(given)
    except CodecError as error:
        raise InvalidRequest(f"the state is {error}", suggestion="send JSON values") from None


def _check(context: RequestContext) -> None:
    if not is_token(context.method):
        raise _invalid("the method is no token")
    for name in ("path", "scheme", "authority", "raw_query", "client_ip"):
        text = getattr(context, name) or ""
        if len(text) > URL_CHARS_MAX or not _READABLE(text):
            raise _invalid(f"`{name}` is too long, or holds white space or control characters")
    if not all(_LEGAL_TEXT(name) and _LEGAL_TEXT(value) for name, value in context.query_params):
        raise _invalid("a query parameter holds a control character")
    _check_headers(context.headers)
    status = context.response_status
    if (status is None) is (context.phase is Phase.RESPONSE):
        raise _invalid("the response phase, and no other, has a response status")
    if status is not None and not 100 <= status <= 599:
        raise _invalid(f"{status} is no status of a response")


def _check_headers(headers: Headers) -> None:
    if len(headers) > CHAIN_HEADERS_MAX:
        raise _invalid(f"there are more than {CHAIN_HEADERS_MAX} headers")
    for name, value in headers:
        if not is_token(name):
            raise _invalid("the name of a header is no token; pseudo headers have fields of their own")
        if not is_value(value):
            raise _invalid(f"header `{name}` holds a control character")
    if headers.size_bytes() > CHAIN_HEADERS_BYTES_MAX:
        raise _invalid(f"the headers have more than {CHAIN_HEADERS_BYTES_MAX} bytes")


def _invalid(detail: str) -> InvalidRequest:
    return InvalidRequest(detail, suggestion="send what the proxy received, split into its parts")
