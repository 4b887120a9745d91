"""Questions about hostile calls are shown as they are, and the handler notices where they are not."""

from __future__ import annotations

from pathlib import Path

import pytest
from markupsafe import Markup

from agent_gate.doors.cli import question
from agent_gate.doors.console import shown
from agent_gate.doors.messengers.render import Rendered
from agent_gate.model.visible import Kind
from tests.attacks import render_cases
from tests.attacks.cases import load_cases
from tests.attacks.runner import run_cases

FILES = [Path(__file__).parent / name for name in ("visible.jsonl", "own_render.jsonl")]
CASES = [case for file in FILES for case in load_cases(file) if case.family == "render"]


def failed() -> set[str]:
    return {result.case.kind for result in run_cases(CASES) if result.problem}


def test_every_case_passes() -> None:
    results = list(run_cases(CASES))
    assert [str(result) for result in results if result.problem or result.skipped] == []
    assert len(results) == 33


def test_markup_that_is_let_through_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shown, "value_shown", lambda value, *_: Markup(shown.plain(value)))
    assert {"render.html", "render.bidi", "render.invisible", "render.entity"} <= failed()


def test_what_is_cut_from_a_page_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = shown.value_shown
    monkeypatch.setattr(shown, "value_shown", lambda value, *_: whole(shown.plain(value)[:2_000]))
    assert failed() == {"render.blanks", "render.long", "render.tail"}


def test_letters_that_turn_numbers_around_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(shown._TAGS, Kind.TURNED, ("", ""))
    assert failed() == {"render.turned"}


def test_a_row_that_leaves_its_frame_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(question, "cells", lambda _: 1)
    assert failed() == {"render.frame"}


def test_a_message_that_hides_something_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def cut(question: object) -> Rendered:
        return Rendered("fs.write", complete=True)

    monkeypatch.setattr(render_cases, "render", cut)
    assert {"render.tail", "render.long", "render.benign", "render.markup"} <= failed()
