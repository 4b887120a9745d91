"""Replaying a run: recorded results are returned, verdicts and pure transitions are computed again and compared."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import Any

from agent_gate.config import policy_from
from agent_gate.history import replay_record
from agent_gate.history.rejudge import Rejudge, policy_source
from agent_gate.history.replay import Difference, is_secret, replay_transitions
from agent_gate.history.replay_record import Examined, Mismatch, NotCompared
from agent_gate.history.report import read_json, run_of, steps_of
from agent_gate.history.run_chain import chain_findings
from agent_gate.model.codec import hash_of, restore, sha256_hex
from agent_gate.model.entry import Kind
from agent_gate.model.errors import GateError, ReplayError, ToolError
from agent_gate.model.moment import iso
from agent_gate.model.policy import Policy
from agent_gate.model.tool import ToolDeclaration
from agent_gate.model.verdict import Verdict
from agent_gate.policy import pointers
from agent_gate.policy.guards import Surroundings
from agent_gate.policy.judge import Judge
from agent_gate.ports.ledger import Append
from agent_gate.ports.reading import EntryFilter, Reader
from agent_gate.ports.storage import Storage
from agent_gate.ports.surroundings import Clock, Ids
from agent_gate.ports.tools import Transition

Find = Callable[[str], Transition | None]
Tools = Mapping[str, ToolDeclaration] | None


@dataclass(frozen=True, slots=True)
class Replayed:
    run_id: str
    """The new run, of mode `replay`."""
    original_run_id: str
    steps: list[dict[str, Any]]
    """The record, bit for bit."""
    mismatches: list[Mismatch]
    """Places where the run, under its own policy, would not come out as recorded."""
    changes: list[Mismatch]
    """Places where another policy would have judged otherwise."""
    not_recomputed: list[NotCompared] = field(default_factory=list)
    """Steps that cannot be computed again here, which says nothing against the record."""

    def to_json(self) -> dict[str, Any]:
        return {
            "run_id": self.run_id,
            "original_run_id": self.original_run_id,
            "steps": self.steps,
            "mismatches": [mismatch.to_json() for mismatch in self.mismatches],
            "changes": [change.to_json() for change in self.changes],
            "not_recomputed": [one.to_json() for one in self.not_recomputed],
        }


async def replay_run(
    ledger: Append,
    run_id: str,
    *,
    clock: Clock,
    ids: Ids,
    find: Find,
    other: Policy | None = None,
    tools: Tools = None,
) -> Replayed:
    """Nothing is executed; the replay is itself a run in the ledger, linked to its original.

    `tools` are those that are loaded here; without, the built-in ones and those of installed packages.
    """
    examined = await asyncio.to_thread(_examine, ledger.storage, run_id, find, other, tools)
    new_id = ids.new()
    await ledger.commit(replay_record.work(examined, new_id, ledger.instance, iso(clock.now()), ids, other))
    return Replayed(
        new_id,
        examined.run["run_id"],
        examined.steps,
        examined.mismatches,
        examined.changes,
        examined.not_recomputed,
    )


def _examine(storage: Storage, run_id: str, find: Find, other: Policy | None, tools: Tools) -> Examined:
    """On a thread of its own: a gate that replays goes on with its calls."""
    with closing(storage.reader()) as reader, reader.one_moment():
        run = run_of(reader, run_id)
        if "original_run_id" in run:
            raise _is_a_replay(run)
        steps, project = steps_of(reader, run["run_id"]), _project_of(reader, run["run_id"])
        around = _surroundings_of(reader, run["run_id"])
        found = [*_unfit(reader, run, project, steps), *_recomputed(reader, run, project, steps, find, around, tools)]
        return Examined(
            run,
            project,
            steps,
            [one for one in found if isinstance(one, Mismatch)],
            list(_changes(reader, run["run_id"], Judge(other, around), tools)) if other else [],
            [one for one in found if isinstance(one, NotCompared)],
        )


def _is_a_replay(run: Mapping[str, Any]) -> ReplayError:
    original = run["original_run_id"]
    return ReplayError(
        f"run `{run['run_id']}` is itself a replay, of run `{original}`",
        code=4001,
        suggestion=f"replay the original: `agent-gate replay {original}`",
    )


def _unfit(reader: Reader, run: dict[str, Any], project: str, steps: list[dict[str, Any]]) -> Iterator[Mismatch]:
    """Find where the record does not fit itself: its chain, its counts, its plan and policy, its hashes."""
    indexes = {step["call_id"]: step.get("step_index") for step in steps}
    for finding in chain_findings(reader, run["run_id"], project):
        call_id = _call_at(reader, project, finding.seq)
        yield Mismatch(finding.code, str(finding), call_id, indexes.get(call_id))
    for name in ("plan", "policy"):
        if run[f"{name}_json"] is None or sha256_hex(run[f"{name}_json"].encode()) != run[f"{name}_hash"]:
            yield Mismatch(4002, f"the recorded {name} is not the one that the run was made with")
    plan = read_json(run["plan_json"])
    if plan is not None:
        yield from _against_plan(plan, steps)
    yield from _hashes(steps)


def _call_at(reader: Reader, project: str, seq: int | None) -> str:
    entry = None if seq is None else reader.entry_at(project, seq)
    return (entry.call_id if entry else None) or ""


def _recomputed(
    reader: Reader,
    run: dict[str, Any],
    project: str,
    steps: list[dict[str, Any]],
    find: Find,
    surroundings: Surroundings,
    tools: Tools,
) -> Iterator[Mismatch | NotCompared]:
    """Find what verdicts and pure transitions come to now, where that is not what was recorded, or cannot be known."""
    yield from _verdicts(reader, run, surroundings, tools)
    indexes = {step["call_id"]: step.get("step_index") for step in steps}
    for found in replay_transitions(reader, project, find, run["run_id"]):
        index = indexes.get(found.call_id)
        if isinstance(found, Difference):
            yield Mismatch(4004, found.what, found.call_id, index)
        else:
            yield NotCompared(found.why, found.call_id, index)
    for step in steps:
        if step.get("erased"):
            yield NotCompared("what it was has been erased", step["call_id"], step.get("step_index"))


def _against_plan(plan: dict[str, Any], steps: list[dict[str, Any]]) -> Iterator[Mismatch]:
    """Each recorded step must be the plan's, at its place; arguments that refer to earlier steps were filled in."""
    for step in steps:
        if step.get("erased"):
            continue
        index = step.get("step_index")
        if index is None or not 0 <= index < len(plan["steps"]):
            yield Mismatch(4003, "the plan has no such step", step["call_id"], index)
            continue
        planned = plan["steps"][index]
        if planned["tool"] != step["tool_name"]:
            yield Mismatch(4003, f"the plan says `{planned['tool']}`", step["call_id"], index)
        elif "args" in step and not any(_fits(args, step["args"]) for args in _spellings(planned, step["args"])):
            yield Mismatch(4003, "the plan has other arguments", step["call_id"], index)


