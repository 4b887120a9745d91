"""What the guides of the policy agent show loads, runs, and says what the product says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent_gate.config import PolicyAgentConfig, RouteConfig, load_config
from agent_gate.config.config_file import CONFIG_FORMAT
from tests.gates import PATIENCE_S
from tests.scenarios.test_docs import ROOT, blocks_of

AGENT, ENVOY = "docs/guides/policy-agent.md", "docs/guides/envoy.md"


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY", "key-of-anna-0123456789abcdef")


def block(document: str, language: str) -> str:
    """The first; the guide's other one is for Envoy, and tried with it."""
    return next(block.text for block in blocks_of(document) if block.language == language)


def test_the_settings_that_the_guide_shows_are_the_defaults_and_all_of_them(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(block(AGENT, "yaml"))
    settings = load_config(tmp_path / "config.yaml", for_agents=False).policy_agent
    assert settings == PolicyAgentConfig("run/policy-agent.sock")
    known = set(CONFIG_FORMAT.schema["properties"]["policy_agent"]["properties"])
    assert {line.split(":")[0].strip() for line in block(AGENT, "yaml").splitlines()[1:]} == known - {"routes"}


def test_the_routes_that_the_guide_shows_load_and_every_field_is_explained(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(block(ENVOY, "yaml"))
    settings = load_config(tmp_path / "config.yaml", for_agents=False).policy_agent
    assert settings is not None
    assert settings.routes[0] == RouteConfig("orders", route="downloads", bodies=False)
    text = (ROOT / ENVOY).read_text()
    routes = CONFIG_FORMAT.schema["properties"]["policy_agent"]["properties"]["routes"]
    assert [name for name in routes["items"]["properties"] if f"| `{name}` |" not in text] == []


def test_the_call_that_the_guide_shows_is_answered_as_it_says(tmp_path: Path) -> None:
    (tmp_path / "call.py").write_text(block(AGENT, "python"))
    agent = [sys.executable, "-m", "agent_gate", "policy-agent", "--socket", "run/policy-agent.sock"]
    with subprocess.Popen(agent, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as serving:
        try:
            assert serving.stdout is not None
            assert serving.stdout.readline() == "serving policies at run/policy-agent.sock\n"
            call = [sys.executable, "call.py"]
            done = subprocess.run(
                call,
                cwd=tmp_path,
                env=dict(os.environ),
                capture_output=True,
                text=True,
                check=False,
                timeout=3 * PATIENCE_S,
            )
        finally:
            serving.terminate()
    assert (done.returncode, done.stderr) == (0, "")
