"""One call: its way through the six stages, what it changed, its place in the chain, and how to undo it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from agent_gate.doors.console.frame import Visit, address
from agent_gate.doors.console.shown import Step, arguments, markup, plain, steps
from agent_gate.doors.console.stages import Stage, stages_of
from agent_gate.doors.console.undo import submit_for, tell_outcome
from agent_gate.gate.approvals import OpenQuestion
from agent_gate.history import query, state
from agent_gate.history.links import Link, link_of
from agent_gate.model.bounds import CONSOLE_VALUE_CHARS_MAX
from agent_gate.model.codec import restore
from agent_gate.model.entry import Entry
from agent_gate.model.errors import GateError, ToolError
from agent_gate.model.outcome import Outcome
from agent_gate.model.record import outcome_of, output_blob
from agent_gate.model.tool import Json
from agent_gate.model.visible import drawn
from agent_gate.ports.reading import Reader
from agent_gate.ports.tools import RegisteredTool

_PLACE_DIGITS_MAX = 12


@dataclass(frozen=True, slots=True)
class Story:
    first: Entry
    outcome: Outcome | None
    args: Mapping[str, Json]
    stages: list[Stage]
    steps: list[Step]
    links: list[Link]
    data: Json

    @property
    def holds(self) -> bool:
        return all(link.holds for link in self.links)


async def show(visit: Visit) -> Response:
    story = await visit.console.read(_story, visit.request.path_params["call_id"])
    if visit.asked("of"):
        return await _show_text(visit, story)
    registered = visit.context.gate.tools.find(story.first.tool or "")
    sensitive = tuple(registered.declaration.sensitive) if registered else ()
    opened = await visit.context.approvals.question(story.first.call_id or "")
    return await visit.page(
        "call.html",
        story=story,
        arguments=arguments(story.args, sensitive),
        is_open=opened is not None,
        can_undo=_can_undo(story, registered),
    )


async def _show_text(visit: Visit, story: Story) -> Response:
    """The rest of what was too long for another page, part by part."""
    call_id, of, name = story.first.call_id or "", visit.asked("of"), visit.request.query_params.get("name", "")
    opened = await visit.context.approvals.question(call_id)
    text = plain(_part(story, opened, of, name))
    start = _place(visit.asked("from"))
    made = drawn(text[start:], CONSOLE_VALUE_CHARS_MAX, in_a_file=True)
    return await visit.page(
        "text.html",
        call_id=call_id,
        chars=len(text),
        end=max(start, len(text) - made.left_out),
        here=address("calls", call_id, of=of, name=name),
        is_open=opened is not None,
        part=markup(made),
        start=start,
        title=f"{of}: {name}" if name else of,
        tool=story.first.tool,
    )


def _part(story: Story, opened: OpenQuestion | None, of: str, name: str) -> Json:
    """The arguments and names of an open question as they were put; else what the record has."""
    outcome = story.outcome
    signatures = opened.question.signatures if opened else outcome.signatures if outcome else ()
    whole: dict[str, Json] = {
        "args": opened.question.args if opened else story.args,
        "changes": outcome.state_diff if outcome else None,
        "files": outcome.files if outcome else None,
        "result": story.data,
        "signatures": {str(number): signature for number, signature in enumerate(signatures)},
    }
    value = whole.get(of)
    if value is None or (name and not (isinstance(value, Mapping) and name in value)):
        raise ToolError("the call has no such part", code=2002, suggestion="go there from the call's page")
    return value[name] if name else list(value.values()) if of == "signatures" else value


def _place(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _PLACE_DIGITS_MAX else 0


def _can_undo(story: Story, registered: RegisteredTool | None) -> bool:
    """Tell whether undoing could lead to anything; whether it may is for the gate to say."""
    if story.outcome is None or not story.outcome.ok:
        return False
    return story.outcome.snapshot_id is not None or (registered is not None and registered.undo is not None)


async def undo(visit: Visit) -> Response:
    """A call like any other: judged, recorded, and asked about where the policy says so."""
    call_id = visit.request.path_params["call_id"]
    story = await visit.console.read(_story, call_id)
    outcome = await submit_for(visit, "gate.revert", {"call_id": call_id}, story.first.project)
    tell_outcome(visit, outcome, "Undone")
    return visit.go("calls", call_id)


def _story(reader: Reader, call_id: str) -> Story:
    with reader.one_moment():
        entries = query.call(reader, call_id)
        bodies = [_fields(entry) for entry in entries]
        args: Mapping[str, Json] = next((body["args"] for body in bodies if "args" in body), {})
        outcome = outcome_of(entries, reader.blob(output_blob(call_id)))
        return Story(
            entries[0],
            outcome,
            args,
            stages_of(entries, bodies, outcome),
            _changes(reader, entries[0].project, outcome),
            [link_of(reader, entry) for entry in entries],
            outcome.data if outcome else None,
        )


def _fields(entry: Entry) -> dict[str, Any]:
    fields = restore(entry.body) if entry.body is not None else {}
    return fields if isinstance(fields, dict) else {}


def _changes(reader: Reader, project: str, outcome: Outcome | None) -> list[Step]:
    if outcome is None or not outcome.state_diff or outcome.state_version is None:
        return []
    try:
        before = state.show(reader, project, outcome.state_version - 1).document
    except GateError:
        return steps(outcome.state_diff)
    return steps(outcome.state_diff, before)
