"""`body_size`, `set_headers`, `remove_headers` and `ip_allow`."""

from __future__ import annotations

from typing import Any

import pytest

from agent_gate.chain.builtin.body_size import BodySize
from agent_gate.chain.builtin.header_changes import RemoveHeaders, SetHeaders
from agent_gate.chain.builtin.ip_allow import IpAllow
from agent_gate.chain.context import Phase, RequestContext
from agent_gate.chain.faults import InvalidRequest
from agent_gate.chain.policy import Policy
from agent_gate.chain.prepared import PolicyRef, in_phase
from agent_gate.chain.registry import Registry
from tests.unit.chain.builtin.asking import answer_of, ask
from tests.unit.chain.scripted import a_response


@pytest.mark.parametrize(
    ("context", "status"),
    [
        (RequestContext.create(body=b"x" * 10), None),
        (RequestContext.create(body=b"x" * 11), 413),
        (RequestContext.create(headers={"content-length": "10"}), None),
        (RequestContext.create(headers={"content-length": "11"}), 413),
        (RequestContext.create(headers={"content-length": "9" * 18}), 413),
        (RequestContext.create(headers={"content-length": "-1"}), 400),
        (RequestContext.create(headers={"content-length": "1e3"}), 400),
        (RequestContext.create(headers={"content-length": "²"}), 400),
        (RequestContext.create(headers={"content-length": ""}), 400),
        (RequestContext.create(headers=[("content-length", "1"), ("Content-Length", "2")]), 400),
    ],
)
async def test_body_size_refuses_what_is_here_and_what_is_announced(
    context: RequestContext, status: int | None
) -> None:
    response = await ask(BodySize(), {"max_bytes": 10}, context)
    assert (answer_of(response)[0] if response.immediate else None) == status
    assert response.passes is (status is None)


async def test_body_size_of_a_response() -> None:
    response = await ask(BodySize(), {"max_bytes": 10, "phase": "response"}, a_response(body=b"x" * 11))
    assert answer_of(response)[0] == 502


async def test_set_headers_takes_the_place_of_what_the_caller_sent() -> None:
    context = RequestContext.create(headers=[("Authorization", "theirs"), ("AUTHORIZATION", "theirs too")])
    response = await ask(SetHeaders(), {"headers": {"authorization": "Bearer ours", "x-b": "2"}}, context)
    assert list(response.context.headers) == [("authorization", "Bearer ours"), ("x-b", "2")]


async def test_remove_headers_removes_every_spelling() -> None:
    context = RequestContext.create(headers=[("X-Internal", "1"), ("x-internal", "2"), ("b", "3")])
    response = await ask(RemoveHeaders(), {"headers": ["x-INTERNAL", "absent"]}, context)
    assert list(response.context.headers) == [("b", "3")]
    assert [instruction.key for instruction in response.instructions] == ["x-INTERNAL", "absent"]  # type: ignore[union-attr]


@pytest.mark.parametrize("policy", [SetHeaders(), RemoveHeaders(), BodySize()])
async def test_a_change_is_for_the_request_unless_it_says_otherwise(policy: Policy[Any]) -> None:
    metadata: Any = {
        "set_headers": {"headers": {"authorization": "ours"}},
        "remove_headers": {"headers": ["x"]},
        "body_size": {"max_bytes": 1},
    }[policy.name]
    with pytest.raises(InvalidRequest, match="response phase"):
        await ask(policy, metadata, a_response())
    assert (await ask(policy, {**metadata, "phase": "response"}, a_response())).passes
    registry = Registry()
    registry.register(policy)
    refs = [PolicyRef(policy.name, metadata), PolicyRef(policy.name, {**metadata, "phase": "response"})]
    assert in_phase(refs, Phase.REQUEST, registry) == refs[:1]
    assert in_phase(refs, Phase.RESPONSE, registry) == refs[1:]


@pytest.mark.parametrize(
    ("policy", "metadata"),
    [
        (SetHeaders(), {"headers": {}}),
        (SetHeaders(), {"headers": {"a": "x\r\nb: hunter2"}}),
        (SetHeaders(), {"headers": {"host": "hunter2"}}),
        (SetHeaders(), {"headers": {":path": "hunter2"}}),
        (SetHeaders(), {"headers": {"a": "hunter2", "A": "2"}}),
        (SetHeaders(), {"headers": {"a": 7}}),
        (SetHeaders(), {"headers": {"a": "b"}, "phase": "both"}),
        (RemoveHeaders(), {"headers": []}),
        (RemoveHeaders(), {"headers": ["content-length"]}),
        (RemoveHeaders(), {"headers": ["a b"]}),
        (BodySize(), {}),
        (BodySize(), {"max_bytes": -1}),
        (IpAllow(), {}),
        (IpAllow(), {"allow": []}),
        *[
            (IpAllow(), {"allow": [text]})
            for text in (
                "all",
                "10.0.0.0/33",
                "10.0.0.1/8",
                "10.0.0.0/",
                "10.0.0.0/-1",
                "010.0.0.0/8",
                "::1%lo",
                "1::/129",
            )
        ],
    ],
)
async def test_metadata_that_make_no_sense_are_refused(policy: Policy[Any], metadata: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest) as failure:
        await ask(policy, metadata)
    assert "hunter2" not in str(failure.value)


NETWORKS = {
    "allow": ["10.0.0.0/8", "192.168.1.7", "2001:db8::/32", "::ffff:172.16.0.0/108", "fe80::1/128"],
    "deny": ["10.66.0.0/16"],
}


@pytest.mark.parametrize(
    ("address", "passes"),
    [
        ("10.1.2.3", True),
        ("11.0.0.0", False),
        ("9.255.255.255", False),
        ("192.168.1.7", True),
        ("192.168.1.8", False),
        ("10.66.1.1", False),
        ("::ffff:10.1.2.3", True),
        ("::ffff:a01:203", True),
        ("::FFFF:10.66.1.1", False),
        ("::10.1.2.3", False),
        ("64:ff9b::10.1.2.3", False),
        ("172.16.0.1", True),
        ("172.32.0.1", False),
        ("2001:db8:1::", True),
        ("2001:db9::", False),
        ("fe80::1", True),
        ("fe80::1%eth0", False),
        ("010.1.2.3", False),
        ("167838211", False),
        ("10.1.2.3:80", False),
        ("", False),
    ],
)
async def test_ip_allow_knows_networks_whichever_way_an_address_is_written(address: str, passes: bool) -> None:
    response = await ask(IpAllow(), NETWORKS, RequestContext.create(client_ip=address))
    assert response.passes is passes
    if not passes:
        assert answer_of(response)[0] == 403


async def test_ip_allow_does_not_believe_headers() -> None:
    context = RequestContext.create(client_ip="11.0.0.1", headers={"x-forwarded-for": "10.0.0.1"})
    assert not (await ask(IpAllow(), NETWORKS, context)).passes
    assert (await ask(IpAllow(), {"allow": ["0.0.0.0/0"]}, context)).passes
