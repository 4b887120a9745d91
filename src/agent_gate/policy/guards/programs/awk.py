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
_OPENERS = frozenset({"|", "|&", "@", ">>"})
_STATEMENT_ENDS = frozenset({";", "\n", "{", "}"})
_VALUE_KINDS = frozenset({"string", "number", "name"})
_KEYWORDS = frozenset({"print", "printf", "return", "in", "else", "do", "case", "delete", "exit"})
_AFTER_VALUE = frozenset({"]", "$", "++", "--"})
_BEFORE_CONDITION = frozenset({"if", "while", "for", "switch"})
_FORBIDDEN = re.compile(
    r"(?<![A-Za-z0-9_])(system|getline|ARGV|ARGC|SYMTAB|FUNCTAB|PROCINFO)(?![A-Za-z0-9_])", re.ASCII
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
    """The names that open a door are refused wherever they stand, in case awk divides its text otherwise than this."""
    forbidden = _FORBIDDEN.search(program)
    if forbidden:
        raise Refused(f"its program uses `{forbidden[1]}`")
    reader, at = _Reader(), 0
    while at < len(program):
        if program[at] == "/" and not reader.after_value:
            found = _REGEX.match(program, at)
            reader.after_value = True
        else:
            found = _TOKEN.match(program, at)
            if found and found.lastgroup != "blank":
                reader.take(found.group(), str(found.lastgroup))
        if found is None:
            raise Refused("its program cannot be read with certainty")
        at = found.end()


class _Reader:
    """Knows where in a program a slash divides and where it opens an expression, and where `>` opens a file."""

    def __init__(self) -> None:
        self.after_value = False
        self._printing = False
        self._previous = ""
        self._open: list[bool] = []
        """For each open bracket whether it holds a condition, after which a statement begins."""

    def take(self, text: str, kind: str) -> None:
        if text in _OPENERS or (text == ">" and self._printing and not self._open):
            raise Refused(f"`{text}` in its program would start a program or open a file")
        self.after_value = (kind in _VALUE_KINDS and text not in _KEYWORDS) or text in _AFTER_VALUE
        if text in ("(", "["):
            self._open.append(self._previous in _BEFORE_CONDITION)
        elif text in (")", "]"):
            if not self._open:
                raise Refused("its program cannot be read with certainty")
            self.after_value = not self._open.pop()
        elif text in _PRINT:
            self._printing = True
            self._check_outside(text)
        elif text in _STATEMENT_ENDS and text != "\n":
            self._printing = False
            if text != ";":
                self._check_outside(text)
        elif text == "\n" and not self._open:
            self._printing = False
        self._previous = text

    def _check_outside(self, text: str) -> None:
        if self._open:
            raise Refused(f"its program has `{text}` inside of brackets")
