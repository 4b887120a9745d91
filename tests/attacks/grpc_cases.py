"""Calls of other users to the policy agent, and requests that would rather not be judged by it."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import grpc.aio

from agent_gate.config import ChainPolicyConfig
from agent_gate.doors.policy_agent.proto import policy_agent_pb2 as pb
from agent_gate.doors.policy_agent.relay import relaying
from tests.agents import Client, a_client, a_ref, a_request, an_agent
from tests.attacks.cases import Case
from tests.attacks.exchanges import an_agent_before, answers, outcome, shown
from tests.attacks.runner import Skipped
from tests.gates import soon
from tests.peers import can_be, door_of

CHECKS: frozenset[str] = frozenset()


CHAINS = {
    "keyed": [ChainPolicyConfig("api_key", metadata={"keys": [{"id": "anna", "key": "key-of-anna-0123456789abcdef"}]})],
    "open": [ChainPolicyConfig("set_headers", metadata={"headers": {"x-checked-by": "agent-gate"}})],
}


def run(case: Case, root: Path) -> str:
    if case.tool == "grpc.exchange":
        return asyncio.run(_exchange(case, root))
    if not can_be(case.args["peer_uid"]):
        raise Skipped
    # Below a directory that every user can reach into, unlike the root of the case.
    outer = Path(tempfile.mkdtemp(prefix="attack-grpc-"))
    outer.chmod(0o711)
    try:
        return asyncio.run(_call(case, root, outer))
    finally:
        shutil.rmtree(outer)


async def _exchange(case: Case, root: Path) -> str:
    """Whether the messages of one request, as Envoy shows them, get past the chain of their route."""
    async with an_agent_before(root, case.policy["routes"], CHAINS) as client:
        return outcome(await soon(answers(client, shown(**case.args))))


async def _call(case: Case, root: Path, outer: Path) -> str:
    async with (
        _an_agent_for(case.policy.get("allow_uids", ()), root, outer / "agent.sock") as path,
        door_of(case.args["peer_uid"], path, root / "client") as own,
        a_client(own) as client,
    ):
        try:
            return await soon(_answer(client, case.args["method"]))
        except grpc.aio.AioRpcError as error:
            return "deny" if error.code() is grpc.StatusCode.UNAVAILABLE else f"failed with {error.code()}"


@asynccontextmanager
async def _an_agent_for(uids: Sequence[int], root: Path, outer: Path) -> AsyncIterator[Path]:
    """An agent for exactly these users, as if none of them ran it; without any, its socket is for its own user."""
    async with an_agent(root / "inner" / "s" if uids else outer) as inner:
        if not uids:
            yield inner
            return
        async with relaying(outer, inner, uids):
            yield outer


async def _answer(client: Client, method: str) -> str:
    if "health" in method.lower():
        health = await client.call("HealthCheck", pb.HealthCheckRequest(), pb.HealthCheckResponse)
        return "allow" if health.status == pb.HealthCheckResponse.HEALTHY else "error"
    answer = await client.execute(a_request(a_ref("set_headers", headers={"x-called": "yes"})))
    return "allow" if answer.status.code == pb.Status.OK else "deny"
