"""The side tables, row by row, held against what the entries say they must be."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from typing import Any

import orjson

from agent_gate.history.findings import ODD_VALUES, Findings
from agent_gate.history.rebuilt import Asked, Place, Rebuilt, work_of
from agent_gate.model.approval import Question, question_of
from agent_gate.model.moment import iso
from agent_gate.ports.examining import COLUMNS, Row, StoredTables

COUNTING_ERROR_MAX = 1e-6
ADDED, REMOVED, BARE, ALL = "a row more", "a row less", "a row without a question", "everything"

UNCOVERED: Mapping[tuple[str, str], str] = {
    ("blobs", ADDED): "a document that no entry names decides nothing",
    ("clock", ALL): "a note of where the clock stood; that it was set is an entry",
    ("entries", "id"): "only the order of the rows counts",
    ("ha_entity_snapshot", ALL): "a copy of the home, for whoever looks while it is away",
    ("heads", "created_at"): "of `default` and `_gate` alone, which are made with the file",
    ("pending_requests", BARE): "a bare request, which nobody decides by",
    ("question_messages", "channel"): "which message to edit; what it says comes from the question",
    ("question_messages", "reference"): "which message to edit; what it says comes from the question",
    ("question_messages", ADDED): "only about calls that people were asked about",
    ("question_messages", REMOVED): "which message to edit; what it says comes from the question",
    ("waiting_results", "at"): "the order in which an agent is told",
    ("waiting_results", ADDED): "only outcomes of the agent's own calls",
    ("waiting_results", REMOVED): "that an agent has an outcome is no entry",
}
"""Columns that verification says nothing about, by table, and why; the reference has the same list."""


class SideTables:
    """Streams over each table once; what it needs of an entry it finds by an index, which was checked before."""

    def __init__(self, tables: StoredTables, findings: Findings, rebuilt: Rebuilt) -> None:
        self._tables, self._findings, self._rebuilt = tables, findings, rebuilt

    def check(self, tables: set[str]) -> None:
        checks: Mapping[str, Callable[[], None]] = {
            "open_work": self._check_open_work,
            "pending_requests": self._check_questions,
            "grants": self._check_grants,
            "requests": self._check_requests,
            "counters": self._check_counters,
            "refusals": self._check_refusals,
            "outbox": self._check_outbox,
            "contact_info": self._check_contacts,
            "snapshots": self._check_snapshots,
            "waiting_results": self._check_results,
            "question_messages": self._check_messages,
        }
        for table, check in checks.items():
            if table in tables:
                try:
                    check()
                except ODD_VALUES:
                    self._add(f"the table `{table}` holds a value that is never written")

    def _add(self, what: str, project: object = None) -> None:
        self._findings.add(project, None, what)

    def _body(self, place: Place) -> Mapping[str, Any]:
        body = self._tables.body_at(place.project, place.seq)
        found: Mapping[str, Any] = orjson.loads(body) if body else {}
        return found

    def _check_open_work(self) -> None:
        wanted = dict(self._rebuilt.open_work)
        for id, kind, project, instance in self._tables.rows("open_work"):
            told = wanted.pop(id, None)
            if told is None:
                self._add(f"{kind} `{id}` is noted as open, and no entry says so", project)
            elif (kind, project, instance) != (told[0], told[1].project, self._body(told[1]).get("instance")):
                self._add(f"what is noted of {told[0]} `{id}` being open is not what its entry says", project)
        for id, (kind, place) in wanted.items():
            self._add(f"{kind} `{id}` is not noted as open, and its entries say that it is", place.project)

    def _check_questions(self) -> None:
        wanted = dict(self._rebuilt.questions)
        columns = COLUMNS["pending_requests"]
        for row in self._tables.rows("pending_requests"):
            fields = dict(zip(columns, row, strict=True))
            call_id, project = fields["call_id"], fields["project"]
            asked = wanted.pop(call_id, None)
            if asked is None:
                self._add(f"a question about call `{call_id}` is open that no entry put", project)
            elif not self._tables.is_as_put(call_id):
                self._add(f"the question about call `{call_id}` is not the one that was put", project)
            else:
                self._check_columns(asked, fields)
        for call_id, asked in wanted.items():
            self._add(f"the question about call `{call_id}` is gone", asked.put.project)

    def _check_columns(self, asked: Asked, fields: Mapping[str, Any]) -> None:
        question, put = question_of(fields["question"]), self._body(asked.put)
        resolution, approved_by = self._tables.answers(question.call_id, question.nonce, question.approvers_required)
        wanted = _columns_of(question) | {"instance": self._body(asked.held).get("instance")}
        if "work" not in put:  # an earlier release kept these of a first question that another took the place of
            del wanted["created_at"], wanted["instance"]
        odd = [name for name, value in wanted.items() if fields[name] != value]
        if (fields["resolution"], tuple(orjson.loads(fields["approved_by"]))) != (resolution, approved_by):
            odd.append("answer")
        if odd:
            what = f"the {', '.join(odd)} of the question about call `{question.call_id}`"
            self._add(f"{what} {'is' if len(odd) == 1 else 'are'} not as the entries say", question.project)

    def _check_grants(self) -> None:
        rows = 0
        for grant, revoked_at in self._tables.grants():
            rows += 1
            status = self._tables.grant_status(grant)
            if status is None:
                self._add(f"grant `{grant.grant_id}` is there, and no entry says that a person gave it", grant.project)
            elif (grant.uses_left, revoked_at) != status:
                self._add(f"what is left of grant `{grant.grant_id}` is not what its entries say", grant.project)
        if rows < self._rebuilt.grants:
            self._add(f"{self._rebuilt.grants - rows} of the grants that people gave are gone")

    def _check_requests(self) -> None:
        told = 0
        schema = self._tables.last_schema_id()
        for agent_id, request_id, call_id, input_hash in self._tables.rows("requests"):
            first = self._tables.first_entry(call_id)
            if first is None or first[1:3] != (agent_id, request_id):
                self._add(f"request `{request_id}` of agent `{agent_id}` is noted, and no entry tells of it")
                continue
            claim = work_of(first[3]).get("claim") if first[3] is not None else None
            told += claim is not None
            if claim != input_hash and not (claim is None and (first[3] is None or first[0] < schema)):
                self._add(f"what is noted of request `{request_id}` of agent `{agent_id}` is not what its entry says")
        if told < self._rebuilt.claims:
            self._add(f"{self._rebuilt.claims - told} requests that were made are not noted any more")

    def _check_counters(self) -> None:
        found, wanted = self._tables.rows("counters"), self._rebuilt.tables.rows("counters")
        for key, (row, told) in _side_by_side(found, wanted, 3):
            if row is None or told is None or abs(row[0] - told[0]) > COUNTING_ERROR_MAX:
                self._add(f"the count `{key[1]}` is not what its entries add up to", key[0])

    def _check_refusals(self) -> None:
        """Check refusals; what was erased took those of the same signature with it."""
        found, wanted = self._tables.rows("refusals"), self._rebuilt.tables.rows("refusals")
        for (project, _), (row, told) in _side_by_side(found, wanted, 2):
            if row is None and told is not None and told[0] <= self._rebuilt.erased_at.get(project, ""):
                continue
            if row != told:
                self._add("when a person last said no to a call is not what the entries say", project)

    def _check_outbox(self) -> None:
        wanted = dict(self._rebuilt.effects)
        for effect_id, *row, payload in self._tables.rows("outbox"):
            if wanted.pop(effect_id, None) != (*row, sha256(payload.encode()).hexdigest()):
                self._add(f"effect `{effect_id}` waits, and its entries say otherwise", row[0])
        for effect_id, told in wanted.items():
            self._add(f"effect `{effect_id}` has not run, and does not wait any more", told[0])

    def _check_contacts(self) -> None:
        wanted = dict(self._rebuilt.contacts)
        for key, value, updated_at in self._tables.rows("contact_info"):
            at, hash = wanted.pop(key, ("", None))
            if at != updated_at or hash not in (None, sha256(value).hexdigest()):
                self._add(f"contact info `{key}` is not what was last set")
        for key in wanted:
            self._add(f"contact info `{key}` was set, and is gone")

    def _check_snapshots(self) -> None:
        """That each entry's snapshot is there was seen on the walk."""
        for snapshot_id, project, is_its_moment, body, version in self._tables.snapshots_with_calls():
            told = orjson.loads(body) if body is not None else {"snapshot_id": snapshot_id, "state_version": version}
            if not is_its_moment or (told.get("snapshot_id"), told.get("state_version")) != (snapshot_id, version):
                self._add(f"snapshot `{snapshot_id}` is not one that an entry tells of", project)

    def _check_results(self) -> None:
        for call_id, agent_id in self._tables.results_of_others():
            self._add(f"the outcome of call `{call_id}` waits for agent `{agent_id}`, whose call it is not")

    def _check_messages(self) -> None:
        for (call_id,) in self._tables.messages_about_nothing():
            self._add(f"a message is noted about call `{call_id}`, about which nobody was asked")


def _columns_of(question: Question) -> dict[str, Any]:
    """The columns that only repeat what the question says."""
    return {
        "request_id": question.request_id,
        "project": question.project,
        "agent_id": question.agent_id,
        "tool_name": question.tool,
        "args": orjson.dumps(question.args).decode(),
        "signature": "\n".join(question.signatures),
        "created_at": iso(question.created_at),
        "expires_at": iso(question.expires_at),
        "approvers_required": question.approvers_required,
        "boot": question.boot or None,
        "ends_at": question.ends_at if question.boot else None,
    }


def _side_by_side(
    ours: Iterator[Row], theirs: Iterator[Row], key: int
) -> Iterator[tuple[Row, tuple[Row | None, Row | None]]]:
    """Two tables in the order of their keys: for each key, what either has under it."""
    one, other = next(ours, None), next(theirs, None)
    while one is not None or other is not None:
        first = min(row[:key] for row in (one, other) if row is not None)
        left = one[key:] if one is not None and one[:key] == first else None
        right = other[key:] if other is not None and other[:key] == first else None
        yield first, (left, right)
        one = next(ours, None) if left is not None else one
        other = next(theirs, None) if right is not None else other
