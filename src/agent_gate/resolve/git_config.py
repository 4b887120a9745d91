"""git's configuration files, read strictly: what git might read otherwise than we do is not read at all."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from agent_gate.policy.guards.programs.git_settings import is_harmless

CONFIG_BYTES_MAX = 1_048_576

_BLANK = re.compile(r"[ \t]*(?:[#;].*)?")
_SECTION = re.compile(
    r'[ \t]*\[([A-Za-z0-9-]+)(?:\.([A-Za-z0-9.-]+)|[ \t]+"((?:[^"\\]|\\.)*)")?\][ \t]*',
)
_ENTRY = re.compile(r"[ \t]*([A-Za-z][A-Za-z0-9-]*)[ \t]*(?:=[ \t]*(.*))?")
_VALUE = re.compile(r'(?:[^"\\#;]|\\[\\"ntb]|"(?:[^"\\]|\\[\\"ntb])*")*(?:[#;].*)?')
_COMMENT = re.compile(r'"(?:[^"\\]|\\.)*"|[#;].*')
_ESCAPED = re.compile(r"\\(.)")


class Setting(NamedTuple):
    name: str
    """In full: section and key in small letters, the subsection between them as it is."""
    value: str


class Unreadable(Exception):
    """A file that git might read otherwise than we do."""


def read_settings(content: bytes) -> Iterator[Setting]:
    """Parse a file; raises Unreadable at the first thing that git might take another way."""
    if len(content) > CONFIG_BYTES_MAX:
        raise Unreadable("it is too long to be read")
    if content.startswith(b"\xef\xbb\xbf") or b"\0" in content:
        raise Unreadable("it begins with a byte order mark, or holds a NUL")
    section = ""
    # Latin-1 gives each byte a character, and none of those beyond ASCII means anything to git.
    for number, line in enumerate(content.decode("latin-1").replace("\r\n", "\n").split("\n"), 1):
        rest = line
        if "\r" in line or line.endswith("\\"):
            raise Unreadable(f"line {number} is continued, or ends in an unusual way")
        header = _SECTION.match(line)
        if header:
            section = _section(header)
            rest = line[header.end() :]
        if _BLANK.fullmatch(rest):
            continue
        entry = _ENTRY.fullmatch(rest)
        if entry is None or not section or (entry[2] is not None and not _VALUE.fullmatch(entry[2])):
            raise Unreadable(f"line {number} cannot be read with certainty")
        yield Setting(f"{section}.{entry[1].lower()}", _value(entry[2] or ""))


def suspects(settings: Iterable[Setting]) -> Iterator[str]:
    """The names of settings that could make git start a program or read another file, or might for all we know."""
    return (setting.name for setting in settings if not is_harmless(setting.name, setting.value))


def _section(header: re.Match[str]) -> str:
    name, old_style, quoted = header[1].lower(), header[2], header[3]
    if old_style is not None:
        return f"{name}.{old_style.lower()}"
    return name if quoted is None else f"{name}.{_ESCAPED.sub(_unescaped, quoted)}"


def _unescaped(found: re.Match[str]) -> str:
    return found[1]


def _value(text: str) -> str:
    bare = _COMMENT.sub(lambda found: found[0] if found[0].startswith('"') else "", text).strip(" \t")
    return _ESCAPED.sub(_unescaped, bare.replace('\\"', "\0").replace('"', "").replace("\0", '"'))
