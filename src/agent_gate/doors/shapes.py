"""Shapes in which several doors show the same things."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from agent_gate.gate.gate import Gate
from agent_gate.gate.plans import RunResult
from agent_gate.model.approval import Question
from agent_gate.model.call import Agent, Facts
from agent_gate.model.codec import canonical, sha256_hex
from agent_gate.model.moment import iso
from agent_gate.model.tool import ToolDeclaration
from agent_gate.policy import layers
from agent_gate.policy.judge import Judge
from agent_gate.tools.gate import GATE_READ


def run_to_json(run: RunResult) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "run_id": run.run_id,
        "status": run.status,
        "outcomes": [outcome.to_json() for outcome in run.outcomes],
    }
    if run.problem:
        fields["error"] = run.problem.to_json()
    return fields


def tool_to_json(tool: ToolDeclaration) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "input_schema": dict(tool.input_schema),
        "effect": tool.effect.value,
        "risk": tool.risk.value,
        "cost": tool.cost,
        "confirmation_required": tool.confirmation_required,
        "required_roles": list(tool.required_roles),
    }


def question_to_json(question: Question, approved_by: Sequence[str]) -> dict[str, Any]:
    """An open question, without what an answer needs."""
    fields: dict[str, Any] = {
        "call_id": question.call_id,
        "request_id": question.request_id,
        "project": question.project,
        "agent_id": question.agent_id,
        "tool": question.tool,
        "args": dict(question.args),
        "signatures": list(question.signatures),
        "reasons": [dict(reason) for reason in question.reasons],
        "created_at": iso(question.created_at),
        "expires_at": iso(question.expires_at),
        "approvers_required": question.approvers_required,
        "approved_by": list(approved_by),
        "approver_roles": list(question.approver_roles),
    }
    if question.has_run:
        fields["has_run"] = True
    if question.run_id is not None:
        fields["run_id"] = question.run_id
    return fields


def digest(question: Question) -> str:
    """Of all that is shown and asked: call, arguments, nonce, deadline."""
    return sha256_hex(canonical(asdict(question)))


def offered_to(agent: Agent, gate: Gate) -> list[ToolDeclaration]:
    """The tools that an agent could ever use, as the policy declares them, by name."""
    judge = gate.judge
    tools = (judge.declared(registered.declaration) for registered in gate.tools.all())
    return sorted((tool for tool in tools if _could_use(agent, tool, judge)), key=lambda tool: tool.name)


def _could_use(agent: Agent, tool: ToolDeclaration, judge: Judge) -> bool:
    """Tell whether neither its roles nor a guard that is not set up rule it out, whatever the arguments."""
    if tool.name == GATE_READ.name:  # the doors have their own ways to ask for it
        return False
    section = tool.section
    if section is not None and section.is_needed and judge.policy.guards.of(tool.name) is None:
        return False
    facts = Facts(0.0, agent.mode, agent.roles, True, judge.policy_hash)
    reason, _ = layers.roles(tool, facts, judge.policy.roles)
    return reason.decision is None
