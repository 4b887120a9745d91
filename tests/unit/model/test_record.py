"""How a call is written down, and read back."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from agent_gate.model import record
from agent_gate.model.approval import Question
from agent_gate.model.call import Agent, BoundCall, CallRequest, Facts
from agent_gate.model.charge import Charge
from agent_gate.model.codec import canonical, restore
from agent_gate.model.entry import Draft, Entry, Kind
from agent_gate.model.errors import Problem
from agent_gate.model.outcome import Outcome, Status
from agent_gate.model.tool import Mode
from agent_gate.model.verdict import Decision, Reason, Verdict

AT = 1_772_625_600.0
REQUEST = CallRequest(Agent("bot"), "mail.send", {"text": "x", "key": "k"}, "home", "r", run_id="run", step_index=2)
BOUND = BoundCall(
    "call",
    REQUEST,
    REQUEST.args,
    {"text": "x", "key": {"$secret": "h"}},
    ("mail.send(x)", "mail.send(y)"),
    "input",
    {"path": "/x"},
)
FACTS = Facts(AT, Mode.ASSISTED, ("operator",), False, "0123456789abcdef0123", state={"big": "document"})
ALLOWED = Verdict(Decision.ALLOW, (Reason("rules", Decision.ALLOW, "*"), Reason("risk")))
ASKED = Verdict(Decision.ASK, (Reason("rules", Decision.ASK, "*", "why"),))
OUTCOME = Outcome(
    call_id="call",
    request_id="r",
    status=Status.SUCCESS,
    data={"sent": 1},
    message="done",
    signatures=BOUND.signatures,
    decision=Decision.ALLOW,
    reasons=ALLOWED.reasons,
    cost=1,
    started_at=AT,
    ended_at=AT + 1,
    tool="mail.send",
    args={"text": "x", "key": {"$secret": "h"}},
)
QUESTION = Question(
    "call", "r", "home", "bot", "", "mail.send", {}, ("mail.send(x)",), (), "bound", "nonce", "p", (), 1, AT, AT + 60
)


def entry(draft: Draft, seq: int = 1, **changes: Any) -> Entry:
    fields = {
        key: getattr(draft, key)
        for key in ("at", "run_id", "call_id", "request_id", "agent_id", "tool", "signature", "status", "body")
    }
    given = {"project": "home", "seq": seq, "kind": draft.kind.value, **fields, **changes}
    return Entry(**given, body_hash=b"", prev_hash=b"", hash=b"")


def settled(outcome: Outcome = OUTCOME, verdict: Verdict = ALLOWED, **options: Any) -> Draft:
    return record.settled(
        BOUND, FACTS, verdict, outcome, **{"first": True, "judged_again": False, "salt": "s", **options}
    )


def test_the_first_entry_says_what_was_wished_and_why_it_was_decided() -> None:
    draft = settled(output=(b'{"sent":1}', "out"))
    assert (draft.kind, draft.at, draft.status) == (Kind.SETTLED, "2026-03-04T12:00:01.000000Z", "success")
    assert (draft.call_id, draft.run_id, draft.request_id, draft.agent_id) == ("call", "run", "r", "bot")
    assert (draft.tool, draft.signature) == ("mail.send", "mail.send(x)\nmail.send(y)")
    assert restore(draft.body) == {
        "args": {"text": "x", "key": {"$secret": "h"}},
        "cost": 1,
        "data": {"sent": 1},
        "decision": "allow",
        "facts": {"policy": "0123456789abcdef"},
        "input_hash": "input",
        "message": "done",
        "output_hash": "out",
        "reasons": [{"layer": "rules", "rule": "*"}],
        "resources": {"path": "/x"},
        "salt": "s",
        "signatures": ["mail.send(x)", "mail.send(y)"],
        "started_at": "2026-03-04T12:00:00.000000Z",
        "step_index": 2,
    }


def test_later_entries_refer_to_the_first_and_one_that_was_judged_again_says_how() -> None:
    later = restore(settled(first=False).body)
    assert not {"args", "facts", "reasons"} & later.keys()
    again = restore(settled(first=False, judged_again=True).body)
    assert (again["reasons"], again["facts"]) == ([{"layer": "rules", "rule": "*"}], {"policy": "0123456789abcdef"})
    assert "args" not in again
    intent = restore(record.performing(BOUND, FACTS, ALLOWED, AT, "me", "s", None).body)
    assert (intent["instance"], "reasons" in intent, "args" in intent) == ("me", True, False)


def test_a_large_result_is_named_by_its_hash_and_lives_elsewhere() -> None:
    large = b'"' + b"x" * record.INLINE_DATA_BYTES_MAX + b'"'
    body = restore(settled(output=(large, "out")).body)
    assert (body["output_hash"], "data" in body) == ("out", False)


def test_a_held_call_tells_what_it_reserves() -> None:
    charges = (Charge("budget", 7, 1, 3, 10, 1013),)
    body = restore(record.held(BOUND, FACTS, ASKED, QUESTION, "me", "s", AT, charges).body)
    assert body["reserved"] == [["budget", 7, 3]]
    assert (body["nonce"], body["bound_hash"], body["expires_at"]) == (
        "nonce",
        BOUND.bound_hash,
        "2026-03-04T12:01:00.000000Z",
    )
    assert "reserved" not in restore(record.held(BOUND, FACTS, ASKED, QUESTION, "me", "s", AT).body)


def test_an_outcome_is_read_back_as_it_was() -> None:
    draft = settled(output=(canonical(OUTCOME.data), "out"))
    assert record.outcome_of([entry(draft)]) == OUTCOME


def test_the_reasons_of_a_call_with_several_entries_are_those_of_its_last_judgement() -> None:
    held = entry(record.held(BOUND, FACTS, ASKED, QUESTION, "me", "s", AT), 1)
    intent = entry(record.performing(BOUND, FACTS, ALLOWED, AT, "me", "s", None), 2)
    end = entry(settled(first=False, output=(canonical(OUTCOME.data), "out")), 3)
    assert record.outcome_of([held, intent]) is None
    assert record.outcome_of([held, intent, end]) == OUTCOME
    expired = replace(OUTCOME, status=Status.EXPIRED, data=None, decision=Decision.ASK, reasons=ASKED.reasons)
    end = entry(settled(expired, ASKED, first=False, judged_again=False), 2)
    assert record.outcome_of([held, end]) == expired


def test_a_result_in_a_blob_is_found_there() -> None:
    draft = settled(replace(OUTCOME, data="x" * 40_000), output=(b'"' + b"x" * 40_000 + b'"', "out"))
    found = record.outcome_of([entry(draft)], b'"' + b"x" * 40_000 + b'"')
    assert found is not None
    assert found.data == "x" * 40_000


def test_an_erased_outcome_says_so_and_keeps_its_status() -> None:
    found = record.outcome_of([entry(settled(), body=None, signature=None)])
    assert found is not None
    assert (found.status, found.message, found.data, found.signatures) == (Status.SUCCESS, "erased", None, ())


def test_an_effect_after_the_end_does_not_hide_it() -> None:
    effect = entry(Draft(Kind.EFFECT, "2026-03-04T12:00:02.000000Z", b"{}", "call"), 2)
    draft = settled(output=(canonical(OUTCOME.data), "out"))
    assert record.outcome_of([entry(draft), effect]) == OUTCOME


def test_a_call_that_was_never_bound_is_settled_without_a_signature() -> None:
    problem = Problem(2001, "Unknown tool: x", stage="bind")
    refused = Outcome(call_id="call", request_id="r", status=Status.ERROR, error=problem, started_at=AT, ended_at=AT)
    draft = record.unbound(REQUEST, "call", None, refused, "s")
    body = restore(draft.body)
    assert (draft.signature, draft.status, body["signatures"], body["step_index"]) == (None, "error", [], 2)
    assert "args" not in body
    assert restore(record.unbound(REQUEST, "call", {"a": 1}, refused, "s").body)["args"] == {"a": 1}


def test_an_answer_is_bound_to_what_was_shown() -> None:
    draft = record.answered(QUESTION, "approved", "anna", AT, "fine", "s")
    assert restore(draft.body) == {
        "bound_hash": "bound",
        "nonce": "nonce",
        "note": "fine",
        "policy_hash": "p",
        "resolution": "approved",
        "resolved_at": "2026-03-04T12:00:00.000000Z",
        "resolved_by": "anna",
        "salt": "s",
        "signatures": ["mail.send(x)"],
    }
    read = entry(draft)
    assert (record.answered_by(read), record.answered_at(read)) == ("anna", AT)


def test_the_facts_are_recorded_without_what_is_ordinary_and_without_the_state() -> None:
    assert FACTS.to_json(asking_mattered=True) == {"policy": "0123456789abcdef"}
    odd = replace(
        FACTS,
        mode=Mode.AUTONOMOUS,
        roles=("admin",),
        confirmed=True,
        state_version=4,
        can_ask=False,
        refused_recently=True,
    )
    assert odd.to_json(asking_mattered=True) == {
        "policy": "0123456789abcdef",
        "state_version": 4,
        "mode": "autonomous",
        "roles": ["admin"],
        "confirmed": True,
        "can_ask": False,
        "refused_recently": True,
    }
    assert replace(Facts.from_json(odd.to_json(asking_mattered=True), AT), state=odd.state, policy_hash="") == replace(
        odd, policy_hash=""
    )


@pytest.mark.parametrize("number", [21.0, 2.5, 1e-7, 1e21, 1e16, -0.0, 0.1, 3])
def test_an_entry_is_canonical_whatever_numbers_a_call_has(number: float) -> None:
    values = {"\U0001f600": number, "\uffff": [number], "e": "1e5,2.0]"}
    bound = replace(BOUND, recorded_args=values, resources=values)
    facts = replace(FACTS, usage={"spent_today": number}, found=values)
    outcome = replace(OUTCOME, cost=number, data=values, state_version=1, state_diff=(values,))
    drafts = [
        record.settled(
            bound, facts, ALLOWED, outcome, True, False, "s", output=(canonical(values), "out"), state_hash="h"
        ),
        record.held(bound, facts, ASKED, QUESTION, "instance", "s", AT, (Charge("budget", 1, 1, number, 5, 1012),)),
        record.performing(bound, facts, ALLOWED, AT, "instance", "s", AT),
        record.reverted(bound, outcome, "s"),
    ]
    for draft in drafts:
        assert canonical(restore(draft.body)) == draft.body
