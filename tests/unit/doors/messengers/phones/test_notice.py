"""What a phone shows of a question: all of it, in plain text, or that it is more."""

from __future__ import annotations

from html import unescape

from hypothesis import given
from hypothesis import strategies as st
from jinja2 import Environment

from agent_gate.doors.messengers.phones.notice import plain, render
from tests.unit.doors.messengers.questions import a_question

TRICKY = st.text(alphabet=st.sampled_from("{}%#<>&;\\n \t\n\u202e\u00a0amplt│U+0")) | st.text()


@given(TRICKY)
def test_text_says_the_same_after_templates_and_markup_were_read(text: str) -> None:
    shown = plain(text)
    assert Environment(autoescape=False).from_string(shown).render() == shown
    assert unescape(shown) == shown
    assert "<" not in shown
    assert "\\" not in shown
    assert shown == " ".join(shown.split(" ")).strip(" ")
    assert len(shown.splitlines()) <= 1


@given(TRICKY, TRICKY)
def test_every_line_that_an_agent_had_a_hand_in_is_framed(name: str, value: str) -> None:
    notice = render(a_question(args={name: value}, signatures=(f"mail.send({value})",), reasons=()))
    first, *framed, last = notice.text.split("\n")
    assert first.startswith("bot of carol in home asks")
    assert framed
    assert all(line.startswith("│ ") for line in framed)
    assert last == "Answer before 2026-03-04 12:15 UTC."


def test_arguments_are_shown_in_full_the_sensitive_ones_first_and_with_their_kind() -> None:
    args = {"n": 5, "s": "5", "e": "", "d": {"a": [1, "x"]}, "s: 5\n": "6", "to": "anna"}
    notice = render(a_question(args=args, signatures=("t(5)",), sensitive=("to",), reasons=()))
    assert notice.complete
    assert notice.text == (
        "bot of carol in home asks:\n│ t(5)\n│ to: anna\n│ n (JSON): 5\n│ s: 5\n│ e (empty)\n"
        '│ d (JSON): {"a":[1,"x"]}\n│ "s: 5⟨U+005C⟩n": 6\nAnswer before 2026-03-04 12:15 UTC.'
    )


def test_what_takes_more_lines_than_a_phone_shows_is_not_complete() -> None:
    fits = a_question(args={"text": "x" * 200}, signatures=("t",))
    assert render(fits).complete
    assert not render(a_question(args={"text": "x" * 300}, signatures=("t",))).complete
    assert not render(a_question(args={"text": "界" * 150}, signatures=("t",))).complete
    assert not render(a_question(args={f"a{n}": 1 for n in range(8)}, signatures=("t",))).complete


def test_what_stands_behind_an_endless_run_is_not_agreed_to_unseen() -> None:
    for run in (" ", "\u200b", "\n", "\u0336", "\u2068"):
        for text in (run * 100_000 + "rm", run * 1_000_000 + "rm"):
            for question in (a_question(args={"x": text}), a_question(signatures=(text,))):
                notice = render(question)
                assert not notice.complete or "rm" in notice.text


def test_a_call_that_does_not_fit_is_told_by_its_size_and_the_place_where_it_can_be_read() -> None:
    notice = render(a_question(args={"text": "x" * 5_000}, signatures=("t(" + "y" * 500 + ")",)))
    assert notice.title == "To be read: mail.send"
    assert "(9 lines fit), so it can only be denied here." in notice.text
    assert "the console, or with `agent-gate pending`" in notice.text
    assert len(notice.text) < 700


def test_how_many_agree_and_why_is_said_after_the_call() -> None:
    notice = render(a_question(approvers_required=2), ["bob"])
    assert notice.text.endswith(
        "1 of 2 have agreed (bob). Answer before 2026-03-04 12:15 UTC. Why: rules: mail.*: mail leaves the house"
    )


def test_long_reasons_are_cut_and_change_nothing_else() -> None:
    notice = render(a_question(reasons=({"layer": "rules", "text": "why " * 1_000},)))
    assert notice.complete
    assert len(notice.text) < 500


def test_what_a_command_wrote_is_shown_as_differences() -> None:
    written = [{"path": "/w/a.txt", "change": "changed", "diff": "-old\n+new"}]
    question = a_question(args={"n": 5, "wrote": written}, signatures=("t",), reasons=(), has_run=True)
    assert render(question).text == (
        "bot of carol in home asks:\n│ t\n│ n (JSON): 5\nIt has run on a copy, and would write:\n"
        "│ changed /w/a.txt\n│ -old\n│ +new\nAnswer before 2026-03-04 12:15 UTC."
    )
