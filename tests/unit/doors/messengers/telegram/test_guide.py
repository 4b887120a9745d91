"""The guide tells the truth: what it says to write is a configuration."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agent_gate.config import load_config

GUIDE = Path(__file__).parents[5] / "docs/guides/telegram.md"
REST = """
gateway: {host: 127.0.0.1, port: 8443}
agent: {token: token-of-the-agent}
storage: {type: sqlite, path: agent-gate.db}
"""


def test_what_the_guide_says_to_add_to_the_configuration_is_valid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TELEGRAM_TOKEN", "1:token")
    monkeypatch.setenv("ANNA_TOKEN", "token-of-anna")
    blocks = re.findall(r"^```yaml\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    (tmp_path / "config.yaml").write_text(REST + "".join(blocks))

    config = load_config(str(tmp_path / "config.yaml"))

    assert len(blocks) == 2
    assert config.messenger is not None
    assert config.messenger.telegram is not None
    assert config.messenger.telegram.token == "1:token"
    assert config.approvers[0].telegram_user_id == 123456
