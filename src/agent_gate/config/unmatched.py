"""Patterns of rules that no signature can match: mistakes that would otherwise go unnoticed."""

from __future__ import annotations

import re

_TOOL_AND_REST = re.compile(r"([^(*?\[]*)\((.*)", re.DOTALL)
"""A pattern that names its tool, and what it says of the arguments."""
_BEGINNINGS = {
    **dict.fromkeys(("fs.read", "fs.write"), (("/", "./", "~/"), "a path in it begins with `/`, `./` or `~/`")),
    **dict.fromkeys(
        ("state.set", "state.delete", "state.get"), (("/", '"', ")"), "a path of the state begins with `/`")
    ),
    "http.get": (("http://", "https://"), "a URL in it begins with `https://` or `http://`"),
}
"""What the first argument of a tool can begin with, and how to say so."""
_WILD = re.compile(r"[*?\[]")
_HOST = re.compile(r"https?://([^/*?\[)]*)")


def why_unmatched(pattern: str) -> str:
    """Why no signature matches the pattern, as far as that can be told from the pattern alone; else empty."""
    found = _TOOL_AND_REST.fullmatch(pattern)
    if found is None:
        return ""
    tool, rest = found.groups()
    if not tool:
        return "a signature begins with the name of a tool"
    if pattern[-1] not in ")*?]":
        return "a signature with arguments ends with `)`; close the bracket, or end with `*`"
    return _wrong_beginning(tool, rest) or _wrong_host(tool, rest) or _wrong_comma(tool, rest)


def _wrong_beginning(tool: str, rest: str) -> str:
    beginnings, why = _BEGINNINGS.get(tool, (("",), ""))
    wild = _WILD.search(rest)
    plain = rest[: wild.start()] if wild else rest
    fits = any(plain.startswith(each) or (wild and each.startswith(plain)) for each in beginnings)
    return "" if fits else why


def _wrong_host(tool: str, rest: str) -> str:
    host = _HOST.match(rest) if tool == "http.get" else None
    return "a host is written in lower case" if host and host[1] != host[1].lower() else ""


def _wrong_comma(tool: str, rest: str) -> str:
    """A comma of an argument is encoded, and URLs are written in their own way."""
    if tool.startswith("http.") or not re.search(r",[^ *?\[]", rest):
        return ""
    return "arguments stand apart by `, `, and a comma in one of them is written `%2C`"
