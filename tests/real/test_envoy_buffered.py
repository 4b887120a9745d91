"""An Envoy that keeps bodies back itself (BUFFERED): what it might not show to the agent is refused, whatever it is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.real.envoy import Front, fronted
from tests.real.http2 import SHAPES, Message, Shape, ask, served
from tests.real.test_envoy_messages import ANNA, CONFIG, ENVOY, HTTP2, answer

BUFFERED = ENVOY.replace("FULL_DUPLEX_STREAMED", "BUFFERED")
MODES = {
    "trailers shown": BUFFERED,
    "trailers not shown": BUFFERED.replace("trailer_mode: SEND", "trailer_mode: SKIP"),
}
CERTAIN = {"headers alone", "one piece of known length"}


@pytest.fixture(scope="module", params=MODES)
def served_by(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Front, list[Message]]]:
    envoy = MODES[request.param].replace("type: STATIC", f"type: STATIC\n      {HTTP2}", 1)
    with (
        served(answer) as (port, seen),
        fronted(
            tmp_path_factory.mktemp("envoy"), envoy.replace("port_value: 8000", f"port_value: {port}"), CONFIG
        ) as front,
    ):
        yield front, seen


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_a_request_of_nobody_is_refused_however_it_ends(served_by: tuple[Front, list[Message]], shape: Shape) -> None:
    front, seen = served_by
    assert ask(front.port, "/api/orders", shape, {}).status in (401, 500)
    assert seen == []


@pytest.mark.parametrize("name", SHAPES)
def test_a_request_passes_where_envoy_must_show_all_of_it(served_by: tuple[Front, list[Message]], name: str) -> None:
    front, seen = served_by
    told = {**ANNA, "x-answer": "one piece of known length"}
    answered = ask(front.port, "/api/orders", SHAPES[name], told)
    assert (answered.status, len(seen)) == ((200, 1) if name in CERTAIN else (500, 0))
    seen.clear()


@pytest.mark.parametrize("name", SHAPES)
def test_a_response_passes_where_envoy_must_show_all_of_it(served_by: tuple[Front, list[Message]], name: str) -> None:
    front, seen = served_by
    answered = ask(front.port, "/api/orders", SHAPES["headers alone"], {**ANNA, "x-answer": name}, "GET")
    assert answered.status == (200 if name in CERTAIN else 502)
    assert (answered.header("x-powered-by"), answered.header("x-told")) in ((None, "***"), (None, None))
    seen.clear()
