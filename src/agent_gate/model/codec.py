"""The one definition of JSON here: strict at the door, RFC 8785 wherever bytes are hashed."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from enum import Enum
from itertools import accumulate, count
from operator import sub
from typing import Any, NoReturn
from uuid import UUID

import orjson

from agent_gate.model.bounds import ARGS_BYTES_MAX, INTEGER_MAX, JSON_DEPTH_MAX, MESSAGE_BYTES_MAX
from agent_gate.model.tool import Json

CANONICAL_DEPTH_MAX = 254
"""Depth at which orjson stops; the slow path stops at the same level, so that both accept the same values."""

_OPTIONS = (
    orjson.OPT_SORT_KEYS
    | orjson.OPT_STRICT_INTEGER
    | orjson.OPT_PASSTHROUGH_DATACLASS
    | orjson.OPT_PASSTHROUGH_DATETIME
    | orjson.OPT_PASSTHROUGH_SUBCLASS
)

# A number with an exponent, six zeros after the point or a final zero is written otherwise by
# ECMAScript. A hit inside a string only costs time.
_UNUSUAL_NUMBER = re.compile(rb"[\[:,]-?[0-9]+(?:e|\.(?:000000|[0-9]*(?:e|0[,\]}])))").search
_ASTRAL = re.compile(rb"[\xf0-\xf4]").search
_DIGITS_AS_ZEROS = bytes.maketrans(b"123456789", b"000000000")
_STRINGS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"')
_ALL_BUT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STEPS = bytes.maketrans(b"[{]}", b"\2\2\0\0")


class CodecError(ValueError):
    """A value that is not JSON as the gate understands it; one line, without the value's content."""


def canonical(value: Json) -> bytes:
    """The RFC 8785 bytes of a value; enums and UUIDs stand as their values."""
    try:
        data = orjson.dumps(value, option=_OPTIONS)
    except TypeError as error:
        raise CodecError(f"not serialisable: {error}") from None
    unusual = _may_be_unusual(data) and _UNUSUAL_NUMBER(data)
    if unusual:
        # Most often it is a float such as 21.0, which is written as the integer that it is.
        value = _with_whole_numbers(value, CANONICAL_DEPTH_MAX)
        data = orjson.dumps(value, option=_OPTIONS)
        unusual = _UNUSUAL_NUMBER(data)
    if unusual or data[0] not in b"{[" or (not data.isascii() and _ASTRAL(data)):
        parts: list[str] = []
        _write(value, parts, 0)
        return "".join(parts).encode()
    if data.find(b"null") >= 0:  # `in` would first try whether it is a number
        _refuse_non_finite(value)
    return data


def _may_be_unusual(data: bytes) -> bool:
    """Tell whether a digit may be followed by a point or an exponent: most objects have neither, which is soon seen."""
    return data.find(b".") >= 0 or data.translate(_DIGITS_AS_ZEROS).find(b"0e") >= 0


def compact(data: bytes) -> bytes:
    """A copy for keeping: orjson leaves some four thousand bytes of room around what it writes."""
    return bytes(memoryview(data))


def part(value: Json) -> orjson.Fragment:
    """A value as it may stand within what is composed."""
    return orjson.Fragment(canonical(value))


def composed(fields: Mapping[str, Any]) -> bytes:
    """The RFC 8785 bytes of an object of texts, integers and parts; whatever may hold another number is a part."""
    try:
        return orjson.dumps(fields, option=_OPTIONS)
    except TypeError as error:
        raise CodecError(f"not serialisable: {error}") from None


def _with_whole_numbers(value: Json, depth_left: int) -> Json:
    kind = type(value)
    if kind is float:
        return int(value) if value.is_integer() and abs(value) <= INTEGER_MAX else value
    if kind is dict and depth_left:
        return {key: _with_whole_numbers(item, depth_left - 1) for key, item in value.items()}
    if kind in (list, tuple) and depth_left:
        return [_with_whole_numbers(item, depth_left - 1) for item in value]
    return value


