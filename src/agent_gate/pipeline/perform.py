"""Perform: the intent is durable first, then the act, under its time and size limits; pure tools work on copies."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from hashlib import sha256
from typing import TypeVar

import orjson
from msgspec import Struct, structs

from agent_gate.model import record
from agent_gate.model.bounds import (
    FAILURE_CHARS_MAX,
    OUTPUT_BYTES_MAX,
    STATE_BYTES_MAX,
    TOOL_TIMEOUT_S,
    TRANSITION_ON_LOOP_BYTES_MAX,
    TRANSITION_TIMEOUT_S,
)
from agent_gate.model.call import BoundCall
from agent_gate.model.charge import Charge
from agent_gate.model.codec import CodecError, canonical, compact, sha256_hex, weight
from agent_gate.model.committed import Committed
from agent_gate.model.differences import difference
from agent_gate.model.ending import Ending, NextState, Output
from agent_gate.model.errors import GateError, Problem
from agent_gate.model.outcome import SUCCESS, Status
from agent_gate.model.project import ProjectState
from agent_gate.model.schema import validator
from agent_gate.model.secrecy import output_without_secrets, without_secrets
from agent_gate.model.tool import Effect, Json, ToolDeclaration
from agent_gate.model.work import Change, Claim, KeepBlob, Open, Undo, Work
from agent_gate.pipeline.alarms import Alarms
from agent_gate.ports.ledger import Append, Turn
from agent_gate.ports.surroundings import Clock, Ids
from agent_gate.ports.tools import Failed, Judged, Moved, Prepared, Proposal, WithRows
from agent_gate.toolkit.threads import TRANSITIONS

Result = TypeVar("Result")
Conclusion = TypeVar("Conclusion")

_NONE, _WRITE = Effect.NONE, Effect.WRITE

UNAVAILABLE = 2006
"""A tool fails with this code where nothing was performed: what was reserved for the act is released."""


def needs_intent(declaration: ToolDeclaration) -> bool:
    """True where the ledger must know of the act before it happens: whatever changes the world or costs something."""
    if declaration.effect is _NONE:
        return False
    return declaration.effect is _WRITE or declaration.cost > 0 or declaration.intent


class Intent(Struct, frozen=True):
    """An act that is about to begin, and what goes into the ledger with the word of it."""

    judged: Judged
    charges: tuple[Charge, ...]
    """To be reserved until the end of the call."""
    claim: Claim | None
    started_at: float | None
    """The beginning of the call, where this is its first entry."""
    kept: bytes | None
    """Everything that undoing the act will need."""
    resolution: Mapping[str, str] | None
    changes: tuple[Change, ...]
    turn: Turn | None
    """The turn at the state that the verdict rests on, where it does."""


class Performer:
    """Does what was decided, within its time, after the word of it is on record."""

    def __init__(self, ledger: Append, clock: Clock, ids: Ids) -> None:
        self._ledger, self._clock, self._ids = ledger, clock, ids
        self._alarms = Alarms()
        self._broken_off: set[str] = set()

    def break_off(self, call_id: str) -> None:
        """Let the act of a call end now, or not begin; what it has reached by then is for settling to say."""
        self._broken_off.add(call_id)
        self._alarms.ring(call_id)

    def forget(self, call_id: str) -> None:
        """The call is over, whether or not its act was broken off."""
        self._broken_off.discard(call_id)

    async def keep(self, prepared: Prepared) -> bytes | Ending | None:
        """Keep what undoing the act will need; an ending where it cannot begin, Moved where it must be bound again."""
        return await self._within_time(prepared, prepared.keep, _as_it_is, acted=False) if prepared.keep else None

    async def intend(self, intent: Intent) -> Committed:
        """Write the intent, with what was kept to undo the act, and reserve what the act will count against."""
        prepared, kept, turn = intent.judged.prepared, intent.kept, intent.turn
        call = prepared.call
        draft = record.performing(
            call,
            prepared.facts,
            intent.judged.verdict,
            at=self._clock.now(),
            instance=self._ledger.instance,
            salt=self._ids.salt(),
            started_at=intent.started_at,
            kept_hash=None if kept is None else sha256_hex(kept),
            resolution=intent.resolution,
        )
        changes: list[Change] = [] if intent.claim is None else [intent.claim]
        if prepared.undoes is not None:
            changes.append(Undo(prepared.undoes))
        changes += (*intent.changes, *intent.charges, Open("call", call.call_id))
        if kept is not None:
            changes.append(KeepBlob(record.undo_blob(call.call_id), kept))
        stands_on = None if turn is None else turn.state.ref
        work = Work(call.request.project, (draft,), tuple(changes), must_be_open=True, stands_on=stands_on)
        return await (self._ledger if turn is None else turn).commit(work)

    def act(self, prepared: Prepared) -> Awaitable[Ending | Proposal]:
        assert prepared.act is not None
        return self._within_time(prepared, prepared.act, _succeeded, acted=True)

    async def preview(self, prepared: Prepared) -> Ending | Proposal:
        """Find out what the act would come to; where that cannot be had here, the ending says why, and is a success."""
        ending = await self.act(structs.replace(prepared, act=prepared.preview, proposes=True))
        if not isinstance(ending, Ending):
            return ending
        if ending.problem is not None and ending.problem.code == UNAVAILABLE:
            return Ending(Status.SUCCESS, message=ending.problem.detail)
        return ending

    async def intend_commit(
        self, judged: Judged, proposal: Proposal, output: Output | None, journal: bytes
    ) -> Committed:
        """Write that what was proposed is about to be done, with all that finishing or undoing it will need."""
        call = judged.prepared.call
        draft = record.committing(
            call,
            judged.verdict,
            files=[change.to_json() for change in proposal.changes],
            manifest_hash=proposal.manifest_hash,
            kept_hash=sha256_hex(journal),
            data=output.encoded if output else b"null",
            at=self._clock.now(),
            salt=self._ids.salt(),
            failure=proposal.failure,
        )
        undo = KeepBlob(record.undo_blob(call.call_id), journal)
        return await self._ledger.commit(Work(call.request.project, (draft,), (undo,), must_be_open=True))

    async def _within_time(
        self,
        prepared: Prepared,
        step: Callable[[BoundCall], Awaitable[Result]],
        conclude: Callable[[Prepared, Result], Conclusion],
        *,
        acted: bool,
    ) -> Conclusion | Ending:
        """Let the step run until its time is up; conclude from its result, or tell how it failed."""
        declaration, args = prepared.declaration, prepared.call.args
        is_pure = prepared.transition is not None
        limit_s = declaration.timeout_s or (TRANSITION_TIMEOUT_S if is_pure else TOOL_TIMEOUT_S)
        run_ends_at = prepared.call.request.run_ends_at
        left_s = limit_s if run_ends_at is None else run_ends_at - self._clock.monotonic()
        call_id = prepared.call.call_id
        if call_id in self._broken_off:
            return self._ended_early(prepared, acted=False)
        alarm = self._alarms.set(call_id, min(left_s, limit_s))
        try:
            result = await step(prepared.call)
        except BaseException as error:
            if isinstance(error, Moved) and not acted:
                raise
            if alarm.rang and call_id in self._broken_off:
                return self._ended_early(prepared, acted=acted)
            if alarm.rang:
                counts = acted and not prepared.proposes and not is_pure
                return Ending.failed(_timed_out(declaration, limit_s, left_s < limit_s, counts), acted=acted)
            problem = _problem(error, declaration, args)
            return Ending.failed(problem, acted=acted and problem.code != UNAVAILABLE)
        finally:
            self._alarms.stop(alarm)
        return conclude(prepared, result)

    def _ended_early(self, prepared: Prepared, *, acted: bool) -> Ending:
        self._broken_off.discard(prepared.call.call_id)
        return _broken_off(prepared, acted)

    async def transit(self, prepared: Prepared, state: ProjectState, schema: Mapping[str, Json] | None) -> Ending:
        """Run a pure tool on copies; what it returns must be JSON, fit the project's schema and keep within bounds.

        In a thread, so that others are served meanwhile, and within its time: a thread that goes on after that is left
        alone, and what it comes to is not taken.
        """
        work = partial(_transited, prepared, state, schema)
        if not _ends_soon(prepared, state):
            return await self._within_time(prepared, lambda _: TRANSITIONS.run(work, {}), _as_it_is, acted=True)
        try:
            return work()
        except BaseException as error:
            return Ending.failed(_problem(error, prepared.declaration, prepared.call.args), acted=True)


def _ends_soon(prepared: Prepared, state: ProjectState) -> bool:
    if not prepared.registered.is_brief:
        return False
    return _size(state.document, state.encoded) + _size(dict(prepared.call.args), _encoded_args(prepared.call)) <= (
        TRANSITION_ON_LOOP_BYTES_MAX
    )


def _size(value: Json, encoded: bytes | None) -> int:
    return weight(value, TRANSITION_ON_LOOP_BYTES_MAX) if encoded is None else len(encoded)


def _encoded_args(call: BoundCall) -> bytes | None:
    """Their canonical bytes, where they are at hand: those that are recorded hold no secrets."""
    return call.recorded_json if call.recorded_args is call.args else None


def _transited(prepared: Prepared, state: ProjectState, schema: Mapping[str, Json] | None) -> Ending:
    transition, args, document = prepared.transition, prepared.call.args, state.document
    assert transition is not None
    before = canonical(document) if state.encoded is None else state.encoded
    if prepared.registered.is_brief:
        new = transition(orjson.loads(_encoded_args(prepared.call) or canonical(args)), document)
    else:
        new = transition(orjson.loads(orjson.dumps(args)), orjson.loads(before))
    ending = structs.replace(_with_own_output(new.data), message=new.message)
    if new.state is document or ending.problem:
        return ending
    after = compact(canonical(new.state))
    if after == before:
        return ending
    problem = _unfit(new.state, after, schema)
    if problem:
        return Ending.failed(problem, acted=True)
    value = new.state if prepared.registered.is_brief else orjson.loads(after)
    diff = tuple(_copied(difference(document, value)))
    return structs.replace(ending, next_state=NextState(after, value, sha256_hex(after), diff))


def _with_own_output(data: Json) -> Ending:
    """A result that has nothing in common with the state: whoever gets it may change it."""
    ending = with_output(data)
    if not isinstance(data, dict | list) or ending.output is None:
        return ending
    return structs.replace(ending, output=structs.replace(ending.output, data=_copied(data)))


def _copied(value: Json) -> Json:
    return orjson.loads(orjson.dumps(value))


def _problem(error: BaseException, declaration: ToolDeclaration, args: Mapping[str, Json]) -> Problem:
    """The problem that a tool's own failure amounts to; what is meant for the gate itself goes on to it."""
    if isinstance(error, GateError):
        problem = error.problem.at("perform")
        return replace(problem, detail=without_secrets(problem.detail, args, declaration))
    if not isinstance(error, Exception | SystemExit | asyncio.CancelledError) or _is_being_cancelled():
        raise error
    # Cut only afterwards: the beginning of a secret would not be known for one.
    told = without_secrets(f"`{declaration.name}` failed: {type(error).__name__}: {error}", args, declaration)
    return Problem(2003, told[:FAILURE_CHARS_MAX], stage="perform")


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _as_it_is(prepared: Prepared, result: Result) -> Result:  # noqa: ARG001 -- the shape of a conclusion
    return result


