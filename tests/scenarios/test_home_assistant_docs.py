"""The guide to Home Assistant and its example tell the truth, tried on a simulated home."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent_gate.config import load_config, load_policy
from agent_gate.simulated_home import Running, simulated_home
from agent_gate.tools.home_assistant.declarations import HOME_ASSISTANT_TOOLS
from tests.scenarios.test_cli import run, run_json
from tests.scenarios.test_docs import ROOT, Session, blocks_of

GUIDE = "docs/guides/home-assistant.md"
EXAMPLE = ROOT / "examples" / "home-assistant"
HOME_URL = "http://homeassistant.local:8123"
TOKENS = {"AGENT_TOKEN": "token-of-the-house-bot-0123456789", "APPROVER_TOKEN": "token-of-anna-0123456789abcdef"}


class AtHome(Session):
    """A reader who has a home, and types its token where it is asked for."""

    def __init__(self, directory: Path, running: Running) -> None:
        super().__init__(directory)
        self._url = running.url
        (directory / "token.txt").write_text(running.token)

    def write(self, name: str, text: str) -> None:
        (self.directory / name).write_text(text.replace(HOME_URL, self._url))

    def type(self, command: str) -> str:
        if command.startswith("agent-gate owner set"):
            command = f"{command.partition('#')[0].strip()} < token.txt"
        if " CALL" in command:
            command = command.replace("CALL", self._newest_call())
        return super().type(command)

    def _newest_call(self) -> str:
        entries = run_json(self.directory, "audit", "--tool", "ha_call_service", "--status", "success")["entries"]
        return str(entries[0]["call_id"])


def _follow(directory: Path, running: Running) -> None:
    session = AtHome(directory, running)
    try:
        for block in blocks_of(GUIDE):
            if block.language == "console":
                session.play(block.text)
            elif block.file:
                session.write(block.file, block.text)
        session.close()
    finally:
        if session.server:
            session.server.kill()
            session.server.communicate()


async def test_the_guide_is_followed_from_nothing_to_an_undone_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in TOKENS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("HOME_ASSISTANT_TOKEN", raising=False)
    async with simulated_home() as running:
        lit = running.home.states["light.bed_light"].state
        await asyncio.to_thread(_follow, tmp_path, running)
        assert running.home.states["light.kitchen_lights"].state == "off"
        assert running.home.states["lock.front_door"].state == "locked"
        assert running.home.states["light.bed_light"].state == lit


def test_the_phones_of_the_guide_fit_its_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in TOKENS.items():
        monkeypatch.setenv(name, value)
    whole, phones = (yaml.safe_load(block.text) for block in blocks_of(GUIDE) if "homeassistant:" in block.text)
    (tmp_path / "config.yaml").write_text(yaml.safe_dump({**whole, **phones}))
    home = load_config(tmp_path / "config.yaml").services.homeassistant
    assert home is not None
    assert [phone.approver for phone in home.approvals] == ["anna"]


def test_the_guide_tells_of_every_tool_and_argument() -> None:
    rows = re.findall(r"^\| (`ha_.*?) \| (.*?) \|", (ROOT / GUIDE).read_text(), re.MULTILINE)
    told = {name: set(re.findall(r"`(\w+)`", args)) for names, args in rows for name in re.findall(r"`(\w+)`", names)}
    assert told == {tool.name: set(tool.input_schema["properties"]) for tool in HOME_ASSISTANT_TOOLS}


async def test_the_example_runs_on_a_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with simulated_home() as running:
        for path in EXAMPLE.glob("*.yaml"):
            shutil.copy(path, tmp_path)
        config = tmp_path / "config.yaml"
        config.write_text(config.read_text().replace(HOME_URL, running.url))
        given = {**TOKENS, "HOME_ASSISTANT_TOKEN": running.token}
        words = ("run", "plan.yaml", "-p", "policy.yaml", "-c", "config.yaml", "--json")
        ran = await asyncio.to_thread(lambda: run(tmp_path, *words, **given))
        assert ran.returncode == 0, ran.stdout
        assert running.home.states["light.kitchen_lights"].state == "off"
        assert running.home.states["lock.kitchen_door"].state == "locked"
    for name, value in TOKENS.items():
        monkeypatch.setenv(name, value)
    home = load_config(EXAMPLE / "config.yaml").services.homeassistant
    assert home is not None
    assert (home.url, home.token) == (HOME_URL, "")


DENIED: list[dict[str, Any]] = [
    {"tool": "ha_get_states", "args": {}},
    {"tool": "ha_get_state", "args": {"entity_id": "person.paulus"}},
    {"tool": "ha_call_service", "args": {"domain": "lock", "service": "unlock", "entity_id": "lock.front_door"}},
    {
        "tool": "ha_call_service",
        "args": {"domain": "homeassistant", "service": "turn_on", "entity_id": "lock.front_door"},
    },
    {
        "tool": "ha_call_service",
        "args": {
            "domain": "climate",
            "service": "set_temperature",
            "entity_id": "climate.hvac",
            "data": {"temperature": 30},
        },
    },
    {"tool": "ha_render_template", "args": {"template": "{{ states('person.paulus') }}"}},
    {
        "tool": "ha_get_history",
        "args": {
            "entity_ids": ["sun.sun", "person.paulus"],
            "start": "2026-01-01T00:00:00Z",
            "end": "2026-01-02T00:00:00Z",
        },
    },
]


def test_the_example_s_policy_refuses_what_it_says(tmp_path: Path) -> None:
    load_policy(EXAMPLE / "policy.yaml")
    shutil.copy(EXAMPLE / "policy.yaml", tmp_path)
    (tmp_path / "calls.jsonl").write_text("\n".join(map(json.dumps, DENIED)))
    checked = run(tmp_path, "check", "--calls", "calls.jsonl", "--json").stdout.splitlines()
    assert [json.loads(line)["decision"] for line in checked] == ["deny"] * len(DENIED)
