"""The core-engine document's records keep their fields, order and defaults."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from typing import Any

import pytest

import agent_gate
from agent_gate import (
    AuditEntry,
    Decision,
    PendingApproval,
    PermissionRule,
    Permissions,
    ToolRequest,
    ToolResult,
)
from agent_gate.model.schema import validator


@pytest.mark.parametrize(
    ("record", "names"),
    [
        (ToolRequest, "id tool_name args signature"),
        (ToolResult, "request_id status data"),
        (PendingApproval, "request future message_id timeout_task created_at expires_at"),
        (
            AuditEntry,
            (
                "request_id timestamp tool_name args signature decision"
                " resolution resolved_by resolved_at execution_result agent_id"
            ),
        ),
        (PermissionRule, "pattern action description when"),
        (Permissions, "defaults rules"),
    ],
)
def test_a_record_has_the_document_s_fields_in_its_order(record: Any, names: str) -> None:
    assert [field.name for field in dataclasses.fields(record)] == names.split()


def test_decisions_are_allow_deny_and_ask() -> None:
    assert {decision.name: decision.value for decision in Decision} == {"ALLOW": "allow", "DENY": "deny", "ASK": "ask"}


def test_a_request_has_no_signature_yet_and_its_own_arguments() -> None:
    request = ToolRequest(id="r", tool_name="ha_get_states")
    assert (request.signature, request.args) == ("", {})
    assert request.args is not ToolRequest(id="s", tool_name="t").args


def test_a_result_may_be_without_data() -> None:
    assert ToolResult(request_id="r", status="denied").data is None


async def test_a_pending_approval_knows_when_it_was_made() -> None:
    before = time.time()
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    pending = PendingApproval(ToolRequest("r", "t"), future)
    assert before <= pending.created_at <= time.time()
    assert (pending.message_id, pending.timeout_task) == (None, None)


def test_an_audit_entry_of_an_unasked_call_has_no_resolution() -> None:
    entry = AuditEntry("r", 1.5, "t", {"a": 1}, "t(1)", "allow")
    assert (entry.resolution, entry.resolved_by, entry.resolved_at, entry.execution_result) == (None, None, None, None)
    assert (entry.agent_id, entry.timestamp) == ("default", 1.5)


def test_a_rule_needs_no_description_and_no_condition() -> None:
    rule = PermissionRule("ha_get_*", "allow")
    assert (rule.description, rule.when) == ("", "")
    assert (Permissions().defaults, Permissions().rules) == ([], [])


def test_every_promised_name_can_be_imported() -> None:
    for name in agent_gate.__all__:
        assert getattr(agent_gate, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = agent_gate.Nothing


def test_a_large_value_that_does_not_fit_is_refused_without_a_search_for_every_reason() -> None:
    wrong = validator({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}}}})
    assert "0" in str(wrong({"a": [0]}))
    assert wrong({"a": [0] * 100_000}) == "it does not fit its schema, and is too large to say where; try with less"
