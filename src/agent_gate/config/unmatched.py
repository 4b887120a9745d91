"""Patterns of rules that no signature can match: mistakes that would otherwise go unnoticed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

from agent_gate.model.builtin import BUILTIN
from agent_gate.model.nearest import nearest
from agent_gate.model.tool import ArgumentKind, ToolDeclaration
from agent_gate.policy.guards import GUARDED
from agent_gate.policy.patterns import is_glob, literals
from agent_gate.policy.signature import shown

Tools: TypeAlias = Mapping[str, ToolDeclaration]

NO_TOOL = "http.request"
"""Name of requests of others' traffic, which are no calls of a tool."""
_NAME = re.compile(r"[^(*?\[]*")
_LIKENESS = 0.8
"""More than elsewhere: one policy may serve several programs, each with tools of its own."""
_COMPARED_MAX = 200
"""Names that are compared with those of tools, of one policy."""
_MENDED_MAX = 8
"""Mistakes of one pattern that are mended to show what would match."""
_BEGINNINGS = {
    **dict.fromkeys(("fs.read", "fs.write"), (("/", "./", "~/"), "a path in it begins with `/`, `./` or `~/`", "./")),
    **dict.fromkeys(
        ("state.set", "state.delete", "state.get"), (("/", '"', ")"), "a path of the state begins with `/`", "/")
    ),
    "http.get": (("http://", "https://"), "a URL in it begins with `https://` or `http://`", "https://"),
}
"""Texts that the first argument of a tool can begin with, how to say so, and what to put before it."""
_WILD = re.compile(r"[*?\[]")
_SCHEME = re.compile(r"[a-z]+://")
_HOST = re.compile(r"(https?)://([^/*?\[)]*)")
_PORTS = {"http": ":80", "https": ":443"}
_IN_NO_PATH = re.compile(r"/(?=/)|/\.(?=/)|/[^/]+/\.\.(?=/)|/\.\.(?=/)|/(?=\)\Z)")
_OF_HOMES = frozenset({"ha_call_service", "ha_get_state", "ha_get_entity_state", "ha_fire_event"})
"""Tools whose signed arguments are ids of a home, and nothing else."""


class Mistake(NamedTuple):
    """Why a pattern matches nothing, and the pattern without this mistake, where one can tell what was meant."""

    why: str
    mended: str = ""


class Unmatched:
    """Finds the mistakes in the patterns of one policy."""

    def __init__(self, tools: Tools | None = None) -> None:
        """`tools` are those that are here beside the built-in ones."""
        self._tools: Tools = {**BUILTIN, **(tools or {})}
        self._forms: dict[str, tuple[bool, bool]] = {}
        self._compared = 0

    def why(self, pattern: str) -> str:
        """Why no signature matches the pattern, and the nearest that would; empty where one may."""
        mistake = self._mistake(pattern)
        if mistake is None:
            return ""
        mended, left = mistake.mended, _MENDED_MAX
        while mended and left and (next_one := self._mistake(mended)):
            mended, left = next_one.mended, left - 1
        return f"{mistake.why}; `{shown(mended)}` would" if mended and left else mistake.why

    def _mistake(self, pattern: str) -> Mistake | None:
        name = _NAME.match(pattern)[0]  # type: ignore[index]  # it matches any text
        if not name and pattern.startswith("("):
            return Mistake("a signature begins with the name of a tool", f"*{pattern}")
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
        for check in _CHECKS:
            if mistake := check(name, rest):
                return mistake
        return None

    def _form(self, name: str, rest: str) -> Mistake | None:
        """Tell if calls of the tool have arguments in their signature always, or never."""
        if name == "ha_activate_scene":
            why = "a scene is activated by `ha_call_service(scene.turn_on, …)`"
            return Mistake(why, f"ha_call_service(scene.turn_on, {rest or '*)'}")
        if name not in self._forms:
            tool = self._tools.get(name)
            self._forms[name] = _signed(tool) if tool and tool.registered else (True, False)
        may, must = self._forms[name]
        if must and not rest:
            return Mistake("a call of it has arguments in its signature", f"{name}(*)")
        if rest and not may:
            return Mistake("a call of it has no arguments in its signature", name)
        return None

    def _unknown(self, name: str, after: str) -> Mistake | None:
        """A name that is almost a tool's; any other may be one of another program that the policy serves too."""
        is_whole = not after or after[0] == "("
        if not is_whole or name == NO_TOOL or self._compared >= _COMPARED_MAX:
            return None
        self._compared += 1
        near = nearest(name, self._tools, _LIKENESS)
        return Mistake(f"there is no tool `{name}`", near + after) if near else None


