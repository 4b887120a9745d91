"""A URL has one reading, one spelling and one signature, or none at all."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from agent_gate.model.errors import GateError, PolicyDeniedError, ToolError
from agent_gate.policy.guards.urls import Url, normal_host, parse_url

SAFE_TARGET = re.compile(r"/(?:[A-Za-z0-9\-._~!$&'()*+,;=:@/?]|%[0-9A-F]{2})*").fullmatch
SAFE_HOST = re.compile(r"[a-z0-9_.-]+|[0-9a-f:]+").fullmatch


@pytest.mark.parametrize(
    ("text", "signature"),
    [
        ("https://api.example.test", "https://api.example.test/"),
        ("HTTPS://API.Example.TEST/V1", "https://api.example.test/V1"),
        ("https://api.example.test:443/", "https://api.example.test/"),
        ("http://api.example.test:80/", "http://api.example.test/"),
        ("http://api.example.test:443/", "http://api.example.test:443/"),
        ("https://api.example.test:80/", "https://api.example.test:80/"),
        ("https://api.example.test./", "https://api.example.test/"),
        ("https://bücher.example/", "https://xn--bcher-kva.example/"),
        ("https://BÜCHER.example/", "https://xn--bcher-kva.example/"),
        ("https://bu\u0308cher.example/", "https://xn--bcher-kva.example/"),
        ("https://faß.example/", "https://xn--fa-hia.example/"),
        ("https://a.test/?", "https://a.test/%3F"),
        ("https://a.test?b=c", "https://a.test/%3Fb=c"),
        ("https://a.test/b?c?d", "https://a.test/b%3Fc%3Fd"),
        ("https://a.test/b#c?d", "https://a.test/b"),
        ("https://a.test/b?c#d", "https://a.test/b%3Fc"),
        ("https://a.test/%7ea%2Db%5f", "https://a.test/~a-b_"),
        ("https://a.test/%c3%a4", "https://a.test/%C3%A4"),
        ("https://a.test/ä?ö", "https://a.test/%C3%A4%3F%C3%B6"),
        ("https://a.test/%2f%3f%25", "https://a.test/%2F%3F%25"),
        ("https://a.test/%252e", "https://a.test/%252e"),
        ("https://a.test/*(b),[c]", "https://a.test/%2A%28b%29%2C%5Bc%5D"),
        ('https://a.test/"<>^`{|}', "https://a.test/%22%3C%3E%5E%60%7B%7C%7D"),
        ("https://a.test/\u2028", "https://a.test/%E2%80%A8"),
        ("https://a.test/b/../c/./d", "https://a.test/c/d"),
        ("https://a.test/b/%2e%2E/c", "https://a.test/c"),
        ("https://a.test/b/c/d/../../e", "https://a.test/b/e"),
        ("https://a.test/../../c", "https://a.test/c"),
        ("https://a.test/b/..", "https://a.test/"),
        ("https://a.test/b/.", "https://a.test/b/"),
        ("https://a.test//b//", "https://a.test//b//"),
        ("https://a.test/.b/..c/...", "https://a.test/.b/..c/..."),
        ("https://a.test/?../x", "https://a.test/%3F../x"),
        ("https://a.test/;a=b:c@d!$&'+", "https://a.test/;a=b:c@d!$&'+"),
        ("http://[2606:4700:0:0::1111]/", "http://%5B2606:4700::1111%5D/"),
        ("http://[2606:4700::1111]:8080/", "http://%5B2606:4700::1111%5D:8080/"),
        ("http://93.184.215.14/", "http://93.184.215.14/"),
    ],
)
def test_a_url_is_signed_in_its_one_spelling(text: str, signature: str) -> None:
    assert parse_url(text).signature == f"http.get({signature})"


@pytest.mark.parametrize("character", ["\x00", "\t", "\n", "\r", " ", "\x7f", "\x85", "\xa0", "\\"])
@pytest.mark.parametrize(
    "place", ["https://{}a.test/", "https://a{}.test/", "https://a.test/b{}", "https://a.test/?{}"]
)
def test_what_could_end_a_line_or_a_word_is_nowhere_in_a_url(place: str, character: str) -> None:
    with pytest.raises(ToolError, match=f"the URL holds U\\+{ord(character):04X}"):
        parse_url(place.format(character))


def test_a_url_and_its_host_have_the_length_that_they_may_have() -> None:
    name = "a." * 124 + "test."
    assert len(parse_url(f"https://{name}/").host) == 252
    assert len(parse_url(f"https://a{name}/").host) == 253
    with pytest.raises(ToolError, match="is not the name of a host"):
        parse_url(f"https://aa{name}/")
    assert len(parse_url("https://a.test/".ljust(8192, "a")).text) == 8192
    with pytest.raises(ToolError, match="the URL has 8193 characters"):
        parse_url("https://a.test/".ljust(8193, "a"))


@pytest.mark.parametrize(("host", "is_address"), [("a.test", False), ("1.2.3.4", True), ("[2606:4700::1]", True)])
def test_a_url_knows_whether_its_host_is_a_name_to_look_up(host: str, is_address: bool) -> None:
    assert parse_url(f"https://{host}/").is_address is is_address


def test_a_url_is_its_parts() -> None:
    url = parse_url("https://API.example.test:8443/a/%7eb?c=d#e")
    assert url == Url("https", "api.example.test", 8443, "/a/~b", "c=d")
    assert (url.origin, url.authority, url.target) == (
        "https://api.example.test:8443",
        "api.example.test:8443",
        "/a/~b?c=d",
    )
    assert url.resources == {"scheme": "https", "host": "api.example.test", "port": 8443}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "file:///etc/passwd",
            "domain_denied: `file` is not a scheme of http.get; use https, or http where it is allowed",
        ),
        (
            "http://0x7f.1/",
            (
                "domain_denied: `0x7f.1` is an address in a form that programs read differently;"
                " write it as four decimal numbers"
            ),
        ),
        ("https://a@b.test/", "bad_arguments: the URL names a user before the host; send credentials as a header"),
        ("https://a\\b.test/", "bad_arguments: the URL holds U+005C; escape it as its UTF-8 bytes: %20 for a space"),
        ("https://a.test/b c", "bad_arguments: the URL holds U+0020; escape it as its UTF-8 bytes: %20 for a space"),
        ("https://a.test/%", "bad_arguments: the URL holds a `%` that escapes nothing; write %25 for a percent sign"),
        ("https://a.test:99999/", "bad_arguments: `a.test:99999` is not a host with a port; write host or host:port"),
        ("a.test", "bad_arguments: `a.test` is not a URL with scheme and host; write https://host/path"),
        (
            "https://[fe80::1%25eth0]/",
            ("bad_arguments: `[fe80::1%25eth0]` is not an IPv6 address; write it in brackets, without a zone"),
        ),
        (
            "https://a..test/",
            "bad_arguments: `a..test` is not the name of a host; write it in letters, digits, `-` and dots",
        ),
        ("https://" + "a" * 9000, "bad_arguments: the URL has 9008 characters, more than 8192; send less in it"),
    ],
)
def test_a_refused_url_says_why_and_what_to_do(text: str, problem: str) -> None:
    with pytest.raises(GateError) as raised:
        parse_url(text)
    assert str(raised.value.problem) == problem


@pytest.mark.parametrize(
    "text", ["https://\ud800.test/", "https://a.test/\udfff", "https://a.test\x7f/", "https://\u202ea/"]
)
def test_a_refusal_can_be_shown_on_any_terminal(text: str) -> None:
    with pytest.raises(GateError) as raised:
        parse_url(text)
    assert str(raised.value).isascii()


@pytest.mark.parametrize(
    "host",
    [
        "\uff45vil.test",
        "\u2460.test",
        "a\u3002test",
        "ex\u00adample.test",
        "a\u200bb.test",
        "a\u2024test",
        "\u212aube.test",
        "te\u017ft.test",
        "\u0130.test",
        "a\u2100b.test",
        "a\u200d\u00df.test",
        "\u0301a.test",
    ],
)
def test_a_host_that_would_turn_into_another_is_refused(host: str) -> None:
    with pytest.raises(GateError):
        normal_host(host)


@pytest.mark.parametrize(
    ("reference", "text"),
    [
        ("https://c.test/d", "https://c.test/d"),
        ("HTTP://c.test", "http://c.test/"),
        ("//c.test/d", "https://c.test/d"),
        ("/d", "https://a.test:8443/d"),
        ("/d?e", "https://a.test:8443/d?e"),
        ("?e", "https://a.test:8443/b/c?e"),
        ("", "https://a.test:8443/b/c?q"),
        ("#f", "https://a.test:8443/b/c?q"),
        ("d", "https://a.test:8443/b/d"),
        ("./d", "https://a.test:8443/b/d"),
        ("../d#f", "https://a.test:8443/d"),
        ("../../../d", "https://a.test:8443/d"),
        ("d?x=//y", "https://a.test:8443/b/d?x=//y"),
        (";d", "https://a.test:8443/b/;d"),
    ],
)
def test_a_redirect_leads_where_rfc_3986_says(reference: str, text: str) -> None:
    assert parse_url("https://a.test:8443/b/c?q").join(reference).text == text


@pytest.mark.parametrize(
    "reference", ["d:e", "mailto:x", "///d", "/\\d", "\\d", "https:d", "//a@d/", "//", "d e", "//1.2/"]
)
def test_a_redirect_that_readers_disagree_about_leads_nowhere(reference: str) -> None:
    with pytest.raises(GateError):
        parse_url("https://a.test/b").join(reference)


def url_of(text: str) -> Url | None:
    try:
        return parse_url(text)
    except (ToolError, PolicyDeniedError):
        return None


HOSTS = st.sampled_from(["a.test", "A.B.test.", "bücher.example", "1.2.3.4", "[2606:4700::1]", "x_y.a-b.test"])
TARGETS = st.text("ab/.%2eE5cC?#&=[]*(),ä{~:@;\u2028", max_size=30)


@given(st.sampled_from(["http", "https", "HTTPS"]), HOSTS, st.sampled_from(["", ":443", ":80", ":8080"]), TARGETS)
def test_reading_what_was_read_changes_nothing(scheme: str, host: str, port: str, target: str) -> None:
    url = url_of(f"{scheme}://{host}{port}/{target}")
    assume(url is not None)
    assert url is not None
    assert parse_url(url.text) == url
    assert parse_url(url.text).signature == url.signature


@given(
    st.one_of(
        st.text(max_size=60),
        st.text(max_size=30).map("https://".__add__),
        st.text("htps:/\\@#?[]%.0x7f1a-_ \t\r\nä。", max_size=40).map("http://".__add__),
        st.from_regex(r"https?://[a-z0-9.@:\\%\[\]#?/-]{0,30}", fullmatch=True),
    )
)
@example("https://a.test\n")
@example("https://api.example.test#@evil.test/")
def test_any_text_is_a_safe_url_or_a_refusal(text: str) -> None:
    url = url_of(text)
    if url is None:
        return
    assert url.scheme in ("http", "https")
    assert SAFE_HOST(url.host)
    assert 1 <= url.port <= 65535
    assert SAFE_TARGET(url.target)
    # What is left has one reading for other parsers too.
    other = urlsplit(url.text)
    assert (other.scheme, other.hostname, other.port or url.port) == (url.scheme, url.host, url.port)
    assert (other.username, other.password, other.fragment) == (None, None, "")


@given(st.text("abz019", min_size=1, max_size=8), st.text("xyz/", max_size=8))
def test_respelling_keeps_the_signature(name: str, path: str) -> None:
    assume(not name.isdigit())
    plain = parse_url(f"https://{name}.test/q/{path}").signature
    escaped = "".join(f"%{ord(letter):02x}" for letter in "q")
    for other in (
        f"HTTPS://{name.upper()}.TEST/q/{path}",
        f"https://{name}.test.:443/q/{path}#{path}",
        f"https://{name}.test/./q/{path}",
        f"https://{name}.test/w/../q/{path}",
        f"https://{name}.test/{escaped}/{path}",
    ):
        assert parse_url(other).signature == plain
