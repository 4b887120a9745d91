"""A question as the plain text of one message: everything that will be done, or a clear word that it does not fit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from agent_gate.model.approval import Question
from agent_gate.model.bounds import SHOWN_CHARS_MAX, TELEGRAM_TEXT_UNITS_MAX
from agent_gate.model.codec import canonical, sha256_hex
from agent_gate.model.moment import iso
from agent_gate.model.tool import Json
from agent_gate.model.visible import Drawn, drawn, visible, visible_difference

_FRAME = "│ "
"""Before every line that the agent had a hand in, so that none of them can pass for one of ours."""
_SO_FAR_UNITS_MAX = 640
"""Whatever is to be said of approvals so far: whether a call fits does not depend on it."""
_CUT_ARGUMENTS_MAX = 8
_CUT_SIGNATURES_MAX = 3
_CUT_CHARS_MAX = 100
ELSEWHERE = "the console, or `agent-gate pending`"


@dataclass(frozen=True, slots=True)
class Rendered:
    text: str
    complete: bool
    """True where the whole call is in it; what is not shown in full cannot be approved here."""
    about: str = ""
    """The call without what only matters while the question is open."""


def render(
    question: Question,
    approved_by: Sequence[str] = (),
    *,
    elsewhere: str = ELSEWHERE,
    unattended: str = "",
    units_max: int = TELEGRAM_TEXT_UNITS_MAX,
) -> Rendered:
    """The message about an open question; `elsewhere` says where a call is shown that is too long for it.

    `unattended` is what whoever answers has to know where the process that holds the call is gone.
    """
    so_far = _fitted("\n".join(_lines_so_far(question, approved_by, unattended)), _SO_FAR_UNITS_MAX)
    about_max = units_max - _SO_FAR_UNITS_MAX - 2
    about = _all_that_fits(_in_full(question, about_max), about_max)
    if about is not None:
        return Rendered(f"{about}\n\n{so_far}", True, about)
    notice = (
        f"This call is too long to be shown here in full (at most {about_max} characters fit),"
        f" so it can only be denied here. Read and answer it in {elsewhere}."
    )
    room = units_max - units(f"{notice}\n\n\n\n{so_far}")
    about = _fitted("\n".join(_in_short(question)), room)
    return Rendered(f"{notice}\n\n{about}\n\n{so_far}", False, about)


def _all_that_fits(lines: Iterable[str | None], units_max: int) -> str | None:
    """No line is looked at beyond those that fit; None stands for one that does not."""
    fitting, room = [], units_max + 1
    for line in lines:
        room -= units(line or "") + 1
        if line is None or room < 0:
            return None
        fitting.append(line)
    return "\n".join(fitting)


def closed(headline: str, about: str) -> str:
    """The message about a question that has ended."""
    return _fitted(f"{headline}\n\n{about}".strip(), TELEGRAM_TEXT_UNITS_MAX)


def units(text: str) -> int:
    """The length of a text in UTF-16 units, as messengers count."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def one_line(text: str, chars_max: int = SHOWN_CHARS_MAX) -> str:
    """Text that may hold anything, as a part of a line of ours."""
    return visible(text, chars_max)


def moment(at: float) -> str:
    """`2026-03-04 12:00:05 UTC`"""
    return iso(at)[:19].replace("T", " ") + " UTC"


def _in_full(question: Question, units_max: int) -> Iterator[str | None]:
    yield from _heading(question)
    yield "Will do:"
    for signature in question.signatures:
        yield from _framed(drawn(signature, units_max))
    yield "Arguments, as the agent gave them:" if question.given else "Arguments: none"
    for name, value in _sensitive_first(question):
        label = drawn(name, units_max)
        yield None if label.left_out else f"{label.text}{_mark(question, name)}{_kind(value)}:"
        yield from _framed(drawn(_text(value), units_max, in_a_file=True))
    if question.written is not None:
        yield "The command has run on a copy; nothing is written yet. It would write:"
    for change in question.written or ():
        yield from _framed(drawn(f"{change['change']} {change['path']}", units_max))
        yield from (f"{_FRAME}{line}" for line in visible_difference(change.get("diff", "")))
    yield from _reasons(question, units_max)


