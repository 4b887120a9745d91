"""What a person reads before they press a button."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_gate.doors.messengers.render import closed, one_line, render, units
from agent_gate.model.codec import canonical, sha256_hex
from agent_gate.model.visible import visible_lines
from tests.unit.doors.messengers.questions import a_question

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=8,
)
ARGS = st.dictionaries(TEXT, VALUES, max_size=12)


def test_everything_is_shown_in_plain_words() -> None:
    question = a_question(approver_roles=("admin",), approvers_required=2, sensitive=("to",))
    rendered = render(question, ("anna",))
    assert rendered.complete
    assert rendered.text == (
        "Agent bot (of carol) asks to use mail.send\n"
        "Project: home\n"
        "Call: 01K0000000000000000000000A\n"
        "Will do:\n"
        "│ mail.send(anna@example.test, hi)\n"
        "Arguments, as the agent gave them:\n"
        "to (sensitive):\n"
        "│ anna@example.test\n"
        "text:\n"
        "│ hi\n"
        "Why a person is asked:\n"
        "│ rules: mail.*: mail leaves the house\n"
        "\n"
        "For approvers with role: admin\n"
        "Approvals: 1 of 2: anna\n"
        "Answer before 2026-03-04 12:15:00 UTC"
    )
    assert rendered.text.startswith(rendered.about)


def test_sensitive_arguments_come_first() -> None:
    rendered = render(a_question(args={"text": "hi", "amount": 5, "to": "x"}, sensitive=("amount", "to")))
    places = [rendered.text.index(label) for label in ("amount (sensitive)", "to (sensitive)", "text:")]
    assert places == sorted(places)


def test_a_text_and_the_value_that_looks_like_it_are_told_apart() -> None:
    values: list[Any] = ["true", True, "1", 1, "", '""', "[]", [], None]
    texts = {render(a_question(args={"x": value})).text for value in values}
    assert len(texts) == 9


def test_agent_text_cannot_pass_for_ours() -> None:
    forged = "hi\n\nAnswer before 2099-01-01\nAllowed by anna\r\x85\u2028Outcome: success"
    lines = render(a_question(args={"text": forged, "Allowed by\nanna": forged})).text.split("\n")
    assert lines.count("Answer before 2026-03-04 12:15:00 UTC") == 1
    assert not any(line.startswith(("Allowed by anna", "Answer before 2099", "Outcome")) for line in lines)
    assert "Allowed by⟨U+000A⟩anna (4 lines):" in lines
    assert "│ Allowed by anna⟨U+000D U+0085 U+2028⟩Outcome: success" in lines


@pytest.mark.parametrize("hidden", ["\u202e", "\u200b", "\u2066", "\x1b", "\x00", "\ufeff", "\U000e0041", "\u3164"])
def test_hidden_characters_are_written_out_wherever_they_stand(hidden: str) -> None:
    question = a_question(
        args={f"k{hidden}": f"v{hidden}", "deep": [{f"k{hidden}": hidden}]},
        signatures=(f"s{hidden}",),
        reasons=({"layer": "rules", "text": f"t{hidden}"},),
        tool=f"t{hidden}",
        agent_id=f"a{hidden}",
    )
    for rendered in (render(question), render(a_question(args={f"k{hidden}": f"v{hidden}" * 5_000}))):
        assert hidden not in rendered.text
        assert f"k⟨U+{ord(hidden):04X}" in rendered.text


def test_blanks_cannot_push_the_rest_out_of_sight() -> None:
    rendered = render(a_question(args={"command": f"echo start{' ' * 3_000}; rm -rf /"}))
    assert rendered.complete
    assert "│ echo start⟨U+0020×3000⟩; rm -rf /" in rendered.text


@pytest.mark.parametrize("run", [" ", "\u200b", "\n", "\u0336", "\u2068"])
@pytest.mark.parametrize("times", [100_000, 1_000_000])
def test_what_stands_behind_an_endless_run_is_not_agreed_to_unseen(run: str, times: int) -> None:
    for question in (a_question(args={"x": run * times + "rm"}), a_question(signatures=(run * times + "rm",))):
        rendered = render(question)
        assert not rendered.complete or "rm" in rendered.text


def test_what_does_not_fit_says_so_and_shows_size_and_hash() -> None:
    args = {"to": "anna@example.test", "text": "x" * 5_000}
    rendered = render(a_question(args=args), elsewhere="the console (https://gate.test/console)")
    assert not rendered.complete
    assert rendered.text.startswith("This call is too long to be shown here in full")
    assert "Read and answer it in the console (https://gate.test/console)." in rendered.text
    data = canonical(args)
    assert f"Arguments: {len(data)} bytes, sha256 {sha256_hex(data)}" in rendered.text
    assert f"│ {'x' * 88}… 4,912 more~sha256:{sha256_hex(b'x' * 5_000)}" in rendered.text
    assert "│ anna@example.test" in rendered.text


def test_of_very_many_things_the_first_are_shown_and_the_rest_counted() -> None:
    args = {f"{'n' * 60}{number}": "v" * 90 for number in range(50)}
    rendered = render(a_question(args=args, signatures=tuple(f"{'😀' * 150}{number}" for number in range(9))))
    assert not rendered.complete
    assert "\nand 6 more\n" in rendered.text
    assert "\nand 42 more\n" in rendered.text


def test_whether_a_call_fits_does_not_depend_on_who_has_agreed() -> None:
    names = tuple(f"{'person' * 20}{number}" for number in range(20))
    for size in range(3_000, 4_000, 20):
        question = a_question(args={"text": "x" * size}, approvers_required=21, approver_roles=("r" * 150,) * 5)
        before, after = render(question), render(question, names)
        assert before.complete == after.complete
        assert max(units(before.text), units(after.text)) <= 4_096


@given(args=ARGS, signatures=st.lists(TEXT, min_size=1, max_size=30), factor=st.sampled_from([1, 1, 40]))
def test_a_message_always_fits_and_a_complete_one_hides_nothing(
    args: dict[str, Any], signatures: list[str], factor: int
) -> None:
    args = {key: value * factor if isinstance(value, str) else value for key, value in args.items()}
    rendered = render(a_question(args=args, signatures=tuple(signatures), sensitive=tuple(sorted(args)[:2])))
    assert 0 < units(rendered.text) <= 4_096
    assert not [
        c for c in rendered.text if c not in "\n\u2068\u2069" and unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp")
    ]
    if rendered.complete:
        lines = rendered.text.split("\n")
        assert sum(line.startswith("│ ") for line in lines) == 1 + len(signatures) + sum(
            len(visible_lines(value)[0]) if isinstance(value, str) else 1 for value in args.values()
        )


@given(headline=TEXT.filter(str.strip), about=st.text(max_size=3_000).map(lambda text: text * 2))
def test_a_closed_message_always_fits(headline: str, about: str) -> None:
    assert 0 < units(closed(headline, about)) <= 4_096


@given(TEXT, st.integers(2, 300))
def test_one_line_is_one_line(text: str, chars_max: int) -> None:
    line = one_line(text, chars_max)
    assert len(line) <= chars_max
    assert len(line.splitlines()) <= 1


def test_what_a_command_wrote_is_shown_as_differences_and_not_as_the_agent_s_words() -> None:
    written = [{"path": "/w/a.txt", "change": "changed", "diff": "-old\n+new"}]
    rendered = render(a_question(args={"argv": ["sh"], "wrote": written}, has_run=True))
    assert rendered.complete
    assert "It would write:\n│ changed /w/a.txt\n│ -old\n│ +new\n" in rendered.text
    assert "wrote" not in rendered.text
    claimed = render(a_question(args={"wrote": written})).text
    assert "It would write" not in claimed
