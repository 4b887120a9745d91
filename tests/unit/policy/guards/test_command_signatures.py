"""The signature of a command: plain words stand as they are, what could mislead is encoded."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agent_gate.policy.guards.commands import signature_of

WORD = st.text(st.characters(min_codepoint=1, max_codepoint=0x2FF), max_size=6) | st.sampled_from(
    ["", "a b", "it's", "-la", "*.py", "a%20b", "src/a.py", '"', "\\", "~", "$HOME", "a,b", "(x)", "[a]", "?"]
)


@given(st.lists(WORD, min_size=1, max_size=5))
def test_a_word_is_signed_the_same_whatever_stands_beside_it(argv: list[str]) -> None:
    beside_an_odd_one = [signature_of([word, "%"]).removeprefix("shell.run(").removesuffix(" %25)") for word in argv]
    assert signature_of(argv) == f"shell.run({' '.join(beside_an_odd_one)})"


@given(st.lists(WORD, min_size=1, max_size=3), st.lists(WORD, min_size=1, max_size=3))
def test_two_commands_never_share_a_signature(one: list[str], other: list[str]) -> None:
    assert (signature_of(one) == signature_of(other)) == (one == other)


def test_every_character_that_could_mislead_is_encoded() -> None:
    for character in "*?[](),% '\x00\x1f\x7f":
        assert signature_of([f"a{character}b"]) == f"shell.run(a%{ord(character):02X}b)"
