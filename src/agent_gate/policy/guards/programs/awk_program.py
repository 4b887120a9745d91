"""awk's programs: read in every way in which some awk may read them, and harmless in each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

from agent_gate.policy.guards.programs.grammar import Refused, names, refuse_long

_TOKEN = re.compile(
    r"""
      (?P<blank>[ \t]+|\\\n|\#[^\n]*)
    | (?P<string>"(?:[^"\\\n]|\\.)*")
    | (?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
    | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<operator>\|\||&&|[-+*/%^<>=!]=|\+\+|--|\*\*=?|>>|\|&|!~|[-+*/%^<>=!~?:,;{}()\[\]$\n|&@])
    """,
    re.VERBOSE | re.DOTALL,
)
_BRACKET = re.compile(r"\[\^?(?:[^\]\[\\/\n]|\[:[a-z]+:\])+\]")
"""A bracket of an expression whose end is the same to every awk."""
_FORBIDDEN = re.compile(
    r"(?<![A-Za-z0-9_])(system|getline|ARGV|ARGC|SYMTAB|FUNCTAB|PROCINFO)(?![A-Za-z0-9_])", re.ASCII
)
_PRINT = frozenset({"print", "printf"})
_OPENERS = frozenset({"|", "|&", "@", ">>"})
_CLOSED_BY = {")": "(", "]": "[", "}": "{"}
_BEFORE_CONDITION = frozenset({"if", "while", "for", "switch"})
_WORDS = names(
    "BEGIN END BEGINFILE ENDFILE function func print printf return in else do case default delete exit next nextfile",
    "break continue if while for switch length rand srand int substr index split sub gsub gensub match sprintf sin cos",
    "atan2 exp log sqrt tolower toupper close fflush strftime systime mktime and or xor compl lshift rshift asort",
    "asorti patsplit strtonum typeof isarray",
)
"""Names that are no variables: whether a slash after one of them divides, not every awk agrees upon."""
_STATES_MAX = 2_000
_OPEN_MAX = 100
_TIMES_READ_MAX = 8
"""Number of times that a program may be read over before it counts as one that nobody can read."""
_UNCERTAIN = "its program cannot be read with certainty"


class _After(Enum):
    """Tokens before a slash that decide what the slash is."""

    OPERATOR = "an expression between slashes"
    VALUE = "a division"
    EITHER = "one or the other"


class _State(NamedTuple):
    """The point that a reading has come to."""

    at: int = 0
    after: _After = _After.OPERATOR
    previous: str = ""
    printing: bool = False
    open: tuple[str, ...] = ()
    """The brackets that are open; a condition's, after which a statement begins, as `?`."""


class _Malformed(Exception):
    """No awk would run what is read this way."""


def check(program: str) -> None:
    """Refused for what starts programs, opens files or chooses its own input, in whichever way it is read.

    The names that open a door are refused wherever they stand, in strings too.
    """
    refuse_long(program)
    forbidden = _FORBIDDEN.search(program) or _FORBIDDEN.search(program.replace("\\\n", ""))
    if forbidden:
        raise Refused(f"its program uses `{forbidden[1]}`")
    reading = _Reading(program)
    waiting, met, is_program = [_State()], {_State()}, False
    while waiting:
        try:
            following = reading.follow(waiting.pop())
        except _Malformed:
            continue
        is_program = is_program or not following
        new = [state for state in following if state not in met]
        met.update(new)
        waiting += new
        if len(met) > _STATES_MAX:
            raise Refused(_UNCERTAIN)
    if not is_program:
        raise Refused(_UNCERTAIN)


class _Reading:
    """Reads one program, for as long as that is worth it."""

    def __init__(self, program: str) -> None:
        self._program = program
        self._left = _TIMES_READ_MAX * (len(program) + 100)

    def follow(self, state: _State) -> list[_State]:
        """The states after the next slash at which readings part; none at the end of the program."""
        program = self._program
        while state.at < len(program):
            if program[state.at] == "/" and state.after is not _After.VALUE:
                ways = [state._replace(at=end, after=_After.VALUE, previous="/") for end in self._ends(state.at)]
                if state.after is _After.EITHER:
                    ways.append(state._replace(after=_After.VALUE))
                if not ways:
                    raise _Malformed
                return ways
            state = self._take(state)
        if state.open:
            raise _Malformed
        return []

    def _ends(self, start: int) -> Iterator[int]:
        """Find where an expression that begins with a slash can end: awks differ in what a bracket hides."""
        program, at, is_certain = self._program, start + 1, True
        while at < len(program) and program[at] != "\n":
            self._spend(1)
            bracket = _BRACKET.match(program, at) if is_certain and program[at] == "[" else None
            if bracket:
                at = bracket.end()
                continue
            if program[at] == "/":
                yield at + 1
                if is_certain:
                    return
            if program[at] == "[":
                is_certain = False
            elif program[at] == "\\":
                if program[at + 1 : at + 2] == "\n":
                    raise Refused(_UNCERTAIN)
                at += is_certain
            at += 1

    def _take(self, state: _State) -> _State:
        found = _TOKEN.match(self._program, state.at)
        if found is None:
            if self._program[state.at] == '"' and self._program.find("\n", state.at) >= 0:
                raise Refused(_UNCERTAIN)
            raise _Malformed
        text, kind = found.group(), str(found.lastgroup)
        self._spend(len(text))
        state = state._replace(at=found.end())
        if kind == "blank":
            if text.startswith("#") and text.endswith("\\"):
                raise Refused(_UNCERTAIN)
            return state
        _refuse_openers(text, state)
        is_condition = text == "(" and state.previous in _BEFORE_CONDITION
        state = state._replace(printing=_is_printing(text, state), after=_after(text, kind), previous=text)
        if text in ("(", "[", "{"):
            if len(state.open) >= _OPEN_MAX:
                raise Refused(_UNCERTAIN)
            return state._replace(open=(*state.open, "?" if is_condition else text))
        return _close(text, state) if text in _CLOSED_BY else state

    def _spend(self, characters: int) -> None:
        self._left -= characters
        if self._left < 0:
            raise Refused(_UNCERTAIN)


def _refuse_openers(text: str, state: _State) -> None:
    in_brackets = bool(state.open) and state.open[-1] != "{"
    if text in _OPENERS or (text == ">" and state.printing and not in_brackets):
        raise Refused(f"`{text}` in its program would start a program or open a file")
    if in_brackets and (text in _PRINT or text == "{"):
        raise _Malformed


def _is_printing(text: str, state: _State) -> bool:
    if text in _PRINT:
        return True
    if text == "\n":
        # After a comma or an operator the statement goes on in the next line.
        return state.printing and state.after is _After.OPERATOR
    return state.printing and text not in (";", "{", "}")


def _after(text: str, kind: str) -> _After:
    if text in ("++", "--") or text in _WORDS:
        return _After.EITHER
    return _After.VALUE if kind in ("string", "number", "name") or text in (")", "]") else _After.OPERATOR


def _close(text: str, state: _State) -> _State:
    opened = state.open[-1] if state.open else ""
    is_condition = opened == "?" and text == ")"
    if opened != _CLOSED_BY[text] and not is_condition:
        raise _Malformed
    return state._replace(open=state.open[:-1], after=_After.EITHER if is_condition else state.after)
