"""The context: what it takes, and that no policy can change what another one sees."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from agent_gate.chain.context import Phase, RequestContext
from agent_gate.chain.faults import InvalidRequest
from agent_gate.chain.headers import Headers
from agent_gate.chain.state import State


def test_header_names_do_not_depend_on_case() -> None:
    headers = Headers({"X-Api-Key": "a"})
    assert headers.get("x-api-key") == headers.get("X-API-KEY") == "a"
    assert "x-aPi-key" in headers
    assert headers == Headers({"x-api-key": "a"})
    assert hash(headers) == hash(Headers({"x-api-key": "a"}))


def test_headers_may_repeat() -> None:
    headers = Headers([("Accept", "a"), ("X", "1"), ("accept", "b")])
    assert headers.all("ACCEPT") == ("a", "b")
    assert headers.get("accept") == "a, b"
    assert list(headers) == [("Accept", "a"), ("accept", "b"), ("X", "1")]
    assert len(headers) == 3
    assert (headers.all("absent"), headers.get("absent")) == ((), None)


def test_neither_headers_nor_state_nor_body_are_shown_by_repr() -> None:
    context = RequestContext.create(headers={"authorization": "hunter2"}, state={"k": "hunter3"}, body=b"hunter4")
    assert "hunter" not in repr(context)
    assert "authorization" in repr(context)


def test_a_value_of_the_state_is_the_readers_own_copy() -> None:
    context = RequestContext.create(state={"who": {"roles": ["viewer"]}})
    context.state["who"]["roles"].append("admin")
    assert context.state["who"] == {"roles": ["viewer"]}


def test_what_the_state_was_made_of_can_be_changed_without_effect() -> None:
    given: dict[str, Any] = {"who": {"roles": ["viewer"]}}
    state = State(given)
    given["who"]["roles"].append("admin")
    given["more"] = 1
    assert dict(state) == {"who": {"roles": ["viewer"]}}


def test_states_with_the_same_values_are_equal() -> None:
    assert State({"a": 1, "b": [2]}) == State({"b": [2], "a": 1})
    assert len({State({"a": 1}), State({"a": 1}), State({"a": 2})}) == 2
    assert len(State({"a": 1, "b": 2})) == 2


@pytest.mark.parametrize("name", ["headers", "body", "state", "path", "phase"])
def test_a_context_cannot_be_changed_in_place(name: str) -> None:
    context = RequestContext.create()
    with pytest.raises(FrozenInstanceError):
        setattr(context, name, None)


def test_a_copy_of_the_headers_fields_is_a_copy() -> None:
    context = RequestContext.create(headers={"a": "1"})
    context.headers.fields().clear()
    context.state.encoded()["x"] = b"1"
    assert context == RequestContext.create(headers={"a": "1"})


@pytest.mark.parametrize(
    "fields",
    [
        {"method": "GE T"},
        {"method": ""},
        {"path": "/a b"},
        {"path": "/a\r\nx: y"},
        {"authority": "a\0b"},
        {"path": "/" + "a" * 10_000},
        {"scheme": "ht\ntp"},
        {"client_ip": "1.2.3.4\n"},
        {"headers": {"": "x"}},
        {"headers": {":path": "/"}},
        {"headers": {"a b": "x"}},
        {"headers": {"a": "x\r\ny: z"}},
        {"headers": {"a": "x\0"}},
        {"headers": [("a", "x")] * 300},
        {"headers": {"a": "x" * 200_000}},
        {"headers": {"a": "\ud800"}},
        {"query_params": {"a": "\n"}},
        {"state": {"a": object()}},
        {"state": {"a": float("nan")}},
        {"response_status": 200},
        {"phase": Phase.RESPONSE},
        {"phase": Phase.RESPONSE, "response_status": 99},
        {"phase": Phase.RESPONSE, "response_status": 600},
    ],
)
def test_what_http_does_not_know_is_no_context(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest) as failure:
        RequestContext.create(**fields)
    assert "\n" not in str(failure.value)


def test_a_response_has_a_status_beside_the_requests_fields() -> None:
    context = RequestContext.create(path="/x", phase=Phase.RESPONSE, response_status=404, query_params={"a": "b"})
    assert (context.path, context.response_status, context.query_params) == ("/x", 404, (("a", "b"),))
