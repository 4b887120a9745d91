"""`http.get` through an outbound chain: a credential goes to its host alone, and the agent never sees it."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from agent_gate.chain.configured import registry_of
from agent_gate.chain.context import RequestContext
from agent_gate.chain.instruction import ImmediateResponse, SetBody, SetHeader
from agent_gate.chain.policy import BOTH_PHASES, PASSED, Policy, PolicyResult, StatusCode
from agent_gate.chain.prepared import PolicyRef
from agent_gate.model.errors import ConfigError
from agent_gate.model.outcome import Outcome, Status
from agent_gate.services.http.outbound import Outbound
from agent_gate.system.clock import SystemClock
from agent_gate.toolkit.threads import BlockingPool
from tests.gates import ANNA, HandClock, approve, code_of, entries, outcome_of, pending, stored_bytes
from tests.web import PUBLIC, Web, a_gate_to

pytestmark = pytest.mark.anyio

A, B = "https://a.test/", "https://b.test/"
KEY = "outbound-key-0123456789abcdef"
POLICY = {"tools": {"http.get": {"allow_domains": ["a.test", "b.test"]}}}
ASKING = {**POLICY, "rules": [{"pattern": "http.get(*)", "action": "ask"}]}


class Scripted(Policy[Any]):
    """Does what its metadata say, in the phase that they name."""

    name = "scripted"
    phases = BOTH_PHASES
    metadata_schema: ClassVar[Mapping[str, Any]] = {}

    def prepare(self, metadata: Any) -> Any:
        return metadata

    async def execute(self, settings: Any, context: RequestContext) -> PolicyResult:
        if context.phase.value != settings["phase"]:
            return PASSED
        match settings["does"]:
            case "deny":
                return PolicyResult(StatusCode.POLICY_DENIED, (), "not today")
            case "raise":
                raise RuntimeError(KEY)
            case "answer":
                return PolicyResult(instructions=(ImmediateResponse(200, {}, b"from the chain"),))
            case "body":
                return PolicyResult(instructions=(SetBody(b"changed"),))
            case other:
                return PolicyResult(instructions=(SetHeader("x-odd", other),))


def chain(*refs: PolicyRef) -> Outbound:
    registry = registry_of({}, SystemClock())
    registry.register(Scripted())
    return Outbound(refs, registry, BlockingPool(2))


def with_key(*hosts: str, value: str = f"Bearer {KEY}", name: str = "Authorization") -> PolicyRef:
    return PolicyRef("set_headers", {"headers": {name: value}, "hosts": list(hosts or ("a.test",))})


def scripted(does: str, phase: str = "request", **fields: str) -> PolicyRef:
    return PolicyRef("scripted", {"does": does, "phase": phase}, **fields)


def a_web(**pages: Any) -> Web:
    web = Web()
    web.names = {"a.test": [[PUBLIC]], "b.test": [["9.9.9.9"]], "sub.a.test": [[PUBLIC]]}
    web.pages = {f"https://{name.replace('__', '.test/').replace('_', '/')}": page for name, page in pages.items()}
    return web


async def get(web: Web, at: Path, outbound: Outbound, url: str = A, /, **args: Any) -> Outcome:
    async with a_gate_to(web, POLICY, at / "gate.db", outbound=outbound) as gate:
        return await gate.call("http.get", {"url": url, **args})


async def test_the_server_gets_the_credential_and_the_agent_does_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    web = a_web(a__={"headers": {"X-Echo": f"Bearer {KEY}"}, "body": f"you sent {KEY}"})
    async with a_gate_to(web, POLICY, tmp_path / "gate.db", outbound=chain(with_key())) as gate:
        outcome = await gate.call("http.get", url=A)
        stored = stored_bytes(gate)
    assert web.asked[0][1]["authorization"] == f"Bearer {KEY}"
    assert (outcome.data["body"], outcome.data["headers"]["x-echo"]) == ("you sent ***", "***")
    assert KEY not in json.dumps(outcome.to_json())
    assert KEY.encode() not in stored
    assert KEY not in caplog.text


@pytest.mark.parametrize(
    "said", [base64.b64encode(KEY.encode()).decode(), KEY.encode().hex(), f'{{"k": "{KEY}"}}'], ids=str
)
async def test_what_a_server_repeats_in_another_spelling_is_hidden_too(tmp_path: Path, said: str) -> None:
    outcome = await get(a_web(a__={"body": said}), tmp_path, chain(with_key()))
    assert "***" in outcome.data["body"]
    assert said not in outcome.data["body"]


async def test_an_answer_that_nobody_understands_is_quoted_without_the_credential(tmp_path: Path) -> None:
    outcome = await get(a_web(a__={"headers": {f"odd {KEY}": "x"}}), tmp_path, chain(with_key()))
    assert code_of(outcome) == 2003
    assert "***" in str(outcome.error)
    assert KEY not in str(outcome.error)


async def test_a_credential_does_not_follow_a_redirect_to_another_host(tmp_path: Path) -> None:
    web = a_web(a__={"status": 302, "location": B}, b__={"body": "there"})
    outcome = await get(web, tmp_path, chain(with_key()))
    assert outcome.data["body"] == "there"
    assert [(url, "authorization" in sent) for url, sent in web.asked] == [(A, True), (B, False)]


async def test_a_redirect_to_the_host_of_the_credential_gets_it(tmp_path: Path) -> None:
    web = a_web(b__={"status": 302, "location": A})
    await get(web, tmp_path, chain(with_key()), B)
    assert [(url, "authorization" in sent) for url, sent in web.asked] == [(B, False), (A, True)]


async def test_a_location_that_repeats_the_credential_does_not_carry_it_away(tmp_path: Path) -> None:
    web = a_web(a__={"status": 302, "location": f"{B}?k={KEY}"})
    outcome = await get(web, tmp_path, chain(with_key()))
    assert [url for url, _ in web.asked] == [A, f"{B}?k=***"]
    assert KEY not in json.dumps(outcome.to_json())


@pytest.mark.parametrize(
    ("hosts", "url", "is_told"),
    [
        (["a.test"], A, True),
        (["A.test"], A, True),
        (["*"], B, True),
        (["b.test", "a.test"], A, True),
        (["*.test"], A, True),
        (["*.a.test"], A, False),
        (["b.test"], A, False),
        (["test"], A, False),
        (["http://a.test"], A, False),
        (["a.test:8443"], A, False),
        (["https://a.test"], A, True),
    ],
)
async def test_a_header_goes_to_the_named_hosts_by_the_named_scheme_and_port(
    tmp_path: Path, hosts: list[str], url: str, is_told: bool
) -> None:
    web = a_web()
    await get(web, tmp_path, chain(with_key(*hosts)), url)
    assert ("authorization" in web.asked[0][1]) is is_told


@pytest.mark.parametrize("host", ["a.test/x", "ftp://a.test", "a test", "https://", "*.*.test", "user@a.test"])
def test_what_is_no_host_is_a_mistake(host: str) -> None:
    with pytest.raises(ConfigError, match="hosts"):
        chain(with_key(host))


async def test_an_agent_may_not_give_what_the_chain_sets(tmp_path: Path) -> None:
    web = a_web()
    outcome = await get(web, tmp_path, chain(with_key("b.test")), headers={"AUTHORIZATION": "Bearer mine"})
    assert (outcome.status, code_of(outcome), web.asked) == (Status.ERROR, 2002, [])
    assert "`authorization` is the gate's to set" in str(outcome.error)


async def test_an_approval_does_not_rest_on_the_secret(tmp_path: Path) -> None:
    """A key that is renewed while a person thinks voids nothing, and the person is not shown it."""
    seen = []
    for number, value in enumerate(("first-key-0123456789", "second-key-0123456789")):
        outbound = chain(with_key(value=value))
        db = tmp_path / f"{number}.db"
        async with a_gate_to(a_web(), ASKING, db, outbound=outbound, can_ask=True, clock=HandClock()) as gate:
            question = await pending(gate, "http.get", {"url": A})
            await approve(gate, question, ANNA)
            outcome = await outcome_of(gate, question)
            assert outcome.status is Status.SUCCESS
            assert value.encode() not in stored_bytes(gate)
            seen.append(question.bound_hash)
    assert seen[0] == seen[1]


@pytest.mark.parametrize(
    ("step", "code", "status", "asked"),
    [
        (scripted("deny"), 1001, Status.DENIED, 0),
        (scripted("deny", "response"), 1001, Status.DENIED, 1),
        (scripted("raise"), 1001, Status.DENIED, 0),
        (scripted("raise", "response"), 1001, Status.DENIED, 1),
        (scripted("answer"), 1001, Status.DENIED, 0),
        (scripted("answer", "response"), 1001, Status.DENIED, 1),
        (scripted("body"), 2003, Status.ERROR, 0),
        (scripted("grüße"), 2003, Status.ERROR, 0),
        (scripted("a\nb"), 2003, Status.ERROR, 0),
    ],
)
async def test_a_chain_that_does_not_pass_fails_the_call(
    tmp_path: Path, step: PolicyRef, code: int, status: Status, asked: int
) -> None:
    web = a_web(a__={"body": "not for you"})
    outcome = await get(web, tmp_path, chain(with_key(), step))
    assert (code_of(outcome), outcome.status, outcome.data, len(web.asked)) == (code, status, None, asked)
    assert KEY not in str(outcome.error)


async def test_a_policy_that_need_not_succeed_stops_nothing(tmp_path: Path) -> None:
    outcome = await get(a_web(a__={"body": "hi"}), tmp_path, chain(scripted("raise", on_failure="continue")))
    assert outcome.data["body"] == "hi"


async def test_the_response_is_changed_before_the_agent_sees_it(tmp_path: Path) -> None:
    outcome = await get(a_web(a__={"body": "hi"}), tmp_path, chain(scripted("body", "response")))
    assert outcome.data["body"] == "changed"


async def test_a_compressed_answer_cannot_be_looked_through_and_is_withheld(tmp_path: Path) -> None:
    web = a_web(a__={"headers": {"Content-Encoding": "gzip"}, "body": "zipped"})
    outcome = await get(web, tmp_path, chain(with_key()))
    assert (code_of(outcome), outcome.data) == (1001, None)
    assert "compressed" in str(outcome.error)


async def test_a_large_answer_is_bounded_by_the_policy_and_not_by_the_chain(tmp_path: Path) -> None:
    outcome = await get(a_web(a__={"body": "x" * 2_000_000}), tmp_path, chain(with_key()))
    assert len(outcome.data["body"]) == 2_000_000


async def test_headers_that_hold_no_secret_are_set_and_hidden_from_nobody(tmp_path: Path) -> None:
    step = with_key("*", name="User-Agent", value="gate of anna")
    web = a_web(a__={"body": "gate of anna"})
    outcome = await get(web, tmp_path, chain(step))
    assert (web.asked[0][1]["user-agent"], outcome.data["body"]) == ("gate of anna", "gate of anna")


async def test_nothing_of_the_chain_is_in_the_record_of_a_failed_call(tmp_path: Path) -> None:
    web = a_web()
    web.failing = ["*"] * 8
    async with a_gate_to(web, POLICY, tmp_path / "gate.db", outbound=chain(with_key())) as gate:
        outcome = await gate.call("http.get", url=A)
        assert code_of(outcome) == 2006
        assert KEY not in json.dumps([row["body"] for row in entries(gate)])
