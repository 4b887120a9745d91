"""Canonical bytes are RFC 8785 exactly, and nothing doubtful passes the door."""

from __future__ import annotations

import enum
import json
import math
import random
import struct
import time
import uuid
from collections import OrderedDict
from datetime import datetime, timezone
from types import MappingProxyType
from typing import Any

import orjson
import pytest
import rfc8785
from hypothesis import example, given
from hypothesis import strategies as st

from agent_gate.model import codec
from agent_gate.model.bounds import INTEGER_MAX
from agent_gate.model.codec import CodecError, canonical, hash_of, normalise, parse, restore, sha256_hex

INTEGERS = st.integers(-INTEGER_MAX, INTEGER_MAX)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
# The planes on both sides of the surrogates, where UTF-8 and UTF-16 order differ.
KEYS = st.text(st.characters(exclude_categories=["Cs"])) | st.text(st.sampled_from("a\ud7ff\ue000\uffff\U00010000😀"))
SCALARS = st.none() | st.booleans() | INTEGERS | FLOATS | KEYS
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=20
)


def nested(depth: int, leaf: Any = 1) -> Any:
    value = leaf
    for _ in range(depth):
        value = [value]
    return value


@given(VALUES)
def test_canonical_bytes_are_those_of_the_reference_implementation(value: Any) -> None:
    assert canonical(value) == rfc8785.dumps(value)


@given(FLOATS, st.integers(-330, 330))
@example(-0.0, 0)
@example(5e-324, 0)
@example(1.7976931348623157e308, 0)
@example(333333333.3333333, 0)
@example(1.0, 21)
@example(1.0, -6)
@example(1.0, -7)
@example(1.5, -6)
@example(9.007199254740992, 15)
def test_floats_of_every_size_are_written_as_ecmascript_writes_them(number: float, exponent: int) -> None:
    scaled = number * 10.0**exponent if abs(exponent) <= 308 else number
    value = [scaled if math.isfinite(scaled) else number]
    assert canonical(value) == rfc8785.dumps(value)
    assert canonical({"n": value[0], "s": "x"}) == rfc8785.dumps({"n": value[0], "s": "x"})


def test_floats_of_random_bit_patterns_are_written_as_ecmascript_writes_them() -> None:
    source = random.Random(8785)
    numbers = [struct.unpack("<d", source.randbytes(8))[0] for _ in range(20_000)]
    numbers += [source.uniform(-1, 1) * 10.0 ** source.randint(-9, 23) for _ in range(20_000)]
    finite = [number for number in numbers if math.isfinite(number)]
    assert [canonical([number]) for number in finite] == [rfc8785.dumps([number]) for number in finite]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1.0, b"1"),
        (-0.0, b"0"),
        ({"a": -0.0}, b'{"a":0}'),
        ([10.0, 10.5, 1e21, 1e-6, 1e-7, 1e16], b"[10,10.5,1e+21,0.000001,1e-7,10000000000000000]"),
        ({"b": 1, "a": None}, b'{"a":null,"b":1}'),
        ({"\ue000": 1, "\U00010000": 2}, '{"\U00010000":2,"\ue000":1}'.encode()),
        ('\x00\x1f\x7f\u2028/\\"\b\f\n\r\t', '"\\u0000\\u001f\x7f\u2028/\\\\\\"\\b\\f\\n\\r\\t"'.encode()),
        (({}, [], ()), b"[{},[],[]]"),
        ({"hash": "a,1.50,null", "n": 2}, b'{"hash":"a,1.50,null","n":2}'),
    ],
)
def test_hard_cases_have_one_form(value: Any, expected: bytes) -> None:
    assert canonical(value) == expected


class Colour(enum.Enum):
    RED = "red"


class Odd(enum.Enum):
    NAN = math.nan


class Shade(str, enum.Enum):
    DARK = "dark"


@pytest.mark.parametrize("sibling", [1, None, 1.0], ids=["fast path", "null", "slow path"])
def test_enums_and_uuids_stand_as_their_values_on_both_paths(sibling: Any) -> None:
    value = {"c": Colour.RED, "s": Shade.DARK, "u": uuid.UUID(int=1), "x": sibling}
    plain = {"c": "red", "s": "dark", "u": "00000000-0000-0000-0000-000000000001", "x": sibling}
    assert canonical(value) == rfc8785.dumps(plain)


@pytest.mark.parametrize("sibling", [1, None, 1.0], ids=["fast path", "null", "slow path"])
@pytest.mark.parametrize(
    "bad",
    [
        math.nan,
        math.inf,
        -math.inf,
        [[math.nan]],
        (math.nan,),
        Odd.NAN,
        INTEGER_MAX + 1,
        -INTEGER_MAX - 1,
        10**400,
        "\ud800",
        {"\udfff": 1},
        {1: 2},
        {None: 1},
        b"bytes",
        {1, 2},
        datetime(2026, 1, 1, tzinfo=timezone.utc),
        object(),
        nested(codec.CANONICAL_DEPTH_MAX),
    ],
    ids=lambda bad: repr(bad).partition(" at 0x")[0][:24],
)
def test_what_has_no_canonical_form_is_refused_in_one_line(bad: Any, sibling: Any) -> None:
    with pytest.raises(CodecError) as refused:
        canonical({"bad": bad, "x": sibling})
    assert "\n" not in str(refused.value)


