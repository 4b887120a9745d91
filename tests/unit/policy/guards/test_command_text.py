"""Commands as text: words by POSIX quoting, and what only a shell could mean."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_gate.policy.guards.command_text import TextError, Words, words_of

SHELL = shutil.which("dash") or shutil.which("sh")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ls -la", ["ls", "-la"]),
        ("  ls \t x \n", ["ls", "x"]),
        ("", []),
        ("a 'b c' d", ["a", "b c", "d"]),
        ("""a "b c"'d'e""", ["a", "b cde"]),
        ("a '' b", ["a", "", "b"]),
        (r"a\ b \'", ["a b", "'"]),
        (r'"\$5 \\ \` \n"', [r"$5 \ ` \n"]),
        ('"two$"', ["two$"]),
        ("'$(x) `y` ;'", ["$(x) `y` ;"]),
        ("a $ b*?[c]{d,e}#f!", ["a", "$", "b*?[c]{d,e}#f!"]),
        ("ü\u3000x", ["ü\u3000x"]),
    ],
)
def test_words_are_split_as_a_shell_would_and_nothing_is_expanded(text: str, words: list[str]) -> None:
    assert words_of(text) == Words(words)


@pytest.mark.parametrize(
    ("text", "operator"),
    [
        ("a;b", ";"),
        ("a && b || c", "&&"),
        ("a | b", "|"),
        ("a |& b", "|&"),
        ("a & b", "&"),
        ("a > b", ">"),
        ("a 2>>b", ">>"),
        ("a <<< b", "<<<"),
        ("a\nb", "\n"),
        ("a\rb", "\r"),
        ("a\\\nb", "\\\n"),
        ("a `b`", "`"),
        ("a $(b)", "$("),
        ("a ${b}", "${"),
        ("a $'b'", "$'"),
        ('a $"b"', '$"'),
        ('a "b $(c)"', "$("),
        ('a "b `c`"', "`"),
        ('a "$x ${c}"', "${"),
        ('a "\\\\$(c)"', "$("),
        ("a \x01", "\x01"),
    ],
)
def test_what_a_shell_would_act_on_is_noted(text: str, operator: str) -> None:
    assert words_of(text).operator == operator


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("cat ~/x y~", {"~/x"}),
        ("cat $HOME/x '$HOME/y'", {"$HOME/x"}),
        ('cat "a $b c" "$"', {"a $b c"}),
        (r"cat \~/x \$HOME", set()),
        ("echo $1 $$ $?", {"$1", "$$", "$?"}),
    ],
)
def test_words_that_a_shell_would_replace_in_part_are_noted(text: str, expanded: set[str]) -> None:
    assert words_of(text).expanded == expanded
    assert words_of(text).operator == ""


@pytest.mark.parametrize("text", ["'a", '"a', "a 'b", 'a "b\\"', "a\\", "$'a"])
def test_a_text_whose_quoting_never_ends_has_no_words(text: str) -> None:
    with pytest.raises(TextError):
        words_of(text)


@pytest.mark.skipif(SHELL is None, reason="no shell to compare with")
@given(st.text(alphabet="ab '\"\\$`;~-*|&<>{}=", max_size=12))
def test_where_nothing_is_noted_a_real_shell_reads_the_same_words(text: str) -> None:
    """What is noted is refused, so there nothing can differ; comments and patterns are left out of the comparison."""
    try:
        words, operator, expanded = words_of(f"printf %s\\\\0 {text}")
    except TextError:
        return
    if operator or expanded:
        return
    assert SHELL is not None
    script = f"set -f; printf '%s\\0' {text}"
    told = subprocess.run([SHELL, "-c", script], capture_output=True, check=True, env={}).stdout.decode()
    assert told.split("\0")[:-1] == (words[2:] or [""])


@given(st.text(max_size=200))
def test_any_text_has_words_or_is_refused(text: str) -> None:
    try:
        words = words_of(text).words
    except TextError:
        return
    assert all(isinstance(word, str) for word in words)
