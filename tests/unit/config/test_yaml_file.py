"""YAML is read as plain values with their lines, and nothing surprising, huge or looping gets through."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from agent_gate.config import ConfigError, load_yaml, parse_yaml
from agent_gate.config.yaml_file import EmptyFileError


def problems_of(text: str | bytes) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as refused:
        parse_yaml(text, "f.yaml")
    return refused.value.problems


def bomb(levels: int, width: int, leaf: str) -> str:
    lines = [f"l0: &l0 [{leaf}]"]
    lines += [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * width)}]" for n in range(1, levels)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: true\nb: FALSE", {"a": True, "b": False}),
        ("a:\nb: ~\nc: null", {"a": None, "b": None, "c": None}),
        ("[0, 7, -3, +4, 9007199254740991]", [0, 7, -3, 4, 9007199254740991]),
        ("[1.5, -0.25, 1e3, .5, 2., 1.5E-3]", [1.5, -0.25, 1000.0, 0.5, 2.0, 0.0015]),
        ("[yes, no, on, off, y, n, Yes, NO]", ["yes", "no", "on", "off", "y", "n", "Yes", "NO"]),
        ("[1:30, 08:00, 010, 0o7, 0x1F, 1_000]", ["1:30", "08:00", "010", "0o7", "0x1F", "1_000"]),
        ("[2026-11-15, 2026-11-15T06:00:00Z, .inf, .nan, 1.2.3]", None),
        ("['1', \"true\", 'null', '']", ["1", "true", "null", ""]),
        ("a: |\n  x\n  y\nb: >-\n  x\n  y", {"a": "x\ny\n", "b": "x y"}),
        ("a: &x [1, {b: 2}]\nc: *x", {"a": [1, {"b": 2}], "c": [1, {"b": 2}]}),
        ("---\na: 1\n...\n", {"a": 1}),
        ("\ufeffa: 1", {"a": 1}),
        ("%YAML 1.2\n---\na: 1", {"a": 1}),
        ('"on": 1\n"1": 2\non2: 3', {"on": 1, "1": 2, "on2": 3}),
        ("just text", "just text"),
        ("{}", {}),
        ("~", None),
        ('"${A}: {x: 1}"', "${A}: {x: 1}"),
    ],
)
def test_plain_values_are_those_of_yaml_1_2(text: str, expected: Any) -> None:
    if expected is None and text != "~":
        expected = [word.strip(" []") for word in text.split(",")]
    value = parse_yaml(text, "f.yaml").value
    assert (value, repr(value)) == (expected, repr(expected))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 1\nb: 2\na: 3\n", "f.yaml:3: a: given twice, first in line 1; keep one"),
        ("x:\n  - {k: 1, 'k': 2}\n", "f.yaml:2: x[0].k: given twice, first in line 2; keep one"),
        ("a: !!str 1\n", "f.yaml:1: a: tags (`!…`) are not used here; write the plain value"),
        ("a: ! b\n", "f.yaml:1: a: tags (`!…`) are not used here; write the plain value"),
        ("a: [!x {}]\n", "f.yaml:1: a[0]: tags (`!…`) are not used here; write the plain value"),
        ("!!set {a: b}\n", "f.yaml:1: tags (`!…`) are not used here; write the plain value"),
        ("b: &b {x: 1}\n<<: *b\n", 'f.yaml:2: ["<<"]: merge keys (`<<`) are not used here; write the fields out'),
        ("1: x\n", "f.yaml:1: 1: a key must be text; write it in quotes"),
        ("true: x\n", "f.yaml:1: true: a key must be text; write it in quotes"),
        ("~: x\n", 'f.yaml:1: ["~"]: a key must be text; write it in quotes'),
        ("[a]: x\n", "f.yaml:1: a key must be text"),
        ("? {a: b}\n: x\n", "f.yaml:1: a key must be text"),
        ("k: &k x\n*k : y\n", "f.yaml:2: a key must be text"),
        ("a: 1\n---\nb: 2\n", "f.yaml:2: a second document; keep one to a file, without `---` between parts"),
        ("---\n---\n", "f.yaml:2: a second document; keep one to a file, without `---` between parts"),
        ("a: *nobody\n", "f.yaml:1: the anchor of this alias is not defined above"),
        ("a: &a [1, *a]\n", "f.yaml:1: the anchor of this alias stands inside itself"),
        ("a: 9007199254740992\n", "f.yaml:1: a: integer exceeds 53-bit range; write it in quotes if it is a name"),
        ("a: 1e999\n", "f.yaml:1: a: number is too large; write it in quotes if it is a name"),
        ("a: [1\n", "f.yaml:2: not valid YAML: did not find expected ',' or ']'"),
        ("a: {b: ${PORT}}\n", """expected ',' or '}'; inside {…} and […] write it in quotes: "${PORT}\""""),
        ("a: 1\nb: {c: [${steps.one.data.x}, 2]}\n", 'write it in quotes: "${steps.one.data.x}"'),
        ("a: b: c\n", "f.yaml:1: not valid YAML: mapping values are not allowed in this context"),
        ("a: \x00\n", "f.yaml:1: not valid YAML"),
        ("a\tb: \t- c\n - d\n", "f.yaml:1: not valid YAML: block sequence entries"),
        ('"\\ud800": 1', "f.yaml:1: not valid YAML: found invalid Unicode character escape code"),
    ],
)
def test_what_would_surprise_is_refused_with_its_line(text: str, expected: str) -> None:
    (problem,) = problems_of(text)
    assert expected in problem


