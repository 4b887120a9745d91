"""The policy agent as a part of `agent-gate serve`: its chains can ask the gate."""

from __future__ import annotations

from pathlib import Path

from agent_gate.doors.policy_agent.proto import policy_agent_pb2 as pb
from tests.agents import a_client, a_ref, a_request
from tests.serving import Running, a_site

POLICY = {
    "boundary": "deny_by_default",
    "rules": [
        {"pattern": "http.request(GET https://api.test/orders)", "action": "allow"},
        {"pattern": "http.request(POST *", "action": "ask"},
    ],
}


async def test_a_proxy_asks_the_rules_and_the_people_of_the_gate(tmp_path: Path) -> None:
    path = tmp_path / "agent" / "s"
    site = a_site(tmp_path, POLICY, policy_agent={"socket_path": str(path)})
    gate = a_ref("gate", agent_id="bot-0")
    with Running(site) as server:
        async with a_client(path) as client:
            allowed = await client.execute(a_request(gate))
            denied = await client.execute(a_request(gate, path="/secrets"))
            held = await client.execute(a_request(gate, method="POST"))
        assert server.stop() == 0
    assert not path.exists()
    assert allowed.status.code == pb.Status.OK
    assert (denied.status.code, denied.status.policy_name) == (pb.Status.POLICY_DENIED, "gate")
    (answer,) = (instruction.immediate_response for instruction in held.instructions)
    assert (held.status.code, answer.status_code) == (pb.Status.POLICY_DENIED, 403)
    assert {"retry-after", "x-agent-gate-call-id"} <= {header.name for header in answer.headers}
