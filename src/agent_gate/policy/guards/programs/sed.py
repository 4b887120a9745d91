"""sed: scripts that only edit what flows through; those that read or write files, or start programs, are refused."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress

from agent_gate.policy.guards.programs.grammar import Refused, Syntax, Use, refuse_long

# Neither -i, which writes, nor -f, whose script this does not see.
_SYNTAX = Syntax(
    "-n -E -r -s -u -z -e= -l= --quiet --silent --regexp-extended --null-data --posix --separate --unbuffered",
    "--expression= --line-length= --sandbox --debug",
)
_SCRIPT = frozenset({"-e", "--expression"})
_PLAIN = "=dDgGhHnNpPxzF"
_NUMBERED = "lqQL"
_NAMED = ":btT"
_TEXTS = "aic"
_SUBSTITUTE_FLAGS = "gpiImM0123456789"
_CLASS = re.compile(r":[a-z]+:\]")
_COLLATING = {".": ".]", "=": "=]"}
"""Endings of `[.` and `[=` within a bracket."""
_BLANK = " \t\v\f\r"


def sed(words: Sequence[str], /) -> Use:
    read = _SYNTAX.read(words)
    scripts = read.values(*_SCRIPT)
    files = read.files
    if not scripts:
        if not read.operands:
            return Use()
        scripts, files = read.operands[:1], tuple(word for word in read.operands[1:] if word != "-")
    _check("\n".join(scripts))
    return Use(files)


class _Malformed(Refused):
    """Not a script: sed will refuse it too, and do nothing."""


def _check(text: str) -> None:
    """Versions of sed differ in whether a bracket hides a delimiter; a script must be harmless either way."""
    refuse_long(text)
    _Script(text, brackets=True).check()
    if "[" in text:
        with suppress(_Malformed):
            _Script(text, brackets=False).check()


class _Script:
    """Walks through a script as sed's own reader does; whatever it does not know is refused."""

    def __init__(self, text: str, *, brackets: bool) -> None:
        self._text = text
        self._brackets = brackets
        self._at = 0
        self._depth = 0
        self._next: dict[str, int] = {}
        """Positions at which a text was last found, so that it is looked for once however often it is asked for."""

    def check(self) -> None:
        while True:
            self._skip(_BLANK + "\n;")
            if self._at >= len(self._text):
                break
            if self._peek() == "#":
                self._line()
                continue
            self._addresses()
            self._skip(_BLANK)
            while self._peek() == "!":
                self._at += 1
                self._skip(_BLANK)
            self._command()
        if self._depth:
            raise _Malformed("its script has an unclosed `{`")

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self) -> str:
        character = self._peek()
        self._at += 1
        return character

    def _skip(self, characters: str) -> None:
        while self._at < len(self._text) and self._text[self._at] in characters:
            self._at += 1

    def _line(self) -> None:
        end = self._text.find("\n", self._at)
        self._at = len(self._text) if end < 0 else end

    def _addresses(self) -> None:
        if not self._address():
            return
        self._skip(_BLANK)
        if self._peek() == ",":
            self._at += 1
            self._skip(_BLANK)
            if self._peek() in ("+", "~"):
                self._at += 1
            if not self._address():
                raise _Malformed("its script has half a range of lines")

    def _address(self) -> bool:
        first = self._peek()
        if first.isdecimal() and first.isascii():
            self._skip("0123456789")
            if self._peek() == "~":
                self._at += 1
                self._skip("0123456789")
            return True
        if first == "$":
            self._at += 1
            return True
        if first not in ("/", "\\") or not first:
            return False
        self._at += 1
        self._until(self._take() if first == "\\" else "/")
        self._skip("IM")
        return True

    def _until(self, delimiter: str, *, regex: bool = True) -> None:
        """Past the next delimiter that is neither escaped nor hidden by a bracket."""
        if delimiter in ("", "\n", "\\"):
            raise _Malformed("its script has an expression without an end")
        while True:
            character = self._take()
            if character == "\\":
                self._at += 1
            elif character == delimiter:
                return
            elif character == "[" and regex and self._brackets:
                self._bracket()
            elif not character:
                raise _Malformed("its script has an expression without an end")

    def _bracket(self) -> None:
        if self._peek() == "^":
            self._at += 1
        if self._peek() == "]":
            self._at += 1
        while True:
            character = self._take()
            if character in ("", "\n"):
                raise _Malformed("its script has a bracket without an end")
            if character == "]":
                return
            if character == "[":
                self._within_bracket()

    def _within_bracket(self) -> None:
        """Past a class or a collating element, in which a `]` ends nothing; any other `[` is a character."""
        named = _CLASS.match(self._text, self._at)
        if named:
            self._at = named.end()
            return
        closing = _COLLATING.get(self._peek())
        if closing is None:
            return
        end = self._find(closing, self._at + 1)
        if end < self._find("\n", self._at):
            self._at = end + len(closing)

    def _find(self, text: str, start: int) -> int:
        if self._next.get(text, -1) < start:
            found = self._text.find(text, start)
            self._next[text] = len(self._text) + (text != "\n") if found < 0 else found
        return self._next[text]

    def _command(self) -> None:
        name = self._take()
        if name == "{":
            self._depth += 1
            return
        if name == "}":
            self._depth -= 1
            if self._depth < 0:
                raise _Malformed("its script closes a `}` that was never opened")
        elif name == "s":
            delimiter = self._take()
            self._until(delimiter)
            self._until(delimiter, regex=False)
            self._skip(_SUBSTITUTE_FLAGS)
            if self._peek() in ("e", "w"):
                raise Refused(f"the flag `{self._peek()}` of its command `s` would start a program or write a file")
        elif name == "y":
            delimiter = self._take()
            self._until(delimiter, regex=False)
            self._until(delimiter, regex=False)
        elif name and name in _TEXTS:
            self._text_argument()
            return
        elif name and name in _NAMED:
            self._skip(_BLANK)
            while self._peek() not in ("", "\n", ";", "}") and self._peek() not in _BLANK:
                self._at += 1
        elif name and name in _NUMBERED:
            self._skip(_BLANK)
            self._skip("0123456789")
        elif not name or name not in _PLAIN:
            raise Refused(_why_not(name))
        self._end_of_command()

    def _text_argument(self) -> None:
        """Lines up to the first that does not end in a backslash."""
        while True:
            start = self._at
            self._line()
            line = self._text[start : self._at]
            if self._at >= len(self._text) or (len(line) - len(line.rstrip("\\"))) % 2 == 0:
                return
            self._at += 1

    def _end_of_command(self) -> None:
        self._skip(_BLANK)
        after = self._peek()
        if after not in ("", "\n", ";", "}", "#"):
            raise _Malformed(f"its script has `{after}` where a command should end")


def _why_not(name: str) -> str:
    what = {"e": "start a program", "r": "read a file", "R": "read a file", "w": "write a file", "W": "write a file"}
    if name in what:
        return f"its command `{name}` would {what[name]}"
    return f"its script has the command `{name}`, which it may not be given" if name else "its script ends too early"
