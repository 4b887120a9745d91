"""The built-in policies together: what goes in, what comes out, and that secrets stay where they belong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agent_gate.chain.accumulator import Response
from agent_gate.chain.builtin import builtin_policies
from agent_gate.chain.context import Phase, RequestContext
from agent_gate.chain.executor import Executor
from agent_gate.chain.policy import StatusCode
from agent_gate.chain.prepared import PolicyRef, in_phase
from agent_gate.chain.registry import Registry
from agent_gate.toolkit.threads import BlockingPool
from tests.gates import HandClock

KEY, UPSTREAM = "key-of-the-kitchen-bot", "upstream-credential"
CHAIN = [
    PolicyRef("ip_allow", {"allow": ["192.0.2.0/24"]}),
    PolicyRef("cors", {"allow_origins": ["https://app.example.com"]}),
    PolicyRef("api_key", {"keys": [{"id": "kitchen", "key": KEY}]}),
    PolicyRef("rate_limit", {"limit": 2, "per_seconds": 60, "by": "identity"}),
    PolicyRef("body_size", {"max_bytes": 100}),
    PolicyRef("remove_headers", {"headers": ["x-internal-user"]}),
    PolicyRef("set_headers", {"headers": {"authorization": f"Bearer {UPSTREAM}"}}),
    PolicyRef("secret_scrub", {"values": [UPSTREAM], "patterns": ["all"]}),
    PolicyRef("set_headers", {"headers": {"x-content-type-options": "nosniff"}, "phase": "response"}),
]


class Proxy:
    """Runs one configured chain in both phases, as a door does."""

    def __init__(self, refs: Sequence[PolicyRef] = CHAIN) -> None:
        self._registry = Registry()
        for policy in builtin_policies(HandClock()):
            self._registry.register(policy)
        self._executor = Executor(self._registry, BlockingPool(1))
        self._refs = refs

    async def request(self, **fields: Any) -> Response:
        return await self._run(RequestContext.create(**{"client_ip": "192.0.2.7", "method": "POST", **fields}))

    async def response(self, to: Response, **fields: Any) -> Response:
        state = dict(to.context.state)
        return await self._run(
            RequestContext.create(phase=Phase.RESPONSE, **{"response_status": 200, "state": state, **fields})
        )

    async def _run(self, context: RequestContext) -> Response:
        refs = in_phase(self._refs, context.phase, self._registry)
        return await self._executor.execute(refs, context)


async def test_a_credential_is_injected_that_the_caller_never_sees() -> None:
    proxy = Proxy()
    request = await proxy.request(
        headers={"X-Api-Key": KEY, "X-Internal-User": "root", "origin": "https://app.example.com"}, body=b"{}"
    )
    assert request.passes
    assert dict(request.context.headers) == {
        "origin": "https://app.example.com",
        "authorization": f"Bearer {UPSTREAM}",
    }
    response = await proxy.response(
        request,
        headers={"x-echo": f"Bearer {UPSTREAM}", "content-type": "text/plain"},
        body=f"you sent {UPSTREAM}".encode(),
    )
    assert response.passes
    assert response.context.body == b"you sent ***"
    assert UPSTREAM not in str(list(response.context.headers))
    assert response.context.headers.get("access-control-allow-origin") == "https://app.example.com"
    assert response.context.headers.get("x-content-type-options") == "nosniff"
    assert "authorization" not in response.context.headers


async def test_a_preflight_is_answered_before_a_key_is_asked_for() -> None:
    answer = await Proxy().request(
        method="OPTIONS", headers={"origin": "https://app.example.com", "access-control-request-method": "GET"}
    )
    assert (answer.status, answer.passes) == (StatusCode.OK, False)
    assert answer.immediate is not None
    assert answer.immediate.status == 204


async def test_each_policy_stops_what_is_its_own_to_stop() -> None:
    proxy = Proxy()
    good = {"headers": {"x-api-key": KEY}}
    stopped_by = [
        (await proxy.request(**{**good, "client_ip": "198.51.100.1"})).policy_name,
        (await proxy.request(headers={"x-api-key": "another key altogether"})).policy_name,
        (await proxy.request(**good, body=b"x" * 101)).policy_name,
        (await proxy.request(**good)).policy_name,
        (await proxy.request(**good)).policy_name,
    ]
    assert stopped_by == ["ip_allow", "api_key", "body_size", "", "rate_limit"]


async def test_a_chain_that_names_the_gate_where_there_is_none_is_denied() -> None:
    response = await Proxy([*CHAIN, PolicyRef("gate")]).request(headers={"x-api-key": KEY})
    assert (response.status, response.message) == (StatusCode.POLICY_DENIED, "unknown policy: gate")
