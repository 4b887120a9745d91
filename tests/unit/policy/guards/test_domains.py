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
    bound = BoundCall("", request, {}, {}, (), "", "", parse_url(url).resources)
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
    ("url", "addresses", "section", "message"),
    [
        ("http://a.test/", (), {}, "domain_denied: scheme `http` is outside allow_schemes of http.get (https);"
         " add it to allow_schemes, if it is meant"),
        ("https://a.test:8443/", (), {"allow_ports": (443, 444)}, "domain_denied: port `8443` is outside allow_ports of"
         " http.get (443, 444); add it to allow_ports, if it is meant"),
        ("https://evil.test/", (), {}, "domain_denied: host `evil.test` is outside allow_domains of http.get"
         " (a.test, *.b.test); add it to allow_domains, if it is meant"),
        ("https://c.test/", (), {"allow_domains": tuple(f"{n}.test" for n in "defghi")}, "domain_denied: host `c.test` is"
         " outside allow_domains of http.get (d.test, e.test, f.test, g.test, h.test, …); add it to allow_domains, if it"
         " is meant"),
        ("https://c.test/", (), {"allow_domains": ()}, "domain_denied: host `c.test` is outside allow_domains of http.get"
         " (none); add it to allow_domains, if it is meant"),
        ("https://a.test/", ("8.8.8.8", "10.0.0.1"), {}, "private_address: `a.test` leads to 10.0.0.1, which is not a"
         " public address (private, 10.0.0.0/8); if `a.test` is meant, set deny_private_ips: false under tools: http.get"),
        ("https://127.0.0.1/", (), {"allow_domains": ("*",)}, "private_address: `127.0.0.1` is not a public address"
         " (loopback, 127.0.0.0/8); if `127.0.0.1` is meant, set deny_private_ips: false under tools: http.get"),
        ("https://x.localhost/", ("8.8.8.8",), {"allow_domains": ("*",)}, "private_address: `x.localhost` is this host,"
         " not a public address; if `x.localhost` is meant, set deny_private_ips: false under tools: http.get"),
    ],
)  # fmt: skip
def test_a_refusal_is_enough_to_mend_the_policy(
    url: str, addresses: tuple[str, ...], section: dict[str, Any], message: str
) -> None:
    assert problem(url, *addresses, **section) == message


def test_private_addresses_pass_where_the_policy_means_them() -> None:
    assert judged("https://a.test/", "10.0.0.1", deny_private_ips=False)[1] is None
    assert judged("https://localhost/", "127.0.0.1", deny_private_ips=False, allow_domains=("localhost",))[1] is None


def test_a_call_whose_url_nobody_read_is_denied() -> None:
    bound = BoundCall("", CallRequest(Agent("x"), "http.get", {}), {}, {}, (), "", "")
    answer = UrlJudge(UrlGuard(allow_domains=("*",)))(bound, Facts(0, Mode.ASSISTED, (), False, ""))
    assert answer[0].decision is Decision.DENY
