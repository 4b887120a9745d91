"""A frame that no text leaves, at any width, and a question within it."""

from __future__ import annotations

import re

from hypothesis import example, given
from hypothesis import strategies as st

from agent_gate.doors.cli.question import (
    COLUMNS_MIN,
    Asked,
    Section,
    ending,
    framed,
    in_full,
    in_short,
    width,
    wrapped,
)
from agent_gate.model.visible import visible, visible_lines
from tests.unit.model.test_visible import TEXT

SIGNS = ("╭─ ", "├─ ", "╰─ ", "│ ", "┊ ")


def asked(**fields: object) -> Asked:
    made: dict[str, object] = {
        "agent_id": "bot",
        "tool": "fs.write",
        "project": "default",
        "signatures": ("fs.write(/a)",),
        "given": {},
        "reasons": (),
    }
    return Asked(**(made | fields))  # type: ignore[arg-type]


@given(TEXT, TEXT, st.integers(COLUMNS_MIN, 120))
def test_no_text_leaves_the_frame(name: str, text: str, columns: int) -> None:
    reasons = ({"layer": "rules", "text": text},)
    written = ({"change": "changed", "path": text, "diff": f"--- a\n+++ b\n+{text}"},)
    question = asked(
        agent_id=text, tool=name, signatures=(text, name), given={name: text, "n": [text]}, reasons=reasons,
        written=written,
    )  # fmt: skip
    for row in (*in_full(question, columns), *in_short(question, columns, 6), *ending(visible(text), columns)):
        assert row.startswith(SIGNS)
        assert width(row) <= columns
        assert row.count("\u2068") == row.count("\u2069")
        assert not re.search("[ ─\u2068][\u0300-\u036f]", row), "no mark lies over the frame"


@given(TEXT, st.integers(COLUMNS_MIN // 4, 40))
@example("\u21e5\u0301", COLUMNS_MIN // 4)
@example("\u21e5" + 4 * "\u0301", COLUMNS_MIN // 4)
def test_a_line_that_is_broken_is_whole_when_put_together(text: str, columns: int) -> None:
    line = visible(text)
    parts = list(wrapped(line, columns))
    assert all(width(part) <= columns for part in parts)
    assert "".join(parts).replace("\u2069\u2068", "") == line.replace("\u2069\u2068", "")


@given(TEXT)
def test_without_a_terminal_each_line_is_a_row(text: str) -> None:
    rows = in_full(asked(given={"a": text}), None)
    assert len(rows) == 3 + len(visible_lines(text)[0])


def test_what_goes_on_with_a_line_cannot_pass_for_a_line() -> None:
    rows = list(framed("t", [Section("", [("name", ["x" * 30, "y"])])], 30))
    assert rows == ["╭─ t", f"│ name │ {'x' * 19}", f"│      ┊ {'x' * 11}", "│      │ y"]


def test_a_name_is_broken_within_its_column() -> None:
    rows = list(framed("t", [Section("", [("n" * 10, ["v"])])], 24))
    assert rows == ["╭─ t", "│ nnnnnn │ v", "│ nnnn   │ "]


def test_a_text_is_told_apart_from_the_value_that_looks_like_it() -> None:
    shown = [in_full(asked(given={"x": value}), 80)[-1] for value in ("1", 1, "true", True)]
    assert shown == ["│ x │ 1", "│ x (JSON) │ 1", "│ x │ true", "│ x (JSON) │ true"]


def test_of_many_names_of_a_call_the_first_are_said_again_below_it() -> None:
    rows = in_short(asked(signatures=tuple(f"s{number}" for number in range(9))), 80, 10)
    assert rows[1:] == ["│ s0", "│ s1", "│ s2", "├─ … more above"]
    assert len(in_short(asked(signatures=("x" * 200,)), 24, 6)) == 6
