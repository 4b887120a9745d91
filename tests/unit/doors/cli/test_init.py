"""Tests of `init`: files that work, and nothing of the user's lost."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from agent_gate.config import load_config, load_plan, load_policy
from agent_gate.doors.cli.screen import encoded
from tests.unit.doors.cli.conftest import Command


def test_a_new_user_gets_files_that_load(command: Command, tmp_path: Path) -> None:
    said = command("init")
    assert (said.code, said.err) == (0, "")
    assert load_policy(tmp_path / "policy.yaml").deny_by_default
    assert load_policy(tmp_path / "policy.yaml").approvals_at_terminal
    assert load_plan(tmp_path / "plan.yaml").steps
    assert (tmp_path / ".gitignore").read_text().splitlines() == [
        "*.db", "*.db-*", "*.db.anchor*", "*.db.d/", "config.yaml",
    ]  # fmt: skip
    assert "agent-gate check" in said.out


def test_the_database_is_readable_by_its_owner_alone(command: Command, tmp_path: Path) -> None:
    command("init")
    assert stat.S_IMODE((tmp_path / "agent-gate.db").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "agent-gate.db.d").stat().st_mode) == 0o700


def test_the_configuration_has_tokens_of_its_own_and_is_readable_by_its_owner_alone(
    command: Command, tmp_path: Path
) -> None:
    command("init")
    command("init", "other")
    first, second = load_config(tmp_path / "config.yaml"), load_config(tmp_path / "other/config.yaml")
    tokens = [one.token for config in (first, second) for one in config.agents]
    tokens += [one.token for config in (first, second) for one in config.approvers]
    assert len(set(tokens)) == 4
    assert min(map(len, tokens)) >= 43  # 32 random bytes in base 64
    assert stat.S_IMODE((tmp_path / "config.yaml").stat().st_mode) == 0o600
    assert (first.gateway.host, first.gateway.tls, first.storage.path) == ("127.0.0.1", None, "agent-gate.db")
    assert not any(agent.owner for agent in first.agents)  # whoever owns it may not approve its calls


def test_the_example_that_it_prints_is_allowed(command: Command, tmp_path: Path) -> None:
    command("init")
    args = '{"path": "/notes/today", "value": "rain"}'
    assert command("check", "--tool", "state.set", "--args", args, "-p", "policy.yaml").code == 0


@pytest.mark.parametrize(
    ("tool", "args", "code"),
    [
        ("state.get", '{"path": "/x"}', 0),
        ("state.set", '{"path": "/settings/volume", "value": 50}', 0),
        ("state.set", '{"path": "/settings/volume", "value": 51}', 4),
        ("state.set", '{"path": "/settings/admin", "value": 1}', 1),
        ("state.revert", '{"snapshot_id": "01"}', 4),
        ("ha_get_states", "{}", 0),
        ("rm", "{}", 1),
        ("fs.write", '{"path": "notes/today.txt", "content": "rain"}', 0),
        ("fs.read", '{"path": "notes/today.txt"}', 0),
        ("fs.read", '{"path": "policy.yaml"}', 1),
        ("http.get", '{"url": "https://api.example.com/"}', 1),
        ("shell.run", '{"argv": ["ls"]}', 1),
    ],
)
def test_the_starter_policy_does_what_its_comments_say(command: Command, tool: str, args: str, code: int) -> None:
    command("init")
    assert command("check", "--tool", tool, "--args", args).code == code


def test_each_step_of_the_starter_plan_is_allowed(command: Command, tmp_path: Path) -> None:
    command("init")
    plan = load_plan(tmp_path / "plan.yaml")
    codes = [command("check", "--tool", step.tool, "--args", encoded(step.args)).code for step in plan.steps]
    assert codes == [0, 0, 0]


def test_nothing_is_overwritten_unless_forced(command: Command, tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text("mine")
    said = command("init")
    assert (said.code, said.err.count("\n")) == (3, 1)
    assert "`policy.yaml` is there" in said.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["policy.yaml"]
    assert command("init", "--force").code == 0
    assert load_policy(tmp_path / "policy.yaml").rules


def test_a_link_is_replaced_and_what_it_points_to_is_left_alone(command: Command, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("mine")
    (tmp_path / "policy.yaml").symlink_to("elsewhere")
    assert command("init").code == 3
    assert command("init", "--force").code == 0
    assert (tmp_path / "elsewhere").read_text() == "mine"


def test_a_directory_and_a_database_can_be_named(command: Command, tmp_path: Path) -> None:
    said = command("init", "a/b", "--db", "other.ledger", "--json")
    assert said.json == {
        "created": ["a/b/policy.yaml", "a/b/plan.yaml", "a/b/config.yaml", "a/b/.gitignore", "other.ledger"],
        "database": "other.ledger",
    }
    assert "other.ledger" in (tmp_path / "a/b/.gitignore").read_text()
    assert load_config(tmp_path / "a/b/config.yaml").storage.path == str(tmp_path / "other.ledger")


def test_lines_are_added_to_a_gitignore_that_is_there_once(command: Command, tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("*.db\nmine")
    command("init")
    command("init", "--force")
    assert (tmp_path / ".gitignore").read_text() == "*.db\nmine\n*.db-*\n*.db.anchor*\n*.db.d/\nconfig.yaml\n"


def test_a_database_that_is_there_stays(command: Command, tmp_path: Path) -> None:
    command("init")
    command("project", "create", "home")
    command("init", "--force")
    assert [project["project"] for project in command("project", "list", "--json").json["projects"]] == [
        "default",
        "home",
    ]


@pytest.mark.parametrize("words", [["file"], ["file/below"], ["--db", "missing/x.db"], ["--db", "postgres://h/x"]])
def test_a_place_that_cannot_be_is_an_error_on_one_line(command: Command, tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "file").write_text("")
    said = command("init", *words)
    assert said.code in (3, 5)
    assert said.err.count("\n") == 1
