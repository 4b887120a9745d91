"""The names that programs import, and where those of the four documents are found here."""

from __future__ import annotations

import dataclasses
import inspect
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import agent_gate
from agent_gate import (
    Gate,
    GateError,
    Outcome,
    PlanValidationError,
    PolicyDeniedError,
    ReplayError,
    StorageError,
    Tool,
    ToolContext,
    ToolError,
    ToolOutput,
    ToolRequest,
    config,
    load_plan,
    open_gate,
    replay_run,
)
from agent_gate.compat import TOOL_SERVICE_MAP, DocumentDatabase, Executor, get_audit_log
from agent_gate.ledger.sqlite.migrate import HEADS, revisions
from agent_gate.ledger.sqlite.reader import open_reader
from agent_gate.model.call import CallRequest
from agent_gate.model.tool import Json, ToolDeclaration
from agent_gate.ports.services import Service, ServiceHandler
from agent_gate.services.registry import ToolRegistry
from tests.gates import ALLOW_ALL, a_gate, sender

NAMES = """
Gate, open_gate, tool, transition, Decision, ToolRequest, ToolResult, PendingApproval, AuditEntry, PermissionRule,
Permissions, PermissionEngine, Config, ConfigError, build_signature, validate_args, load_config, load_permissions,
load_policy, load_plan, run_plan, replay_run, verify_run, GateError
"""


@pytest.mark.parametrize("name", NAMES.replace("\n", " ").strip().split(", "))
def test_each_name_of_the_interface_is_imported_from_the_package(name: str) -> None:
    scope: dict[str, Any] = {}
    exec(f"from agent_gate import {name.strip()} as found", scope)
    assert scope["found"].__name__ == name.strip()
    assert name.strip() in agent_gate.__all__


