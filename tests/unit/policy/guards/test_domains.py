"""The guard of `http.get` passes what its lists name, and nothing that only looks like it."""

from __future__ import annotations

from typing import Any

import pytest

from agent_gate.config import ConfigError
from agent_gate.model.call import Agent, BoundCall, CallRequest, Facts
from agent_gate.model.policy import UrlGuard
from agent_gate.model.tool import Mode
from agent_gate.model.verdict import Decision, Reason
from agent_gate.policy.guards.domains import Domains, UrlJudge
from agent_gate.policy.guards.urls import parse_url
from agent_gate.policy.layers import Answer


def judged(url: str, *addresses: str, **section: Any) -> Answer:
    fields = {"allow_domains": ("a.test", "*.b.test"), **section}
    request = CallRequest(Agent("x"), "http.get", {})
    found = {"addresses": list(addresses)} if addresses else {}
    bound = BoundCall("", request, {}, {}, (), "", parse_url(url).resources)
    return UrlJudge(UrlGuard(**fields))(bound, Facts(0, Mode.ASSISTED, (), False, "", found=found))


def problem(url: str, *addresses: str, **section: Any) -> str:
    answer = judged(url, *addresses, **section)
    assert answer[1] is not None
    return str(answer[1])


@pytest.mark.parametrize(
    ("patterns", "host", "matched"),
    [
        (("a.test",), "a.test", "a.test"),
        (("A.Test.",), "a.test", "A.Test."),
        (("a.test",), "x.a.test", None),
        (("a.test",), "xa.test", None),
        (("*.a.test",), "x.a.test", "*.a.test"),
        (("*.a.test",), "y.x.a.test", "*.a.test"),
        (("*.a.test",), "a.test", None),
        (("*.a.test",), "xa.test", None),
        (("*.a.test",), "a.test.evil.test", None),
        (("*.a.test", "*.x.a.test"), "y.x.a.test", "*.x.a.test"),
        (("*.a.test", "*"), "b.test", "*"),
        (("*.test",), "a.test", "*.test"),
        (("*",), "1.2.3.4", "*"),
        (("*", "1.2.3.4"), "1.2.3.4", "1.2.3.4"),
        (("bücher.test",), "xn--bcher-kva.test", "bücher.test"),
        (("[2606:4700:0::1]",), "2606:4700::1", "[2606:4700:0::1]"),
        (("2606:4700::1",), "2606:4700::2", None),
        ((), "a.test", None),
    ],
)
def test_a_pattern_means_a_name_its_sub_domains_or_everything(
    patterns: tuple[str, ...], host: str, matched: str | None
) -> None:
    assert Domains(patterns).match(host) == matched


@pytest.mark.parametrize(
    "pattern", ["a.test:443", "https://a.test", "a..test", "*.", "*.1.2.3.4", "*.2.3", "0x7f.1", "a b"]
)
def test_a_pattern_that_could_never_match_is_a_mistake(pattern: str) -> None:
    with pytest.raises(ConfigError, match=r"tools: http\.get: allow_domains: "):
        Domains((pattern,))


def test_what_passes_says_by_which_pattern() -> None:
    assert judged("https://x.b.test/", "8.8.8.8") == (
        Reason("guard", Decision.ALLOW, "*.b.test", "the host is allowed"),
        None,
    )


def test_a_name_that_was_not_looked_up_passes_and_says_so() -> None:
    text = "the host is allowed; its addresses were not looked up"
    assert judged("https://a.test/") == (Reason("guard", Decision.ALLOW, "a.test", text), None)


@pytest.mark.parametrize(
    ("url", "section", "what", "field", "allowed"),
    [
        ("http://a.test/", {}, "scheme `http`", "allow_schemes", "https"),
        ("https://a.test:8443/", {"allow_ports": (443, 444)}, "port `8443`", "allow_ports", "443, 444"),
        ("https://evil.test/", {}, "host `evil.test`", "allow_domains", "a.test, *.b.test"),
        ("https://c.test/", {"allow_domains": ()}, "host `c.test`", "allow_domains", "none"),
        ("https://c.test/", {"allow_domains": tuple("defghi")}, "host `c.test`", "allow_domains", "d, e, f, g, h, …"),
    ],
)
def test_what_is_outside_a_list_is_told_with_the_list(
    url: str, section: dict[str, Any], what: str, field: str, allowed: str
) -> None:
    outside = f"domain_denied: {what} is outside {field} of http.get ({allowed})"
    assert problem(url, **section) == f"{outside}; add it to {field} under tools: http.get, if it is meant"


@pytest.mark.parametrize(
    ("host", "addresses", "why"),
    [
        ("a.test", ["8.8.8.8", "10.0.0.1"], " leads to 10.0.0.1, which is not a public address (private, 10.0.0.0/8)"),
        ("127.0.0.1", [], " is not a public address (loopback, 127.0.0.0/8)"),
        ("[::1]", [], " is not a public address (loopback, ::1/128)"),
        ("x.localhost", ["8.8.8.8"], " is this host, not a public address"),
    ],
)
def test_an_address_that_is_not_public_is_told_with_its_range(host: str, addresses: list[str], why: str) -> None:
    bare = host.strip("[]")
    remedy = f"if `{bare}` is meant, set deny_private_ips: false under tools: http.get"
    assert problem(f"https://{host}/", *addresses, allow_domains=("*",)) == f"private_address: `{bare}`{why}; {remedy}"


def test_private_addresses_pass_where_the_policy_means_them() -> None:
    assert judged("https://a.test/", "10.0.0.1", deny_private_ips=False)[1] is None
    assert judged("https://localhost/", "127.0.0.1", deny_private_ips=False, allow_domains=("localhost",))[1] is None


def test_a_call_whose_url_nobody_read_is_denied() -> None:
    bound = BoundCall("", CallRequest(Agent("x"), "http.get", {}), {}, {}, (), "")
    answer = UrlJudge(UrlGuard(allow_domains=("*",)))(bound, Facts(0, Mode.ASSISTED, (), False, ""))
    assert answer[0].decision is Decision.DENY


def test_with_otherwise_ask_all_that_is_not_listed_is_asked_about_at_once() -> None:
    reason, refusal = judged("http://other.test:8080/", otherwise="ask")
    assert (reason.decision, refusal) == (Decision.ASK, None)
    assert reason.text == (
        "scheme `http` is outside allow_schemes of http.get (https);"
        " port `8080` is outside allow_ports of http.get (443);"
        " host `other.test` is outside allow_domains of http.get (a.test, *.b.test)"
    )
    assert judged("https://a.test/", otherwise="ask")[0].decision is Decision.ALLOW


@pytest.mark.parametrize("url", ["https://10.0.0.1/", "https://localhost/", "http://[::1]:8080/"])
def test_with_otherwise_ask_a_private_address_is_denied(url: str) -> None:
    assert problem(url, otherwise="ask").startswith("private_address: ")
    assert problem("https://other.test/", "192.168.1.1", otherwise="ask").startswith("private_address: ")
