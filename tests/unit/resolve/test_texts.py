"""Texts in files: which encodings are served, and how a change is shown."""

from __future__ import annotations

import time

import pytest

from agent_gate.model.errors import ToolError
from agent_gate.resolve.texts import as_bytes, as_text, difference, encoding_named


@pytest.mark.parametrize(
    ("name", "known"),
    [("utf-8", "utf-8"), ("UTF8", "utf-8"), ("latin-1", "iso8859-1"), ("cp1252", "cp1252"), ("Shift_JIS", "shift_jis")],
)
def test_character_sets_are_served_by_any_of_their_names(name: str, known: str) -> None:
    assert encoding_named(name) == known


@pytest.mark.parametrize(
    "name",
    ["zlib", "bz2", "base64", "hex", "rot13", "idna", "punycode", "unicode_escape", "utf-7", "undefined", "mbcs", "",
     "../os", "os", "x" * 1000, "utf-8\0", "a b"],
)  # fmt: skip
def test_what_else_python_calls_an_encoding_is_not_served(name: str) -> None:
    with pytest.raises(ToolError) as raised:
        encoding_named(name)
    assert raised.value.code == 2002


def test_a_text_becomes_bytes_and_comes_back() -> None:
    assert as_text(as_bytes("häh\r\n", "utf-16"), "utf-16", "x") == "häh\r\n"
    assert as_bytes("AAH/", "base64") == b"\x00\x01\xff"


@pytest.mark.parametrize(("content", "encoding"), [("é", "ascii"), ("=", "base64"), ("a b", "base64"), ("é", "base64")])
def test_a_text_that_an_encoding_cannot_hold_is_a_bad_argument(content: str, encoding: str) -> None:
    with pytest.raises(ToolError) as raised:
        as_bytes(content, encoding)
    assert raised.value.code == 2002


def test_bytes_that_are_no_text_are_told_with_the_way_out() -> None:
    with pytest.raises(ToolError, match=r"`x` is not utf-8: .*; name its encoding, or read it as binary"):
        as_text(b"\xff", "utf-8", "x")


def test_a_change_is_shown_as_a_diff() -> None:
    assert difference(b"a\nb\nc\n", b"a\nB\nc\n", "then", "now") == (
        "--- then\n+++ now\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c"
    )


def test_only_a_line_feed_ends_a_line_so_that_no_change_is_left_out() -> None:
    said = difference(b"# off\x0crm x\nb\n", b"# off\nrm x\nB\n", "then", "now")
    assert said == "--- then\n+++ now\n@@ -1,2 +1,3 @@\n-# off\x0crm x\n-b\n+# off\n+rm x\n+B"
    assert difference(b"a\n", b"a\r\n", "then", "now").endswith("\n-a\n+a\r")
    assert difference(b"a\nb\n", b"a\nb", "then", "now").endswith("\n a\n-b\n+b\n\\ no LF at the end")
    assert difference(b"", b"b", "then", "now").endswith("\n+b")


def test_a_change_of_bytes_alone_is_shown_by_size_and_hash() -> None:
    assert difference(b"\xff", b"a\n", "then", "now").startswith("then: 1 bytes, sha256 a8100ae6aa1940d0b663")
    assert difference(b"a" * 300_000, b"b", "then", "now").startswith("then: 300000 bytes")


def test_a_change_in_many_lines_is_one_hunk() -> None:
    old = [f"line {number}" for number in range(2_000)]
    new = [*old[:1_000], "other", *old[1_002:]]
    assert difference("\n".join(old).encode(), "\n".join(new).encode(), "then", "now") == (
        "--- then\n+++ now\n@@ -1001,2 +1001,1 @@\n-line 1000\n-line 1001\n+other"
    )


def test_a_long_diff_is_cut() -> None:
    text = difference(b"", b"\n".join(b"x" * 100 for _ in range(300)), "then", "now")
    assert len(text) < 8_500
    assert "\n… (cut)\n" in text
    assert text.count("sha256") == 2


@pytest.mark.parametrize("lines", [399, 100_000])
def test_no_diff_takes_long(lines: int) -> None:
    old = b"".join(b"%d\n" % (number % 7) for number in range(lines))
    new = b"".join(b"%d\n" % (number * 3 % 11) for number in range(lines))
    started = time.process_time()
    difference(old, new, "then", "now")
    assert time.process_time() - started < 5
