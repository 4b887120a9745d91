"""A question about a hostile call, as approvers see it: in a chat, on a page, at a terminal and on a phone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from agent_gate.doors.cli.question import Asked, in_full, width
from agent_gate.doors.console.assets import Assets
from agent_gate.doors.console.frame import templates
from agent_gate.doors.console.inbox import Detail, Item
from agent_gate.doors.console.preview import Preview
from agent_gate.doors.messengers.phones import notice
from agent_gate.doors.messengers.render import Rendered, render, units
from agent_gate.history.inbox import Mark
from agent_gate.model.approval import Approver, Question
from agent_gate.model.bounds import TELEGRAM_TEXT_UNITS_MAX
from agent_gate.model.visible import visible
from tests.attacks.cases import Case
from tests.attacks.runner import CheckFailed, Skipped

CHECKS = frozenset({"isolated", "must_show", "must_not_contain", "no_active_markup", "or_not_approvable_inline"})
COLUMNS = (24, 100)


def run(case: Case, root: Path) -> str:
    match dict(case.args):
        case {"call": {"tool": str(), "args": dict()} as call}:
            question = question_of(call)
        case _:
            raise Skipped
    message, page = render(question), Seen(page_of(question))
    check_message(case.check, message)
    check_page(case.check, page, question)
    check_terminal(case.check, question)
    _check_hidden(case.check, "phone", notice.render(question).text)
    return "allow" if message.complete else "deny"


def question_of(call: Mapping[str, Any]) -> Question:
    """The signature tells nothing of the arguments: each must be shown by itself."""
    return Question(
        call_id=str(call.get("call_id", "c1")),
        request_id="r1",
        project=str(call.get("project", "default")),
        agent_id=str(call.get("agent", "bot")),
        owner=str(call.get("owner", "")),
        tool=call["tool"],
        args=call["args"],
        signatures=tuple(call.get("signatures", [call["tool"]])),
        reasons=({"layer": "rules", "text": "a person is asked"},),
        bound_hash="0" * 64,
        nonce="n" * 32,
        policy_hash="1" * 64,
        approver_roles=(),
        approvers_required=1,
        created_at=0.0,
        expires_at=900.0,
    )


def page_of(question: Question) -> str:
    approver = Approver("anna", ("admin",))
    item = Item(question, (), approver, "")
    return (
        templates(Assets())
        .get_template("inbox.html")
        .render(
            approver=approver,
            csrf="token",
            detail=Detail(item, None, Preview("nothing is known before")),
            ended="",
            grant_times=(),
            how_ended="",
            mark=Mark(1, False, ""),
            note_chars_max=1,
            notices=[],
            now=0.0,
            picked=False,
            place="inbox",
            queue=[item],
            unattended="",
            uses_max=1,
            version="",
        )
    )


class Seen(HTMLParser):
    """The text that a browser shows, and the elements that it makes."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.source, self.text = page, ""
        self.elements: Counter[str] = Counter()
        self.handlers: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag != "bdi" and attrs[:1] not in ([("class", "odd")], [("class", "more")]):
            self.elements[tag] += 1
        self.handlers += [name for name, _ in attrs if name.startswith("on") or name in ("style", "srcdoc")]

    def handle_data(self, data: str) -> None:
        self.text += data


def check_message(check: Mapping[str, Any], message: Rendered) -> None:
    """It is sent as plain text, so no markup in it is active; what it does not show in full it offers no yes to."""
    if units(message.text) > TELEGRAM_TEXT_UNITS_MAX:
        raise CheckFailed("the message is longer than the messenger takes")
    if message.complete:
        _check_shown(check, "message", message.text.replace("\n│ ", "\n"))
    elif not check.get("or_not_approvable_inline"):
        raise CheckFailed("the message is cut")
    _check_hidden(check, "message", message.text)
    _check_isolated(check, "message", message.text, "\u2068{}\u2069")


def check_terminal(check: Mapping[str, Any], question: Question) -> None:
    """Whole without a terminal; at one, no row is longer than it is wide, and each begins with the frame."""
    asked = Asked.by(question)
    whole = "\n".join(in_full(asked, None))
    _check_shown(check, "terminal", whole.replace("│ ", ""))
    _check_hidden(check, "terminal", whole)
    _check_isolated(check, "terminal", whole, "\u2068{}\u2069")
    for columns in COLUMNS:
        for row in in_full(asked, columns):
            if width(row) > columns or not row.startswith(("╭─ ", "├─ ", "│ ", "┊ ")):
                raise CheckFailed(f"a row leaves the frame at {columns} columns: {row!r}")


def check_page(check: Mapping[str, Any], page: Seen, question: Question) -> None:
    """The console shows all of every call, and its elements are those of a call that holds nothing but letters."""
    _check_shown(check, "page", page.text)
    _check_hidden(check, "page", page.source)
    _check_isolated(check, "page", page.source, "<bdi>{}</bdi>")
    harmless = Seen(page_of(harmless_twin(question)))
    if page.elements != harmless.elements or page.handlers:
        raise CheckFailed("text of the agent became a part of the page")


def _check_shown(check: Mapping[str, Any], where: str, text: str) -> None:
    for wanted in check.get("must_show", ()):
        if wanted not in text and visible(wanted) not in text:
            raise CheckFailed(f"the {where} does not show {wanted!r}")


def _check_hidden(check: Mapping[str, Any], where: str, text: str) -> None:
    for unwanted in check.get("must_not_contain", ()):
        if unwanted in text:
            raise CheckFailed(f"the {where} contains {unwanted!r}")


def _check_isolated(check: Mapping[str, Any], where: str, text: str, form: str) -> None:
    for part in check.get("isolated", ()):
        if text.count(part) != text.count(form.format(part)) or part not in text:
            raise CheckFailed(f"the {where} does not isolate {part!r}")


def harmless_twin(question: Question) -> Question:
    """The same question with nothing in it but letters."""
    return question_of(
        {
            "tool": "x",
            "args": {f"a{number}": "x" for number in range(len(question.args))},
            "signatures": ["x"] * len(question.signatures),
            "owner": "x" if question.owner else "",
        }
    )
