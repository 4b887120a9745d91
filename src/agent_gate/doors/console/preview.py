"""Preview of what an approval would lead to, as far as that can be known: a state's difference, or files on a copy."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent_gate.doors.console.shown import Step, steps
from agent_gate.doors.context import ServerContext
from agent_gate.model.approval import Question
from agent_gate.model.bounds import CONSOLE_PARTS_MAX
from agent_gate.model.call import Agent, CallRequest
from agent_gate.model.codec import restore
from agent_gate.model.entry import Entry
from agent_gate.model.errors import GateError
from agent_gate.model.outcome import Outcome, Status
from agent_gate.model.tool import Effect, Mode

ON_REQUEST = frozenset({"shell.run"})
"""Previews that run what an agent wrote, on a copy: only when the person who looks at it wants to."""
ENTITIES_SHOWN_MAX = 20


@dataclass(frozen=True, slots=True)
class Preview:
    text: str
    steps: Sequence[Step] = ()
    """Difference of the state."""
    changes: Sequence[Mapping[str, Any]] = ()
    """Differences of files."""
    printed: Mapping[str, Any] | None = None
    """Output of a command that ran on the copy."""
    can_be_tried: bool = False
    is_warning: bool = False


async def preview_of(context: ServerContext, question: Question, *, try_it: bool = False) -> Preview:
    registered = context.gate.tools.find(question.tool)
    if registered is None:
        return Preview("This tool is not offered here any more: an approval would lead to an error.", is_warning=True)
    if question.written is not None:
        return _written(question.written)
    if registered.declaration.secret & question.args.keys():
        return Preview("Secret arguments are not kept, so nothing can be tried beforehand.")
    on_request = question.tool in ON_REQUEST
    request = _as_it_was_made(question, await context.gate.ledger.entries_of(question.call_id))
    state = await context.gate.ledger.state(question.project)
    try:
        async with asyncio.timeout(context.bounds.console_preview_s):
            outcome, _ = await context.gate.simulate(request, with_previews=try_it or not on_request, as_if_agreed=True)
    except TimeoutError:
        return Preview(
            f"Trying it took longer than {context.bounds.console_preview_s:.0f} s and was broken off.", is_warning=True
        )
    except GateError as error:
        return Preview(f"It could not be tried: {error.problem.detail}.", is_warning=True)
    if outcome.status is Status.PENDING_APPROVAL and outcome.files:
        return _told(outcome, state.document, registered.declaration.effect, can_be_tried=False)
    if outcome.status is not Status.SUCCESS:
        problem = outcome.error.detail if outcome.error else outcome.message
        return Preview(f"An approval would end as {outcome.status.value} now: {problem}.", is_warning=True)
    return _told(outcome, state.document, registered.declaration.effect, on_request and not try_it)


def _written(changes: Sequence[Mapping[str, Any]]) -> Preview:
    count = f"{len(changes)} file{'' if len(changes) == 1 else 's'}"
    return Preview(f"The command has run on a copy. {count} would change; nothing is written yet.", changes=changes)


def _told(outcome: Outcome, before: Any, effect: Effect, can_be_tried: bool) -> Preview:
    if effect is Effect.NONE or outcome.state_diff is not None:
        diff = outcome.state_diff or ()
        count = f"{len(diff)} change{'' if len(diff) == 1 else 's'}" if diff else "No change"
        first = f"; the first {CONSOLE_PARTS_MAX} of them" if len(diff) > CONSOLE_PARTS_MAX else ""
        text = f"{count} to the state{first}; nothing outside the gate is touched."
        return Preview(text, steps(diff[:CONSOLE_PARTS_MAX], before))
    data = outcome.data if isinstance(outcome.data, Mapping) else {}
    if "changes" in data:
        changes = data["changes"]
        printed = {key: data[key] for key in ("return_code", "stdout", "stderr") if key in data} or None
        text = f"{len(changes)} file{'' if len(changes) == 1 else 's'} would change."
        if outcome.status is Status.PENDING_APPROVAL:
            text += " When it has run for good, you are asked again about what it wrote."
        return Preview(text if changes else "No file would change.", changes=changes, printed=printed)
    if "entities" in data:
        return Preview(_of_entities(data["entities"]))
    if can_be_tried:
        return Preview("Not tried yet. It can run on a copy of the files, without a network.", can_be_tried=True)
    if effect is Effect.READ:
        return Preview("It reads, and changes nothing.")
    said = outcome.message
    return Preview(f"This tool has no preview: what it will change is not known before{f' ({said})' if said else ''}.")


def _of_entities(entities: Mapping[str, Mapping[str, str]]) -> str:
    """Show what a call reaches in a home: how it is, and how it would be where that is known."""
    told = [
        f"{name} is {one['now']} now" + (f", and would be {one['then']} again" if "then" in one else "")
        for name, one in entities.items()
    ]
    more = f"; and {len(told) - ENTITIES_SHOWN_MAX} more" if len(told) > ENTITIES_SHOWN_MAX else ""
    count = f"{len(told)} {'entity' if len(told) == 1 else 'entities'}"
    return f"It reaches {count}: {'; '.join(told[:ENTITIES_SHOWN_MAX])}{more}." if told else "It names no entity."


def _as_it_was_made(question: Question, entries: Sequence[Entry]) -> CallRequest:
    """The wish with the roles and the mode that the call had; it counts against nobody's limits."""
    told: Mapping[str, Any] = next(
        (restore(entry.body) for entry in entries if entry.kind == "held" and entry.body), {}
    )
    facts = told.get("facts", {})
    agent = Agent(
        question.agent_id,
        tuple(facts.get("roles", ("operator",))),
        (question.project,),
        Mode(facts["mode"]) if "mode" in facts else Mode.ASSISTED,
        question.owner,
    )
    return CallRequest(agent, question.tool, question.args, question.project, confirmed=facts.get("confirmed", False))