def _brackets(pattern: str) -> Mistake | None:
    """A signature has one pair, around its arguments; those of values are encoded."""
    plain = "".join(literals(pattern)) if is_glob(pattern) else pattern
    opened, closed = plain.count("("), plain.count(")")
    if not opened and not closed:
        return None
    if opened and not closed and pattern[-1] not in "*?]":
        return Mistake("a signature with arguments ends with `)`; close the bracket, or end with `*`", f"{pattern})")
    if opened <= 1 and (closed == 0 or (closed == 1 and pattern.rstrip("*").endswith(")"))):
        return None
    why = "a signature has one pair of brackets, around its arguments; those of values are written `%28` and `%29`"
    if closed > opened and pattern.endswith("))"):
        return Mistake(why, pattern[:-1])
    name, _, rest = pattern.partition("(")
    inner = rest.removesuffix(")")
    if "[" in inner or not rest.endswith(")"):
        return Mistake(why)
    return Mistake(why, f"{name}({inner.replace('(', '%28').replace(')', '%29')})")


def _signed(tool: ToolDeclaration) -> tuple[bool, bool]:
    """Tell if any argument is part of its signatures, and if one always is."""
    schema = tool.input_schema
    names = {name for name in schema.get("properties", ()) if tool.kind_of(name) is not ArgumentKind.UNSIGNED}
    may_have_others = schema.get("additionalProperties") is not False
    always = tool.name in GUARDED or any(name in names for name in schema.get("required", ()))
    return bool(names) or may_have_others, always


def _beginning(name: str, rest: str) -> Mistake | None:
    if not rest or name not in _BEGINNINGS:
        return None
    beginnings, why, before = _BEGINNINGS[name]
    wild = _WILD.search(rest)
    plain = rest[: wild.start()] if wild else rest
    if any(plain.startswith(each) or (wild and each.startswith(plain)) for each in beginnings):
        return None
    return Mistake(why, f"{name}({before}{_SCHEME.sub('', rest, count=1)}")


def _host(name: str, rest: str) -> Mistake | None:
    """One spelling: lower case, no default port, A-labels."""
    found = _HOST.match(rest) if name == "http.get" else None
    if found is None:
        return None
    scheme, host = found.groups()
    after = rest[found.end() :]
    if host != host.lower():
        return Mistake("a host is written in lower case", f"{name}({scheme}://{host.lower()}{after}")
    if host.endswith(_PORTS[scheme]) and after[:1] == "/":
        bare = host.removesuffix(_PORTS[scheme])
        return Mistake("the default port is left out", f"{name}({scheme}://{bare}{after}")
    if not host.isascii():
        return Mistake("a host is written in ASCII, as `xn--…`", _ascii(name, scheme, host, after))
    return None


def _ascii(name: str, scheme: str, host: str, after: str) -> str:
    try:
        return f"{name}({scheme}://{host.encode('idna').decode()}{after}"
    except UnicodeError:
        return ""


def _comma(name: str, rest: str) -> Mistake | None:
    """A comma of an argument is encoded, and URLs are written in their own way."""
    if name.startswith("http.") or not re.search(r",[^ *?\[]", rest):
        return None
    why = "arguments stand apart by `, `, and a comma in one of them is written `%2C`"
    return Mistake(why, f"{name}({re.sub(r',(?=[^ *?[])', ', ', rest)}")


def _words(name: str, rest: str) -> Mistake | None:
    if name != "shell.run" or not any("  " in run for run in literals(rest)):
        return None
    return Mistake("words of a command stand apart by one space", f"{name}({re.sub(' {2,}', ' ', rest)}")


def _path(name: str, rest: str) -> Mistake | None:
    """Signatures hold real paths; relative ones are resolved when the policy is loaded."""
    if name not in ("fs.read", "fs.write") or rest[:1] != "/" or rest.rstrip("*") == "/)":
        return None
    if not any(_IN_NO_PATH.search(run) for run in literals(rest)):
        return None
    mended = _IN_NO_PATH.sub("", rest, count=1)
    return Mistake("a real path has no `//`, `.`, `..` or `/` at its end", f"{name}({mended}")


def _ids(name: str, rest: str) -> Mistake | None:
    if name not in _OF_HOMES or not any(run != run.lower() for run in literals(rest)):
        return None
    return Mistake("ids of a home are written in lower case", f"{name}({rest.lower()}")


_CHECKS: tuple[Callable[[str, str], Mistake | None], ...] = (_beginning, _host, _comma, _words, _path, _ids)
"""Each is given the name of the tool, and what follows its bracket."""
