"""Requests as they come in at the doors, sent to a real server over a real socket with the case's own headers."""

from __future__ import annotations

import asyncio
import atexit
import base64
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from agent_gate import open_gate
from agent_gate.config import load_config
from agent_gate.doors.identity import Identities
from agent_gate.gate.approvals import Approvals
from agent_gate.hosts.server import build_app
from agent_gate.hosts.server.sockets import Server
from agent_gate.model.errors import ConfigError
from tests.attacks.cases import Case
from tests.attacks.runner import CheckFailed, Skipped
from tests.servers import a_context_of

CHECKS: frozenset[str] = frozenset()

POLICY: Mapping[str, Any] = {
    "tools": {"fs.read": {"allow_paths": ["/**"], "allow_hidden": True}},
    "boundary": "deny_by_default",
}
METHODS = {"tool.call": "tool_request", "approval.decide": "approve"}
"""The method names of the cases, in ours; nobody approves over the agents' socket, so that one does not exist."""
ANSWER_S = 20.0
NOT_AUTHENTICATED = -32005
_HERE = Path(__file__)


def run(case: Case, root: Path) -> str:
    with tempfile.TemporaryDirectory(prefix="door-") as folder:
        try:
            _config(Path(folder), case.policy["bearer_token"], case.policy.get("role_of_token", "agent"), 0)
        except ConfigError:
            return "error"
    door = door_for(
        case.policy["bearer_token"],
        case.policy.get("role_of_token", "agent"),
        json.dumps({key: case.policy[key] for key in ("gate", "agent", "state", "paused") if key in case.policy}),
    )
    headers, query = dict(case.args.get("headers", {})), case.args.get("query", "")
    if "guesses" in case.args:
        return "allow" if _is_read(door, case.args, headers) else "deny"
    match case.args.get("transport", "ws"):
        case "http" if "get" in case.args:
            return "allow" if door.get(headers, case.args["get"]) == 200 else "deny"
        case "ws" | "websocket":
            return verdict(door.say(headers, query, in_our_words(case.args["raw"])))
        case "http" | "https":
            return "allow" if door.post(headers, query, case.args["raw"]) else "deny"
        case _:
            raise Skipped


def _is_read(door: Door, args: Mapping[str, Any], headers: Mapping[str, str]) -> bool:
    """Whether the last of many tokens that are nobody's is still looked at."""
    read = False
    for number in range(args["guesses"]):
        guess = {**headers, "Authorization": f"Bearer guess-{number}"}
        if args.get("transport") == "ws":
            read = (door.say(guess, "", b"{}") or {}).get("error", {}).get("code") == NOT_AUTHENTICATED
        else:
            read = door.get(guess, args["get"]) == 401
    return read


def verdict(answer: Mapping[str, Any] | None) -> str:
    """Of an answer, or of a socket that was closed without one."""
    if answer is None:
        return "deny"
    return "allow" if answer.get("result", {}).get("status") == "success" else "deny"


def in_our_words(raw: str | bytes) -> bytes:
    text = raw if isinstance(raw, bytes) else raw.encode("utf-8", "surrogatepass")
    for theirs, ours in METHODS.items():
        text = text.replace(f'"{theirs}"'.encode(), f'"{ours}"'.encode())
    return text