async def test_the_interface_s_own_lines_work_as_they_stand(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("hello")
    policy = {"tools": {"fs.read": {"allow_paths": ["./**"]}}}
    async with open_gate(policy=policy, db=tmp_path / "a.db", working_dir=tmp_path) as gate:
        outcome = await gate.call("fs.read", path="README.md")
    assert (outcome.status.value, outcome.data["content"]) == ("success", "hello")


@pytest.mark.parametrize(
    ("name", "documented"),
    [
        ("TLSConfig", "cert key"),
        ("GatewayConfig", "host port tls"),
        ("AgentConfig", "token"),
        ("TelegramConfig", "token chat_id allowed_users"),
        ("MessengerConfig", "type telegram"),
        ("HomeAssistantConfig", "url token"),
        ("StorageConfig", "type path"),
        ("RateLimitConfig", "max_pending_approvals max_requests_per_minute"),
        ("Config", "gateway agent messenger services storage approval_timeout rate_limit"),
    ],
)
def test_the_config_dataclasses_keep_the_documents_fields_and_order_and_what_follows_has_defaults(
    name: str, documented: str
) -> None:
    fields = dataclasses.fields(getattr(config, name))
    first, more = fields[: len(documented.split())], fields[len(documented.split()) :]
    missing = dataclasses.MISSING
    assert [field.name for field in first] == documented.split()
    assert all(field.default is not missing or field.default_factory is not missing for field in more)


def test_with_agents_the_one_agent_is_none_and_a_messenger_may_be_absent(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("gateway: {host: 127.0.0.1, port: 8443}\nagents: [{id: kitchen-bot, token: made-up-for-a-test}]\n")
    loaded = config.load_config(file)
    assert (loaded.agent, loaded.messenger, loaded.approval_timeout) == (None, None, 900)
    assert [agent.id for agent in loaded.agents] == ["kitchen-bot"]
    assert agent_gate.PermissionRule("a", "allow").when == ""


async def test_executor_and_tool_service_map_are_the_tool_registry_with_the_same_two_texts() -> None:
    texts = {}
    for name in ("nobody_knows", "ha_get_state"):
        with pytest.raises(ToolError) as raised:
            await Executor({}).execute(name, {})
        texts[name] = str(raised.value)
        assert ToolRegistry().missing(name).detail == texts[name]
    assert texts == {
        "nobody_knows": "Unknown tool: nobody_knows",
        "ha_get_state": "Service not configured: homeassistant",
    }
    assert set(TOOL_SERVICE_MAP.values()) == {"homeassistant"}


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def test_service_handler_and_module_are_service() -> None:
    assert public(ServiceHandler) == {"execute", "health_check", "close"}
    assert public(Service) - public(ServiceHandler) >= {"start", "tools"}


async def test_the_database_s_methods_are_on_the_ledger_under_the_same_names(tmp_path: Path) -> None:
    names = {"insert_pending", "get_pending", "delete_pending", "cleanup_stale_requests", "close"}
    async with a_gate(tmp_path, ALLOW_ALL) as gate:
        assert names <= public(type(gate.ledger))
        assert isinstance(gate.ledger, DocumentDatabase)
        await gate.ledger.insert_pending("r", "t", {"a": 1}, "t(1)", gate.clock.now() + 60)
        found = await gate.ledger.get_pending("r")
        await gate.ledger.delete_pending("r")
        gone = await gate.ledger.get_pending("r")
        stale = await gate.ledger.cleanup_stale_requests()
    assert found is not None
    assert (found["tool_name"], found["signature"], gone, stale) == ("t", "t(1)", None, [])


async def test_initialize_is_the_upgrade_at_open_and_the_audit_log_is_the_settled_entries(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ALLOW_ALL, sender([])) as gate:
        outcome = await gate.call("mail.send", text="hi", request_id="r1")
    with closing(open_reader(tmp_path / "gate.db")) as reader:
        [entry] = get_audit_log(reader, limit=100)
        assert revisions(reader.connection) == HEADS
    assert (entry.request_id, entry.tool_name, entry.args) == ("r1", "mail.send", {"text": "hi"})
    assert (entry.signature, entry.decision, entry.timestamp) == ("mail.send(hi)", "allow", outcome.ended_at)
    assert entry.execution_result == {"sent": "hi"}


def test_chat_intent_is_a_request_with_confirmed_and_mode() -> None:
    fields = set(CallRequest.__struct_fields__)
    assert {"tool", "args", "confirmed", "mode"} <= fields
    assert {"confirmed", "mode"} <= set(inspect.signature(Gate.call).parameters)
    assert ToolRequest("r", "t", {"a": 1}).args == {"a": 1}


def test_execution_result_is_the_outcome_and_action_declaration_the_tool_s() -> None:
    outcome = set(Outcome.__struct_fields__)
    declaration = {field.name for field in dataclasses.fields(ToolDeclaration)}
    assert {"status", "state_diff", "snapshot_id", "error"} <= outcome
    assert {"input_schema", "required_roles", "confirmation_required", "preconditions", "risk"} <= declaration


async def test_tool_tool_context_and_tool_output_are_accepted_by_the_registry(tmp_path: Path) -> None:
    class MyTool(Tool):
        name = "my.tool"

        def execute(self, args: dict[str, Json], context: ToolContext) -> ToolOutput:
            return ToolOutput(success=True, data={"in": context.working_dir.name})

    async with a_gate(tmp_path, ALLOW_ALL, MyTool(), working_dir=tmp_path) as gate:
        assert gate.tools.find("my.tool") is not None
        assert (await gate.call("my.tool")).data == {"in": tmp_path.name}


async def test_the_errors_are_gate_errors_raised_by_outcomes_and_by_loaders(tmp_path: Path) -> None:
    for kind in (PolicyDeniedError, ToolError, PlanValidationError, ReplayError, StorageError):
        assert issubclass(kind, GateError)
    with pytest.raises(PlanValidationError):
        load_plan({"version": "1.0", "name": "p", "steps": []})
    async with a_gate(tmp_path, {"boundary": "deny_by_default"}, sender([])) as gate:
        with pytest.raises(PolicyDeniedError):
            (await gate.call("mail.send")).raise_for_status()
        with pytest.raises(ToolError):
            (await gate.call("nobody.knows")).raise_for_status()
        with pytest.raises(ReplayError):
            await replay_run(gate, "nope")
    with pytest.raises(StorageError):
        (await gate.call("mail.send")).raise_for_status()