def _spellings(planned: dict[str, Any], recorded: Mapping[str, Any]) -> Iterator[Any]:
    """The arguments as the plan has them and as binding spells them; a call that was not bound keeps the first."""
    args = planned.get("args", {})
    yield args
    args = {name: value for name, value in args.items() if value is not None or name in recorded}
    yield args
    if planned["tool"] in pointers.TOOLS:
        with suppress(ToolError):
            yield pointers.with_pointer(args)


def _fits(planned: Any, recorded: Any) -> bool:
    if isinstance(planned, str) and "${steps." in planned:
        return True
    if is_secret(recorded):
        return True
    if isinstance(planned, dict) and isinstance(recorded, dict):
        return planned.keys() == recorded.keys() and all(_fits(planned[key], recorded[key]) for key in planned)
    if isinstance(planned, list) and isinstance(recorded, list):
        return len(planned) == len(recorded) and all(map(_fits, planned, recorded))
    return bool(planned == recorded)


def _hashes(steps: list[dict[str, Any]]) -> Iterator[Mismatch]:
    for step in steps:
        result = step["result"]
        if "args" in step and "input_hash" in result and hash_of(step["args"]) != result["input_hash"]:
            yield Mismatch(
                4004, "the arguments are not those that were hashed", step["call_id"], step.get("step_index")
            )
        if "data" in result and hash_of(result["data"]) != result.get("output_hash"):
            yield Mismatch(4004, "the result is not the one that was hashed", step["call_id"], step.get("step_index"))


