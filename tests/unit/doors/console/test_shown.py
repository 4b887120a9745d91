"""How values look on a page: nothing an agent writes can hide, move or pretend."""

from __future__ import annotations

import unicodedata
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_gate.doors.console.shown import (
    Room,
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
    return Read(value_shown(text)).text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain text, two  blanks\n\nand lines", "plain text, two  blanks\n\nand lines"),
        ("Grüße – 100 % ok, 日本語 🎉", "Grüße – 100 % ok, 日本語 🎉"),
        ("<b>bold</b> & 'quotes' \"too\"", "<b>bold</b> & 'quotes' \"too\""),
        ("a\u202etxt.exe", "a«⟨U+202E⟩»txt.exe"),
        ("start" + " " * 6000 + "; rm", "start«⟨U+0020×6000⟩»; rm"),
        ("a" + "\n" * 50 + "b", "a\n«⟨U+000A×50⟩»\nb"),
        ("f(אב, 100, 9)", "f(«אב», 100, 9)"),
        ("\U000e0041\ud800", "«⟨U+E0041 U+D800⟩»"),
    ],
)
def test_what_is_odd_is_marked_and_the_rest_stays(text: str, expected: str) -> None:
    assert shown(text) == expected


def test_what_stands_within_a_line_keeps_no_blanks_and_no_breaks() -> None:
    assert Read(agent_text("a  b\nc")).text == "a«⟨U+0020×2⟩»b«⟨U+000A⟩»c"


@given(st.text(alphabet=st.characters(codec=None), max_size=200))
def test_no_text_becomes_markup_or_stays_invisible(text: str) -> None:
    for markup in (agent_text(text), value_shown(text)):
        read = Read(markup)
        assert read.tags <= {("span", "odd"), ("bdi", "")}
        assert not [c for c in markup if unicodedata.category(c) in ("Cc", "Cf", "Co", "Cs", "Cn") and c != "\n"]


@given(st.text(alphabet="ab<>&\"'", max_size=60))
def test_what_is_not_odd_can_be_read_back(text: str) -> None:
    assert shown(text) == text


def test_what_has_no_room_is_counted_and_leads_to_the_rest() -> None:
    room = Room(50)
    assert Read(value_shown("x" * 30, room)).text == "x" * 30
    assert value_shown("y" * 30, room, "/console/calls/1?of=args") == (
        "y" * 20 + '<a class="more" href="/console/calls/1?of=args&amp;from=20">… 10 more characters</a>'
    )
    assert value_shown("z", room, "agent-gate state show") == (
        '<span class="more">… 1 more characters: agent-gate state show</span>'
    )
    assert Read(value_shown("\u200bx" * 100_000)).text.endswith("more characters»")
    assert len(value_shown("\u200bx" * 500_000)) < 150_000


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
