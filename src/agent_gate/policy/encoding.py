"""Encoding of an argument's value in a signature: readable, on one line, and never ambiguous.

A text stands as it is, with the characters that mean something in patterns and signatures percent-encoded; any
other value is its canonical JSON, encoded likewise. A text that could be mistaken for such JSON, or for an absent
argument, is written as JSON too, in quotes. So whoever undoes the encoding finds either valid JSON or a bare text.
"""

from __future__ import annotations

import re

from agent_gate.model.bounds import IDENTIFIER_CHARS_MAX
from agent_gate.model.codec import CodecError, canonical
from agent_gate.model.tool import Json

_SPECIAL = "*?\\[\\](),%\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff"
_ENCODED = re.compile(f"[{_SPECIAL}]")
_ENCODED_IN_KEY = re.compile(f"[={_SPECIAL}]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_MISTAKABLE = re.compile(r'|true|false|null|-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?|["\[{].*', re.DOTALL)
_IDENTIFIER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@/-]*")


class ArgumentError(ValueError):
    """An argument that cannot enter a signature, and what to do about it."""

    def __init__(self, detail: str, suggestion: str = "") -> None:
        super().__init__(detail)
        self.suggestion = suggestion


def encoded_value(name: str, value: Json) -> str:
    """One argument's place."""
    if isinstance(value, str) and not _MISTAKABLE.fullmatch(value):
        return _encoded(name, value, _ENCODED)
    return _json(name, value)


def encoded_only_text(name: str, value: Json) -> str:
    """The place of an argument whose schema admits nothing but text, so that text needs no quotes."""
    if not isinstance(value, str):
        raise ArgumentError(f"`{name}` must be text, not {type(value).__name__}")
    return _json(name, value) if value[:1] in ("", '"') else _encoded(name, value, _ENCODED)


def encoded_text(name: str, value: str) -> str:
    return _encoded(name, value, _ENCODED)


def _json(name: str, value: Json) -> str:
    try:
        return _encoded(name, canonical(value).decode(), _ENCODED)
    except CodecError as error:
        raise ArgumentError(f"`{name}` is {error}") from None


def encoded_key(name: str) -> str:
    """The name of an argument that the schema does not know; it ends at the first `=`."""
    return _encoded(name, name, _ENCODED_IN_KEY)


def identifier(name: str, value: Json) -> str:
    """The value as it is, if nothing in it would have to be encoded."""
    if not isinstance(value, str) or len(value) > IDENTIFIER_CHARS_MAX or not _IDENTIFIER.fullmatch(value):
        raise ArgumentError(
            f"`{name}` is not an identifier",
            f"use letters, digits and _ . : @ / -, at most {IDENTIFIER_CHARS_MAX} of them",
        )
    return value


def _encoded(name: str, text: str, characters: re.Pattern[str]) -> str:
    if not characters.search(text):
        return text
    if _SURROGATE.search(text):
        raise ArgumentError(f"`{name}` holds half of a surrogate pair")
    return text.translate(_TABLES[characters])


def _percent(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode())


# A table, because a value of a megabyte may have nothing but such characters in it.
_CANDIDATES = [*map(chr, range(0xA0)), "\u2028", "\u2029"]
_TABLES = {
    pattern: {ord(character): _percent(character) for character in _CANDIDATES if pattern.match(character)}
    for pattern in (_ENCODED, _ENCODED_IN_KEY)
}