def _verdicts(
    reader: Reader, run: dict[str, Any], surroundings: Surroundings, tools: Tools
) -> Iterator[Mismatch | NotCompared]:
    """Every verdict again, under the policy that was in force for that very call, as was judged then."""
    rejudge, judges = Rejudge(reader, tools), dict[str, Judge | None]()
    edition = _edition_of(reader, run["run_id"])
    for call in rejudge.calls(run_id=run["run_id"]):
        policy_hash = call.policy_hash
        if policy_hash not in judges:
            judges[policy_hash] = _judge_of(reader, policy_hash, surroundings, edition, tools)
        judge = judges[policy_hash]
        index = call.step_index
        if judge is None:
            yield Mismatch(4002, f"the policy {policy_hash} is not recorded", call.call_id, index)
            continue
        verdict = rejudge.verdict(call, judge, as_it_was=True)
        if verdict.decision is not call.decision or _rules(verdict) != call.rules:
            if call.has_secrets:  # an expression may have looked at them
                yield NotCompared("its secret arguments are not recorded", call.call_id, index)
                continue
            was = f"{call.decision.value} by {', '.join(call.rules) or 'no rule'}"
            now = f"{verdict.decision.value} by {', '.join(_rules(verdict)) or 'no rule'}"
            yield Mismatch(4004, f"the verdict was {was} and is now {now}", call.call_id, index)


def _changes(reader: Reader, run_id: str, other: Judge, tools: Tools) -> Iterator[Mismatch]:
    rejudge = Rejudge(reader, tools)
    for call in rejudge.calls(run_id=run_id):
        verdict = rejudge.verdict(call, other, as_it_was=False)
        if verdict.decision is not call.decision:
            text = f"{', '.join(call.signatures)}: {call.decision.value} would be {verdict.decision.value}"
            yield Mismatch(4004, text, call.call_id, call.step_index)


def _rules(verdict: Verdict) -> tuple[str, ...]:
    return tuple(reason.rule for reason in verdict.reasons if reason.rule)


def _judge_of(reader: Reader, policy_hash: str, surroundings: Surroundings, edition: int, tools: Tools) -> Judge | None:
    source = policy_source(reader, policy_hash)
    try:
        return None if source is None else Judge(policy_from(source, tools=tools), surroundings, edition)
    except GateError as error:
        raise ReplayError(f"the recorded policy cannot be read: {error.problem.detail}", code=4002) from error


def _surroundings_of(reader: Reader, run_id: str) -> Surroundings:
    """Find where the gate stood when it made the run: what relative paths were relative to."""
    recorded = _at_the_beginning(reader, run_id, "surroundings")
    return Surroundings.from_json(recorded) if recorded else Surroundings()


def _edition_of(reader: Reader, run_id: str) -> int:
    """Find which edition of judging was in force; the first one was not recorded."""
    return int(_at_the_beginning(reader, run_id, "judging") or 1)


def _at_the_beginning(reader: Reader, run_id: str, field: str) -> Any:
    first = next(reader.entries(EntryFilter(run_id=run_id, kinds=(Kind.RUN,)), limit=1), None)
    return restore(first.body).get(field) if first and first.body else None


def _project_of(reader: Reader, run_id: str) -> str:
    return next(reader.entries(EntryFilter(run_id=run_id), limit=1)).project
