"""An agent's headers say what it wants to say, and nothing about where a request goes or how it is framed."""

from __future__ import annotations

import pytest

from agent_gate.model.errors import ToolError
from agent_gate.policy.guards.headers import agent_headers, for_other_origin


def test_ordinary_headers_pass_as_they_are() -> None:
    given = {"Accept": "text/html", "X-Empty": "", "Authorization": "Bearer a b\tc", "If-None-Match": '"x"'}
    assert agent_headers(given) == (
        ("accept", "text/html"),
        ("x-empty", ""),
        ("authorization", "Bearer a b\tc"),
        ("if-none-match", '"x"'),
    )


@pytest.mark.parametrize(
    "name",
    [
        "Host",
        "CONNECTION",
        "Proxy-Authorization",
        "proxy-x",
        "Content-Length",
        "Transfer-Encoding",
        "TE",
        "Trailer",
        "Upgrade",
        "Expect",
        "Keep-Alive",
        "HTTP2-Settings",
        "Accept-Encoding",
        "Via",
    ],
)
def test_headers_of_the_gate_are_refused(name: str) -> None:
    with pytest.raises(ToolError) as raised:
        agent_headers({name: "x"})
    assert str(raised.value) == f"bad_arguments: header `{name}` is the gate's to set; leave it out"


@pytest.mark.parametrize("name", ["", "a b", "a:", "a\r\nb", "ä", "a\0", ":authority", "a\n", '"'])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(ToolError, match="is not the name of a header"):
        agent_headers({name: "x"})


@pytest.mark.parametrize("value", ["a\r\nb", "a\n", "\r", "a\0b", "ä", " a", "a ", "\t", "\x7f", "\u2028"])
def test_a_value_that_could_end_the_line_or_be_read_otherwise_is_refused(value: str) -> None:
    with pytest.raises(ToolError, match="holds a character that no header may hold"):
        agent_headers({"x": value})


def test_one_name_in_two_cases_is_refused() -> None:
    with pytest.raises(ToolError, match="header `X-A` is given twice"):
        agent_headers({"x-a": "1", "X-A": "2"})


def test_headers_are_bounded_together() -> None:
    agent_headers({"a": "x" * 16_000})
    with pytest.raises(ToolError, match="more than 16384 characters"):
        agent_headers({"a": "x" * 8_000, "b": "x" * 8_400})


def test_only_what_is_no_credential_follows_to_another_origin() -> None:
    given = {
        "Accept": "a",
        "accept-language": "b",
        "User-Agent": "c",
        "Authorization": "d",
        "Cookie": "e",
        "X-Key": "f",
    }
    assert for_other_origin(agent_headers(given)) == (("accept", "a"), ("accept-language", "b"), ("user-agent", "c"))