def _succeeded(prepared: Prepared, data: Json | Failed | WithRows | Proposal) -> Ending | Proposal:
    if prepared.proposes and isinstance(data, Proposal):
        return data
    if isinstance(data, Failed):
        ending = _succeeded(prepared, data.data)
        assert isinstance(ending, Ending)
        return structs.replace(ending, status=Status.ERROR, problem=ending.problem or data.problem)
    if isinstance(data, WithRows):
        ending = _succeeded(prepared, data.data)
        assert isinstance(ending, Ending)
        return structs.replace(ending, rows=data.rows) if ending.problem is None else ending
    if prepared.declaration.secret:
        data = output_without_secrets(data, prepared.call.args, prepared.declaration)
    return with_output(data)


def with_output(data: Json) -> Ending:
    if data is None:
        return Ending(Status.SUCCESS, acted=True)
    try:
        output = canonical(data)
    except CodecError as error:
        return Ending.failed(Problem(2003, f"the tool's result is not JSON: {error}", stage="perform"), acted=True)
    if len(output) > OUTPUT_BYTES_MAX:
        return Ending.failed(
            Problem(2005, f"the result has {len(output)} bytes, more than {OUTPUT_BYTES_MAX}", stage="perform"),
            acted=True,
        )
    return Ending(SUCCESS, output=Output(data, output, sha256(output).hexdigest()), acted=True)


