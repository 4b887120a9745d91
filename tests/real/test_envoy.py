"""The policy agent behind a real Envoy by ext_proc: what passes, what is changed, what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real.envoy import API_KEY, EXAMPLE, Answer, Front, fronted

ENVOY = (EXAMPLE / "envoy.yaml").read_text()
CONFIG = f"""
    policy_agent:
      socket_path: run/policy-agent.sock
      policy_timeout_ms: 400
      routes:
        - {{path: /api/headers, chain: orders, bodies: false}}
        - {{route: api, chain: orders}}
        - {{authority: open.test, chain: open}}
    chains:
      orders:
        - {{name: api_key, metadata: {{keys: [{{id: anna, key: {API_KEY}}}]}}}}
        - {{name: body_size, metadata: {{max_bytes: 1000}}}}
        - name: slow
        - name: teapot
        - name: failing
        - name: silent
        - name: louder
        - {{name: set_headers, metadata: {{headers: {{x-checked-by: agent-gate}}}}}}
        - {{name: remove_headers, metadata: {{headers: [x-internal]}}}}
        - {{name: set_headers, metadata: {{headers: {{x-seen: "yes"}}, phase: response}}}}
        - {{name: remove_headers, metadata: {{headers: [x-powered-by], phase: response}}}}
      open:
        - {{name: set_headers, metadata: {{headers: {{x-open: "yes"}}}}}}
