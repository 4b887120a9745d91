"""Tests of what an MCP client is shown of outcomes and questions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from mcp_types import CallToolResult, TextContent

from agent_gate.doors.mcp.results import asked, result_of
from agent_gate.model.approval import Approver, Question
from agent_gate.model.errors import Problem
from agent_gate.model.outcome import Outcome, Status
from agent_gate.model.tool import Json
from tests.gates import NOON

QUESTION = Question(
    call_id="c1",
    request_id="r1",
    project="default",
    agent_id="bot",
    owner="carol",
    tool="mail.send",
    args={},
    signatures=("mail.send(hello)",),
    reasons=({"layer": "rules", "rule": "mail.*", "text": "mails are looked at"},),
    bound_hash="",
    nonce="",
    policy_hash="",
    approver_roles=("operator",),
    approvers_required=1,
    created_at=NOON,
    expires_at=NOON + 900,
)
PEOPLE = (Approver("anna", ("admin",)), Approver("bob", ("operator",)), Approver("carol", ("admin",)))


def text_of(result: CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


@pytest.mark.parametrize(
    ("data", "message", "text"),
    [
        ({"a": [1, "ä"]}, "", '{"a":[1,"ä"]}'),
        ("plain", "", '"plain"'),
        ([], "", "[]"),
        (None, "now 3", "now 3"),
        (None, "", "success"),
    ],
)
def test_a_success_reads_as_its_data_or_else_its_message(data: Json, message: str, text: str) -> None:
    outcome = Outcome(call_id="c", status=Status.SUCCESS, data=data, message=message)
    result = result_of(outcome)
    assert (text_of(result), result.is_error, result.structured_content) == (text, False, outcome.to_json())


@pytest.mark.parametrize(
    ("status", "problem", "text"),
    [
        (
            Status.DENIED,
            Problem(1002, "`/x` is outside", "add it"),
            "denied (1002 path_denied): `/x` is outside; add it",
        ),
        (Status.ERROR, Problem(2003, "it broke"), "error (2003 tool_failed): it broke"),
        (Status.EXPIRED, Problem(1016, "nobody answered"), "expired (1016 approval_expired): nobody answered"),
        (Status.UNKNOWN, Problem(2007, "lost"), "unknown (2007 outcome_unknown): lost"),
    ],
)
def test_anything_else_is_an_error_that_says_why_on_one_line(status: Status, problem: Problem, text: str) -> None:
    outcome = Outcome(call_id="c", status=status, error=problem)
    result = result_of(outcome)
    assert (text_of(result), result.is_error, result.structured_content) == (text, True, outcome.to_json())


def test_what_an_agent_wrote_cannot_hide_in_a_line() -> None:
    problem = Problem(1001, "`a\u202eb\n\nc\x1b[2J` is denied")
    text = text_of(result_of(Outcome(call_id="c", status=Status.DENIED, error=problem)))
    assert text == "denied (1001 policy_denied): `a⟨U+202E⟩b c⟨U+001B⟩[2J` is denied"


def test_a_question_says_what_is_asked_until_when_who_answers_and_how_to_come_back() -> None:
    assert asked(QUESTION, (), PEOPLE).splitlines() == [
        "pending approval: a person must agree to mail.send(hello)",
        "why: mails are looked at",
        "until: 2026-03-04T12:15:00.000000Z",
        "who can answer: anna, bob",
        "where: in the console of `agent-gate serve`, or `agent-gate approve c1`",
        "how to come back: make the same call again, or call gate_result with call_id c1",
    ]


@pytest.mark.parametrize(
    ("changes", "approved_by", "people", "words"),
    [
        ({"approver_roles": ("admin",)}, (), PEOPLE, "who can answer: anna\n"),
        ({"approver_roles": ("admin",)}, (), (), "who can answer: an approver with role admin\n"),
        ({"approver_roles": ()}, (), (), "who can answer: any approver\n"),
        ({"approvers_required": 3}, ("anna",), PEOPLE, "who can answer: anna, bob; 2 of them must agree\n"),
        ({}, (), tuple(Approver(f"p{n}") for n in range(8)), "who can answer: p0, p1, p2, p3, p4 and 3 more\n"),
        (
            {"signatures": tuple(f"s{n}" for n in range(12))},
            (),
            PEOPLE,
            ", s8, s9 and 2 more\n",
        ),
    ],
)
def test_a_question_names_only_who_may_answer_it(
    changes: dict[str, Any], approved_by: tuple[str, ...], people: tuple[Approver, ...], words: str
) -> None:
    assert words in asked(replace(QUESTION, **changes), approved_by, people)


def test_a_command_that_was_denied_after_it_ran_tells_what_it_said_and_would_have_changed() -> None:
    outcome = Outcome(
        call_id="c",
        status=Status.DENIED,
        data={"return_code": 0, "stdout": "hi\n", "stderr": ""},
        error=Problem(1002, "`.envrc` is hidden", "name it", "perform"),
        files=({"path": "/w/.envrc", "change": "added", "bytes": 2},),
    )
    first, second = text_of(result_of(outcome)).splitlines()
    assert first == "denied (1002 path_denied): `.envrc` is hidden; name it"
    assert second == (
        '{"data":{"return_code":0,"stdout":"hi\\n","stderr":""},'
        '"files":[{"path":"/w/.envrc","change":"added","bytes":2}]}'
    )
