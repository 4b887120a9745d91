"""The example behind a real Envoy with what is more than a request and its answer: HTTP/1, gRPC, upgrades, hosts."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from concurrent import futures
from contextlib import closing, contextmanager, suppress
from typing import Any

import grpc
import pytest

from tests.gates import PATIENCE_S
from tests.real.envoy import API_KEY, Front, fronted
from tests.real.http2 import SHAPES, ask
from tests.real.test_envoy_messages import ENVOY, HTTP2

UPGRADES = "upgrade_configs: [{upgrade_type: websocket}]\n                http_filters:"
CONFIG = f"""
    policy_agent:
      socket_path: run/policy-agent.sock
      routes:
        - {{authority: admin.shop.test, chain: admin}}
        - {{path: /shop.Orders/Watch, chain: orders, bodies: false}}
        - {{path: /shop.Orders, chain: orders}}
        - {{path: /live, chain: orders, bodies: false}}
        - {{path: /api, chain: orders}}
        - {{path: /open, chain: open}}
    chains:
      admin:
        - {{name: api_key, metadata: {{keys: [{{id: root, sha256: {"0" * 64}}}]}}}}
      orders:
        - {{name: api_key, metadata: {{keys: [{{id: anna, key: {API_KEY}}}]}}}}
        - {{name: set_headers, metadata: {{headers: {{x-checked-by: agent-gate}}}}}}
        - {{name: remove_headers, metadata: {{headers: [x-powered-by], phase: response}}}}
      open:
        - {{name: set_headers, metadata: {{headers: {{x-open: "yes"}}}}}}
"""
RAW_SHAPES = {
    "no body": b"\r\n",
    "an empty body": b"content-length: 0\r\n\r\n",
    "a known length": b"content-length: 5\r\n\r\nbeers",
    "chunks": b"transfer-encoding: chunked\r\n\r\n3\r\nbee\r\n2\r\nrs\r\n0\r\n\r\n",
    "no chunks": b"transfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "no chunks and trailers": b"transfer-encoding: chunked\r\n\r\n0\r\nx-trailer: yes\r\n\r\n",
    "chunks and trailers": b"transfer-encoding: chunked\r\n\r\n5\r\nbeers\r\n0\r\nx-trailer: yes\r\n\r\n",
}


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    with fronted(tmp_path_factory.mktemp("envoy"), ENVOY, CONFIG) as front:
        yield front


@pytest.fixture(autouse=True)
def _forgotten(front: Front) -> None:
    front.server.seen.clear()


def raw(port: int, head: bytes, rest: bytes = b"\r\n") -> int:
    """The status that the bytes of one request are answered with; 0 where there is none."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connected:
        connected.sendall(head + b"connection: close\r\n" + rest)
        answer = b""
        with suppress(ConnectionResetError):
            while piece := connected.recv(65_536):
                answer += piece
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.1 ") else 0


@pytest.mark.parametrize("shape", RAW_SHAPES.values(), ids=RAW_SHAPES)
def test_over_http_1_a_request_is_judged_however_it_ends(front: Front, shape: bytes) -> None:
    head = b"POST /api/orders HTTP/1.1\r\nhost: shop.test\r\n"
    assert (raw(front.port, head, shape), front.server.seen) == (401, [])
    assert raw(front.port, head + b"x-api-key: " + API_KEY.encode() + b"\r\n", shape) == 200
    (seen,) = front.server.seen
    assert (seen.body, seen.headers["x-checked-by"]) == (b"beers" if b"bee" in shape else b"", "agent-gate")


NOT_AN_AUTHORITY = [
    b"admin.shop.test:", b"x@admin.shop.test", b"admin.shop.test..", b"admin.shop.test:80:80", b"admin.shop.test:0",
    b"admin.shop.test:080", b"admin.shop.test:99999", b"admin.shop.test:http", b"admin.shop.test.:",
    b"@admin.shop.test", b"admin%2eshop.test", b"admin.shop.test%2f", b".admin.shop.test", b"admin..shop.test",
    b"admin.shop.test, open", b"admin.shop.test open", b"admin.shop.test/", b"admin.shop.test\\", b"admin.shop.test?",
    b"admin.shop.test#",
    b"[::1", b"[::1]]", b"::1", b"[::1%25lo]", b"[admin.shop.test]", b"127.1", b"0x7f.0.0.1", b"2130706433",
    b"admin.shop.test\xff", b"\xc3\xa4dmin.shop.test", b"admin\xe3\x80\x82shop.test", b"",
]  # fmt: skip
ADMIN = [b"admin.shop.test", b"ADMIN.Shop.Test", b"admin.shop.test.", b"admin.shop.test:80", b"admin.shop.test.:8443"]
OTHERS = [b"shop.test", b"xadmin.shop.test", b"admin.shop.test.evil.test", b"127.0.0.1", b"[::1]:80", b"a_b.test"]


