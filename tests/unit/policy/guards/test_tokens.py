"""Deny tokens: whole words, or text anywhere."""

from __future__ import annotations

import pytest

from agent_gate.policy.guards.tokens import DenyTokens


@pytest.mark.parametrize(
    ("token", "argv"),
    [
        ("sudo", ["echo", "sudo"]),
        ("rm -rf", ["echo", "rm", "-rf", "x"]),
        ("rm  -rf ", ["rm", "-rf"]),
        ("git push", ["/usr/bin/git", "push"]),
        ("a.b-c_d", ["x", "a.b-c_d"]),
        ("über", ["über"]),
        (";", ["echo", "a;b"]),
        ("--output=", ["git", "--output=x"]),
        ("a b;", ["echo", "xa b;y"]),
        ("\n", ["echo", "a\nb"]),
    ],
)
def test_a_token_is_found(token: str, argv: list[str]) -> None:
    assert DenyTokens(["harmless", token]).found_in(argv) == token


@pytest.mark.parametrize(
    ("token", "argv"),
    [
        ("rm", ["ls", "format.txt", "rm.txt", "-rm"]),
        ("rm -rf", ["echo", "-rf", "rm"]),
        ("rm -rf", ["echo", "rm", "x", "-rf"]),
        ("rm -rf", ["echo", "rm -rf"]),
        ("push", ["git", "pushed"]),
        ("git push", ["git", "-C", "x", "push"]),
        (";", ["echo", "a", "b"]),
        ("   ", ["echo", "", " "]),
        ("", ["echo", ""]),
    ],
)
def test_a_token_that_is_only_a_part_is_not(token: str, argv: list[str]) -> None:
    assert DenyTokens([token]).found_in(argv) is None


def test_a_piece_is_sought_in_the_text_as_it_was_written_too() -> None:
    tokens = DenyTokens(["'"])
    assert tokens.found_in(["echo", "a b"]) is None
    assert tokens.found_in(["echo", "a b"], "echo 'a b'") == "'"


def test_two_words_do_not_make_a_piece_by_standing_side_by_side() -> None:
    assert DenyTokens(["a;"]).found_in(["a", ";"]) is None