@pytest.mark.parametrize(
    "text", ['"\\ud800": 1', "a: &a [*a]", "[" * 100_000, "a: !x 1", "a: 1\na: 2", "a: [", "\0", bomb(9, 9, "x")]
)
def test_the_parser_in_python_is_as_strict_as_the_one_in_c(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.delattr(yaml, "CSafeLoader")
    assert len(problems_of(text)) == 1


def test_all_such_problems_are_told_at_once() -> None:
    assert problems_of("a: 1\na: 2\nb: !x y\n<<: {}\n") == (
        "f.yaml:2: a: given twice, first in line 1; keep one",
        "f.yaml:3: b: tags (`!…`) are not used here; write the plain value",
        'f.yaml:4: ["<<"]: merge keys (`<<`) are not used here; write the fields out',
    )


def test_problems_without_end_are_cut() -> None:
    assert len(problems_of("a: 1\n" * 10_000)) == 21


@pytest.mark.parametrize("text", ["", " \n\n", "# only a comment\n", "---\n", "---\n...\n", "\ufeff"])
def test_an_empty_file_is_refused(text: str) -> None:
    with pytest.raises(EmptyFileError, match=r"f\.yaml: the file is empty"):
        parse_yaml(text, "f.yaml")


@pytest.mark.parametrize("text", [b"\xff\xfea\x00", b"a: \x80", "a: \ud800", "a: 1".encode("utf-32")])
def test_only_utf_8_is_read(text: str | bytes) -> None:
    assert len(problems_of(text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        bomb(10, 9, "x"),
        bomb(30, 2, "x"),
        bomb(9, 9, "{a: b}"),
        "a: &a {x: 1}\n"
        + "".join(f"k{n}: &k{n} {{p: *{p}, q: *{p}}}\n" for n, p in enumerate(["a"] + [f"k{i}" for i in range(20)])),
        f"a: &a {'x' * 100_000}\nb: [{', '.join(['*a'] * 20)}]",
        f"a: &a {{{'k' * 900_000}: 1}}\nb: [*a, *a]",
        f"a: &a [x]\nb: [{', '.join(['*a'] * 6_000)}]",
        "[" * 33 + "]" * 33,
        "[" * 500_000,
        "{a: " * 200_000,
        "- " * 400_000,
        "? " * 400_000,
        "a: &a " + "[" * 20 + "]" * 20 + "\nb: " + "[" * 15 + "*a" + "]" * 15,
        "a: " + "9" * 900_000,
        "a: 1e" + "9" * 900_000,
        "x" * 2_000_000,
        "- x\n" * 300_000,
    ],
    ids=range(17),
)
def test_text_that_explodes_is_refused_in_no_time(text: str) -> None:
    started = time.process_time()
    problems = problems_of(text)
    assert time.process_time() - started < 5
    assert all(len(problem) < 200 for problem in problems)


@pytest.mark.parametrize(
    "text", ["- x\n" * 250_000, "[" + "a, " * 330_000 + "]", "'" + "''" * 500_000 + "'", "#" * 1_000_000 + "\na: 1"]
)
def test_large_plain_files_are_read_in_linear_time(text: str) -> None:
    started = time.process_time()
    parse_yaml(text, "f.yaml")
    assert time.process_time() - started < 5


def test_depth_up_to_the_bound_is_read() -> None:
    assert parse_yaml("[" * 32 + "]" * 32, "f.yaml").value != []


def test_lines_are_those_of_the_keys_and_items() -> None:
    document = parse_yaml("# c\na:\n  - x\n  - b: 1\n    c:\n      d\nq: *nope\n".replace("*nope", "z"), "f.yaml")
    places: list[tuple[str | int, ...]] = [(), ("a",), ("a", 0), ("a", 1), ("a", 1, "b"), ("a", 1, "c"), ("q",)]
    assert [document.line_of(place) for place in places] == [2, 2, 3, 4, 4, 5, 7]
    assert [document.where(("a", 1, "b")), document.where(("a", 9)), document.where(("q", "x"))] == [
        "f.yaml:4: a[1].b",
        "f.yaml:2: a[9]",
        "f.yaml:7: q.x",
    ]


def test_a_field_below_an_alias_is_found_in_the_line_of_its_anchor() -> None:
    document = parse_yaml("a: &a\n  - x: 1\nb: *a\n", "f.yaml")
    assert [document.line_of(("b",)), document.line_of(("b", 0, "x"))] == [3, 2]


def test_odd_keys_are_quoted_in_messages() -> None:
    (problem,) = problems_of('"a b\\u202e": {"x": 1, "x": 2}\n')
    assert problem == 'f.yaml:1: ["a b⟨U+202E⟩"].x: given twice, first in line 1; keep one'


def test_a_missing_file_is_named_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        load_yaml(tmp_path / "policy.yaml")
    assert str(refused.value) == (
        f"config: {tmp_path}/policy.yaml: no such file; check the path, or write one with `agent-gate init`"
    )


@pytest.mark.parametrize("path", [".", "/", "a\x00b", "/dev/zero", "x" * 5000, "/proc/self/mem"])
def test_what_is_not_a_readable_file_is_a_config_error(path: str) -> None:
    with pytest.raises(ConfigError):
        load_yaml(path)


def test_a_path_object_and_a_pipe_are_read(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text("a: 1\n")
    assert load_yaml(file).value == {"a": 1}
    read, write = os.pipe()
    os.write(write, b"a: 2\n")
    os.close(write)
    assert load_yaml(f"/dev/fd/{read}").value == {"a": 2}
    os.close(read)


@given(
    st.text(max_size=100)
    | st.binary(max_size=100)
    | st.text(st.sampled_from("ab:-[]{},&*!|>'\"%#?~<0 \n\t"), max_size=60)
)
def test_any_text_is_a_document_or_a_config_error(text: str | bytes) -> None:
    try:
        parse_yaml(text, "f.yaml")
    except ConfigError as refused:
        assert all("\n" not in problem for problem in refused.problems)  # noqa: PT017  # either answer is right
