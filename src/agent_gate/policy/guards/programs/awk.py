"""awk: programs that only compute and print; those that start programs or open files of their own are refused."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agent_gate.policy.guards.programs.grammar import Refused, Use

_TOKEN = re.compile(
    r"""
      (?P<blank>[ \t\r]+|\\\r?\n|\#[^\n]*)
    | (?P<string>"(?:[^"\\\n]|\\.)*")
    | (?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
    | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<operator>\|\||&&|[-+*/%^<>=!]=|\+\+|--|\*\*=?|>>|\|&|!~|[-+*/%^<>=!~?:,;{}()\[\]$\n|&@])
    """,
    re.VERBOSE | re.DOTALL,
)
_REGEX = re.compile(r"/(?:[^/\\\n\[]|\\.|\[\^?\]?(?:[^\]\\\n]|\\.)*\])*/")
_PRINT = frozenset({"print", "printf"})
_STATEMENT_ENDS = frozenset({";", "\n", "{", "}"})
_VALUE_KINDS = frozenset({"string", "number", "name"})
_KEYWORDS = frozenset({"print", "printf", "return", "in", "if", "else", "while", "do", "for", "case", "delete"})
_FORBIDDEN = re.compile(
    r"(?<![A-Za-z0-9_])"
    r"(system|getline|close|fflush|ARGV|ARGC|ARGIND|SYMTAB|FUNCTAB|PROCINFO|ENVIRON|load|include|namespace)"
    r"(?![A-Za-z0-9_])"
)
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=", re.ASCII)
_FLAGS_WITH_VALUE = ("-F", "-v")


def awk(words: Sequence[str], /) -> Use:
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] != "-":
        word = words[at]
        at += 1
        if word == "--":
            break
        if word in _FLAGS_WITH_VALUE:
            at += 1
        elif not word.startswith(_FLAGS_WITH_VALUE):
            if word in ("--version", "-V") and len(words) == 1:
                return Use()
            raise Refused(f"`{word}` is not an option that it may be given")
    if at >= len(words):
        raise Refused("it has no program")
    _check(words[at])
    operands = words[at + 1 :]
    return Use(tuple(word for word in operands if word not in ("", "-") and not _ASSIGNMENT.match(word)))


def _check(program: str) -> None:
    """By tokens, and for the names that open a door also wherever they stand, in case awk divides its text otherwise."""
    forbidden = _FORBIDDEN.search(program)
    if forbidden:
        raise Refused(f"its program uses `{forbidden[1]}`")
    depth, printing, after_value = 0, False, False
    at = 0
    while at < len(program):
        found = None if program[at] == "/" and not after_value else _TOKEN.match(program, at)
        if found is None:
            regex = _REGEX.match(program, at)
            if regex is None:
                raise Refused("its program cannot be read with certainty")
            at, after_value = regex.end(), True
            continue
        at = found.end()
        kind, text = found.lastgroup, found.group()
        if kind == "blank":
            continue
        after_value = (kind in _VALUE_KINDS and text not in _KEYWORDS) or text in (")", "]", "$")
        if text in ("|", "|&", "@", ">>") or (text == ">" and printing and depth == 0):
            raise Refused(f"`{text}` in its program would start a program or open a file")
        depth += (text in ("(", "[")) - (text in (")", "]"))
        if text in _PRINT and kind == "name":
            printing, depth = True, 0
        elif text in _STATEMENT_ENDS and depth <= 0:
            printing, depth = False, 0