@pytest.mark.parametrize("authority", NOT_AN_AUTHORITY, ids=ascii)
def test_an_authority_that_is_none_is_refused_before_any_route(front: Front, authority: bytes) -> None:
    """By Envoy, which hangs up or takes one of two dots away, or by the agent."""
    status = raw(front.port, b"GET /open HTTP/1.1\r\nhost: " + authority + b"\r\n")
    assert (status in (0, 400, 401), front.server.seen) == (True, []), status
    told = ask(front.port, "/open", SHAPES["headers alone"], {}, "GET", authority)
    assert (told.status in (0, 400, 401), front.server.seen) == (True, []), told


@pytest.mark.parametrize("authority", ADMIN, ids=ascii)
def test_every_spelling_of_a_host_goes_through_its_chain(front: Front, authority: bytes) -> None:
    status = raw(front.port, b"GET /open HTTP/1.1\r\nhost: " + authority + b"\r\n")
    assert (status, front.server.seen) == (401, [])
    assert ask(front.port, "/open", SHAPES["headers alone"], {}, "GET", authority).status == 401


@pytest.mark.parametrize("authority", OTHERS, ids=ascii)
def test_other_hosts_go_through_theirs(front: Front, authority: bytes) -> None:
    assert raw(front.port, b"GET /open HTTP/1.1\r\nhost: " + authority + b"\r\n") == 200
    assert front.server.seen[0].headers["x-open"] == "yes"


def test_two_hosts_are_one_too_many(front: Front) -> None:
    head = b"GET /open HTTP/1.1\r\nhost: shop.test\r\nhost: admin.shop.test\r\n"
    assert (raw(front.port, head) in (0, 400), front.server.seen) == (True, [])
    told = ask(front.port, "/open", SHAPES["headers alone"], {"host": "admin.shop.test"}, "GET")
    assert (told.status, [seen.headers.get("host") for seen in front.server.seen]) in (
        (400, []),
        (200, ["127.0.0.1"]),
    ), "Envoy drops the second one, or the agent refuses both"


@contextmanager
def an_echo() -> Iterator[tuple[int, list[bytes]]]:
    """A server that changes to another protocol, and then says what it hears."""
    heads: list[bytes] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def serve(connected: socket.socket) -> None:
        with connected, suppress(OSError):
            connected.settimeout(PATIENCE_S)
            heads.append(connected.recv(65_536))
            answer = b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
            connected.sendall(answer + b"x-powered-by: secrets\r\n\r\n")
            while piece := connected.recv(65_536):
                connected.sendall(piece)

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    with closing(listener):
        yield listener.getsockname()[1], heads


def test_an_upgrade_is_judged_by_its_headers_or_not_at_all(tmp_path_factory: pytest.TempPathFactory) -> None:
    envoy = ENVOY.replace("http_filters:", UPGRADES, 1)
    with an_echo() as (port, heads):
        envoy = envoy.replace("port_value: 8000", f"port_value: {port}")
        with fronted(tmp_path_factory.mktemp("envoy"), envoy, CONFIG) as front:
            key = b"x-api-key: " + API_KEY.encode() + b"\r\n"
            head = b" HTTP/1.1\r\nhost: shop.test\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
            assert raw_upgrade(front.port, b"GET /live" + head)[0] == 401
            assert raw_upgrade(front.port, b"GET /api" + head + key)[0] == 403, "its body would be kept for ever"
            assert heads == []
            status, headers, echoed = raw_upgrade(front.port, b"GET /live" + head + key, b"hello")
            assert (status, echoed, b"x-powered-by" in headers) == (101, b"hello", False)
            assert b"x-checked-by: agent-gate" in heads[0]


