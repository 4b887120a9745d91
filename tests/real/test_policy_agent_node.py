"""A program in another language, Node, calls the policy agent with nothing of ours but the .proto file."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from tests.gates import PATIENCE_S

HERE = Path(__file__).parent / "node"
SOURCE = Path(__file__).parents[2] / "src"
PROTO = SOURCE / "agent_gate" / "doors" / "policy_agent" / "proto" / "policy_agent.proto"
INSTALL_TIMEOUT_S = 200


@pytest.fixture(scope="module")
def packages() -> Path:
    """The client's packages, installed once, as the lock file pins them."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("there is no Node on this machine")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "agent-gate-tests"
    directory = cache / f"node-{sha256((HERE / 'package-lock.json').read_bytes()).hexdigest()[:16]}"
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (directory / "installed").exists():
            for name in ("package.json", "package-lock.json"):
                shutil.copy(HERE / name, directory)
            command = [npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts"]
            subprocess.run(command, cwd=directory, check=True, capture_output=True, timeout=INSTALL_TIMEOUT_S)
            (directory / "installed").touch()
    return directory / "node_modules"


def test_a_client_in_another_language_calls_the_agent(tmp_path: Path, packages: Path) -> None:
    path = tmp_path / "agent" / "s"
    command = [sys.executable, "-m", "agent_gate", "policy-agent", "--socket", str(path), "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as agent:
        try:
            assert agent.stdout is not None
            assert json.loads(agent.stdout.readline()) == {"event": "serving", "socket": str(path)}
            client = ["node", str(HERE / "client.js"), str(PROTO), str(SOURCE), str(path)]
            env = {**os.environ, "NODE_PATH": str(packages)}
            done = subprocess.run(client, env=env, capture_output=True, text=True, check=False, timeout=3 * PATIENCE_S)
        finally:
            agent.terminate()
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert {"api_key", "jwt", "rate_limit"} <= set(told["policies"])
    code, instructions = told["allowed"]
    assert (code, [kind for kind, _ in instructions]) == ("OK", ["set_state", "remove_header", "set_header"])
    assert instructions[2] == ["set_header", {"name": "x-checked-by", "value": "agent-gate"}]
    assert told["denied"] == [{"code": "POLICY_DENIED", "message": "unknown API key", "policy_name": "api_key"}, 401]
    assert told["invalid"]["code"] == 3
    assert "metadata of policy `api_key`" in told["invalid"]["details"]
    assert [code for _, code in told["stream"]] == ["OK", "POLICY_DENIED", "POLICY_ERROR"]
    assert told["health"]["status"] == "HEALTHY"
