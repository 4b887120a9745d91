"""The inbox: open questions, each with everything that a person needs to decide, and the answers to them."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.responses import Response

from agent_gate.doors.console.frame import Visit
from agent_gate.doors.console.preview import Preview, preview_of
from agent_gate.doors.console.shown import Argument, arguments
from agent_gate.gate.approvals import OpenQuestion
from agent_gate.history import inbox
from agent_gate.model.approval import Approver, GrantTerms, Question
from agent_gate.model.bounds import (
    CONSOLE_NOTE_CHARS_MAX,
    CONSOLE_QUESTIONS_SHOWN_MAX,
    GRANT_SECONDS_MAX,
    GRANT_USES_MAX,
)
from agent_gate.model.errors import GateError, Problem, ToolError
from agent_gate.model.tool import ToolDeclaration
from agent_gate.pipeline.hold import not_entitled

GRANT_TIMES = ((900, "15 minutes"), (3_600, "an hour"), (14_400, "4 hours"), (GRANT_SECONDS_MAX, "a day"))


@dataclass(frozen=True, slots=True)
class Item:
    """One question as one approver sees it."""

    question: Question
    approved_by: tuple[str, ...]
    approver: Approver
    once_only: str
    """The reason why a yes is for this one call alone; empty where it may be given for later ones too."""

    @property
    def call_id(self) -> str:
        return self.question.call_id

    @property
    def obstacle(self) -> Problem | None:
        """The reason why this person cannot answer it."""
        if self.approver.id in self.approved_by:
            return Problem(6003, "you have agreed already", "it waits for another person")
        return not_entitled(self.question, self.approver)

    @property
    def can_be_granted(self) -> bool:
        return not self.once_only

    @property
    def arguments(self) -> list[Argument]:
        """But for what a command wrote, which is shown as differences."""
        return arguments(self.question.given, self.question.sensitive)

    @property
    def mark(self) -> str:
        """Changes when another question, or another stage of it, is shown."""
        return f"{self.question.nonce}.{len(self.approved_by)}"


@dataclass(frozen=True, slots=True)
class Detail:
    """The question that is in view."""

    item: Item
    declaration: ToolDeclaration | None
    preview: Preview


async def show(visit: Visit) -> Response:
    return await _page(visit, visit.asked("call"))


async def try_it(visit: Visit) -> Response:
    """Runs the call on a copy that is thrown away, for the person who has to decide."""
    return await _page(visit, visit.request.path_params["call_id"], try_it=True)


async def _page(visit: Visit, wanted: str, *, try_it: bool = False) -> Response:
    found = await visit.console.read(inbox.first_questions, visit.context.gate.clock, CONSOLE_QUESTIONS_SHOWN_MAX)
    queue = [_item(visit, question, approved_by) for question, approved_by in found]
    in_view = wanted or next((item.call_id for item in queue if item.obstacle is None), "") or _first(queue)
    opened = await visit.context.approvals.question(in_view) if in_view else None
    detail = await _detail(visit, _item(visit, opened.question, opened.approved_by), try_it) if opened else None
    ended = "" if opened else wanted
    return await visit.page(
        "inbox.html",
        queue=queue,
        detail=detail,
        unattended=opened.unattended if opened else "",
        ended=ended,
        how_ended=await visit.console.read(lambda reader: reader.resolution(ended)) if ended else "",
        picked=bool(wanted),
        grant_times=GRANT_TIMES,
        uses_max=GRANT_USES_MAX,
        note_chars_max=CONSOLE_NOTE_CHARS_MAX,
    )


def _first(queue: list[Item]) -> str:
    return queue[0].call_id if queue else ""


def _item(visit: Visit, question: Question, approved_by: tuple[str, ...]) -> Item:
    return Item(question, approved_by, visit.approver, visit.context.approvals.why_once_only(question))


async def _detail(visit: Visit, item: Item, try_it: bool) -> Detail:
    registered = visit.context.gate.tools.find(item.question.tool)
    declaration = visit.context.gate.judge.declared(registered.declaration) if registered else None
    return Detail(item, declaration, await preview_of(visit.context, item.question, try_it=try_it))


async def answer(visit: Visit) -> Response:
    """A yes or a no to exactly what was shown; then the next question is in view."""
    call_id, form = visit.request.path_params["call_id"], visit.form
    following = await _after(visit, call_id)
    try:
        verb, terms = form.get("verb", ""), _terms(form.get("seconds", ""), form.get("uses", ""))
        if verb not in ("allow", "deny", "grant"):
            raise ToolError("say allow, deny or grant", code=2002)
        if len(form.get("note", "")) > CONSOLE_NOTE_CHARS_MAX:
            raise ToolError(f"a note has at most {CONSOLE_NOTE_CHARS_MAX} characters", code=2002)
        opened = await visit.context.approvals.question(call_id)
        await visit.context.approvals.answer(
            call_id,
            approve=verb != "deny",
            by=visit.approver,
            nonce=form.get("nonce", ""),
            note=form.get("note", ""),
            grant=terms if verb == "grant" else None,
        )
    except GateError as error:
        visit.tell_problem(error.problem)
        return visit.go(call=call_id)
    assert opened is not None, "an answer that counts has a question"
    said = _said(verb, opened, terms)
    visit.tell(said if verb == "deny" else f"{said} {opened.unattended}".rstrip(), call_id=call_id)
    return visit.go(call=following)


def _terms(seconds: str, uses: str) -> GrantTerms:
    """The bounds of a grant as the form has them; others are refused where the answer is taken."""
    try:
        return GrantTerms(int(seconds[:12] or 3_600), int(uses[:12] or 5))
    except ValueError:
        raise ToolError("the bounds of a grant are numbers", code=2002) from None


def _said(verb: str, opened: OpenQuestion, terms: GrantTerms) -> str:
    question = opened.question
    what = f"{question.tool} of {question.agent_id}"
    if verb == "deny":
        return f"Denied: {what}."
    missing = question.approvers_required - len(opened.approved_by) - 1
    if missing > 0:
        return f"You agreed to {what}; {missing} more {'person' if missing == 1 else 'people'} must."
    if verb == "grant":
        time = dict(GRANT_TIMES).get(terms.seconds, f"{terms.seconds} s")
        return f"Allowed for {time}, at most {terms.uses} times: {what}."
    return f"Allowed: {what}."


async def _after(visit: Visit, call_id: str) -> str:
    """The question that is shown once this one is answered: the next that this person may answer."""
    found = await visit.console.read(inbox.first_questions, visit.context.gate.clock, CONSOLE_QUESTIONS_SHOWN_MAX)
    items = [_item(visit, question, approved_by) for question, approved_by in found]
    place = next((number for number, item in enumerate(items) if item.call_id == call_id), 0)
    others = [item for item in items[place:] + items[:place] if item.call_id != call_id]
    chosen = next((item for item in others if item.obstacle is None), None)
    return chosen.call_id if chosen else ""