class Door:
    """A server in a process of its own, and a client that writes headers and frames by hand."""

    def __init__(self, token: str, role: str, spec: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="door-")
        command = [sys.executable, "-m", __name__, self._folder.name, token, role, spec]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=_HERE.parents[2], text=True)
        assert self._process.stdout is not None
        self._port = int(self._process.stdout.readline())
        atexit.register(self.close)

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()
        self._folder.cleanup()

    def check_that_it_lives(self) -> None:
        if self._process.poll() is not None:
            raise CheckFailed(f"the server ended with {self._process.returncode}")

    def say(self, headers: Mapping[str, str], query: str, message: bytes) -> dict[str, Any] | None:
        """The answer to one message; None where the socket is closed instead."""
        with socket.create_connection(("127.0.0.1", self._port), ANSWER_S) as connection:
            key = base64.b64encode(os.urandom(16)).decode()
            upgrade = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
            connection.sendall(_head("GET", _path("/ws", query), {**headers, **upgrade, "Sec-WebSocket-Key": key}))
            stream = connection.makefile("rb")
            if b" 101 " not in stream.readline():
                return None
            while stream.readline() not in (b"\r\n", b""):
                pass
            with contextlib.suppress(OSError):  # it may close before all of it is sent
                connection.sendall(_frame(message))
            answer = _answer(stream)
        self.check_that_it_lives()
        return answer

    def get(self, headers: Mapping[str, str], path: str) -> int:
        """The status of the answer."""
        with socket.create_connection(("127.0.0.1", self._port), ANSWER_S) as connection:
            connection.sendall(_head("GET", path, {**headers, "Connection": "close"}))
            head = b"".join(iter(lambda: connection.recv(65_536), b""))
        self.check_that_it_lives()
        return int(head.split(b" ")[1])

    def post(self, headers: Mapping[str, str], query: str, raw: str) -> bool:
        """Whether the same request over HTTP is taken and succeeds."""
        try:
            message = json.loads(raw)
            params = message["params"]
            approves = message["method"] == "approval.decide"
        except (ValueError, TypeError, KeyError):
            params, approves = None, False
        path = f"/api/v1/pending/{params['call_id']}/approve" if approves and params else "/api/v1/calls"
        body = raw.encode("utf-8", "surrogatepass") if params is None else json.dumps(params).encode()
        body = b"{}" if approves else body
        more = {"Content-Type": "application/json", "Content-Length": str(len(body)), "Connection": "close"}
        with socket.create_connection(("127.0.0.1", self._port), ANSWER_S) as connection:
            connection.sendall(_head("POST", _path(path, query), {**headers, **more}) + body)
            head, _, answer = b"".join(iter(lambda: connection.recv(65_536), b"")).partition(b"\r\n\r\n")
        return head.split(b" ")[1] == b"200" and (approves or json.loads(answer).get("status") == "success")


def _path(path: str, query: str) -> str:
    return f"{path}?{query}" if query else path


def _head(method: str, path: str, headers: Mapping[str, str]) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    return "\r\n".join(lines).encode("latin-1")


def _frame(message: bytes) -> bytes:
    """One masked frame of text; a mask of zeros leaves the bytes as they are."""
    return b"\x81\xff" + len(message).to_bytes(8) + bytes(4) + message


def _answer(stream: Any) -> dict[str, Any] | None:
    try:
        opcode, length = stream.read(2)
        if length >= 126:
            length = int.from_bytes(stream.read(2 if length == 126 else 8))
        text = stream.read(length)
    except (ValueError, OSError):  # closed without a word
        return None
    if opcode != 0x81:
        return None
    found = json.loads(text)
    assert isinstance(found, dict)
    return found


@cache
def door_for(token: str, role: str, spec: str = "{}") -> Door:
    """Kept for all cases of one run that have the same token at the same gate."""
    return Door(token, role, spec)


async def _serve(directory: Path, token: str, role: str, spec: Mapping[str, Any]) -> None:
    """The case may say the gate's policy, what the agent is, the project's state, and that all is paused."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        config = _config(directory, token, role, port, spec.get("agent", {}))
        approvers = tuple(Identities(config).approvers.values())
        policy = spec.get("gate", POLICY)
        async with open_gate(policy, directory / "gate.db", working_dir=directory, approvers=approvers) as gate:
            if "state" in spec:
                await gate.call("state.set", {"path": "", "value": spec["state"]})
            if spec.get("paused"):
                await Approvals(gate).pause(approvers[0], "")
            sys.stdout.write(f"{port}\n")
            sys.stdout.flush()
            await Server(build_app(a_context_of(gate, config))).serve([listener])


def _config(directory: Path, token: str, role: str, port: int, more: Mapping[str, Any] | None = None) -> Any:
    """Read from a file, as a user's is; an agent that nobody is stands beside an approver's token."""
    other = "nobody-has-this-token-0123456789"
    agent, approver = (token, other) if role == "agent" else (other, token)
    file = directory / "config.yaml"
    file.write_text(
        json.dumps(
            {
                "gateway": {"host": "127.0.0.1", "port": port},
                "agents": [{"id": "bot", "token": agent, **(more or {})}],
                "approvers": [{"id": "anna", "token": approver}],
                "rate_limit": {"max_requests_per_minute": 1_000_000, "max_pending_approvals": 1_000},
            }
        )
    )
    return load_config(file)


def expect_refusal(answer: Mapping[str, Any] | None) -> None:
    """What the decoder refuses must not be taken by the door either."""
    if verdict(answer) == "allow":
        raise CheckFailed("the door took what the decoder refuses")


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1]), sys.argv[2], sys.argv[3], json.loads(sys.argv[4])))
