"""`run -c` and `mcp -c` use what a configuration says of their tools, and need nothing else of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.mcp_clients import a_client, outcome_of
from tests.servers import START_S

SECRET = "upstream-credential-0123456789"


def outbound(upstream: Upstream) -> dict[str, Any]:
    """Gives the server a credential: one chain, and not another section."""
    metadata = {"headers": {"Authorization": f"Bearer {SECRET}"}, "hosts": [upstream.url.removesuffix("/x")]}
    return {"outbound": [{"name": "set_headers", "metadata": metadata}]}


class Upstream:
    """A server that notes the credentials that it is given, and says them to everybody."""

    def __init__(self) -> None:
        self.seen: list[str | None] = []
        seen = self.seen

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                seen.append(self.headers["Authorization"])
                body = f"you said {seen[-1]}".encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 -- the library's word
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/x"


@pytest.fixture
def upstream(tmp_path: Path) -> Iterator[Upstream]:
    """With a directory that has a policy which lets agents ask it."""
    upstream = Upstream()
    serving = threading.Thread(target=upstream.server.serve_forever)
    serving.start()
    guard = {
        "allow_domains": ["127.0.0.1"],
        "allow_schemes": ["http"],
        "allow_ports": [upstream.server.server_address[1]],
        "deny_private_ips": False,
    }
    (tmp_path / "policy.yaml").write_text(yaml.safe_dump({"tools": {"http.get": guard}}))
    yield upstream
    upstream.server.shutdown()
    serving.join()
    upstream.server.server_close()


def run(directory: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "agent_gate", *words],
        cwd=directory,
        env=dict(os.environ),
        capture_output=True,
        text=True,
        timeout=START_S,
        check=False,
    )


def write(directory: Path, config: dict[str, Any], url: str) -> None:
    (directory / "config.yaml").write_text(yaml.safe_dump(config))
    (directory / "plan.yaml").write_text(yaml.safe_dump({"steps": [{"tool": "http.get", "args": {"url": url}}]}))


def test_run_sends_requests_through_the_outbound_chain_of_its_configuration(tmp_path: Path, upstream: Upstream) -> None:
    write(tmp_path, {"chains": outbound(upstream)}, upstream.url)
    ran = run(tmp_path, "run", "plan.yaml", "-c", "config.yaml", "--json")
    assert ran.returncode == 0, ran.stderr
    assert upstream.seen == [f"Bearer {SECRET}"]
    assert SECRET not in ran.stdout + ran.stderr + run(tmp_path, "audit", "--json").stdout
    assert SECRET.encode() not in b"".join(
        path.read_bytes() for path in tmp_path.glob("agent-gate.db*") if path.is_file()
    )


def test_run_without_the_configuration_sends_no_credential(tmp_path: Path, upstream: Upstream) -> None:
    write(tmp_path, {"chains": outbound(upstream)}, upstream.url)
    assert run(tmp_path, "run", "plan.yaml").returncode == 0
    assert upstream.seen == [None]


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"chains": {"outbound": [{"name": "set_header"}]}}, "no policy is called `set_header`"),
        ({"chains": {"outbound": [{"name": "set_headers", "metadata": {"headers": {"A": "b"}}}]}}, "needs `hosts`"),
        ({"chains": {"outbond": [{"name": "set_headers"}]}}, "did you mean `outbound`?"),
        ({"approval_timeout": 60}, "no services.homeassistant and no chains.outbound"),
        ({"anchor": {"path": "x"}}, "anchor: not in this release"),
    ],
)
def test_a_configuration_that_run_could_not_use_is_refused_before_anything_is_done(
    tmp_path: Path, upstream: Upstream, config: dict[str, Any], words: str
) -> None:
    write(tmp_path, config, upstream.url)
    ran = run(tmp_path, "run", "plan.yaml", "-c", "config.yaml")
    assert (ran.returncode, words in ran.stderr, "Traceback" in ran.stderr) == (3, True, False), ran.stderr
    assert (upstream.seen, (tmp_path / "agent-gate.db").exists()) == ([], False)


async def test_mcp_sends_requests_through_the_outbound_chain_of_a_configuration_with_nothing_else(
    tmp_path: Path, upstream: Upstream
) -> None:
    write(tmp_path, {"chains": outbound(upstream)}, upstream.url)
    async with a_client(tmp_path, "-c", "config.yaml") as client:
        result = await client.call_tool("http_get", {"url": upstream.url})
    assert (outcome_of(result)["status"], upstream.seen) == ("success", [f"Bearer {SECRET}"])
    assert SECRET not in json.dumps(outcome_of(result))
