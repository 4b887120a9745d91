"""`agent-gate mcp` and a client that uses one id for several requests."""

from __future__ import annotations

import socket
from pathlib import Path

import yaml

from tests.gates import PATIENCE_S
from tests.scenarios.test_mcp import HELLO, a_call, closes_its_end, fetches_from, heard, raw, say


def test_requests_that_share_an_id_are_each_waited_for_at_the_end(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(PATIENCE_S)
        port = listener.getsockname()[1]
        (tmp_path / "policy.yaml").write_text(yaml.safe_dump({"tools": {"http.get": fetches_from(port)}}))
        with raw(tmp_path) as process:
            say(process, HELLO, {"jsonrpc": "2.0", "method": "notifications/initialized"})
            say(process, *[a_call(1, "http_get", url=f"http://127.0.0.1:{port}/{n}") for n in range(2)])
            heard(process)
            peers = [listener.accept()[0] for _ in range(2)]
            closes_its_end(process)
            answers = []
            for peer in peers:
                with peer:
                    peer.settimeout(PATIENCE_S)
                    peer.recv(4096)
                    peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
                answers.append(heard(process))
            assert process.wait(timeout=PATIENCE_S) == 0
    assert [answer["result"]["structuredContent"]["data"]["body"] for answer in answers] == ["ok", "ok"]
