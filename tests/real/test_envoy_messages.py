"""The example behind a real Envoy, with messages that end in every way that HTTP has: the chain has run by then."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from tests.real.envoy import API_KEY, EXAMPLE, Front, fronted
from tests.real.http2 import SHAPES, Message, Shape, ask, served

ENVOY = (EXAMPLE / "envoy.yaml").read_text()
HTTP2 = """typed_extension_protocol_options:
        envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
          "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
          explicit_http_config: {http2_protocol_options: {}}
"""
SECRET = "sk-ant-0123456789abcdefghijklmnopqrstuvwxyz"
CONFIG = (EXAMPLE / "config.yaml").read_text().replace(
    "    - name: remove_headers\n",
    "    - {name: secret_scrub, metadata: {patterns: [all]}}\n    - name: remove_headers\n",
)  # fmt: skip
ANNA = {"x-api-key": API_KEY}


def answer(request: Message) -> tuple[Sequence[tuple[str, str]], Shape]:
    shape = SHAPES[request.header("x-answer") or "one piece"]
    return [(":status", "200"), ("x-powered-by", "secrets"), ("x-told", SECRET)], shape


@pytest.fixture(scope="module")
def upstream() -> Iterator[tuple[int, list[Message]]]:
    with served(answer) as server:
        yield server


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory, upstream: tuple[int, list[Message]]) -> Iterator[Front]:
    envoy = ENVOY.replace("type: STATIC", f"type: STATIC\n      {HTTP2}", 1)
    assert envoy != ENVOY
    envoy = envoy.replace("port_value: 8000", f"port_value: {upstream[0]}")
    with fronted(tmp_path_factory.mktemp("envoy"), envoy, CONFIG) as front:
        yield front


@pytest.fixture
def seen(upstream: tuple[int, list[Message]]) -> list[Message]:
    upstream[1].clear()
    return upstream[1]


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_a_request_of_nobody_is_refused_however_it_ends(front: Front, seen: list[Message], shape: Shape) -> None:
    refused = ask(front.port, "/api/orders", shape, {})
    assert (refused.status, seen) == (401, [])


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_a_request_that_may_pass_arrives_whole_and_changed(front: Front, seen: list[Message], shape: Shape) -> None:
    small = Shape(tuple(piece[:60_000] for piece in shape.pieces), shape.trailers, shape.length)
    answered = ask(front.port, "/api/orders", small, ANNA)
    (arrived,) = seen
    assert (answered.status, answered.body) == (200, b"three beers")
    assert (arrived.body, arrived.header("x-checked-by"), arrived.header("x-api-key")) == (
        small.body, "agent-gate", None,
    )  # fmt: skip
    assert arrived.trailers == ([("x-trailer", "yes")] if shape.trailers else [])


@pytest.mark.parametrize("name", SHAPES)
def test_a_response_is_judged_however_it_ends(front: Front, seen: list[Message], name: str) -> None:
    answered = ask(front.port, "/api/orders", SHAPES["headers alone"], {**ANNA, "x-answer": name}, "GET")
    assert (answered.status, answered.body) == (200, SHAPES[name].body)
    assert (answered.header("x-powered-by"), answered.header("x-told")) == (None, "***")
    assert answered.trailers == ([("x-trailer", "yes")] if SHAPES[name].trailers else [])
    assert len(seen) == 1


def test_a_request_with_more_body_than_may_be_is_refused(front: Front, seen: list[Message]) -> None:
    pieces = (b"x" * 60_000,) * 40
    refused = ask(front.port, "/api/orders", Shape(pieces), ANNA)
    assert (refused.status, seen) == (413, [])