def test_both_paths_stop_at_the_same_depth() -> None:
    deepest = codec.CANONICAL_DEPTH_MAX
    assert canonical(nested(deepest)) == b"[" * deepest + b"1" + b"]" * deepest
    assert canonical(nested(deepest, 1.0)) == canonical(nested(deepest))
    for leaf in (1, 1.0):
        with pytest.raises(CodecError):
            canonical(nested(deepest + 1, leaf))


def test_a_value_that_holds_itself_is_refused() -> None:
    loop: list[Any] = [None]
    loop.append(loop)
    for function in (canonical, normalise):
        with pytest.raises(CodecError):
            function(loop)


def test_hashes_are_those_of_the_canonical_bytes() -> None:
    assert sha256_hex(b"") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert hash_of({"b": 1.0, "a": [2]}) == sha256_hex(b'{"a":[2],"b":1}') == hash_of({"a": (2,), "b": 1})


@given(VALUES)
@example([1e16, -1e20, 9007199254740991, -9007199254740992.0])
def test_what_canonical_wrote_restore_reads_and_canonical_writes_the_same_again(value: Any) -> None:
    data = canonical(value)
    assert canonical(restore(data)) == data


@given(VALUES)
def test_parse_reads_every_value_that_json_can_write(value: Any) -> None:
    assert parse(json.dumps(value)) == value
    assert parse(json.dumps(value, ensure_ascii=False).encode()) == value


@given(st.binary(max_size=200) | st.text(max_size=200))
def test_parse_answers_any_input_with_a_value_or_a_codec_error(raw: bytes | str) -> None:
    try:
        value = parse(raw)
    except CodecError:
        return
    assert value == json.loads(raw)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b" ",
        b"{} {}",
        b"{}x",
        b"{}\x00",
        b"\xef\xbb\xbf{}",
        "\ufeff{}",
        "{}".encode("utf-16"),
        "{}".encode("utf-32"),
        b"\xff",
        b'"\xed\xa0\x80"',
        b'"\xc0\xaf"',
        "\ud800",
        '"\ud800"',
        b'"\\ud800"',
        b'"\\udc00"',
        b'"\\ud800\\ud800"',
        b'{"\\ud800":1}',
        b"NaN",
        b"[Infinity]",
        b'{"a":-Infinity}',
        b"nan",
        b"1e400",
        b"-1e400",
        b"[1e309]",
        b"9007199254740992",
        b"-9007199254740992",
        b'{"a":18446744073709551616}',
        b"[123456789012345678901234567890]",
        b'{"a":1,"a":1}',
        b'{"a":1,"\\u0061":2}',
        b'[{"x":{"a":1,"b":2,"a":3}}]',
        b'{"":1,"":2}',
        b"{'a':1}",
        b"{a:1}",
        b"[1,]",
        b'{"a":1,}',
        b"[1 2]",
        b"01",
        b"-01",
        b"+1",
        b".5",
        b"1.",
        b"0x10",
        b"1_000",
        b"// c\n{}",
        b"/* c */{}",
        b'"\t"',
        b'"\x00"',
        b'"\\x41"',
        b'"open',
        b"[",
        b"]",
        b"True",
        b"undefined",
        b"\x0b{}",
    ],
)
def test_parse_refuses(raw: bytes | str) -> None:
    with pytest.raises(CodecError):
        parse(raw)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b' \t\r\n{"a" : 1}\n', {"a": 1}),
        (b'"\\u0061\\ud83d\\ude00\\/"', "a😀/"),
        (b"[9007199254740991,-9007199254740991,-0,1E5,1e-400]", [INTEGER_MAX, -INTEGER_MAX, 0, 1e5, 0.0]),
        (b"[0.12345678901234567890]", [0.12345678901234567890]),
        (b'{"a":{"a":{"a":1}}}', {"a": {"a": {"a": 1}}}),
        (b'["99999999999999999999", "[[[[{{{{", "\\"[", "\\\\"]', ["99999999999999999999", "[[[[{{{{", '"[', "\\"]),
        (b"null", None),
        ("é".encode().join([b'"', b'"']), "é"),
    ],
)
def test_parse_reads(raw: bytes, expected: Any) -> None:
    assert parse(raw) == expected
    assert parse(raw.decode()) == expected


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")], ids=["lists", "objects"])
def test_depth_is_bounded_exactly(opening: str, closing: str) -> None:
    def text(depth: int) -> str:
        return opening * (depth - 1) + ("[]" if opening == "[" else "{}") + closing * (depth - 1)

    parse(text(64))
    parse(text(3), depth_max=3)
    for raw, depth_max in ((text(65), 64), (text(4), 3), (text(500), 64), (text(1024), 64), (text(2000), 64)):
        with pytest.raises(CodecError):
            parse(raw, depth_max=depth_max)


