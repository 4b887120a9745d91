"""`http.get` through a gate: what is looked up, what is dialled, what is sent, what is told and what is recorded."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agent_gate.model.call import Agent, CallRequest
from agent_gate.model.errors import ToolError
from agent_gate.model.outcome import Outcome, Status
from agent_gate.services.http import HttpService
from agent_gate.services.http.body import readable
from agent_gate.toolkit.services import completed, declarations
from tests.gates import ANNA, HandClock, People, approve, code_of, deny, entries, outcome_of, pending
from tests.web import PUBLIC, Web, a_gate_to

pytestmark = pytest.mark.anyio

A, B = "https://a.test/", "https://b.test/"
SECTION: Mapping[str, Any] = {"allow_domains": ["a.test", "b.test"]}


def policy(*rules: Mapping[str, str], **section: Any) -> dict[str, Any]:
    return {"tools": {"http.get": {**SECTION, **section}}, "rules": list(rules)}


def a_web(**pages: Mapping[str, Any]) -> Web:
    web = Web()
    web.names = {"a.test": [[PUBLIC]], "b.test": [["9.9.9.9"]]}
    web.pages = {f"https://{name.replace('__', '.test/').replace('_', '/')}": page for name, page in pages.items()}
    return web


async def get(web: Web, at: Path, rules: Mapping[str, Any], url: str = A, /, **args: Any) -> Outcome:
    async with a_gate_to(web, rules, at / "gate.db") as gate:
        return await gate.call("http.get", {"url": url, **args})


async def test_an_answer_is_status_headers_body_and_where_it_came_from(tmp_path: Path) -> None:
    page = {"status": 404, "headers": {"X-Two": "1", "x-two": "2", "Content-Type": "text/plain"}, "body": "grüße"}
    outcome = await get(a_web(a__x=page), tmp_path, policy(), f"{A}x")
    assert outcome.data == {
        "status_code": 404,
        "headers": {"content-length": "7", "x-two": "1, 2", "content-type": "text/plain"},
        "body": "grüße",
        "url": f"{A}x",
    }


async def test_a_request_says_no_more_than_it_must(tmp_path: Path) -> None:
    web = a_web()
    await get(web, tmp_path, policy(), "https://A.test:443/x?y#z", headers={"X-Mine": "1"})
    sent = {
        "host": "a.test",
        "accept": "*/*",
        "user-agent": "agent-gate",
        "x-mine": "1",
        "accept-encoding": "identity",
        "connection": "close",
    }
    assert web.asked == [(f"{A}x?y", sent)]


@pytest.mark.parametrize(
    ("rules", "code"),
    [
        (policy({"pattern": "http.get(https://a.test/*)", "action": "deny"}), 1001),
        (policy(allow_domains=["b.test"]), 1003),
        (policy(allow_ports=[8443]), 1003),
        ({"rules": [{"pattern": "*", "action": "allow"}]}, 1001),
        (policy() | {"roles": {"operator": {"max_risk": "low"}}}, 1009),
        (policy() | {"declare": {"http.*": {"preconditions": ["get(state, 'open', False)"]}}}, 1011),
        (policy({"pattern": "http.get(*)", "action": "ask"}), 1001),
    ],
    ids=["rule", "domain", "port", "no section", "role", "precondition", "nobody to ask"],
)
async def test_a_name_that_is_denied_anyway_is_not_looked_up(
    tmp_path: Path, rules: Mapping[str, Any], code: int
) -> None:
    web = a_web()
    outcome = await get(web, tmp_path, rules)
    assert (outcome.status, code_of(outcome), outcome.signatures) == (Status.DENIED, code, (f"http.get({A})",))
    assert (web.looked_up, web.dialled) == ([], [])


async def test_a_condition_on_the_state_sees_the_state(tmp_path: Path) -> None:
    web, rule = a_web(), {"pattern": "http.get(*)", "action": "deny", "when": "get(state, 'shut', True)"}
    async with a_gate_to(web, policy(rule), tmp_path / "gate.db") as gate:
        assert code_of(await gate.call("http.get", url=A)) == 1001
    rule["when"] = "get(state, 'shut', False)"
    async with a_gate_to(web, policy(rule), tmp_path / "other.db") as gate:
        assert (await gate.call("http.get", url=A)).ok
    assert web.looked_up == ["a.test"]


async def test_a_simulation_looks_nothing_up_unless_it_reads(tmp_path: Path) -> None:
    web = a_web()
    async with a_gate_to(web, policy(), tmp_path / "gate.db") as gate:
        request = CallRequest(Agent("local"), "http.get", {"url": A})
        without, _ = await gate.simulate(request)
        assert (without.status, web.looked_up) == (Status.SUCCESS, [])
        reading, _ = await gate.simulate(request, with_reads=True)
        assert (reading.data["status_code"], web.looked_up, web.dialled) == (200, ["a.test"], [PUBLIC])


async def test_a_simulation_that_reads_judges_what_it_finds(tmp_path: Path) -> None:
    web = a_web()
    web.names["a.test"] = [["10.0.0.1"]]
    async with a_gate_to(web, policy(), tmp_path / "gate.db") as gate:
        outcome, _ = await gate.simulate(CallRequest(Agent("local"), "http.get", {"url": A}), with_reads=True)
    assert (code_of(outcome), web.dialled) == (1019, [])


async def test_what_was_looked_up_is_a_fact_in_the_record(tmp_path: Path) -> None:
    web = a_web()
    web.names["a.test"] = [["9.9.9.9", PUBLIC]]
    async with a_gate_to(web, policy(), tmp_path / "gate.db") as gate:
        await gate.call("http.get", url=A)
        [intent] = entries(gate, "performing")
    assert intent["body"]["facts"]["found"] == {"addresses": ["9.9.9.9", PUBLIC]}
    assert intent["body"]["resources"] == {"host": "a.test", "port": 443, "scheme": "https"}


ASK = {"pattern": "http.get(*)", "action": "ask"}


@pytest.mark.parametrize(
    "rules",
    [policy(ASK), policy(allow_domains=["b.test"], otherwise="ask"), policy(allow_ports=[8443], otherwise="ask")],
    ids=["rule", "unlisted domain", "unlisted port"],
)
async def test_a_name_is_looked_up_once_a_person_agreed_and_not_before(
    tmp_path: Path, rules: Mapping[str, Any]
) -> None:
    web = a_web()
    async with a_gate_to(web, rules, tmp_path / "gate.db", can_ask=True, notifier=People()) as gate:
        question = await pending(gate, "http.get", {"url": A})
        assert (web.looked_up, web.dialled) == ([], [])
        await approve(gate, question)
        assert (await outcome_of(gate, question)).ok
    assert (web.looked_up, web.dialled) == (["a.test"], [PUBLIC])


@pytest.mark.parametrize("rules", [policy(ASK), policy(allow_domains=[], otherwise="ask")], ids=["rule", "unlisted"])
async def test_an_approval_does_not_cover_a_private_address(tmp_path: Path, rules: Mapping[str, Any]) -> None:
    web = a_web()
    web.names["a.test"] = [["10.0.0.1"]]
    async with a_gate_to(web, rules, tmp_path / "gate.db", can_ask=True, notifier=People()) as gate:
        question = await pending(gate, "http.get", {"url": A})
        await approve(gate, question)
        assert code_of(await outcome_of(gate, question)) == 1019
        assert code_of(await gate.call("http.get", url="https://10.0.0.1/")) == (1019 if rules != policy(ASK) else 1003)
    assert web.dialled == []


async def test_what_is_not_listed_is_denied_where_nobody_can_be_asked(tmp_path: Path) -> None:
    web = a_web()
    outcome = await get(web, tmp_path, policy(allow_domains=["b.test"], otherwise="ask"))
    assert (outcome.status, code_of(outcome), web.looked_up) == (Status.DENIED, 1001, [])
    assert outcome.error is not None
    assert "host `a.test` is outside allow_domains of http.get (b.test)" in outcome.error.detail


async def test_a_rule_that_allows_a_host_outright_needs_nobody_s_agreement(tmp_path: Path) -> None:
    rules = policy({"pattern": "http.get(https://a.test/*)", "action": "allow"}, allow_domains=[], otherwise="ask")
    assert (await get(a_web(), tmp_path, rules)).ok


@pytest.mark.parametrize(
    ("location", "code"), [("https://a.test/there", None), ("https://b.test/", 1001), ("http://a.test/", 1001)]
)
async def test_a_redirect_passes_to_what_a_person_agreed_to_and_nowhere_else(
    tmp_path: Path, location: str, code: int | None
) -> None:
    web = a_web(a__={"status": 302, "location": location})
    rules = policy(allow_domains=[], otherwise="ask")
    async with a_gate_to(web, rules, tmp_path / "gate.db", can_ask=True, notifier=People()) as gate:
        question = await pending(gate, "http.get", {"url": A})
        await approve(gate, question)
        outcome = await outcome_of(gate, question)
    assert code_of(outcome) == code
    if outcome.error:
        assert f"`{location}` would need a person's agreement (" in outcome.error.detail
        assert outcome.error.suggestion == "call that URL itself"


async def test_what_a_rule_allows_gives_a_redirect_no_agreement(tmp_path: Path) -> None:
    web = a_web(a__x={"status": 302, "location": "https://a.test/y"})
    rules = policy({"pattern": "http.get(https://a.test/x)", "action": "allow"}, allow_domains=[], otherwise="ask")
    async with a_gate_to(web, rules, tmp_path / "gate.db", can_ask=True, notifier=People()) as gate:
        assert code_of(await gate.call("http.get", url=f"{A}x")) == 1001


async def test_during_a_cooldown_there_is_no_look_up(tmp_path: Path) -> None:
    web, clock = a_web(), HandClock()
    rules = policy({"pattern": "http.get(*)", "action": "ask"}) | {"cooldown_seconds": 60}
    async with a_gate_to(web, rules, tmp_path / "gate.db", can_ask=True, notifier=People(), clock=clock) as gate:
        question = await pending(gate, "http.get", {"url": A})
        await deny(gate, question, by=ANNA)
        await outcome_of(gate, question)
        assert code_of(await gate.call("http.get", url=A)) == 1022
    assert web.looked_up == []


@pytest.mark.parametrize(
    ("rule", "code", "detail"),
    [
        ({"pattern": "http.get(https://b.test/*)", "action": "deny"}, 1001, "is denied by the rule"),
        ({"pattern": "http.get(https://b.test/*)", "action": "ask"}, 1001, "a person would have to agree"),
        ({"pattern": "*", "action": "deny", "when": "startswith(inputs['url'], 'https://b.')"}, 1001, "is denied by"),
    ],
)
async def test_a_redirect_is_judged_by_the_whole_policy(
    tmp_path: Path, rule: Mapping[str, str], code: int, detail: str
) -> None:
    web = a_web(a__={"status": 302, "location": B})
    outcome = await get(web, tmp_path, policy(rule))
    assert outcome.error is not None
    assert (outcome.error.code, outcome.data, web.dialled, web.looked_up) == (code, None, [PUBLIC], ["a.test"])
    assert outcome.error.detail.startswith(f"`{B}` is refused: ")
    assert detail in outcome.error.detail


async def test_a_redirect_that_would_need_a_person_is_refused(tmp_path: Path) -> None:
    web = a_web(a__={"status": 302, "location": B})
    rules = policy({"pattern": "http.get(https://b.test/*)", "action": "ask"})
    async with a_gate_to(web, rules, tmp_path / "gate.db", can_ask=True) as gate:
        outcome = await gate.call("http.get", url=A)
    assert outcome.error is not None
    assert (outcome.error.detail, web.dialled) == (
        f"`{B}` would need a person's agreement (http.get(https://b.test/*))",
        [PUBLIC],
    )


async def test_redirects_that_were_followed_are_told(tmp_path: Path) -> None:
    web = a_web(a__={"status": 302, "location": "/x"}, a__x={"status": 307, "location": B}, b__={"body": "end"})
    outcome = await get(web, tmp_path, policy())
    assert (outcome.data["url"], outcome.data["body"], outcome.data["redirects"]) == (B, "end", [A, f"{A}x"])
    assert web.looked_up == ["a.test", "a.test", "b.test"]


async def test_redirects_end_at_the_limit(tmp_path: Path) -> None:
    web = a_web(a__={"status": 302, "location": A})
    outcome = await get(web, tmp_path, policy(max_redirects=2))
    assert outcome.error is not None
    assert (outcome.error.code, outcome.error.detail) == (2003, f"`{A}` redirects more than 2 times")
    assert len(web.dialled) == 3


@pytest.mark.parametrize("location", ["https://b.test\\@a.test/", "javascript:1", "//x@b.test/", "https://0x7f.1/"])
async def test_a_redirect_that_readers_disagree_about_is_refused(tmp_path: Path, location: str) -> None:
    web = a_web(a__={"status": 302, "location": location})
    outcome = await get(web, tmp_path, policy())
    assert outcome.error is not None
    assert (outcome.error.code, len(web.dialled)) == (1003, 1)
    assert outcome.error.detail.startswith(f"the redirect of `{A}` is refused: ")


async def test_a_run_that_is_nearly_over_does_not_wait_for_a_look_up(tmp_path: Path) -> None:
    web, clock = a_web(), HandClock()
    web.hanging.add("a.test")
    async with a_gate_to(web, policy(), tmp_path / "gate.db", clock=clock) as gate:
        request = CallRequest(Agent("local"), "http.get", {"url": A}, run_ends_at=clock.monotonic() + 0.01)
        outcome = await gate.submit(request)
    assert outcome.error is not None
    assert (outcome.error.code, outcome.error.detail) == (2006, "`a.test` was not found within 0.01 s")


async def test_the_service_has_the_shape_of_every_service(tmp_path: Path) -> None:
    async with a_gate_to(Web(), policy(), tmp_path / "gate.db") as gate:
        service = completed(HttpService(gate.ledger, gate.clock))
        await service.start()
        assert await service.health_check()
        assert [tool.name for tool in declarations(service)] == ["http.get"]
        with pytest.raises(ToolError, match=r"`http\.get` runs inside the gate"):
            await service.execute("http.get", {"url": A})
        await service.close()


async def test_credentials_stay_with_the_origin_that_they_were_given_for(tmp_path: Path) -> None:
    web = a_web(a__={"status": 302, "location": "/x"}, a__x={"status": 302, "location": B}, b__={"status": 200})
    given = {"Authorization": "Bearer x", "Cookie": "a=b", "X-Api-Key": "k", "Accept": "text/html"}
    await get(web, tmp_path, policy(), headers=given)
    kept = [sorted(name for name in sent if name in {n.lower() for n in given}) for _, sent in web.asked]
    everything = ["accept", "authorization", "cookie", "x-api-key"]
    assert kept == [everything, everything, ["accept"]]


async def test_a_cookie_that_a_server_sets_is_not_sent_back(tmp_path: Path) -> None:
    web = a_web(a__={"status": 302, "location": "/x", "headers": {"Set-Cookie": "s=1; Path=/"}})
    await get(web, tmp_path, policy())
    assert [("cookie" in sent) for _, sent in web.asked] == [False, False]


async def test_only_judged_addresses_are_tried_and_in_their_order(tmp_path: Path) -> None:
    web = a_web()
    web.names["a.test"] = [[f"9.9.9.{n}" for n in range(9, 0, -1)], ["127.0.0.1"]]
    web.failing = ["*"] * 9
    outcome = await get(web, tmp_path, policy())
    assert (outcome.status, code_of(outcome)) == (Status.ERROR, 2006)
    assert (web.dialled, web.looked_up) == ([f"9.9.9.{n}" for n in range(1, 5)], ["a.test"])


async def test_an_answer_over_the_limit_is_not_told_at_all(tmp_path: Path) -> None:
    web = a_web(a__={"body": "x" * 11})
    outcome = await get(web, tmp_path, policy(max_response_bytes=10))
    assert (code_of(outcome), outcome.data) == (2005, None)
    assert (await get(a_web(a__={"body": "x" * 10}), tmp_path, policy(max_response_bytes=10))).ok


async def test_a_packed_answer_stays_packed(tmp_path: Path) -> None:
    web = a_web(a__={"body": b"\x1f\x8b\x08\x00", "headers": {"Content-Encoding": "gzip"}})
    outcome = await get(web, tmp_path, policy())
    assert (outcome.data["body"], outcome.data["body_encoding"]) == ("H4sIAA==", "base64")


@pytest.mark.parametrize("args", [{"headers": {"Host": "b.test"}}, {"url": "https://a.test@b.test/"}, {"timeout": 0}])
async def test_bad_arguments_are_refused_before_anything_is_looked_up(tmp_path: Path, args: Mapping[str, Any]) -> None:
    web = a_web()
    async with a_gate_to(web, policy(), tmp_path / "gate.db") as gate:
        outcome = await gate.call("http.get", {"url": A, **args})
    assert (outcome.status, code_of(outcome), web.looked_up) == (Status.ERROR, 2002, [])


async def test_a_read_that_goes_out_is_intended_first_and_costs(tmp_path: Path) -> None:
    async with a_gate_to(a_web(), policy() | {"limits": {"budget": {"daily": 1}}}, tmp_path / "gate.db") as gate:
        first = await gate.call("http.get", url=A)
        second = await gate.call("http.get", url=A)
        kinds = [row["kind"] for row in entries(gate)]
    assert (first.cost, code_of(second)) == (1, 1013)
    assert kinds == ["performing", "settled", "settled"]


@pytest.mark.parametrize(
    ("body", "content_type", "fields"),
    [
        (b"", None, {"body": ""}),
        ("ä".encode(), None, {"body": "ä"}),
        (b"\xe4", "text/html; charset=ISO-8859-1", {"body": "ä"}),
        (b"\xe4", 'text/html;charset="windows-1252"; x=y', {"body": "ä"}),
        ("ä".encode("utf-16"), "text/html; charset=utf-16", {"body": "ä"}),
        (b"\xff\xfe\x00", "text/plain; charset=utf-8", None),
        (b"\xe4", "text/html", None),
        (b"abc", "text/html; charset=rot13", None),
        (b"abc", "text/html; charset=punycode", None),
        (b"abc", "text/html; charset=unicode_escape", None),
        (b"abc", "text/html; charset=no-such", None),
        (b"\x00", "application/octet-stream", {"body": "\x00"}),
    ],
)
def test_a_body_is_text_where_it_is_text_and_base_64_otherwise(
    body: bytes, content_type: str | None, fields: dict[str, str] | None
) -> None:
    packed = {"body": base64.b64encode(body).decode(), "body_encoding": "base64"}
    assert readable(body, content_type) == (packed if fields is None else fields)
