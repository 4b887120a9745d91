"""How values look on a page: agents' text that can hide nothing, JSON, differences, times."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

import jsonpointer
from markupsafe import Markup, escape

from agent_gate.model.limits import SHOWN_CHARS_MAX
from agent_gate.model.moment import epoch, iso
from agent_gate.model.tool import Json
from agent_gate.model.visible import visible

LINES_AT_A_GLANCE = 12
CHARS_AT_A_GLANCE = 600

_BLANKS_MIN, _EMPTY_LINES_MIN = 41, 6
"""Fewer are indentation and paragraphs; more push what follows out of sight."""
_ABSENT = object()


def agent_text(text: str) -> Markup:
    """Text of an agent: markup is data, what is invisible is written out, and blanks cannot push anything away."""
    return Markup("").join(_pieces(text))


_BLANK = r" \t\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000"
_ODD = re.compile(
    rf"(?P<newlines>\n[ \t\n]{{{_EMPTY_LINES_MIN - 1},}}(?=\n|\Z))"
    rf"|(?P<blanks>[{_BLANK}]{{{_BLANKS_MIN},}})"
    rf"|(?P<other>[^!-~\n{_BLANK}]+)"
)


def _pieces(text: str) -> Iterator[Markup]:
    place = 0
    for odd in _ODD.finditer(text):
        yield escape(text[place : odd.start()])
        place = odd.end()
        if odd["newlines"]:
            yield _mark(f"{odd[0].count(chr(10))} line breaks")
        elif odd["blanks"]:
            yield _mark(f"{len(odd[0])} blanks")
        elif visible(odd[0]) == odd[0]:
            yield escape(odd[0])
        else:
            yield from map(_character, odd[0])
    yield escape(text[place:])


def _character(character: str) -> Markup:
    shown = visible(character)
    return escape(shown) if shown == character else _mark(shown)


def _mark(what: str) -> Markup:
    return Markup('<span class="odd">{}</span>').format(what)


def brief(text: str) -> Markup:
    """The beginning of a text, for a list whose rows lead to the whole."""
    return agent_text(text if len(text) <= SHOWN_CHARS_MAX else f"{text[:SHOWN_CHARS_MAX]}…")


def plain(value: Json) -> str:
    """A value as text: a text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)


def value_shown(value: Json) -> Markup:
    return agent_text(plain(value))


@dataclass(frozen=True, slots=True)
class Argument:
    name: str
    value: Json
    sensitive: bool = False

    @property
    def is_secret(self) -> bool:
        return isinstance(self.value, Mapping) and self.value.keys() == {"$secret"}

    @property
    def kind(self) -> str:
        return kind_of(self.value)

    @property
    def size(self) -> str:
        return size_of(self.value)


def size_of(value: Json) -> str:
    """Said where a value does not fit at a glance: nobody should think that what is in sight is all."""
    text = plain(value)
    lines = text.count("\n") + 1
    if len(text) <= CHARS_AT_A_GLANCE and lines <= LINES_AT_A_GLANCE:
        return ""
    return f"{len(text):,} characters" + (f", {lines:,} lines" if lines > 1 else "")


def arguments(args: Mapping[str, Json], sensitive: Sequence[str] = ()) -> list[Argument]:
    """Every argument, those first that a person should look at first."""
    named = [Argument(name, value, name in sensitive) for name, value in args.items()]
    return sorted(named, key=lambda argument: not argument.sensitive)


def kind_of(value: Json) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | float():
            return "number"
        case str():
            return "text"
        case list():
            return "list"
        case _:
            return "object"


@dataclass(frozen=True, slots=True)
class Step:
    """One operation of a state's difference, with the value that it replaces."""

    sign: str
    word: str
    path: str
    before: Json = None
    after: Json = None
    has_before: bool = False
    has_after: bool = False


_SIGNS = {"add": ("+", "added"), "remove": ("−", "removed"), "replace": ("~", "changed")}


def steps(operations: Sequence[Mapping[str, Any]], before: Json = _ABSENT) -> list[Step]:
    """RFC 6902 operations for people; `before` is the state that they start from, where it is known."""
    return [_step(operation, before) for operation in operations]


def _step(operation: Mapping[str, Any], before: Json) -> Step:
    name, path = str(operation["op"]), str(operation["path"])
    sign, word = _SIGNS.get(name, ("•", name))
    if "from" in operation:
        word = f"{word} from {operation['from']}"
    old = _ABSENT
    if before is not _ABSENT and name in ("remove", "replace"):
        old = _value_at(before, path)
    known = old is not _ABSENT
    has_after = "value" in operation
    return Step(
        sign, word, path or "(the whole state)", old if known else None, operation.get("value"), known, has_after
    )


def _value_at(document: Json, path: str) -> Json:
    """Operations build on each other: a place that an earlier one made is not in the document."""
    try:
        return jsonpointer.resolve_pointer(document, path, _ABSENT)
    except (jsonpointer.JsonPointerException, TypeError):
        return _ABSENT


def diff_lines(diff: str) -> list[tuple[str, Markup]]:
    """(class, text) of each line of a unified diff."""
    return [(_class_of(line), agent_text(line)) for line in diff.split("\n")]


def _class_of(line: str) -> str:
    if line.startswith(("+++", "---")):
        return "file"
    return {"+": "added", "-": "removed", "@": "place"}.get(line[:1], "same")


def moment(value: float | str | None) -> str:
    """`2026-11-15 06:19:33` in UTC."""
    if value is None:
        return "–"
    text = iso(value) if isinstance(value, float | int) else value
    return f"{text[:10]} {text[11:19]}"


def time_of_day(value: float | str | None, now: float) -> str:
    """The time alone where it is of today."""
    text = moment(value)
    today = datetime.fromtimestamp(now, timezone.utc).strftime("%Y-%m-%d")
    return text[11:] if text.startswith(today) else text


def span(seconds: float) -> str:
    """`4 min 12 s`, the two largest units."""
    whole = max(0, int(seconds))
    parts = [(whole // 86_400, "d"), (whole // 3_600 % 24, "h"), (whole // 60 % 60, "min"), (whole % 60, "s")]
    while len(parts) > 1 and parts[0][0] == 0:
        parts.pop(0)
    return " ".join(f"{count} {unit}" for count, unit in parts[:2])


def duration_ms(start: str | None, end: str | None) -> str:
    if start is None or end is None:
        return ""
    took_ms = (epoch(end) - epoch(start)) * 1000
    return span(took_ms / 1000) if took_ms >= 10_000 else f"{took_ms:,.0f} ms"
