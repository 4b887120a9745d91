"""Patterns of rules that no signature can match: mistakes that would otherwise go unnoticed."""

from __future__ import annotations

import re
from collections.abc import Mapping

from agent_gate.model.nearest import nearest
from agent_gate.model.tool import ArgumentKind, PatternMistake, ToolDeclaration
from agent_gate.policy.patterns import is_glob, literals
from agent_gate.policy.signature import shown

NO_TOOL = "http.request"
"""Name of requests of others' traffic, which are no calls of a tool."""
_NAME = re.compile(r"[^(*?\[]*")
_LIKENESS = 0.8
"""More than elsewhere: one policy may serve several programs, each with tools of its own."""
_COMPARED_MAX = 200
"""Names that are compared with those of tools, of one policy."""
_MENDED_MAX = 8
"""Mistakes of one pattern that are mended to show what would match."""


class Unmatched:
    """Finds the mistakes in the patterns of one policy."""

    def __init__(self, tools: Mapping[str, ToolDeclaration]) -> None:
        """`tools` are all that are known here."""
        self._tools = tools
        self._forms: dict[str, tuple[bool, bool]] = {}
        self._compared = 0

    def why(self, pattern: str) -> str:
        """Say why no signature matches the pattern, and the nearest that would; empty where one may."""
        mistake = self._mistake(pattern)
        if mistake is None:
            return ""
        mended, left = mistake.mended, _MENDED_MAX
        while mended and left and (next_one := self._mistake(mended)):
            mended, left = next_one.mended, left - 1
        return f"{mistake.why}; `{shown(mended)}` would" if mended and left else mistake.why

    def _mistake(self, pattern: str) -> PatternMistake | None:
        name = _NAME.match(pattern)[0]  # type: ignore[index]  # it matches any text
        if not name and pattern.startswith("("):
            return PatternMistake("a signature begins with the name of a tool", f"*{pattern}")
        after = pattern[len(name) :]
        if name not in self._tools and (mistake := self._unknown(name, after)):
            return mistake
        if mistake := _brackets(pattern):
            return mistake
        if after and after[0] != "(":
            return None
        rest = after[1:]
        if mistake := self._form(name, rest):
            return mistake
        return _comma(name, rest)

    def _form(self, name: str, rest: str) -> PatternMistake | None:
        """Tell if calls of the tool have arguments in their signature always, or never; then what the tool knows."""
        tool = self._tools.get(name)
        if name not in self._forms:
            self._forms[name] = _signed(tool) if tool and tool.registered and not tool.sign else (True, False)
        may, must = self._forms[name]
        if must and not rest:
            return PatternMistake("a call of it has arguments in its signature", f"{name}(*)")
        if rest and not may:
            return PatternMistake("a call of it has no arguments in its signature", name)
        return tool.mistake_in(rest) if tool and tool.mistake_in else None

    def _unknown(self, name: str, after: str) -> PatternMistake | None:
        """A name that is almost a tool's; any other may be one of another program that the policy serves too."""
        is_whole = not after or after[0] == "("
        if not is_whole or name == NO_TOOL or self._compared >= _COMPARED_MAX:
            return None
        self._compared += 1
        near = nearest(name, self._tools, _LIKENESS)
        return PatternMistake(f"there is no tool `{name}`", near + after) if near else None


def _brackets(pattern: str) -> PatternMistake | None:
    """A signature has one pair, around its arguments; those of values are encoded."""
    plain = "".join(literals(pattern)) if is_glob(pattern) else pattern
    opened, closed = plain.count("("), plain.count(")")
    if not opened and not closed:
        return None
    if opened and not closed and pattern[-1] not in "*?]":
        return PatternMistake(
            "a signature with arguments ends with `)`; close the bracket, or end with `*`", f"{pattern})"
        )
    if opened <= 1 and (closed == 0 or (closed == 1 and pattern.rstrip("*").endswith(")"))):
        return None
    why = "a signature has one pair of brackets, around its arguments; those of values are written `%28` and `%29`"
    if closed > opened and pattern.endswith("))"):
        return PatternMistake(why, pattern[:-1])
    name, _, rest = pattern.partition("(")
    inner = rest.removesuffix(")")
    if "[" in inner or not rest.endswith(")"):
        return PatternMistake(why)
    return PatternMistake(why, f"{name}({inner.replace('(', '%28').replace(')', '%29')})")


def _signed(tool: ToolDeclaration) -> tuple[bool, bool]:
    """Tell if any argument is part of its signatures, and if one always is."""
    schema = tool.input_schema
    names = {name for name in schema.get("properties", ()) if tool.kind_of(name) is not ArgumentKind.UNSIGNED}
    may_have_others = schema.get("additionalProperties") is not False
    always = tool.signed_when_bound or any(name in names for name in schema.get("required", ()))
    return bool(names) or may_have_others, always


def _comma(name: str, rest: str) -> PatternMistake | None:
    """A comma of an argument is encoded, and URLs are written in their own way."""
    if name.startswith("http.") or not re.search(r",[^ *?\[]", rest):
        return None
    why = "arguments stand apart by `, `, and a comma in one of them is written `%2C`"
    return PatternMistake(why, f"{name}({re.sub(r',(?=[^ *?[])', ', ', rest)}")