def raw_upgrade(port: int, head: bytes, said: bytes = b"") -> tuple[int, bytes, bytes]:
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connected:
        connected.sendall(head + b"\r\n")
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += connected.recv(65_536)
        headers, _, echoed = answer.partition(b"\r\n\r\n")
        status = int(answer.split(b" ", 2)[1])
        if status == 101:
            connected.sendall(said)
            while len(echoed) < len(said):
                echoed += connected.recv(65_536)
        return status, headers, echoed


class Orders(grpc.GenericRpcHandler):
    """Methods of bytes: one that answers, one that fails after its headers, one that streams while it is talked to."""

    def __init__(self) -> None:
        self.called: list[tuple[str, dict[str, str]]] = []

    def service(self, details: Any) -> Any:
        def noted(context: Any) -> None:
            self.called.append((details.method, dict(context.invocation_metadata())))

        def one(request: bytes, context: Any) -> bytes:
            noted(context)
            context.send_initial_metadata((("x-powered-by", "secrets"),))
            return request.upper()

        def fail(_: bytes, context: Any) -> bytes:
            noted(context)
            context.send_initial_metadata((("x-powered-by", "secrets"),))
            context.abort(grpc.StatusCode.NOT_FOUND, "no such order")
            raise AssertionError

        def watch(requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
            noted(context)
            for request in requests:
                yield request.upper()

        if details.method.endswith("Watch"):
            return grpc.stream_stream_rpc_method_handler(watch)
        return grpc.unary_unary_rpc_method_handler(fail if details.method.endswith("Fail") else one)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[grpc.Channel, Orders]]:
    orders = Orders()
    server = grpc.server(futures.ThreadPoolExecutor(4), handlers=[orders])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    envoy = ENVOY.replace("type: STATIC", f"type: STATIC\n      {HTTP2}", 1)
    envoy = envoy.replace("port_value: 8000", f"port_value: {port}")
    with (
        fronted(tmp_path_factory.mktemp("envoy"), envoy, CONFIG) as front,
        grpc.insecure_channel(f"127.0.0.1:{front.port}") as channel,
    ):
        yield channel, orders
    server.stop(0).wait()


KEY = (("x-api-key", API_KEY),)


def test_a_call_of_grpc_passes_with_its_trailers_and_one_of_nobody_does_not(shop: tuple[grpc.Channel, Orders]) -> None:
    channel, orders = shop
    orders.called.clear()
    buy: Any = channel.unary_unary("/shop.Orders/Buy")
    with pytest.raises(grpc.RpcError):
        buy(b"beers", timeout=PATIENCE_S)
    assert orders.called == []
    answer, call = buy.with_call(b"beers", metadata=KEY, timeout=PATIENCE_S)
    assert (answer, call.code()) == (b"BEERS", grpc.StatusCode.OK)
    assert "x-powered-by" not in dict(call.initial_metadata())
    assert orders.called[0][1]["x-checked-by"] == "agent-gate"


def test_a_call_that_fails_after_its_headers_fails_as_it_did(shop: tuple[grpc.Channel, Orders]) -> None:
    """Headers and trailers without a body: the chain for responses has run all the same."""
    fail: Any = shop[0].unary_unary("/shop.Orders/Fail")
    with pytest.raises(grpc.RpcError) as failed:
        fail(b"beers", metadata=KEY, timeout=PATIENCE_S)
    call: Any = failed.value
    assert call.code() is grpc.StatusCode.NOT_FOUND
    assert "x-powered-by" not in dict(call.initial_metadata())


def test_a_stream_both_ways_passes_piece_by_piece_where_the_chain_looks_at_headers_only(
    shop: tuple[grpc.Channel, Orders],
) -> None:
    channel, orders = shop
    orders.called.clear()
    watch: Any = channel.stream_stream("/shop.Orders/Watch")
    with pytest.raises(grpc.RpcError):
        next(watch(iter([b"beers"]), timeout=PATIENCE_S))
    assert orders.called == []
    turn = threading.Semaphore(1)

    def talk() -> Iterator[bytes]:
        for word in (b"one", b"two", b"three"):
            turn.acquire(timeout=PATIENCE_S)
            yield word

    heard = []
    for word in watch(talk(), metadata=KEY, timeout=PATIENCE_S):
        heard.append(word)
        turn.release()
    assert heard == [b"ONE", b"TWO", b"THREE"]
