"""Headers, addresses and changes as Envoy's messages hold them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import parse_qsl

from agent_gate.chain.context import Phase, RequestContext
from agent_gate.chain.faults import InvalidRequest
from agent_gate.chain.headers import Field
from agent_gate.chain.instruction import Instruction, RemoveHeader, SetBody, SetHeader
from agent_gate.chain.state import State
from agent_gate.doors.policy_agent.proto import envoy_pb2 as pb

_QUERY_PARAMS_MAX = 1_000


@dataclass(frozen=True, slots=True)
class Request:
    """The line and the headers of a request; its body may come later."""

    method: str
    target: str
    scheme: str
    authority: str
    client_ip: str
    headers: Sequence[Field]

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def id(self) -> str:
        return next((value for name, value in self.headers if name == "x-request-id"), "")

    @property
    def is_upgrade(self) -> bool:
        """Tell whether what follows the headers is no body, but another protocol."""
        return self.method == "CONNECT" or any(name.lower() == "upgrade" for name, _ in self.headers)

    def context(self, body: bytes, *, body_unseen: bool = False) -> RequestContext:
        """In the request phase."""
        return self._context(self.headers, body, body_unseen=body_unseen)

    def response_context(self, status: int, headers: Sequence[Field], body: bytes, state: State) -> RequestContext:
        """In the response phase, with what the request phase left."""
        return self._context(headers, body, state, status)

    def _context(
        self,
        headers: Sequence[Field],
        body: bytes,
        state: State | None = None,
        status: int | None = None,
        *,
        body_unseen: bool = False,
    ) -> RequestContext:
        _, mark, query = self.target.partition("?")
        return RequestContext.create(
            method=self.method,
            path=self.path,
            scheme=self.scheme,
            authority=self.authority,
            query_params=_query_params(query),
            raw_query=query if mark else None,
            client_ip=self.client_ip,
            headers=headers,
            body=body,
            body_unseen=body_unseen,
            state=state,
            phase=Phase.REQUEST if status is None else Phase.RESPONSE,
            response_status=status,
        )


def _query_params(query: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(query, keep_blank_values=True, max_num_fields=_QUERY_PARAMS_MAX)
    except ValueError:
        raise InvalidRequest("the query has too many parameters", suggestion="send fewer") from None


def request_of(headers: pb.HttpHeaders, source: str) -> Request:
    """InvalidRequest where one line says two things."""
    fields = fields_of(headers.headers.headers)
    pseudo = [(name, value) for name, value in fields if name.startswith(":")]
    line = dict(pseudo)
    if len(line) < len(pseudo):
        raise InvalidRequest("a pseudo header comes twice", suggestion="send each once")
    authority = line.get(":authority", "")
    return Request(
        line.get(":method", ""),
        line.get(":path", ""),
        line.get(":scheme", ""),
        authority,
        host_of(source),
        without_other_hosts(without_pseudo(fields), authority),
    )


def status_of(fields: Sequence[Field]) -> int | None:
    text = next((value for name, value in fields if name == ":status"), "")
    return int(text) if len(text) == 3 and text.isascii() and text.isdigit() else None


def without_other_hosts(fields: Sequence[Field], authority: str) -> Sequence[Field]:
    """The fields; InvalidRequest where a `Host` names another authority than the one that is routed by."""
    if any(name.lower() == "host" and value != authority for name, value in fields):
        raise InvalidRequest("the request names two hosts", suggestion="send one")
    return fields


def fields_of(headers: Iterable[pb.HeaderValue]) -> list[Field]:
    """Bytes as Latin-1, as HTTP has it, so that none is lost."""
    return [(header.key, header.raw_value.decode("latin-1") or header.value) for header in headers]


def without_pseudo(fields: Iterable[Field]) -> list[Field]:
    return [field for field in fields if not field[0].startswith(":")]


def host_of(address: str) -> str:
    """`192.0.2.1:443` and `[2001:db8::1]:443` without the port."""
    host, separator, port = address.rpartition(":")
    return host.strip("[]") if separator and port.isdecimal() and (":" not in host or host.endswith("]")) else address


@dataclass(frozen=True, slots=True)
class Changes:
    """Merge the instructions of a chain: Envoy removes before it sets, whatever their order was."""

    set_headers: Sequence[Field]
    removed_headers: Sequence[str]
    body: bytes | None


def changes_of(instructions: Iterable[Instruction], given: Iterable[Field]) -> Changes:
    """Of a message with these headers: a length that was announced is announced anew where the body changes."""
    headers: dict[str, str | None] = {}
    body: bytes | None = None
    for instruction in instructions:
        match instruction:
            case SetHeader(name, value):
                headers[name.lower()] = value
            case RemoveHeader(name):
                headers[name.lower()] = None
            case SetBody():
                body = instruction.body
            case _:
                pass
    if body is not None and any(name == "content-length" for name, _ in given):
        headers["content-length"] = str(len(body))
    return Changes(
        [(name, value) for name, value in headers.items() if value is not None],
        [name for name, value in headers.items() if value is None],
        body,
    )


def raw_option(name: str, value: str, *, adds: bool = False) -> pb.HeaderValueOption:
    """For ext_proc, which takes bytes."""
    option = pb.HeaderValueOption(header=pb.HeaderValue(key=name, raw_value=_bytes(value)), keep_empty_value=True)
    if adds:
        option.append.value = True
    else:
        option.append_action = pb.HeaderValueOption.OVERWRITE_IF_EXISTS_OR_ADD
    return option


def text_option(name: str, value: str) -> pb.HeaderValueOption:
    """For ext_authz, which takes text; in an answer of its own, all values of a name that repeats."""
    return pb.HeaderValueOption(
        header=pb.HeaderValue(key=name, value=value),
        append_action=pb.HeaderValueOption.OVERWRITE_IF_EXISTS_OR_ADD,
        keep_empty_value=True,
    )


def _bytes(value: str) -> bytes:
    try:
        return value.encode("latin-1")
    except UnicodeEncodeError:
        return value.encode()
