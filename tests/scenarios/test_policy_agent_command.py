"""`agent-gate policy-agent`: how it starts, what it refuses to start with, how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent
from typing import Any

import grpc
import pytest

from agent_gate.config import ConfigError, load_config
from agent_gate.doors.policy_agent.proto import policy_agent_pb2 as pb
from tests.agents import a_ref, a_request
from tests.gates import PATIENCE_S

CONFIG = """
    policy_agent: {socket_path: agent/s, routes: [{route: api, chain: orders}]}
    chains: {orders: [{name: set_headers, metadata: {headers: {x-checked-by: agent-gate}}}]}
"""


def run(directory: Path, *args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "agent_gate", "policy-agent", *args]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=3 * PATIENCE_S, check=False)


@contextmanager
def running(directory: Path, *args: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "agent_gate", "policy-agent", "--json", *args]
    with subprocess.Popen(command, cwd=directory, stdout=subprocess.PIPE, text=True) as agent:
        try:
            yield agent
        finally:
            agent.kill()


def config_in(directory: Path, text: str = CONFIG) -> str:
    (directory / "config.yaml").write_text(dedent(text))
    return "config.yaml"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_until_a_signal_ends_it_in_good_order(tmp_path: Path, number: signal.Signals) -> None:
    with running(tmp_path, "-c", config_in(tmp_path)) as agent:
        assert agent.stdout is not None
        assert json.loads(agent.stdout.readline()) == {"event": "serving", "socket": "agent/s"}
        assert (tmp_path / "agent" / "s").is_socket()
        second = run(tmp_path, "--socket", "agent/s")
        agent.send_signal(number)
        rest, _ = agent.communicate(timeout=PATIENCE_S)
    assert (json.loads(rest), agent.returncode) == ({"event": "ending"}, 0)
    assert not (tmp_path / "agent" / "s").exists()
    listens = "agent-gate: service_unavailable: somebody listens at `agent/s` already; "
    assert (second.returncode, second.stderr.startswith(listens), second.stderr.count("\n")) == (5, True, 1)


BUSY = """
import time
from agent_gate.chain.policy import PASSED, Policy

class Busy(Policy):
    name = "busy"
    def prepare(self, metadata):
        return None
    async def execute(self, settings, context):
        time.sleep(60)
        return PASSED
"""


CRUNCHING = (
    BUSY.replace("async def", "def")
    .replace('name = "busy"', 'name = "busy"\n    blocking = True')
    .replace("time.sleep(60)", "while True: pass")
)


@contextmanager
def offering(directory: Path, policy: str) -> Iterator[tuple[subprocess.Popen[str], Any]]:
    """An agent that finds a policy of another package, and how to ask it."""
    information = directory / "busy-1.0.dist-info"
    information.mkdir()
    (directory / "busy.py").write_text(policy)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: busy\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[agent_gate.policies]\nbusy = busy:Busy\n")
    command = [sys.executable, "-m", "agent_gate", "policy-agent", "--json", "--socket", "agent/s"]
    env = {**os.environ, "PYTHONPATH": str(directory)}
    with subprocess.Popen(
        command, cwd=directory, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as agent:
        try:
            assert agent.stdout is not None
            agent.stdout.readline()
            with grpc.insecure_channel(f"unix:{directory}/agent/s") as channel:
                yield agent, channel.unary_unary("/agentgate.policy.v1.PolicyAgent/ExecutePolicies")
        finally:
            agent.kill()


@pytest.mark.timeout(3 * PATIENCE_S)
def test_an_async_policy_that_holds_the_agent_up_is_named_while_it_does(tmp_path: Path) -> None:
    with offering(tmp_path, BUSY) as (agent, execute):
        assert agent.stderr is not None
        asked = execute.future(a_request("busy").SerializeToString())
        told = agent.stderr.readline()
        asked.cancel()
    assert "the event loop does not answer" in told
    assert "policy `busy` holds it" in told
    assert "busy.py:10 execute" in told


@pytest.mark.timeout(3 * PATIENCE_S)
def test_a_blocking_policy_that_only_computes_holds_nobody_up(tmp_path: Path) -> None:
    with offering(tmp_path, CRUNCHING) as (_, execute):
        crunching = execute.future(a_request("busy").SerializeToString())
        other = a_request(a_ref("set_headers", headers={"x": "y"})).SerializeToString()
        answers = [pb.PolicyResponse.FromString(execute(other, timeout=PATIENCE_S)) for _ in range(3)]
        assert not crunching.done()
        crunching.cancel()
    assert [answer.status.code for answer in answers] == [pb.Status.OK] * 3


def test_a_socket_that_is_named_goes_before_that_of_the_file(tmp_path: Path) -> None:
    with running(tmp_path, "-c", config_in(tmp_path), "--socket", "other") as agent:
        assert agent.stdout is not None
        assert json.loads(agent.stdout.readline())["socket"] == "other"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("policy_agent: {}", "policy_agent.socket_path"),
        ("policy_agent: {socket_path: s, routes: [{chain: orders}]}", "there is no chain `orders` under `chains`"),
        (
            CONFIG.replace("headers: {x", "headers: {host: a, x"),
            "config.yaml:3: chains.orders[0].metadata: SET_HEADER: `host`",
        ),
        (CONFIG.replace("route: api", "path: api"), "policy_agent.routes[0].path"),
        (CONFIG.replace("route: api", "path: /%61"), "policy_agent.routes[0].path"),
        (CONFIG.replace("route: api", "authority: 'a.test:80'"), "policy_agent.routes[0].authority"),
    ],
)
def test_it_does_not_start_with_a_configuration_that_cannot_hold(tmp_path: Path, text: str, words: str) -> None:
    done = run(tmp_path, "-c", config_in(tmp_path, text))
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("agent-gate: config: ")
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_only_for_an_agent_alone_the_sections_of_a_server_may_be_absent(tmp_path: Path) -> None:
    file = tmp_path / config_in(tmp_path)
    assert load_config(file, for_agents=False).policy_agent is not None
    with pytest.raises(ConfigError, match="gateway"):
        load_config(file)


def test_a_log_level_that_is_none_is_a_mistake_of_usage(tmp_path: Path) -> None:
    done = run(tmp_path, "--log-level", "loud")
    assert (done.returncode, "--log-level `loud` is none of" in done.stderr) == (2, True)
