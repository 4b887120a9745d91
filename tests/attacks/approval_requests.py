"""Requests that a proxy puts before the gate: one is approved, and another one comes that should not be it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent_gate.chain.builtin.gate import GatePolicy
from agent_gate.config import ChainPolicyConfig
from agent_gate.doors.policy_agent.proto import envoy_pb2 as pb
from agent_gate.gate.traffic import Traffic
from tests.agents import Client
from tests.attacks.cases import Case
from tests.attacks.exchanges import an_agent_before, answers, outcome, shown
from tests.gates import ANNA, ASK_ALL, a_gate, agent, soon

_CALL_ID = "x-agent-gate-call-id"


def run(case: Case, root: Path) -> str:
    return asyncio.run(_play(case, root))


async def _play(case: Case, root: Path) -> str:
    step = ChainPolicyConfig("gate", metadata={"agent_id": "bot", **case.policy})
    async with (
        a_gate(root, ASK_ALL) as gate,
        Traffic(gate, {"bot": agent("bot")}) as approvals,
        an_agent_before(root, [{"chain": "all"}], {"all": [step]}, GatePolicy(approvals)) as client,
    ):
        first = await _send(client, case.args["approved"])
        assert first is not None
        (answer,) = first
        told = {option.header.key: option.header.raw_value for option in answer.immediate_response.headers.set_headers}
        await gate.answer(told[_CALL_ID].decode(), approve=True, by=ANNA)
        return outcome(await _send(client, case.args["sent"]))


async def _send(client: Client, request: Mapping[str, Any]) -> list[pb.ProcessingResponse] | None:
    messages = shown(request.get("headers", {}), then=["last body"] if "body" in request else [])
    if "body" in request:
        body = pb.HttpBody(body=request["body"].encode("latin-1"), end_of_stream=True)
        messages[-1] = pb.ProcessingRequest(request_body=body)
    return await soon(answers(client, messages))