def sha256_hex(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def hash_of(value: Json) -> str:
    return sha256_hex(canonical(value))


def restore(data: bytes) -> Json:
    """The value that canonical bytes of ours stand for; `canonical(restore(data)) == data`.

    RFC 8785 writes a float of 2**53 or more without exponent, so such digits are read as the float they were.
    """
    if _has_long_number(data):
        return json.loads(data, parse_int=_integer_or_float)
    return orjson.loads(data)


def _has_long_number(data: bytes) -> bool:
    """Tell whether sixteen digits stand in a row; inside a string that only costs time."""
    return bytes.translate(data, _DIGITS_AS_ZEROS).find(b"0000000000000000") >= 0


def normalise(value: Json, *, bytes_max: int = ARGS_BYTES_MAX, depth_max: int = JSON_DEPTH_MAX) -> tuple[Json, bytes]:
    """A deep copy in plain types of what a Python caller gave, and its canonical bytes."""
    plain = _Copier(bytes_max).copy(value, depth_max)
    data = compact(canonical(plain))
    if len(data) > bytes_max:
        raise CodecError(f"larger than {bytes_max} bytes")
    return plain, data


def weight(value: Json, enough: int) -> int:
    """At least so many bytes are needed to write a value; counting ends where it is more than enough."""
    total, waiting = 0, [value]
    while waiting and total <= enough:
        found = waiting.pop()
        total += 1
        if type(found) is str:
            total += len(found) + 1
        elif type(found) is list:
            total += len(found)
            waiting += found
        elif type(found) is dict:
            total += 4 * len(found) + sum([len(key) for key in found if type(key) is str])
            waiting += found.values()
    return total


def parse(raw: bytes | str, *, bytes_max: int = MESSAGE_BYTES_MAX, depth_max: int = JSON_DEPTH_MAX) -> Json:
    """The value of a message from outside, or CodecError; bounded before anything is built."""
    if len(raw) > bytes_max:
        raise CodecError(f"larger than {bytes_max} bytes")
    data = _encoded(raw, bytes_max) if isinstance(raw, str) else raw
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise CodecError(f"not valid JSON: {error}") from None
    if _is_deeper(data, depth_max):
        raise CodecError(f"nested deeper than {depth_max} levels")
    # Duplicate keys, of which orjson keeps the last, and integers out of range, which it makes floats.
    has_long_number = _has_long_number(data)
    if has_long_number or not _has_all_its_quotes(data, value):
        _read_again(data, _EXACT if has_long_number else _PLAIN)
    return value


def _encoded(text: str, bytes_max: int) -> bytes:
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise CodecError("not valid JSON: a lone surrogate cannot be encoded") from None
    if len(data) > bytes_max:
        raise CodecError(f"larger than {bytes_max} bytes")
    return data


def _read_again(data: bytes, decoder: json.JSONDecoder) -> None:
    """Refuses what orjson accepts."""
    try:
        decoder.decode(data.decode())
    except CodecError:
        raise
    except (ValueError, RecursionError) as error:
        raise CodecError(f"not valid JSON: {str(error) or type(error).__name__}") from None


def _has_all_its_quotes(data: bytes, value: Json) -> bool:
    """Text without escapes has as many quotes as its value written again, unless a key was dropped."""
    if data.find(b"\\") >= 0:
        return False
    try:
        return orjson.dumps(value).count(b'"') == data.count(b'"')
    except TypeError:  # nested deeper than orjson writes
        return False


def _refuse_duplicates(pairs: list[tuple[str, Json]]) -> None:
    if len(pairs) > 1 and len({key for key, _ in pairs}) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise CodecError(f"duplicate key {json.dumps(key)[:80]}")
            seen.add(key)


def _integer(text: str) -> int:
    # The length is looked at first because conversion of thousands of digits is quadratic.
    if len(text) > 17 or abs(int(text)) > INTEGER_MAX:
        raise CodecError("integer exceeds 53-bit range")
    return int(text)


def _integer_or_float(text: str) -> int | float:
    return float(text) if len(text) > 17 or abs(int(text)) > INTEGER_MAX else int(text)


_PLAIN = json.JSONDecoder(object_pairs_hook=_refuse_duplicates)
_EXACT = json.JSONDecoder(object_pairs_hook=_refuse_duplicates, parse_int=_integer)


def _is_deeper(data: bytes, depth_max: int) -> bool:
    return data.count(b"[") + data.count(b"{") > depth_max and _depth(data) > depth_max


def _depth(data: bytes) -> int:
    """Measure how deep well-formed JSON text is nested."""
    # Two for each that opens and none for each that closes, less one for each: summed up without a loop of ours.
    steps = _STRINGS.sub(b"", data).translate(_STEPS, _ALL_BUT_BRACKETS)
    return max(map(sub, accumulate(steps), count(1)), default=0)


class _Copier:
    """Copies within a budget of bytes, so that shared branches cannot multiply without bound."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.bytes_left = bytes_max

    def copy(self, value: Json, depth_left: int) -> Json:
        kind = type(value)
        self.bytes_left -= len(value) + 1 if kind is str else 1
        if self.bytes_left < 0:
            raise CodecError(f"larger than {self.bytes_max} bytes")
        if kind is str or kind is int or kind is bool or value is None or kind is float:
            return value
        if depth_left == 0:
            raise CodecError("nested too deep")
        if kind is dict or isinstance(value, Mapping):
            return {self._key(key): self.copy(item, depth_left - 1) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.copy(item, depth_left - 1) for item in value]
        raise CodecError(f"type is not JSON serialisable: {kind.__name__}")

    def _key(self, key: Any) -> str:
        if type(key) is not str:
            raise CodecError(f"keys must be text, not {type(key).__name__}")
        self.bytes_left -= len(key)
        return key


def _refuse_non_finite(value: Json) -> None:
    """orjson writes NaN and Infinity as null; the standard library refuses them, at about the same speed."""
    try:
        json.dumps(value, allow_nan=False, check_circular=False, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        _look_for_non_finite(value)


def _look_for_non_finite(value: Json) -> None:
    kind = type(value)
    if kind is dict:
        for item in value.values():
            _look_for_non_finite(item)
    elif kind is list or kind is tuple:
        for item in value:
            _look_for_non_finite(item)
    elif kind is float:
        _number(value)
    elif isinstance(value, Enum):
        _look_for_non_finite(value.value)


def _write(value: Json, parts: list[str], depth: int) -> None:
    """Appends RFC 8785 text, written by hand for the values whose sorted orjson output may differ from it."""
    match value:
        case None:
            parts.append("null")
        case True | False:
            parts.append("true" if value else "false")
        case Enum():
            _write(value.value, parts, depth)
        case str() | UUID():
            parts.append(_text(str(value)))
        case int():
            parts.append(str(value))
        case float():
            parts.append(_number(value))
        case dict():
            _enter(depth)
            _write_object(value, parts, depth + 1)
        case list() | tuple():
            _enter(depth)
            for index, item in enumerate(value):
                parts.append("," if index else "[")
                _write(item, parts, depth + 1)
            parts.append("]" if value else "[]")
        case _:
            _refuse(value)


def _write_object(value: dict[str, Json], parts: list[str], depth: int) -> None:
    # Big-endian code units compare like the UTF-16 order that RFC 8785 asks for.
    for index, key in enumerate(sorted(value, key=lambda key: key.encode("utf-16-be"))):
        parts.append("," if index else "{")
        parts.append(_text(key))
        parts.append(":")
        _write(value[key], parts, depth)
    parts.append("}" if value else "{}")


def _enter(depth: int) -> None:
    if depth >= CANONICAL_DEPTH_MAX:
        raise CodecError(f"nested deeper than {CANONICAL_DEPTH_MAX} levels")


def _refuse(value: object) -> NoReturn:
    raise CodecError(f"not serialisable: type is not JSON serialisable: {type(value).__name__}")


def _text(value: str) -> str:
    return orjson.dumps(value).decode()


def _number(value: float) -> str:
    """Number::toString of ECMAScript, from Python's shortest digits."""
    if not math.isfinite(value):
        raise CodecError("not serialisable: NaN and Infinity are not JSON")
    if value == 0:
        return "0"
    text = repr(value).removesuffix(".0")
    if "e" not in text:
        return text
    mantissa, _, power = text.partition("e")
    exponent = int(power)
    if exponent >= 21:
        return f"{mantissa}e+{exponent}"
    if exponent <= -7:
        return f"{mantissa}e{exponent}"
    sign = "-" if value < 0 else ""
    digits = mantissa.replace(".", "").removeprefix("-")
    return f"{sign}{digits:0<{exponent + 1}}" if exponent > 0 else f"{sign}0.{'0' * (-exponent - 1)}{digits}"
