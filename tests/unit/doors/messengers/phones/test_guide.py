"""The guide tells the truth: what it says to write is a configuration."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agent_gate.config import HomeApproverConfig, load_config
from agent_gate.model.bounds import HOME_PHONE_LINES_MAX, HOME_QUESTIONS_MAX

GUIDE = Path(__file__).parents[5] / "docs/guides/home-assistant-approvals.md"
REST = """
gateway: {host: 127.0.0.1, port: 8443}
agent: {token: token-of-the-agent}
"""


def test_what_the_guide_says_to_add_to_the_configuration_is_valid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANNA_TOKEN", "token-of-anna")
    (block,) = re.findall(r"^```yaml\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    (tmp_path / "config.yaml").write_text(REST + block)

    home = load_config(str(tmp_path / "config.yaml")).services.homeassistant

    assert home is not None
    assert home.approvals == (
        HomeApproverConfig("anna", "notify.mobile_app_annas_phone", "0a1b2c3d4e5f60718293a4b5c6d7e8f9"),
        HomeApproverConfig("bob", "notify.mobile_app_bobs_phone"),
    )


def test_the_guide_names_the_bounds_that_hold() -> None:
    assert HOME_PHONE_LINES_MAX == 9
    assert "about nine lines" in GUIDE.read_text()
    assert f"At most {HOME_QUESTIONS_MAX} questions at a time" in GUIDE.read_text()
