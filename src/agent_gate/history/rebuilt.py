"""The side tables as the entries say they must be: rebuilt while the chains are walked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import orjson

from agent_gate.model.codec import restore
from agent_gate.ports.examining import Scratch

_WORK = ',"work":{'


@dataclass(frozen=True, slots=True)
class Place:
    project: str
    seq: int


@dataclass(slots=True)
class Asked:
    """An open question, by the entries that put it and that took it over last."""

    put: Place
    held: Place


@dataclass(slots=True)
class Rebuilt:
    """The tables made anew; open matters are no more than were open at once, what grows is in the storage's scratch."""

    tables: Scratch
    open_work: dict[str, tuple[str, Place]] = field(default_factory=dict)
    questions: dict[str, Asked] = field(default_factory=dict)
    effects: dict[str, tuple[str, str | None, str | None, str, str]] = field(default_factory=dict)
    """By id: project, call, tool, instance, hash of the payload."""
    contacts: dict[str, tuple[str, str | None]] = field(default_factory=dict)
    """Of those that are set: when, and the hash of the sealed value, which earlier releases did not tell."""
    created: dict[str, str] = field(default_factory=dict)
    erased_at: dict[str, str] = field(default_factory=dict)
    """Moments at which something was last erased in a project."""
    claims: int = 0
    grants: int = 0

    def close(self) -> None:
        self.tables.close()

    def note(
        self,
        project: str,
        seq: int,
        at: str,
        kind: str,
        run_id: str | None,
        call_id: str | None,
        tool: str | None,
        status: str | None,
        body: str | None,
    ) -> None:
        """One entry, in the order of the chain; without a body it was erased, and only its header tells."""
        if seq == 1:
            self.created[project] = at
        work = work_of(body) if body is not None else {}
        match kind:
            case "performing":
                self.open_work[call_id or ""] = "call", Place(project, seq)
            case "settled" | "judged":
                self.open_work.pop(call_id or "", None)
                self.questions.pop(call_id or "", None)
            case "run":
                self._note_run(project, seq, run_id or "", status)
            case "held":
                self._note_held(project, seq, call_id or "", body)
            case "answered" if status == "denied" and body is not None:
                self._note_refusal(project, at, call_id, body)
            case "grant":
                self.grants += status == "given"
            case "effect" if body is not None:
                self.effects.pop(restore(body.encode()).get("effect_id"), None)
            case "contact" if body is not None:
                self._note_contact(restore(body.encode()), at, status, work)
            case "schema" if body is not None:
                self._begin_counters(None, restore(body.encode())["counters"])
            case "erased":
                self.erased_at[project] = at
            case _:
                pass
        if work:
            self._note_work(project, call_id, tool, work)

    def _note_work(self, project: str, call_id: str | None, tool: str | None, work: dict[str, Any]) -> None:
        if "counters" in work:
            self._begin_counters(project, [[project, *row] for row in work["counters"]])
        for scope, bucket, amount, window in work.get("charges", ()):
            self.tables.count(project, scope, bucket, amount, window)
        for scope, bucket, amount, window in work.get("releases", ()):
            self.tables.count(project, scope, bucket, -amount, window)
        for effect_id, instance, payload_hash in work.get("effects", ()):
            self.effects[effect_id] = project, call_id, tool, instance, payload_hash
        self.claims += "claim" in work

    def _note_run(self, project: str, seq: int, run_id: str, status: str | None) -> None:
        if status == "running":
            self.open_work[run_id] = "run", Place(project, seq)
        else:
            self.open_work.pop(run_id, None)
            self.tables.forget_quotas(project, run_id)

    def _note_held(self, project: str, seq: int, call_id: str, body: str | None) -> None:
        """The question itself stands in the entry that put it; one that took it over says less."""
        place = Place(project, seq)
        asked = self.questions.get(call_id)
        if asked is None or (body is not None and "args" in restore(body.encode())):
            self.questions[call_id] = Asked(place, place)
        else:
            asked.held = place

    def _note_refusal(self, project: str, at: str, call_id: str | None, body: str) -> None:
        signatures = restore(body.encode())["signatures"]
        self.tables.note_refusals((project, signature, at, call_id) for signature in signatures)

    def _note_contact(self, fields: dict[str, Any], at: str, status: str | None, work: dict[str, Any]) -> None:
        if status == "set":
            self.contacts[fields["key"]] = at, work.get("sealed")
        else:
            self.contacts.pop(fields["key"], None)

    def _begin_counters(self, project: str | None, rows: list[list[Any]]) -> None:
        """From here on, because what came before cannot be told any more: of one project, or of all."""
        self.tables.begin_counters(project, rows)


def work_of(body: str) -> dict[str, Any]:
    """Find what an entry's transaction did to the side tables; exact, and without parsing what stands before it.

    The field is the last of the body, so that what follows its key is its value and one closing brace.
    """
    place = body.rfind(_WORK)
    if place < 0:
        return {}
    try:
        found: dict[str, Any] = orjson.loads(body[place + len(_WORK) - 1 : -1])
    except ValueError:
        found = restore(body.encode()).get("work", {})
    return found
