"""Envoy whose policy agent is away, comes back, or is restarted under load: nothing slips past the chain."""

from __future__ import annotations

import http.client
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.gates import PATIENCE_S
from tests.real.envoy import API_KEY, EXAMPLE, Front, fronted

ENVOYS = {
    "ext_proc": (EXAMPLE / "envoy.yaml").read_text(),
    "ext_authz": (EXAMPLE / "envoy-ext-authz.yaml").read_text(),
}
CONFIG = f"""
    policy_agent:
      socket_path: run/policy-agent.sock
      policy_timeout_ms: 60000
      routes: [{{route: api, chain: orders}}]
    chains:
      orders:
        - {{name: api_key, metadata: {{keys: [{{id: anna, key: {API_KEY}}}]}}}}
        - name: slow
        - {{name: set_headers, metadata: {{headers: {{x-checked-by: agent-gate}}}}}}
"""
CLIENTS, RESTARTS = 6, 4
STRANGER = {"x-api-key": "key-of-nobody-0123456789", "x-kind": "stranger"}


@pytest.mark.parametrize("kind", ENVOYS)
def test_without_an_agent_nothing_passes_and_with_a_new_one_it_does_again(tmp_path: Path, kind: str) -> None:
    with fronted(tmp_path, ENVOYS[kind], CONFIG) as front:
        front.wait_until_served("/api")
        assert front.ask_as_anna("/api").status == 200
        for kill in (False, True):
            front.end_agent(kill=kill)
            front.server.seen.clear()
            for body in (None, b"three beers"):
                assert front.ask_as_anna("/api", body).status in (403, 500, 503)
            assert front.server.seen == []
            front.start_agent()
            front.wait_until_served("/api")
            assert front.ask_as_anna("/api", b"three beers").status == 200
            assert front.ask("/api", STRANGER).status == 401


def test_an_agent_that_ends_while_it_holds_a_request_lets_it_not_pass(tmp_path: Path) -> None:
    """To Envoy a stream that ends well is leave to go on without us."""
    with fronted(tmp_path, ENVOYS["ext_proc"], CONFIG) as front:
        front.wait_until_served("/api")
        for kill in (False, True):
            with ThreadPoolExecutor() as clients:
                held = clients.submit(front.ask_as_anna, "/api", x_slow="30")
                _wait_until_held(front)
                front.end_agent(kill=kill)
                assert held.result().status in (500, 503, 504)
            assert front.server.seen == []
            front.start_agent()
            front.wait_until_served("/api")


def _wait_until_held(front: Front) -> None:
    """A request that came after it is answered: by then the agent has it."""
    assert front.ask("/api", STRANGER).status == 401


@pytest.mark.parametrize("kind", ENVOYS)
def test_a_restart_under_load_lets_no_request_slip_past_the_chain(tmp_path: Path, kind: str) -> None:
    with fronted(tmp_path, ENVOYS[kind], CONFIG) as front:
        front.wait_until_served("/api")
        with _load(front) as (ours, strangers):
            for number in range(RESTARTS):
                _wait_for(ours, 200, 40)
                front.end_agent(kill=number % 2 == 1)
                _wait_for_refusals(ours, 20)
                front.start_agent()
            _wait_for(ours, 200, 40)
            _wait_for(strangers, 401, 20)
        assert set(ours) <= {200, 403, 500, 503, 504}
        assert set(strangers) <= {401, 403, 500, 503, 504}
        passed = Counter((seen.headers.get("x-checked-by"), "x-kind" in seen.headers) for seen in front.server.seen)
        assert set(passed) == {("agent-gate", False)}
        assert passed["agent-gate", False] >= ours[200] > 40 * RESTARTS


@contextmanager
def _load(front: Front) -> Iterator[tuple[Counter[int], Counter[int]]]:
    """Clients of two kinds, those who may and those who may not, as fast as they are answered."""
    ended = threading.Event()
    ours, strangers = Counter[int](), Counter[int]()

    def work(number: int) -> None:
        may = number % 2 == 0
        headers = {"x-api-key": API_KEY} if may else STRANGER
        body = b"three beers" if number % 3 else None
        while not ended.is_set():
            try:
                status = front.ask("/api", headers, body).status
            except (OSError, http.client.HTTPException):
                continue
            (ours if may else strangers)[status] += 1

    clients = [threading.Thread(target=work, args=(number,)) for number in range(CLIENTS)]
    for client in clients:
        client.start()
    try:
        yield ours, strangers
    finally:
        ended.set()
        for client in clients:
            client.join(PATIENCE_S)


def _wait_for(answers: Counter[int], status: int, more: int) -> None:
    _until(lambda: answers[status], answers[status] + more)


def _wait_for_refusals(answers: Counter[int], more: int) -> None:
    def refused() -> int:
        return sum(count for status, count in list(answers.items()) if status >= 400)

    _until(refused, refused() + more)


def _until(count: object, wanted: int) -> None:
    assert callable(count)
    moment = threading.Event()
    for _ in range(int(3 * PATIENCE_S / 0.01)):
        if count() >= wanted:
            return
        moment.wait(0.01)
    raise AssertionError(f"{count()} of {wanted} answers")
