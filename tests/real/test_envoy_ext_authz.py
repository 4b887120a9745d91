"""The policy agent behind a real Envoy by ext_authz: requests pass, with other headers, or not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.real.envoy import API_KEY, EXAMPLE, Front, fronted

ENVOY = (EXAMPLE / "envoy-ext-authz.yaml").read_text()
CONFIG = f"""
    policy_agent:
      socket_path: run/policy-agent.sock
      routes:
        - {{path: /api/louder, chain: louder}}
        - {{path: /api/responses, chain: responses}}
        - {{route: api, chain: orders}}
    chains:
      orders:
        - {{name: api_key, metadata: {{keys: [{{id: anna, key: {API_KEY}}}]}}}}
        - {{name: ip_allow, metadata: {{allow: [127.0.0.0/8, 10.0.0.0/8, 172.16.0.0/12, 192.0.0.0/8]}}}}
        - {{name: body_size, metadata: {{max_bytes: 1000}}}}
        - name: teapot
        - {{name: set_headers, metadata: {{headers: {{x-checked-by: agent-gate}}}}}}
        - {{name: remove_headers, metadata: {{headers: [x-internal]}}}}
      louder: [{{name: louder}}]
      responses: [{{name: remove_headers, metadata: {{headers: [x-powered-by], phase: response}}}}]
"""


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    with fronted(tmp_path_factory.mktemp("envoy"), ENVOY, CONFIG) as front:
        yield front


@pytest.fixture(autouse=True)
def _forgotten(front: Front) -> None:
    front.server.seen.clear()


def test_what_the_policies_allow_reaches_the_server_with_the_headers_that_they_want(front: Front) -> None:
    answer = front.ask_as_anna("/api/orders?x=1", b"three beers", X_Internal="1", X_Checked_By="a liar")
    (seen,) = front.server.seen
    assert (answer.status, answer.body, seen.path, seen.body) == (
        200, b"hello from behind", "/api/orders?x=1", b"three beers",
    )  # fmt: skip
    assert seen.headers["x-checked-by"] == "agent-gate"
    assert "x-internal" not in seen.headers
    assert "x-api-key" not in seen.headers


def test_what_they_deny_does_not(front: Front) -> None:
    assert front.ask("/api/orders").status == 401
    assert front.ask_as_anna("/api/orders", b"x" * 1001).status == 413
    assert front.ask("/").status == 403
    assert front.server.seen == []


def test_a_policy_answers_in_place_of_the_server(front: Front) -> None:
    answer = front.ask_as_anna("/api/orders", x_tea="1")
    assert (answer.status, answer.body, answer.header("content-type")) == (418, b"tea", "text/tea")
    assert [value for name, value in answer.headers if name == "set-cookie"] == ["a=1", "b=2"]
    assert front.server.seen == []


@pytest.mark.parametrize("path", ["/api/louder", "/api/responses"])
def test_a_chain_that_ext_authz_cannot_honour_lets_nothing_pass(front: Front, path: str) -> None:
    """One changes the body, the other is for responses."""
    assert front.ask(path, body=b"three beers").status == 500
    assert front.server.seen == []