def test_brackets_in_strings_and_side_by_side_are_not_depth() -> None:
    value = [["[" * 200, "{" * 200, '\\"['] for _ in range(200)]
    assert parse(json.dumps(value)) == value


def test_a_generous_depth_bound_never_ends_in_a_recursion_error() -> None:
    with pytest.raises(CodecError):
        parse("[" * 1020 + "]" * 1020, depth_max=10_000)


def test_size_is_bounded_in_bytes() -> None:
    assert parse('"ééé"', bytes_max=8) == "ééé"
    for raw in ('"ééé"', '"ééé"'.encode()):
        with pytest.raises(CodecError):
            parse(raw, bytes_max=7)


@pytest.mark.parametrize(
    "raw",
    [
        "[" * 100_000 + "]" * 100_000,
        "[" * 1_000_000,
        '{"a":' * 100_000 + "1" + "}" * 100_000,
        "9" * 10_000,
        "[" + "9" * 1_000_000 + "]",
        "-" + "9" * 1_000_000,
        "1." + "9" * 1_000_000,
        "1e" + "9" * 1_000_000,
        "0." + "0" * 1_000_000 + "1",
        "[" + "[]," * 300_000 + "[]]",
        '{"a":"' + "\\u0041" * 170_000 + '"}',
        '"' + "\\" * 1_000_000,
        '["' + '","' * 340_000 + '"]',
        "{" + ",".join(f'"{n}":[]' for n in range(90_000)) + "}",
        "{" + ",".join(f'"k":{n}' for n in range(90_000)) + "}",
        " " * 1_000_000,
    ],
    ids=lambda raw: raw[:8],
)
def test_hostile_text_is_answered_in_linear_time(raw: str) -> None:
    started = time.process_time()
    answer = ""
    try:
        parse(raw)
    except CodecError as refused:
        answer = str(refused)
    assert (len(answer) < 200, "\n" in answer) == (True, False)
    assert time.process_time() - started < 5


def test_a_duplicate_key_is_named() -> None:
    with pytest.raises(CodecError, match=r'duplicate key "path"'):
        parse(b'{"tool":"fs.read","args":{"path":"a","path":"b"}}')


@given(VALUES)
def test_normalise_copies_and_gives_the_canonical_bytes(value: Any) -> None:
    plain, data = normalise(value)
    assert orjson.dumps(plain) == orjson.dumps(value)
    assert data == canonical(value)


def test_normalise_makes_plain_types_that_share_nothing_with_the_given_value() -> None:
    inner = [1, 2.0]
    given_value = MappingProxyType({"t": (inner, inner), "o": OrderedDict(x=None), "f": True})
    plain, data = normalise(given_value)
    inner.append(3)
    assert (plain, data) == (
        {"t": [[1, 2.0], [1, 2.0]], "o": {"x": None}, "f": True},
        b'{"f":true,"o":{"x":null},"t":[[1,2],[1,2]]}',
    )
    assert [type(plain), type(plain["o"]), type(plain["t"]), type(plain["t"][0][1])] == [dict, dict, list, float]


@pytest.mark.parametrize(
    "bad",
    [
        math.nan,
        INTEGER_MAX + 1,
        "\ud800",
        {1: "x"},
        {True: "x"},
        {Shade.DARK: 1},
        Colour.RED,
        Shade.DARK,
        uuid.UUID(int=1),
        orjson.Fragment(b'{"a":1,"a":2}'),
        b"x",
        {1, 2},
        iter([]),
        nested(65),
    ],
    ids=lambda bad: repr(bad)[:24],
)
def test_normalise_refuses_what_the_door_would_not_let_in(bad: Any) -> None:
    with pytest.raises(CodecError):
        normalise({"bad": bad})


def test_normalise_stops_shared_branches_that_would_multiply() -> None:
    branch: Any = "x" * 1000
    for _ in range(40):
        branch = [branch] * 10
    started = time.process_time()
    with pytest.raises(CodecError, match="larger than"):
        normalise(branch)
    assert time.process_time() - started < 10


def test_normalise_bounds_bytes_and_depth_exactly() -> None:
    assert normalise({"a": "é"}, bytes_max=10) == ({"a": "é"}, b'{"a":"\xc3\xa9"}')
    with pytest.raises(CodecError):
        normalise({"a": "é"}, bytes_max=9)
    assert normalise(nested(64))[0] == nested(64)
    with pytest.raises(CodecError):
        normalise(nested(65))


@pytest.mark.parametrize(
    "text",
    [
        '{"a":1,"a":2}',
        '{"a":1,"a":"\\u0022\\u0022"}',
        '{"a":1,"a":"\\"\\""}',
        '{"b":{"a":[],"a":{}}}',
        '[{"a":"x"},{"a":"x","a":"xx"}]',
        '{"":0,"":0}',
    ],
)
def test_a_key_that_stands_twice_is_refused_however_many_quotes_hide_it(text: str) -> None:
    with pytest.raises(CodecError, match="duplicate key"):
        parse(text)
