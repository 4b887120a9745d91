"""`gate`: the rules judge the request, and a person's yes is good for one that is repeated."""

from __future__ import annotations

from typing import Any

import pytest

from agent_gate.chain.builtin.gate import GatePolicy
from agent_gate.chain.context import RequestContext
from agent_gate.chain.faults import InvalidRequest
from agent_gate.chain.policy import StatusCode
from agent_gate.ports.judging import HttpRequest
from tests.unit.chain.builtin.asking import FakeJudge, answer_of, ask


def a_request(**fields: Any) -> RequestContext:
    return RequestContext.create(
        **{
            "method": "POST",
            "authority": "api.example.com",
            "path": "/v1/items",
            "state": {"identity": {"id": "kitchen"}},
            **fields,
        }
    )


SIGNATURE = "http.request(POST https://api.example.com/v1/items)"


async def test_what_the_rules_allow_passes_and_is_judged_as_the_caller() -> None:
    judge = FakeJudge(allowed=(SIGNATURE,))
    given = {"query_params": {"a": "b"}, "raw_query": "a=%62", "headers": [("Accept", "*/*"), ("Cookie", "id=7")]}
    response = await ask(GatePolicy(judge), {}, a_request(body=b"{}", **given))
    assert response.passes
    url = "https://api.example.com/v1/items"
    assert judge.asked == [
        HttpRequest(
            "kitchen", SIGNATURE, "POST", url, (("a", "b"),), b"{}", f"{url}?a=%62", (("accept", "*/*"),),
            (("cookie", "id=7"),),
        )
    ]  # fmt: skip


async def test_what_the_rules_deny_is_refused_with_the_reason() -> None:
    response = await ask(GatePolicy(FakeJudge(denied=(SIGNATURE,))), {}, a_request())
    status, _, body = answer_of(response)
    assert (response.status, status) == (StatusCode.POLICY_DENIED, 403)
    assert body == {"code": 1001, "error": "policy_denied: rule `no`; ask for something else"}


async def test_an_ask_answers_at_once_and_after_approval_one_repeated_request_passes() -> None:
    judge = FakeJudge()
    policy = GatePolicy(judge)
    first = await ask(policy, {}, a_request())
    status, headers, body = answer_of(first)
    assert (first.status, status, headers["retry-after"]) == (StatusCode.POLICY_DENIED, 403, "5")
    assert headers["x-agent-gate-call-id"] == body["call_id"]
    assert answer_of(await ask(policy, {}, a_request()))[2]["call_id"] == body["call_id"]
    judge.approve(body["call_id"])
    other = await ask(policy, {}, a_request(body=b"something else"))
    assert not other.passes
    assert (await ask(policy, {}, a_request())).passes
    assert not (await ask(policy, {}, a_request())).passes


@pytest.mark.parametrize(
    ("fields", "signature"),
    [
        ({"authority": "API.Example.com:443"}, SIGNATURE),
        ({"authority": "api.example.com."}, SIGNATURE),
        ({"path": "/v1/%69tems"}, SIGNATURE),
        ({"scheme": "HTTPS"}, SIGNATURE),
        ({"authority": "api.example.com:8443"}, "http.request(POST https://api.example.com:8443/v1/items)"),
        ({"path": "/a*(b),[c]%3f%2f"}, "http.request(POST https://api.example.com/a%2A%28b%29%2C%5Bc%5D%3F%2F)"),
    ],
)
async def test_a_request_has_one_signature_however_it_is_spelt(fields: dict[str, str], signature: str) -> None:
    judge = FakeJudge()
    await ask(GatePolicy(judge), {}, a_request(**fields))
    assert [request.signature for request in judge.asked] == [signature]


@pytest.mark.parametrize(
    "fields",
    [
        {"path": "/public/../admin"},
        {"path": "/public/%2e%2E/admin"},
        {"path": "/public/..;/admin"},
        {"path": "/./admin"},
        {"path": "//admin"},
        {"path": "/a//admin"},
        {"path": "/public\\..\\admin"},
        {"path": "/public/%5c..%5cadmin"},
        {"path": "admin"},
        {"path": "*"},
        {"path": ""},
        {"path": "/a?b"},
        {"path": "/a#b"},
        {"path": "/%"},
        {"path": "/caf\xe9"},
        {"authority": ""},
        {"authority": "user@api.example.com"},
        {"authority": "api.example.com/x"},
        {"authority": "0x7f.1"},
        {"scheme": "ftp"},
        {"method": "post"},
        {"method": "GET!"},
    ],
)
async def test_what_can_be_read_in_two_ways_is_refused_unjudged(fields: dict[str, str]) -> None:
    judge = FakeJudge(allowed=(SIGNATURE,))
    response = await ask(GatePolicy(judge), {}, a_request(**fields))
    assert answer_of(response)[0] == 400
    assert judge.asked == []


async def test_nobody_is_judged_only_under_a_name_that_the_chain_gives() -> None:
    judge = FakeJudge(allowed=(SIGNATURE,))
    assert answer_of(await ask(GatePolicy(judge), {}, a_request(state={})))[0] == 403
    assert judge.asked == []
    assert (await ask(GatePolicy(judge), {"agent_id": "proxy"}, a_request())).passes
    assert judge.asked[0].agent_id == "proxy"


HEADERS = [
    ("X-HTTP-Method-Override", "DELETE"), ("cookie", "id=7"), ("Content-Type", "text/plain"), ("x-request-id", "1"),
    ("traceparent", "00-1"), ("date", "today"), ("content-length", "2"), ("x-note", "sk-ant-0123456789abcdefghijkl"),
    ("accept", "a"), ("Accept", "b"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("metadata", "shown", "credentials"),
    [
        (
            {},
            [("accept", "a"), ("accept", "b"), ("content-type", "text/plain"), ("x-http-method-override", "DELETE")],
            ["cookie", "x-note"],
        ),
        (
            {"ignore_headers": ["Accept", "COOKIE"]},
            [("content-type", "text/plain"), ("x-http-method-override", "DELETE")],
            ["x-note"],
        ),
        (
            {"bind_headers": ["Content-Type", "x-request-id"]},
            [("content-type", "text/plain"), ("x-request-id", "1")],
            [],
        ),
        ({"bind_headers": []}, [], []),
    ],
    ids=["all but those of one attempt", "all but some more", "some", "none"],
)
async def test_an_approval_rests_on_the_headers_that_the_chain_says(
    metadata: dict[str, Any], shown: list[tuple[str, str]], credentials: list[str]
) -> None:
    judge = FakeJudge()
    await ask(GatePolicy(judge), metadata, a_request(headers=HEADERS))
    (asked,) = judge.asked
    assert (list(asked.headers), [name for name, _ in asked.credentials]) == (shown, credentials)
    assert "id=7" not in repr(asked)


@pytest.mark.parametrize(
    "metadata",
    [{"bind_headers": ["a"], "ignore_headers": ["b"]}, {"bind_headers": ["Host"]}, {"bind_headers": ["a b"]}],
)
async def test_headers_that_cannot_be_bound_are_refused_before_anything_runs(metadata: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        await ask(GatePolicy(FakeJudge()), metadata, a_request())


async def test_a_gate_that_cannot_judge_denies() -> None:
    class Broken(FakeJudge):
        async def judge_request(self, request: HttpRequest) -> Any:
            raise RuntimeError("hunter2")

    response = await ask(GatePolicy(Broken()), {}, a_request())
    assert (response.status, response.message) == (StatusCode.POLICY_DENIED, "policy `gate` failed: RuntimeError")
