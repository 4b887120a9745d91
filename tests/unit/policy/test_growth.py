"""Whatever reads an agent's text takes work that grows with the text, not with its square."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import pytest

from agent_gate.model.codec import CodecError, canonical, normalise, parse
from agent_gate.model.errors import GateError
from agent_gate.model.references import References
from agent_gate.model.visible import visible
from agent_gate.policy.aliases import aliases_of
from agent_gate.policy.encoding import encoded_text
from agent_gate.policy.expression import ExpressionError, compile_expression
from agent_gate.policy.guards.command_aliases import aliases_of_command
from agent_gate.policy.guards.command_text import TextError, words_of
from agent_gate.policy.guards.commands import signature_of
from agent_gate.policy.guards.headers import agent_headers
from agent_gate.policy.guards.path_patterns import compile_patterns, normal
from agent_gate.policy.guards.programs import PROGRAMS, Refused
from agent_gate.policy.guards.tokens import DenyTokens
from agent_gate.policy.guards.urls import parse_url
from agent_gate.policy.patterns import matcher
from agent_gate.policy.pointers import pointer_of
from agent_gate.policy.signature import shown
from agent_gate.tools.by_name import build_signature
from agent_gate.tools.catalogue import BUILTIN
from tests.growth import grows_linearly

EXPECTED = (GateError, Refused, TextError, CodecError, ExpressionError, ValueError)

Reader = Callable[[str], object]
GLOBS = ("*a*b*", "*[ab]*c", "?*?*x", "/**/a/**/b", "*.*.*", "*%2F*%2F*")
PATHS = compile_patterns(("**/a/*/b", "./**/*.x", "/etc/**/s*d*w", "/**/[ab]*"), "/w", {}, denies=True)
TOKENS = DenyTokens(["rm -rf", "a b a b", "x", "/etc/"])


def words(*before: str) -> Callable[[str], Sequence[str]]:
    return lambda text: [*before, text]


def program(name: str, *before: str) -> Reader:
    return lambda text: PROGRAMS[name]([*before, text])


def program_of_many(name: str, *before: str) -> Reader:
    """The text as many words."""
    return lambda text: PROGRAMS[name]([*before, *[text[at : at + 3] for at in range(0, len(text), 3)]])


DISTINCT = {id(reads): name for name, reads in PROGRAMS.items()}.values()
"""One name of each."""
READERS: dict[str, Reader] = {
    **{name: program(name) for name in DISTINCT},
    **{f"{name} with many words": program_of_many(name) for name in DISTINCT},
    **{f"{name} after --": program_of_many(name, "--") for name in ("grep", "tar", "find", "jq")},
    **{f"git {verb}": program("git", verb) for verb in ("log", "show", "diff", "grep", "config", "ls-files", "blame")},
    **{f"git {verb} with many words": program_of_many("git", verb) for verb in ("log", "diff", "show", "grep")},
    "git -c": program("git", "-c"),
    "sed -e": program("sed", "-e"),
    "sed s": lambda text: PROGRAMS["sed"]([f"s/[{text}"]),
    "sed s with an end": lambda text: PROGRAMS["sed"]([f"s/[{text}]/x/"]),
    "awk expression": lambda text: PROGRAMS["awk"]([f"/{text}/"]),
    "awk string": lambda text: PROGRAMS["awk"]([f'BEGIN {{ x = "{text}" }}']),
    "awk brackets": lambda text: PROGRAMS["awk"](["(" * (len(text) // 2) + "1" + ")" * (len(text) // 2)]),
    "command text": words_of,
    "command text quoted": lambda text: words_of(f'"{text}"'),
    "command signature": lambda text: signature_of(words("a")(text)),
    "command aliases": lambda text: aliases_of_command(["git", *text.split("a")], "/usr/bin/git"),
    "deny tokens": lambda text: TOKENS.found_in(text.split("a"), text),
    "url": lambda text: parse_url(f"https://example.org/{text}"),
    "url query": lambda text: parse_url(f"https://example.org/?{text}"),
    "url host": lambda text: parse_url(f"https://{text}.org/"),
    "headers": lambda text: agent_headers({"x-a": text}),
    "path": normal,
    "path patterns": lambda text: [pattern.matches(f"/w/{text}") for pattern in PATHS],
    "pointer": pointer_of,
    "dotted pointer": lambda text: pointer_of(f"a{text}"),
    "text in a signature": lambda text: encoded_text("a", text),
    "signature": lambda text: build_signature("t", {"a": text}),
    "signature shown": shown,
    "state aliases": lambda text: aliases_of(
        BUILTIN["state.patch"], {"patch": [{"op": "add", "path": text, "value": 1}]}
    ),
    "expression": compile_expression,
    "references": lambda text: References({"g": 1}).filled(text),
    "visible": visible,
    "json": parse,
    "json text": lambda text: parse(canonical(text)),
    "json list": lambda text: canonical([*text]),
    "json numbers": lambda text: canonical([1e21 + at for at in range(len(text))]),
    "json object": lambda text: normalise({f"{at}{text[at]}": at for at in range(len(text))}),
    **{f"glob {glob}": matcher(glob) for glob in GLOBS},
}
UNITS = (
    'a', '0', ' ', '-', '--a', '-a', '/', 'a/', '../', './', '\\', '\\\\', '"', "'", '[', ']', '[.', '[=', '[:a:]',
    '[[.', '[^]', '{', '}', '{}', '(', ')', '()', '$', '${', '${steps.g.data}', '${steps.g.data.0', '$(', '`', '*',
    '**/', '?', '%', '%2', '%2F', '%41', ':', '::', ':/', ':(', ':!', '@', '@{', '~', '~0', '~1', '^', '^{', '..',
    '...', '.', 'a.', ',', ';', '&', '|', '=', '==', 'a=', '#', '\n', '\\\n', 'a\n', 's/a/b/;', 's/[/]/b/;', 'a\\\n',
    '{p', '1,', '!', '/[/', '/[[:', 'b a', '\xe9', '\u202e', '\u0336', '\U0001f600', '\ud800', 'print ', 'x=1;',
    'if(', 'not ', 'a and ', '1+', '-e', '--x=y ', '//', '/a', 'b*',
)  # fmt: skip


def _read(reader: Reader, text: str) -> None:
    try:
        reader(text)
    except EXPECTED:
        return


def _repeated(reader: Reader, unit: str, times: int) -> None:
    _read(reader, unit * times)


@pytest.mark.parametrize("name", READERS)
def test_reading_grows_with_the_text(name: str) -> None:
    reader = READERS[name]
    found = [unit for unit in UNITS if not grows_linearly(partial(_repeated, reader, unit), 30)]
    assert found == []