def _unfit(document: Json, encoded: bytes, schema: Mapping[str, Json] | None) -> Problem | None:
    if len(encoded) > STATE_BYTES_MAX:
        return Problem(2005, f"the new state has {len(encoded)} bytes, more than {STATE_BYTES_MAX}", stage="perform")
    wrong = validator(schema)(document) if schema else None
    if wrong:
        return Problem(2003, f"the new state does not fit the project's schema: {wrong}", stage="perform")
    return None


def _broken_off(prepared: Prepared, acted: bool) -> Ending:
    declaration = prepared.declaration
    if not acted:
        problem = Problem(1020, "the run was broken off before this step was performed", "run it again", "perform")
        return Ending.denied(problem)
    if declaration.effect is Effect.WRITE and not prepared.proposes:
        detail = f"`{declaration.name}` was broken off while it ran; it may have acted"
        return Ending(Status.UNKNOWN, Problem(2007, detail, "look at the target", "perform"), acted=True)
    nothing = "; nothing was written" if prepared.proposes else ""
    detail = f"`{declaration.name}` was broken off while it ran{nothing}"
    return Ending.failed(Problem(2003, detail, "run it again", "perform"), acted=True)


def _timed_out(declaration: ToolDeclaration, limit_s: float, cut_by_run: bool, acted: bool) -> Problem:
    if cut_by_run:
        return Problem(
            1008, "the run's global timeout was reached inside this step", "raise global_timeout_seconds", "perform"
        )
    return Problem(
        2004,
        f"`{declaration.name}` did not end within {limit_s:g} s; it {'may have' if acted else 'has not'} acted",
        "look at the target",
        "perform",
    )
