"""Tests of what `agent-gate mcp` makes of its files: who speaks, where, and who can be asked."""

from __future__ import annotations

import os
import pwd
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent_gate.hosts.mcp import Settings, gate_of, settings_of
from agent_gate.model.approval import Approver
from agent_gate.model.call import Agent
from agent_gate.model.errors import ConfigError

POLICY = {"rules": [{"pattern": "state.*", "action": "allow"}]}
BOT = {"id": "bot", "token": "token-of-the-bot-0123456789abcdef"}
CLERK = {"id": "clerk", "token": "token-of-the-clerk-0123456789abcdef"}


def settings(directory: Path, config: dict[str, Any] | None = None, **options: Any) -> Settings:
    """Of a directory with a policy, and a configuration where one is given."""
    (directory / "policy.yaml").write_text(yaml.safe_dump(POLICY))
    path = None
    if config is not None:
        path = directory / "config.yaml"
        path.write_text(yaml.safe_dump(config))
    given = {"db": None, "agent_id": None, "project": None, "wait_s": 20.0, **options}
    return settings_of(directory / "policy.yaml", config_path=path, **given)


def test_without_a_configuration_it_is_an_operator_named_after_the_user_whom_nobody_is_asked_for(
    tmp_path: Path,
) -> None:
    told = settings(tmp_path)
    user = pwd.getpwuid(os.getuid()).pw_name
    assert told == Settings(tmp_path / "policy.yaml", Path("agent-gate.db"), Agent(f"mcp:{user}", projects=("*",)))


def test_without_a_configuration_the_agent_can_be_named(tmp_path: Path) -> None:
    told = settings(tmp_path, agent_id="editor", project="notes", db=Path("other.db"))
    assert (told.agent.id, told.project, told.db) == ("editor", "notes", Path("other.db"))


@pytest.mark.parametrize("agent_id", [None, "editor"])
def test_a_configuration_without_agents_lets_the_user_speak_within_its_limits(
    tmp_path: Path, agent_id: str | None
) -> None:
    approvers = [{"id": "anna", "token": "token-of-anna-0123456789abcdef"}]
    limits = {"max_pending_approvals": 3, "max_requests_per_minute": 7}
    told = settings(tmp_path, {"approvers": approvers, "rate_limit": limits}, agent_id=agent_id)
    user = pwd.getpwuid(os.getuid()).pw_name
    assert told.agent == Agent(
        agent_id or f"mcp:{user}", projects=("*",), requests_per_minute=7, max_pending_approvals=3
    )
    assert (told.project, told.db, told.approvers) == ("default", Path("agent-gate.db"), (Approver("anna"),))


def test_the_only_agent_of_a_configuration_speaks_with_all_that_it_has_there(tmp_path: Path) -> None:
    agent = {**BOT, "roles": ["viewer"], "projects": ["home", "garden"], "mode": "interactive", "owner": "anna"}
    limits = {"max_pending_approvals": 3, "max_requests_per_minute": 7}
    told = settings(
        tmp_path, {"agents": [agent], "rate_limit": limits, "storage": {"type": "sqlite", "path": "theirs.db"}}
    )
    assert (told.agent.id, told.agent.roles, told.agent.mode.value) == ("bot", ("viewer",), "interactive")
    assert (told.agent.owner, told.agent.requests_per_minute, told.agent.max_pending_approvals) == ("anna", 7, 3)
    assert (told.project, told.db) == ("home", Path("theirs.db"))


@pytest.mark.parametrize(
    ("agent", "words"),
    [(None, "name one by --agent: `bot`, `clerk`"), ("cook", "there is no agent `cook`; name one of `bot`, `clerk`")],
)
def test_of_several_agents_one_must_be_named(tmp_path: Path, agent: str | None, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        settings(tmp_path, {"agents": [BOT, CLERK]}, agent_id=agent)


def test_of_several_agents_the_one_that_is_named_speaks(tmp_path: Path) -> None:
    told = settings(tmp_path, {"agents": [BOT, CLERK]}, agent_id="clerk", project="home", db=Path("ours.db"))
    assert (told.agent.id, told.project, told.db) == ("clerk", "home", Path("ours.db"))


def test_everybody_who_can_answer_at_a_server_can_be_asked(tmp_path: Path) -> None:
    approvers = [{"id": "anna", "token": "token-of-anna-0123456789abcdef", "telegram_user_id": 1, "roles": ["admin"]}]
    telegram = {"token": "1:of-the-bot-0123456789abcdef", "chat_id": -100, "allowed_users": [1, 2]}
    messenger = {"type": "telegram", "telegram": telegram}
    told = settings(tmp_path, {"agents": [BOT], "approvers": approvers, "messenger": messenger})
    assert told.approvers == (Approver("anna", ("admin",)), Approver("telegram:2"))


def test_a_ledger_that_is_not_in_this_release_is_refused(tmp_path: Path) -> None:
    storage = {"type": "postgresql", "url": "postgresql://localhost/gate"}
    with pytest.raises(ConfigError, match="`postgresql` is not in this release"):
        settings(tmp_path, {"agents": [BOT], "storage": storage})


async def test_the_project_of_the_configuration_is_made_once_as_it_is_described_there(tmp_path: Path) -> None:
    config = {
        "agents": [{**BOT, "projects": ["home"]}],
        "projects": {"home": {"initial_state": {"lights": "off"}}},
        "storage": {"type": "sqlite", "path": str(tmp_path / "gate.db")},
    }
    told = settings(tmp_path, config)
    for _ in range(2):
        async with gate_of(told, lambda _: None) as gate:
            outcome = await gate.call("state.get", {"path": "/lights"}, project=told.project)
            assert outcome.data == "off"


def test_tokens_and_keys_are_in_files_that_no_tool_may_read(tmp_path: Path) -> None:
    tls = {"cert": "cert.pem", "key": "key.pem"}
    told = settings(tmp_path, {"gateway": {"host": "127.0.0.1", "port": 8443, "tls": tls}, "agents": [BOT]})
    assert told.configuration is not None
    own_files = told.configuration.own_files
    assert own_files.secret[:2] == (str(tmp_path / "config.yaml"), str(Path("key.pem").absolute()))
    assert own_files.protected == (str(Path("cert.pem").absolute()),)