def _in_short(question: Question) -> Iterator[str]:
    """Show what always fits: short values in full, of long ones size and hash."""
    yield from _heading(question)
    yield "Will do:"
    for signature in question.signatures[:_CUT_SIGNATURES_MAX]:
        yield f"{_FRAME}{_shortened(signature)}"
    if len(question.signatures) > _CUT_SIGNATURES_MAX:
        yield f"and {len(question.signatures) - _CUT_SIGNATURES_MAX} more"
    data = canonical(dict(question.args))
    yield f"Arguments: {len(data)} bytes, sha256 {sha256_hex(data)}"
    for name, value in _sensitive_first(question)[:_CUT_ARGUMENTS_MAX]:
        yield f"{one_line(name, _CUT_CHARS_MAX)}{_mark(question, name)}{_kind(value)}:"
        yield f"{_FRAME}{_shortened(_text(value))}"
    if len(question.args) > _CUT_ARGUMENTS_MAX:
        yield f"and {len(question.args) - _CUT_ARGUMENTS_MAX} more"


def _heading(question: Question) -> Iterator[str]:
    owner = f" (of {one_line(question.owner)})" if question.owner else ""
    yield f"Agent {one_line(question.agent_id)}{owner} asks to use {one_line(question.tool)}"
    yield f"Project: {one_line(question.project)}"
    yield f"Call: {one_line(question.call_id)}"


def _lines_so_far(question: Question, approved_by: Sequence[str], unattended: str) -> Iterator[str]:
    if unattended:
        yield one_line(unattended, _SO_FAR_UNITS_MAX)
    if question.approver_roles:
        yield f"For approvers with role: {one_line(', '.join(question.approver_roles))}"
    if question.approvers_required > 1:
        so_far = f": {one_line(', '.join(approved_by))}" if approved_by else ""
        yield f"Approvals: {len(approved_by)} of {question.approvers_required}{so_far}"
    yield f"Answer before {moment(question.expires_at)}"


def _reasons(question: Question, units_max: int) -> Iterator[str | None]:
    if question.reasons:
        yield "Why a person is asked:"
    for reason in question.reasons:
        said = ": ".join(part for key in ("layer", "rule", "text") if (part := reason.get(key)))
        yield from _framed(drawn(said, units_max))


def _sensitive_first(question: Question) -> list[tuple[str, Json]]:
    given = question.given
    first = [(name, given[name]) for name in question.sensitive if name in given]
    return [*first, *((name, value) for name, value in given.items() if name not in question.sensitive)]


def _mark(question: Question, name: str) -> str:
    return " (sensitive)" if name in question.sensitive else ""


def _kind(value: Json) -> str:
    """Note what the same characters could also stand for, or how far down to read."""
    if not isinstance(value, str):
        return " (JSON)"
    lines = value.count("\n") + 1
    return f" ({lines} lines)" if lines > 1 else "" if value else " (empty)"


def _text(value: Json) -> str:
    return value if isinstance(value, str) else canonical(value).decode()


def _framed(shown: Drawn) -> Iterator[str | None]:
    if shown.left_out:
        yield None
    yield from (f"{_FRAME}{line}" for line in shown.text.split("\n"))


def _shortened(text: str) -> str:
    if len(text) <= _CUT_CHARS_MAX:
        return one_line(text)
    return f"{one_line(text, _CUT_CHARS_MAX)}~sha256:{sha256_hex(text.encode('utf-8', 'surrogatepass'))}"


def _fitted(text: str, units_max: int) -> str:
    if units(text) <= units_max:
        return text
    encoded = text.encode("utf-16-le")[: 2 * (units_max - 1)]
    return encoded.decode("utf-16-le", "ignore") + "…"
