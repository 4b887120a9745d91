"""Outcomes as results of MCP: what a client that shows only the text lets its agent see."""

from __future__ import annotations

from mcp_types import TextContent

from agent_gate.doors.mcp.results import result_of
from agent_gate.model.errors import Problem
from agent_gate.model.outcome import Outcome, Status


def test_a_command_that_was_denied_after_it_ran_tells_what_it_said_and_would_have_changed() -> None:
    outcome = Outcome(
        call_id="c",
        status=Status.DENIED,
        data={"return_code": 0, "stdout": "hi\n", "stderr": ""},
        error=Problem(1002, "`.envrc` is hidden", "name it", "perform"),
        files=({"path": "/w/.envrc", "change": "added", "bytes": 2},),
    )
    result = result_of(outcome)
    [content] = result.content
    assert isinstance(content, TextContent)
    first, second = content.text.splitlines()
    assert first == "denied (1002 path_denied): `.envrc` is hidden; name it"
    assert second == (
        '{"data":{"return_code":0,"stdout":"hi\\n","stderr":""},'
        '"files":[{"path":"/w/.envrc","change":"added","bytes":2}]}'
    )
    assert result.is_error
