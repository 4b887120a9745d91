"""Tests of what commands print: safe text, JSON, colour only where it is wanted."""

from __future__ import annotations

import io
import json
import sys

import pytest

from agent_gate.doors.cli import screen
from agent_gate.model.visible import visible_difference


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return terminal


def test_a_word_has_its_colour_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    _terminal(monkeypatch)
    assert screen.paint("deny ") == "\x1b[31mdeny \x1b[0m"
    assert screen.paint("other") == "other"


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_colour_can_be_refused(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    terminal = _terminal(monkeypatch)
    monkeypatch.setenv(name, value)
    screen.print_table(("what", "answer"), [("x", "deny")], empty="none")
    assert "\x1b[" not in screen.paint("deny") + terminal.getvalue()


def test_there_is_no_colour_where_no_terminal_is(capsys: pytest.CaptureFixture[str]) -> None:
    screen.say(screen.paint("deny"))
    assert capsys.readouterr().out == "deny\n"


def test_a_table_without_a_terminal_is_aligned_text(capsys: pytest.CaptureFixture[str]) -> None:
    screen.print_table(("a", "bb"), [("long", None), ("x", 2)], empty="none")
    assert capsys.readouterr().out == "a     bb\nlong\nx     2\n"


def test_a_table_on_a_terminal_shows_markup_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _terminal(monkeypatch)
    screen.print_table(("a", "b"), [("[red]x[/red]", "deny")], empty="none")
    assert "[red]x[/red]" in terminal.getvalue()
    assert "\x1b[31mdeny" in terminal.getvalue()


def test_an_empty_table_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    screen.print_table(("a",), [], empty="no calls")
    assert capsys.readouterr().out == "no calls\n"


def test_json_is_spread_over_lines_only_for_people(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _terminal(monkeypatch)
    screen.print_json({"a": 1})
    assert terminal.getvalue() == '{\n  "a": 1\n}\n'


def test_bytes_that_are_not_utf8_become_json_that_can_be_read() -> None:
    value = {"\udcff": ["a\ud800", {"b": ("\udcfe",)}]}
    assert json.loads(screen.encoded(value)) == {"?": ["a?", {"b": ["?"]}]}


def test_closed_output_takes_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    screen.say("x")
    screen.print_json({})
    screen.print_table(("a",), [("x",)], empty="")


def test_a_long_value_stays_in_its_column_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _terminal(monkeypatch)
    monkeypatch.setenv("NO_COLOR", "1")
    screen.print_fields([("why", "word " * 20), ("call", "x" * 100)])
    assert terminal.getvalue().splitlines() == [
        "  why   " + " ".join(["word"] * 14),
        "        " + " ".join(["word"] * 6),
        "  call  " + "x" * 100,
    ]


def test_a_value_is_one_line_where_no_terminal_is(capsys: pytest.CaptureFixture[str]) -> None:
    screen.print_fields([("why", "word " * 40), ("none", None), ("empty", "")])
    assert capsys.readouterr().out == "  why  " + "word " * 40 + "\n"


def test_a_diff_is_shown_line_by_line_and_holds_no_escape(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _terminal(monkeypatch)
    screen.print_fields([("why", "\n".join(visible_difference("it differs:\n-a\tb\n+\x1b[2J\r\u202e")))])
    assert terminal.getvalue().splitlines()[1:] == [
        "       \x1b[31m-a⇥   b\x1b[0m",
        "       \x1b[32m+⟨U+001B⟩[2J⟨U+000D U+202E⟩\x1b[0m",
    ]
