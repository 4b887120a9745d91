"""Text of agents as people see it: the one function that every door, page and log draws with."""

from __future__ import annotations

import json
import unicodedata
from itertools import product

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent_gate.model.invisible import DEFAULT_IGNORABLE, is_invisible
from agent_gate.model.visible import (
    Kind,
    drawn,
    visible,
    visible_difference,
    visible_json,
    visible_lines,
    visible_typed,
    visible_words,
    written_out,
)

TRICKY = st.text(
    st.sampled_from("ab1 \t\n\r\u00a0\u3000\u200b\u202e\u2068\u2069\u0336\u0301\ufe0f\u17b4\u3164אבשم٣é漢😀⟨⟩⇥│U+\x1b")
)
TEXT = TRICKY | st.text()
ISOLATES = "\u2068\u2069"


def test_no_default_ignorable_character_is_drawn() -> None:
    for first, last in DEFAULT_IGNORABLE:
        for number in range(first, last + 1):
            assert visible(f"a{chr(number)}b") == f"a⟨U+{number:04X}⟩b"


def test_every_character_is_drawn_or_written_out() -> None:
    for number in range(0x110000):
        character = chr(number)
        shown = visible(f"a{character}b")
        if is_invisible(character) or (unicodedata.category(character) == "Zs" and character != " "):
            assert shown == f"a⟨U+{number:04X}⟩b"
        else:
            assert shown.strip(ISOLATES) in (f"a{character}b", f"a\u2068{character}\u2069b")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("one two", "one two"),
        ("echo start" + " " * 3_000 + "; rm -rf /", "echo start⟨U+0020×3000⟩; rm -rf /"),
        (" a ", "⟨U+0020⟩a⟨U+0020⟩"),
        ("a\u00a0b\u2003c", "a⟨U+00A0⟩b⟨U+2003⟩c"),
        ("a\n\n  b\t", "a⟨U+000A×2 U+0020×2⟩b⟨U+0009⟩"),
        ("a\u202eb\u200dc\x1b[31m\r", "a⟨U+202E⟩b⟨U+200D⟩c⟨U+001B⟩[31m⟨U+000D⟩"),
        ("❤\ufe0f\U000e0041", "❤⟨U+FE0F U+E0041⟩"),
        ("\u17b4\u17b5\u3164\uffa0\u115f", "⟨U+17B4 U+17B5 U+3164 U+FFA0 U+115F⟩"),
        ("x" + "\u0336" * 500, "x" + "\u0336" * 4 + "⟨U+0336×496⟩"),
        ("\u0336a \u0336b\u200b\u0336", "⟨U+0336⟩a ⟨U+0336⟩b⟨U+200B U+0336⟩"),
        ("e\u0301 Việt", "e\u0301 Việt"),
        ("f(אב, 100, 9)", "f(\u2068אב\u2069, 100, 9)"),
        ("שלום עולם 5", "\u2068שלום עולם\u2069 5"),
        ("٣٤, ١٢", "\u2068٣٤\u2069, \u2068١٢\u2069"),
        ("אב٣", "\u2068אב\u2069\u2068٣\u2069"),
    ],
)
def test_what_could_be_missed_is_written_out(text: str, shown: str) -> None:
    assert visible(text) == shown


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("def f():\n    return 1  # one\n", ["def f():", "    return 1  # one", ""]),
        ("all:\n\tcc -o a\n", ["all:", "⇥   cc -o a", ""]),
        ("a\tb", ["a⇥   b"]),
        ("end \t\nx ", ["end⟨U+0020 U+0009⟩", "x⟨U+0020⟩"]),
        (" " * 40 + "x", [" " * 40 + "x"]),
        (" " * 41 + "x", ["⟨U+0020×41⟩x"]),
        ("x" + " " * 8 + "y" + " " * 9 + "z", ["x        y⟨U+0020×9⟩z"]),
        ("a\n\n\nb", ["a", "", "", "b"]),
        ("a\n\n\n\nb", ["a", "⟨U+000A×4⟩", "b"]),
        ("a\r\nb\u2028c", ["a⟨U+000D⟩", "b⟨U+2028⟩c"]),
    ],
)
def test_a_file_keeps_its_lines_and_its_indentation(text: str, lines: list[str]) -> None:
    assert visible_lines(text) == (lines, 0)


@given(TEXT)
@example("\u2068א\u2069\u2068a\u2069")
def test_text_that_was_written_out_stays_as_it_is(text: str) -> None:
    shown = visible(text)
    assert visible(shown) == shown
    lines = "\n".join(visible_lines(text)[0])
    assert "\n".join(visible_lines(lines)[0]) == lines


def test_every_short_order_of_kinds_of_characters_is_drawn() -> None:
    """A letter of each kind beside each other, isolates and blanks at every seam: none ends the drawing."""
    kinds = "a \u05d0\u0663\u2068\u2069\u0301\u200b\n"
    for text in map("".join, product(kinds, repeat=5)):
        shown = visible(text)
        assert visible(shown) == shown
        lines = "\n".join(visible_lines(text)[0])
        assert "\n".join(visible_lines(lines)[0]) == lines


