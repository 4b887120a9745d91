"""How values look on a page: nothing an agent writes can hide, move or pretend."""

from __future__ import annotations

import unicodedata
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_gate.doors.console.shown import (
    agent_text,
    arguments,
    diff_lines,
    duration_ms,
    moment,
    span,
    steps,
    value_shown,
)


class Read(HTMLParser):
    """The text of a piece of markup, and its elements; marks are put in angle quotes."""

    def __init__(self, markup: str) -> None:
        super().__init__(convert_charrefs=True)
        self.text, self.tags = "", set[tuple[str, str]]()
        self.feed(markup)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add((tag, dict(attrs).get("class") or ""))
        self.text += "«"

    def handle_endtag(self, tag: str) -> None:
        self.text += "»"

    def handle_data(self, data: str) -> None:
        self.text += data


def shown(text: str) -> str:
    return Read(agent_text(text)).text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain text, two  blanks\n\nand lines", "plain text, two  blanks\n\nand lines"),
        ("Grüße – 100 % ok, 日本語 🎉", "Grüße – 100 % ok, 日本語 🎉"),
        ("<b>bold</b> & 'quotes' \"too\"", "<b>bold</b> & 'quotes' \"too\""),
        ("a\u202etxt.exe", "a«U+202E»txt.exe"),
        ("zero\u200bwidth\ufeff", "zero«U+200B»width«U+FEFF»"),
        ("\x1b[31mred\r\x00", "«U+001B»[31mred«U+000D»«U+0000»"),
        ("start" + " " * 6000 + "; rm", "start«6000 blanks»; rm"),
        ("a" + "\u3000\u00a0\t" * 20 + "b", "a«60 blanks»b"),
        ("a" + "\n" * 50 + "b", "a«49 line breaks»\nb"),
        ("a\n \n \n \n \n \nb", "a«5 line breaks»\nb"),
        ("    indented\n" + " " * 40 + "code\n\n\n", "    indented\n" + " " * 40 + "code\n\n\n"),
        ("\U000e0041\ud800", "«U+E0041»«U+D800»"),
    ],
)
def test_what_is_odd_is_marked_and_the_rest_stays(text: str, expected: str) -> None:
    assert shown(text) == expected


@given(st.text(alphabet=st.characters(codec=None), max_size=200))
def test_no_text_becomes_markup_or_stays_invisible(text: str) -> None:
    markup = agent_text(text)
    read = Read(markup)
    assert read.tags <= {("span", "odd")}
    assert not [c for c in markup if unicodedata.category(c) in ("Cc", "Cf", "Co", "Cs", "Cn") and c not in "\n\t"]


@given(st.text(alphabet="ab <>&\"'\n", max_size=60))
def test_what_is_not_odd_can_be_read_back(text: str) -> None:
    if " " * 41 not in text and "\n" not in text:
        assert shown(text) == text


def test_sensitive_arguments_come_first_and_secrets_are_known_as_such() -> None:
    made = arguments({"a": 1, "pin": {"$secret": "00"}, "to": "x", "long": "y" * 601}, ("to", "absent"))
    assert [(one.name, one.sensitive, one.is_secret) for one in made] == [
        ("to", True, False), ("a", False, False), ("pin", False, True), ("long", False, False),
    ]  # fmt: skip
    assert [one.size for one in made] == ["", "", "", "601 characters"]
    assert [one.kind for one in arguments({"a": None, "b": True, "c": 1.5, "d": "", "e": [], "f": {}})] == [
        "null", "true or false", "number", "text", "list", "object",
    ]  # fmt: skip
    assert arguments({"a": "x\n" * 20})[0].size == "40 characters, 21 lines"


def test_a_difference_tells_what_was_there_before() -> None:
    operations: list[dict[str, Any]] = [
        {"op": "replace", "path": "/n", "value": 2},
        {"op": "remove", "path": "/gone"},
        {"op": "add", "path": "/list/0", "value": "x"},
        {"op": "replace", "path": "/list/0/odd", "value": 1},
        {"op": "move", "from": "/a", "path": "/b"},
        {"op": "replace", "path": "", "value": {}},
    ]
    told = [(s.sign, s.word, s.path, s.before, s.after) for s in steps(operations, {"n": 1, "gone": [0], "list": []})]
    assert told == [
        ("~", "changed", "/n", 1, 2),
        ("−", "removed", "/gone", [0], None),
        ("+", "added", "/list/0", None, "x"),
        ("~", "changed", "/list/0/odd", None, 1),
        ("•", "move from /a", "/b", None, None),
        ("~", "changed", "(the whole state)", {"n": 1, "gone": [0], "list": []}, {}),
    ]
    assert not any(step.has_before for step in steps(operations))


def test_lines_of_a_diff_are_told_apart() -> None:
    lines = diff_lines("--- a\n+++ b\n@@ -1 +1 @@\n-old\n+<b>\n same")
    assert [kind for kind, _ in lines] == ["file", "file", "place", "removed", "added", "same"]
    assert lines[4][1] == "+&lt;b&gt;"


@pytest.mark.parametrize(
    ("seconds", "text"), [(-5, "0 s"), (59.9, "59 s"), (60, "1 min 0 s"), (3_725, "1 h 2 min"), (90_000, "1 d 1 h")]
)
def test_a_span_has_its_two_largest_units(seconds: float, text: str) -> None:
    assert span(seconds) == text


def test_moments_and_durations() -> None:
    assert moment(1_772_625_600.0) == "2026-03-04 12:00:00"
    assert moment(None) == "–"
    start = "2026-03-04T12:00:00.000000Z"
    assert duration_ms(start, "2026-03-04T12:00:00.250000Z") == "250 ms"
    assert duration_ms(start, "2026-03-04T12:01:05.000000Z") == "1 min 5 s"
    assert duration_ms(None, start) == ""


def test_values_that_are_no_text_are_shown_as_json() -> None:
    assert value_shown({"a": [1, "<"]}) == "{\n  &#34;a&#34;: [\n    1,\n    &#34;&lt;&#34;\n  ]\n}"
