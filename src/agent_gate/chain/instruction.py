"""The six things that a policy can ask for; what HTTP would not carry cannot be made into an instruction."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from agent_gate.chain.faults import InstructionError
from agent_gate.chain.headers import FRAMING, Field, GivenHeaders, Headers, is_token, is_value
from agent_gate.chain.state import encoded
from agent_gate.model.bounds import IDENTIFIER_CHARS_MAX
from agent_gate.model.codec import CodecError, restore
from agent_gate.model.tool import Json


@dataclass(frozen=True, slots=True)
class SetHeader:
    """The header has this one value from now on, whatever it had before."""

    key: str
    value: str = field(repr=False)

    def __post_init__(self) -> None:
        _check_name("SET_HEADER", self.key)
        _check_value("SET_HEADER", self.key, self.value)


@dataclass(frozen=True, slots=True)
class RemoveHeader:
    key: str

    def __post_init__(self) -> None:
        _check_name("REMOVE_HEADER", self.key)


@dataclass(frozen=True, slots=True)
class SetBody:
    body: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if type(self.body) is not bytes:
            raise InstructionError("SET_BODY: the body is not bytes", suggestion="encode it")


@dataclass(frozen=True, slots=True, init=False)
class SetState:
    """Holds the value's bytes: who made it cannot change it any more."""

    key: str
    encoded: bytes = field(repr=False)

    def __init__(self, key: str, value: Json) -> None:
        if not isinstance(key, str) or not 0 < len(key) <= IDENTIFIER_CHARS_MAX:
            raise InstructionError("SET_STATE: the key is empty or too long", suggestion="use a short name")
        try:
            data = encoded(value)
            key.encode()
        except (CodecError, UnicodeEncodeError) as error:
            raise InstructionError(f"SET_STATE of `{key!a}`: {error}", suggestion="use a JSON value") from None
        object.__setattr__(self, "key", key)
        object.__setattr__(self, "encoded", data)

    @property
    def value(self) -> Json:
        return restore(self.encoded)


@dataclass(frozen=True, slots=True, init=False)
class ImmediateResponse:
    """The answer to the caller, in place of whatever would have come from behind the chain."""

    status: int
    headers: tuple[Field, ...] = field(repr=False)
    body: bytes = field(repr=False)

    def __init__(self, status: int, headers: GivenHeaders = (), body: bytes = b"") -> None:
        if type(status) is not int or not 200 <= status <= 599:
            raise InstructionError(f"IMMEDIATE_RESPONSE: {status!a} is no final status", suggestion="use 200 to 599")
        if type(body) is not bytes:
            raise InstructionError("IMMEDIATE_RESPONSE: the body is not bytes", suggestion="encode it")
        fields = tuple(Headers(headers))
        for name, value in fields:
            _check_name("IMMEDIATE_RESPONSE", name)
            _check_value("IMMEDIATE_RESPONSE", name, value)
        object.__setattr__(self, "status", status)
        object.__setattr__(self, "headers", fields)
        object.__setattr__(self, "body", body)


@dataclass(frozen=True, slots=True)
class Continue:
    """Nothing to change."""


Instruction: TypeAlias = SetHeader | RemoveHeader | SetBody | SetState | ImmediateResponse | Continue
INSTRUCTIONS = (SetHeader, RemoveHeader, SetBody, SetState, ImmediateResponse, Continue)


def _check_name(kind: str, name: str) -> None:
    if not isinstance(name, str) or not is_token(name):
        raise InstructionError(
            f"{kind}: the name of the header is empty or no token", suggestion="use letters, digits and `-`"
        )
    if name.lower() in FRAMING:
        raise InstructionError(f"{kind}: `{name}` is the proxy's to set", suggestion="leave it out")


def _check_value(kind: str, name: str, value: str) -> None:
    if not isinstance(value, str) or not is_value(value) or value != value.strip():
        raise InstructionError(
            f"{kind}: the value of `{name}` holds what no header may hold",
            suggestion="use text without control characters and outer white space",
        )