@given(TEXT)
def test_nothing_invisible_stays_and_no_blank_beside_another(text: str) -> None:
    shown = visible(text)
    assert not [c for c in shown if is_invisible(c) and c not in ISOLATES]
    assert shown == " ".join(shown.split())
    for line in visible_lines(text)[0]:
        assert not [c for c in line if is_invisible(c) and c not in ISOLATES]
        assert line == line.rstrip()
        assert " " * 41 not in line
        assert " " * 9 not in line.lstrip(" ⇥")


@given(TEXT)
def test_what_runs_from_right_to_left_is_isolated_and_holds_no_number_of_ours(text: str) -> None:
    inside, depth = "", 0
    for character in visible(text):
        depth += {"\u2068": 1, "\u2069": -1}.get(character, 0)
        assert depth in (0, 1)
        if depth == 0:
            assert unicodedata.bidirectional(character) not in ("R", "AL", "AN")
        elif character != "\u2068":
            inside += character
    assert not any(unicodedata.bidirectional(c) in ("L", "EN", "ON", "CS", "ES", "ET") for c in inside)


@given(TEXT, st.booleans())
def test_every_character_counts_once(text: str, in_a_file: bool) -> None:
    assert sum(piece.chars for piece in drawn(text, in_a_file=in_a_file).pieces) == len(text)


@given(TEXT, st.integers(1, 60), st.booleans())
def test_what_does_not_fit_is_counted(text: str, room: int, in_a_file: bool) -> None:
    cut = drawn(text, room, in_a_file=in_a_file)
    assert len(cut.text) <= room
    assert cut.left_out == len(text) - sum(piece.chars for piece in cut.pieces)
    assert drawn(text, in_a_file=in_a_file).text.startswith(cut.text[:-1])
    assert len(visible(text, room)) <= room


def test_a_line_that_is_cut_says_how_much_there_is_more() -> None:
    assert visible("x" * 1_000, 50) == "x" * 38 + "… 962 more"
    assert visible("x" * 50, 50) == "x" * 50
    assert visible("x" * 1_000, 5) == "xxxx…"


def test_of_a_run_that_is_endless_so_much_is_counted_as_is_looked_at() -> None:
    shown = drawn("a" + "\u200b" * 1_000_000 + "b", 100)
    assert shown.text == "a⟨U+200B×4895⟩"
    assert shown.left_out == 995_106


def test_the_pieces_say_what_they_are() -> None:
    kinds = [(piece.kind, piece.text) for piece in drawn("a\u200bא\nb", in_a_file=True).pieces]
    assert kinds == [
        (Kind.PLAIN, "a"),
        (Kind.ODD, "⟨U+200B⟩"),
        (Kind.TURNED, "א"),
        (Kind.BREAK, "\n"),
        (Kind.PLAIN, "b"),
    ]


def test_any_character_can_be_written_out() -> None:
    assert written_out("<") == "⟨U+003C⟩"
    assert written_out("  {") == "⟨U+0020×2 U+007B⟩"


@pytest.mark.parametrize("part", ["x y", "\u200bz", "a\u0336", "אב 1", "漢", "a  b", "x" * 500])
@pytest.mark.parametrize("times", [1, 1_365, 1_366, 5_000])
def test_long_text_is_drawn_like_short_text(part: str, times: int) -> None:
    """However a text is taken apart for speed."""
    unit = visible(f"-{part}-")
    assert visible(f"-{part}-" * times) == unit * times


def test_a_line_of_a_difference_that_has_no_sign_is_drawn_from_its_beginning() -> None:
    assert visible_difference("+\n\u2068\n\u202ex\n+\u202ex\n") == ["+", "⟨U+2068⟩", "⟨U+202E⟩x", "+⟨U+202E⟩x", ""]


@given(TEXT)
def test_json_for_a_terminal_is_the_same_json_without_what_could_not_be_seen(text: str) -> None:
    document = json.dumps({"text": text}, ensure_ascii=False, indent=2)
    shown = visible_json(document)
    assert json.loads(shown) == {"text": text}
    assert not any(is_invisible(character) for character in shown.replace("\n", ""))


@given(TEXT)
def test_words_stand_on_one_line_one_blank_apart(text: str) -> None:
    assert visible_words(text) == visible(" ".join(text.split()))
    assert visible_words("a \n b" * 1_000, 20) == visible("a b" * 1_000, 20)


@given(TEXT)
def test_what_a_person_typed_keeps_its_blanks_and_breaks(text: str) -> None:
    shown = visible_typed(text)
    assert not any(is_invisible(character) for character in shown if character not in "\n\t\r")
    assert shown == text or any(is_invisible(character) for character in text)
