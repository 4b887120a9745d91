"""Values as a page shows them: agents' text that can hide nothing, JSON, differences, times."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

import jsonpointer
import orjson
from markupsafe import Markup, escape

from agent_gate.model.bounds import CONSOLE_PAGE_CHARS_MAX, CONSOLE_VALUE_CHARS_MAX, SHOWN_CHARS_MAX
from agent_gate.model.moment import epoch, iso
from agent_gate.model.tool import Json
from agent_gate.model.visible import Drawn, Kind, drawn, visible_typed

LINES_AT_A_GLANCE = 12
CHARS_AT_A_GLANCE = 600

_ABSENT = object()


class Room:
    """Characters of agents' text that one page still takes; the rest is shown on request."""

    def __init__(self, chars: int = CONSOLE_PAGE_CHARS_MAX) -> None:
        self._chars = chars

    def draw(self, text: str, *, in_a_file: bool = False) -> Drawn:
        made = drawn(text, min(self._chars, CONSOLE_VALUE_CHARS_MAX), in_a_file=in_a_file)
        self._chars -= sum(len(piece.text) for piece in made.pieces)
        return made


def agent_text(text: str, room: Room | None = None, rest: str = "") -> Markup:
    """Text of an agent on one line; `rest` is where the rest of it can be read: an address, or a command."""
    made = (room or Room()).draw(text)
    return markup(made) + more(len(text), made.left_out, rest)


def value_shown(value: Json, room: Room | None = None, rest: str = "") -> Markup:
    """A value on lines of its own."""
    text = plain(value)
    made = (room or Room()).draw(text, in_a_file=True)
    return markup(made) + more(len(text), made.left_out, rest)


def markup(made: Drawn) -> Markup:
    """Markup of agents is data; what was written out is marked, what runs from right to left is isolated."""
    return Markup("".join(f"{_TAGS[kind][0]}{escape(text)}{_TAGS[kind][1]}" for kind, text, _ in made.pieces))  # noqa: S704 -- every part is escaped


_TAGS = {
    Kind.PLAIN: ("", ""),
    Kind.ODD: ('<span class="odd">', "</span>"),
    Kind.TURNED: ("<bdi>", "</bdi>"),
    Kind.BREAK: ("", ""),
}


def more(chars: int, left_out: int, rest: str) -> Markup:
    if not left_out:
        return Markup("")
    told = f"… {left_out:,} more characters"
    if rest.startswith("/"):
        return Markup('<a class="more" href="{}&amp;from={}">{}</a>').format(rest, chars - left_out, told)
    return Markup('<span class="more">{}{}</span>').format(told, f": {rest}" if rest else "")


def as_typed(text: str) -> Markup:
    """Keep what a person typed as it is, to be gone on with: blanks, tabs and breaks stay."""
    return escape(visible_typed(text))


def brief(text: str) -> Markup:
    """The beginning of a text, for a list whose rows lead to the whole."""
    made = drawn(text, SHOWN_CHARS_MAX)
    return markup(made) + ("…" if made.left_out else "")


def plain(value: Json) -> str:
    """A value as text: a text as it is, anything else as JSON."""
    if isinstance(value, str):
        return value
    try:
        return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
    except TypeError:  # a number too large for it, or a text with half a character
        return json.dumps(value, indent=2, ensure_ascii=False)


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


def diff_lines(diff: str, room: Room | None = None) -> list[tuple[str, Markup]]:
    """(class, text) of each line of a unified diff: behind its sign it is a line of a file."""
    room, lines = room or Room(), diff.split("\n")
    shown: list[tuple[str, Markup]] = []
    for number, line in enumerate(lines):
        made = room.draw(line[1:], in_a_file=True)
        shown.append((_class_of(line), escape(line[:1]) + markup(made)))
        if made.left_out:
            return [*shown, ("place", escape(f"… {len(lines) - number:,} more lines"))]
    return shown


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
