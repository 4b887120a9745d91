"""A question as the few lines that a phone surely shows: all that will be done, or a clear word that it is more."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from textwrap import wrap
from unicodedata import east_asian_width

from agent_gate.model.approval import Question
from agent_gate.model.bounds import HOME_PHONE_LINE_CHARS, HOME_PHONE_LINES_MAX
from agent_gate.model.codec import canonical
from agent_gate.model.moment import iso
from agent_gate.model.tool import Json
from agent_gate.model.visible import drawn, visible, written_out

_FRAME = "│ "
"""Before every line that the agent had a hand in, so that none of them can pass for one of ours."""
_ACTIVE = re.compile(r"[<&\\]|\{(?=[{%#])")
"""Characters that are read on the way: templates by Home Assistant, HTML and `\n` by the Android app."""
_CHARS_MAX = HOME_PHONE_LINES_MAX * HOME_PHONE_LINE_CHARS
_TITLE_CHARS_MAX, _SIGNATURE_CHARS_MAX, _SO_FAR_CHARS_MAX = 40, 100, 300


@dataclass(frozen=True, slots=True)
class Notice:
    title: str
    text: str
    complete: bool
    """True where the whole call is in it; what is not shown in full cannot be approved here."""


def render(question: Question, approved_by: Sequence[str] = (), unattended: str = "") -> Notice:
    """`unattended` is what whoever answers has to know where the process that holds the call is gone."""
    about = _all_that_fits(_about(question))
    tool = plain(question.tool)
    so_far = _cut(" ".join(_lines_so_far(question, approved_by, unattended)), _SO_FAR_CHARS_MAX)
    if about is not None:
        return Notice(_cut(f"Allow {tool}?", _TITLE_CHARS_MAX), "\n".join((*about, so_far)), True)
    text = (
        f"{_asker(question)} asks for more than can be shown here in full ({HOME_PHONE_LINES_MAX} lines fit),"
        " so it can only be denied here. Read and answer it in the console, or with `agent-gate pending`.\n"
        f"{_FRAME}{_cut(plain(question.signatures[0], _SIGNATURE_CHARS_MAX), _SIGNATURE_CHARS_MAX)}"
    )
    return Notice(_cut(f"To be read: {tool}", _TITLE_CHARS_MAX), f"{text}\n{so_far}", False)


def _all_that_fits(lines: Iterator[str | None]) -> list[str] | None:
    """No line is looked at beyond those that fit; None stands for one that does not."""
    fitting, room = [], HOME_PHONE_LINES_MAX
    for line in lines:
        room -= _height(line or "")
        if line is None or room < 0:
            return None
        fitting.append(line)
    return fitting


def plain(text: str, chars_max: int = _CHARS_MAX) -> str:
    """One line that says the same wherever it is read: nothing in it is a template, markup, a break or out of sight."""
    return _passive(visible(text, chars_max))


def _passive(line: str) -> str:
    return _ACTIVE.sub(lambda found: written_out(found[0]), line)


def _framed(text: str) -> str | None:
    """Whole, or not at all."""
    shown = drawn(text, _CHARS_MAX)
    return None if shown.left_out else f"{_FRAME}{_passive(shown.text)}"


def _about(question: Question) -> Iterator[str | None]:
    yield f"{_asker(question)} asks:"
    yield from map(_framed, question.signatures)
    for name in _sensitive_first(question):
        yield _framed(_named(name, question.args[name]))
    if question.written is not None:
        yield "It has run on a copy, and would write:"
    for change in question.written or ():
        yield _framed(f"{change['change']} {change['path']}")
        yield from (_framed(line) for line in change.get("diff", "").split("\n") if line)


def _asker(question: Question) -> str:
    owner = f" of {question.owner}" if question.owner else ""
    project = f" in {question.project}" if question.project != "default" else ""
    return plain(f"{question.agent_id}{owner}{project}")


def _lines_so_far(question: Question, approved_by: Sequence[str], unattended: str) -> Iterator[str]:
    if unattended:
        yield plain(unattended)
    if question.approvers_required > 1:
        so_far = f" ({', '.join(approved_by)})" if approved_by else ""
        yield plain(f"{len(approved_by)} of {question.approvers_required} have agreed{so_far}.")
    yield f"Answer before {iso(question.expires_at)[:16].replace('T', ' ')} UTC."
    for reason in question.reasons:
        yield plain("Why: " + ": ".join(part for key in ("layer", "rule", "text") if (part := reason.get(key))))


def _sensitive_first(question: Question) -> list[str]:
    return sorted(question.given, key=lambda name: name not in question.sensitive)


def _named(name: str, value: Json) -> str:
    """No other argument looks the same: what is not text is marked, and a name that could pass for more is quoted."""
    shown = name if name.isidentifier() else canonical(name).decode()
    if isinstance(value, str):
        return f"{shown}: {value}" if value else f"{shown} (empty)"
    return f"{shown} (JSON): {canonical(value).decode()}"


def _height(line: str) -> int:
    """In lines of a phone; letters of double width take two places."""
    places = "".join("ww" if east_asian_width(letter) in "WF" else letter for letter in line)
    return len(wrap(places, HOME_PHONE_LINE_CHARS, drop_whitespace=False)) or 1


def _cut(text: str, chars_max: int) -> str:
    return text if len(text) <= chars_max else f"{text[: chars_max - 1]}…"