"""


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    with fronted(tmp_path_factory.mktemp("envoy"), ENVOY, CONFIG) as front:
        yield front


@pytest.fixture(autouse=True)
def _forgotten(front: Front) -> None:
    front.server.seen.clear()


def refused(answer: Answer, status: int, front: Front) -> None:
    assert (answer.status, front.server.seen) == (status, []), answer
    assert b"hello" not in answer.body


def test_what_the_policies_allow_reaches_the_server_and_comes_back(front: Front) -> None:
    answer = front.ask_as_anna("/api/orders?page=2&q=a%20b")
    (seen,) = front.server.seen
    assert (answer.status, seen.method, seen.path) == (200, "GET", "/api/orders?page=2&q=a%20b")


def test_a_request_that_a_policy_denies_never_reaches_the_server(front: Front) -> None:
    answer = front.ask("/api/orders", {"x-api-key": "key-of-nobody-0123456789"})
    refused(answer, 401, front)
    assert answer.header("www-authenticate") == "ApiKey"
    assert answer.json() == {
        "error": "unknown API key",
        "detail": "header `x-api-key` holds a key that is not known here",
    }


def test_a_policy_that_denies_without_an_answer_is_a_403(front: Front) -> None:
    answer = front.ask_as_anna("/api/orders", x_deny="1")
    refused(answer, 403, front)
    assert answer.json() == {"error": "denied by policy"}


def test_headers_of_the_request_are_set_and_removed(front: Front) -> None:
    front.ask_as_anna("/api/orders", X_Internal="1", X_Checked_By="a liar")
    (seen,) = front.server.seen
    assert seen.headers["x-checked-by"] == "agent-gate"
    assert "x-internal" not in seen.headers
    assert "x-api-key" not in seen.headers


def test_headers_and_body_of_the_response_are_changed(front: Front) -> None:
    answer = front.ask_as_anna("/api/orders")
    assert (answer.header("x-seen"), answer.header("x-powered-by")) == ("yes", None)
    assert answer.body == b"HELLO FROM BEHIND!"


def test_the_body_of_the_request_is_changed(front: Front) -> None:
    front.ask_as_anna("/api/orders", b"three beers")
    (seen,) = front.server.seen
    assert (seen.body, seen.headers["x-louder"]) == (b"THREE BEERS!", "yes")


def test_a_body_that_envoy_keeps_back_is_changed_with_its_length(tmp_path: Path) -> None:
    with fronted(tmp_path, ENVOY.replace("FULL_DUPLEX_STREAMED", "BUFFERED"), CONFIG) as front:
        front.wait_until_served("/api/orders")
        answer = front.ask_as_anna("/api/orders", b"three beers")
        (seen,) = front.server.seen
        assert (seen.body, seen.headers["content-length"], seen.headers["x-louder"]) == (b"THREE BEERS!", "12", "yes")
        assert (answer.body, answer.header("content-length")) == (b"HELLO FROM BEHIND!", "18")


def test_a_server_that_needs_the_length_gets_it_from_a_filter_behind_the_agents(tmp_path: Path) -> None:
    """As the guide has it."""
    router = "                  - name: envoy.filters.http.router\n"
    kind = "type.googleapis.com/envoy.extensions.filters.http.buffer.v3.Buffer"
    config = f"{{'@type': {kind}, max_request_bytes: 1048576}}"
    buffer = f"                  - {{name: envoy.filters.http.buffer, typed_config: {config}}}\n"
    with fronted(tmp_path, ENVOY.replace(router, buffer + router), CONFIG) as front:
        front.wait_until_served("/api/orders")
        front.ask_as_anna("/api/orders", b"three beers")
        assert front.server.seen[0].headers["content-length"] == "12"


def test_a_policy_sees_the_body_before_any_of_it_goes_on(front: Front) -> None:
    refused(front.ask_as_anna("/api/orders", b"x" * 1001), 413, front)


def test_a_body_in_chunks_is_seen_whole(front: Front) -> None:
    answer = front.ask("/api/orders", {"x-api-key": API_KEY, "transfer-encoding": "chunked"}, b"3\r\nabc\r\n0\r\n\r\n")
    (seen,) = front.server.seen
    assert (answer.status, seen.body) == (200, b"ABC!")


def test_a_policy_answers_in_place_of_the_server(front: Front) -> None:
    answer = front.ask_as_anna("/api/orders", x_tea="1")
    refused(answer, 418, front)
    assert (answer.body, answer.header("x-pot"), answer.header("content-type")) == (b"tea", "short", "text/tea")
    assert [value for name, value in answer.headers if name == "set-cookie"] == ["a=1", "b=2"]


def test_a_policy_that_takes_too_long_denies(front: Front) -> None:
    refused(front.ask_as_anna("/api/orders", x_slow="30"), 403, front)


def test_a_policy_that_fails_denies_and_tells_the_client_nothing_of_why(front: Front) -> None:
    answer = front.ask_as_anna("/api/orders", x_fail="1")
    refused(answer, 403, front)
    assert b"hunter2" not in answer.body
    assert b"failing" not in answer.body


@pytest.mark.parametrize("path", ["/", "/apis", "/other"])
def test_a_request_without_a_chain_is_denied(front: Front, path: str) -> None:
    refused(front.ask(path), 403, front)


def test_a_chain_is_chosen_by_the_name_of_the_host(front: Front) -> None:
    assert front.ask("/", {"host": "open.test:80"}).status == 200
    assert front.server.seen[0].headers["x-open"] == "yes"


@pytest.mark.parametrize("path", ["/api/..%2f", "/api/;x", "/api/%25"])
def test_a_path_that_can_be_read_in_two_ways_is_refused_where_paths_decide(front: Front, path: str) -> None:
    """The first is refused by Envoy itself, whose answer goes by the agent as well."""
    refused(front.ask_as_anna(path), 400, front)


def test_a_chain_for_headers_only_does_not_wait_for_the_body(front: Front) -> None:
    answer = front.ask_as_anna("/api/headers", b"three beers")
    (seen,) = front.server.seen
    assert (answer.status, seen.body, seen.headers["x-checked-by"]) == (200, b"three beers", "agent-gate")
    assert answer.body == b"hello from behind"


def test_bodies_that_envoy_does_not_hold_back_for_the_policies_are_refused(tmp_path: Path) -> None:
    with fronted(tmp_path, ENVOY.replace("body_mode: FULL_DUPLEX_STREAMED", "body_mode: NONE"), CONFIG) as front:
        front.wait_until_served("/api/orders")
        front.server.seen.clear()
        refused(front.ask_as_anna("/api/orders", b"three beers"), 500, front)
        assert front.ask_as_anna("/api/headers", b"three beers").status == 200


@pytest.mark.parametrize(
    "envoy",
    [
        ENVOY.replace("stream_idle_timeout: 60s", "stream_idle_timeout: 0.5s"),
        ENVOY.replace("FULL_DUPLEX_STREAMED", "BUFFERED").replace("message_timeout: 6s", "message_timeout: 0.3s"),
    ],
    ids=["kept by the agent", "kept by Envoy"],
)
def test_a_policy_slower_than_envoy_waits_lets_nothing_pass(tmp_path: Path, envoy: str) -> None:
    config = CONFIG.replace("policy_timeout_ms: 400", "policy_timeout_ms: 60000")
    with fronted(tmp_path, envoy, config) as front:
        front.wait_until_served("/api/orders")
        refused(front.ask_as_anna("/api/orders", x_slow="30"), 504, front)
