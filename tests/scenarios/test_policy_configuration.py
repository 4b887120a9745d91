"""`policies` of config.yaml: what the policies of other packages are given when they begin, and what is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from textwrap import dedent
from typing import Any

import grpc
import pytest

from agent_gate.chain.configured import check_chains, registry_of
from agent_gate.chain.policy import PASSED, Policy, PolicyResult
from agent_gate.chain.registry import Registry
from agent_gate.config import ConfigError, load_config
from agent_gate.doors.observe import secrets_of
from agent_gate.doors.policy_agent.proto import policy_agent_pb2 as pb
from tests.agents import a_request
from tests.gates import PATIENCE_S, HandClock

GREETER = """
from agent_gate.chain.instruction import SetHeader
from agent_gate.chain.policy import Policy, PolicyResult

class Greeter(Policy):
    name = "greeter"

    def initialize(self, config):
        if "words" not in config:
            raise ValueError("`words` is needed")
        if config["words"] == "boom":
            raise RuntimeError("hunter2 is the password")
        self.words = config["words"]

    def prepare(self, metadata):
        return None

    async def execute(self, settings, context):
        return PolicyResult(instructions=[SetHeader("x-words", self.words)])
"""
AGENT = "policy_agent: {socket_path: agent/s}\n"


def offered(directory: Path) -> dict[str, str]:
    """The environment of a process that finds the policy as one of another package."""
    information = directory / "greeter-1.0.dist-info"
    information.mkdir()
    (directory / "greeter.py").write_text(GREETER)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: greeter\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[agent_gate.policies]\ngreeter = greeter:Greeter\n")
    return {**os.environ, "PYTHONPATH": str(directory), "WORDS": "good morning"}


@contextmanager
def an_agent_process(directory: Path, config: str) -> Iterator[subprocess.Popen[str]]:
    (directory / "config.yaml").write_text(dedent(config))
    command = [sys.executable, "-m", "agent_gate", "policy-agent", "-c", "config.yaml"]
    with subprocess.Popen(
        command, cwd=directory, env=offered(directory), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as agent:
        try:
            yield agent
        finally:
            agent.kill()


def test_a_policy_of_another_package_begins_with_its_section_of_the_configuration(tmp_path: Path) -> None:
    with an_agent_process(tmp_path, AGENT + 'policies: {greeter: {words: "${WORDS}", n: 1.0}}\n') as agent:
        assert agent.stdout is not None
        assert agent.stdout.readline() == "serving policies at agent/s\n"
        with grpc.insecure_channel(f"unix:{tmp_path}/agent/s") as channel:
            execute: Any = channel.unary_unary("/agentgate.policy.v1.PolicyAgent/ExecutePolicies")
            answer = pb.PolicyResponse.FromString(execute(a_request("greeter").SerializeToString(), timeout=PATIENCE_S))
    assert answer.instructions[0].set_header.value == "good morning"


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ("policies: {greeter: {}}", "policies.greeter: policy `greeter` cannot begin: `words` is needed"),
        ("policies: {greeter: {words: boom}}", "policies.greeter: policy `greeter` cannot begin: RuntimeError"),
        ("policies: {greeter: [words]}", "policies.greeter: a list is not a mapping"),
        ("policies: {greater: {words: hi}}", "policies.greater: no policy is called `greater`; known are"),
        ("policies: {greater: {words: hi}}", "policies.greeter: policy `greeter` cannot begin: `words` is needed"),
        ("policies: {jwt: {words: hi}}", "policies.jwt: policy `jwt` takes no configuration"),
        ("", "policy `greeter` cannot begin: `words` is needed; mend policies.greeter"),
    ],
)
def test_a_section_that_a_policy_cannot_begin_with_is_told_and_nothing_starts(
    tmp_path: Path, section: str, words: str
) -> None:
    with an_agent_process(tmp_path, AGENT + section) as agent:
        out, told = agent.communicate(timeout=3 * PATIENCE_S)
    assert (agent.returncode, out) == (3, "")
    assert words in told
    assert "hunter2" not in told
    assert "Traceback" not in told


class Configured(Policy[None]):
    name = "configured"
    given: Any = None

    def initialize(self, config: Any) -> None:
        self.given = config

    def prepare(self, metadata: Any) -> None: ...

    async def execute(self, settings: None, context: Any) -> PolicyResult:
        return PASSED


def test_every_registry_of_a_configuration_gives_each_policy_its_own_section() -> None:
    registry = registry_of({"configured": {"a": [1, 2.0, None]}}, HandClock(), theirs=lambda: [Configured()])
    (policy,) = (policy for policy in registry.policies() if isinstance(policy, Configured))
    assert policy.given == {"a": [1, 2.0, None]}


def test_a_policy_without_a_section_begins_with_an_empty_one() -> None:
    registry, policy = Registry(), Configured()
    registry.register(policy)
    assert policy.given == {}


def test_a_wrong_section_is_told_together_with_everything_else_that_is_wrong(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("policies: {nobody: {}}\nchains: {orders: [{name: api_key}]}\n")
    with pytest.raises(ConfigError) as error:
        load_config(file, for_agents=False, check=partial(check_chains, clock=HandClock(), theirs=list))
    assert "policies.nobody" in str(error.value)
    assert "chains.orders[0].name" in str(error.value)


def test_credentials_of_other_packages_policies_are_hidden_in_logs(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(
        dedent("""
            policies:
              ours: {api_token: tok-0123456789, db: "postgres://u:pass-word@db.test/x", greeting: good morning,
                     deep: [{Client-Secret: [sec-0123456789]}]}
            policy_agent: {socket_path: s, routes: [{chain: orders}]}
            chains: {orders: [{name: ours, metadata: {password: pw-0123456789, path: /orders/list}}]}
        """)
    )
    config = load_config(file, for_agents=False)
    secrets = set(secrets_of(config))
    assert {"tok-0123456789", "pass-word", "sec-0123456789", "pw-0123456789"} <= secrets
    assert secrets.isdisjoint({"good morning", "/orders/list"})
    assert "tok-0123456789" not in repr(config)
