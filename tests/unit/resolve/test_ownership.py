"""Which files are the gate's own: found in the working directory, named by a start, or standing by their name."""

from __future__ import annotations

import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from agent_gate.config.settings import GatewayConfig, StorageConfig, TLSConfig
from agent_gate.model.bounds import OWN_TEXT_BYTES_MAX
from agent_gate.model.ledger_names import ledger_names
from agent_gate.resolve import installation as installation_module
from agent_gate.resolve.agent_settings import settings_of_agents
from agent_gate.resolve.installation import PACKAGE, installation
from agent_gate.resolve.own_nearby import Found, look_into
from agent_gate.resolve.ownership import Start, find_own, named_by
from tests.servers import a_config


@pytest.fixture
def work(tmp_path: Path) -> Path:
    work = tmp_path.resolve() / "work"
    work.mkdir()
    return work


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("config.yaml", "gateway: {host: 127.0.0.1, port: 1}\n", "config"),
        ("config.yaml", '{"gateway": {}}', "config"),
        ("config.yaml", "? gateway\n: {host: x}\napprovers: []\n", "config"),
        ("policy.yaml", "gateway: {}\nversion: 1\nrules: []\n", "config"),
        ("config.yaml", "version: 1\nrules: []\n", "policy"),
        ("policy.yaml", "version: 1\ntools: {}\n", "policy"),
        ("policy.yaml", "rules: []\n", "policy"),
        ("permissions.yaml", "defaults: [{pattern: '*', action: deny}]\n", "policy"),
        ("config.yaml", "gateway: {host: [\n", "config"),
        ("config.yaml", "gateway: !!python/object:x {}\n", "config"),
        ("policy.yaml", "version: 1\nrules:\n" + "- {pattern: x, action: deny}\n" * OWN_TEXT_BYTES_MAX, "policy"),
        ("config.yaml", "colour: green\n", ""),
        ("config.yaml", "rules: []\n", ""),
        ("config.yaml", "network: {gateway: 10.0.0.1}\n", ""),
        ("config.yaml", "- gateway: x\n", ""),
        ("config.yaml", "# gateway: {host: x}\n", "config"),
        ("config.yaml", "colour: [\n", ""),
        ("config.yaml", "", ""),
        ("policy.yaml", "version: 1\nstatements: []\n", ""),
        ("settings.yaml", "gateway: {}\n", ""),
    ],
)
def test_a_file_is_ours_by_what_it_says(work: Path, name: str, text: str, kind: str) -> None:
    (work / name).write_text(text)
    found, path = look_into(str(work)), (str(work / name),)
    assert (found.configs, found.policies) == (path if kind == "config" else (), path if kind == "policy" else ())


def test_what_only_has_the_name_of_a_file_is_passed_by(work: Path) -> None:
    os.mkfifo(work / "config.yaml")
    (work / "policy.yaml").mkdir()
    (work / "permissions.yaml").symlink_to("nowhere")
    assert look_into(str(work)) == Found((str(work / "agent-gate.db"),))


def a_database(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)


def test_ledgers_are_known_by_what_lies_beside_them_or_by_their_tables(work: Path) -> None:
    a_database(work / "tables.db", "CREATE TABLE entries (id INTEGER PRIMARY KEY, prev_hash BLOB)")
    a_database(work / "shop.db", "CREATE TABLE goods (id INTEGER PRIMARY KEY)")
    for name in ("anchored.sqlite", "keyed.db"):
        a_database(work / name, "CREATE TABLE goods (id INTEGER PRIMARY KEY)")
    (work / "anchored.sqlite.anchor").touch()
    (work / "keyed.db.d").mkdir()
    (work / "lost.anchor").touch()
    (work / "lost.d").mkdir()
    (work / "conf.d").mkdir()
    (work / "text.db").write_text("no database")
    names = {Path(path).name for path in look_into(str(work)).ledgers}
    assert names == {"agent-gate.db", "tables.db", "anchored.sqlite", "keyed.db", "lost"}


def test_what_changes_in_the_directory_is_found_however_it_changes(work: Path) -> None:
    long_ago = (1_000_000_000, 1_000_000_000)
    config = work / "config.yaml"
    config.write_text("colour: green\n")
    for path in (config, work):
        os.utime(path, ns=long_ago)
    assert look_into(str(work)).configs == ()
    config.write_text("gateway: {}\n  ")
    os.utime(config, ns=long_ago)
    assert look_into(str(work)).configs == (str(config),)


def test_a_ledger_is_all_its_files_beside_its_name_and_beside_its_real_one(work: Path) -> None:
    (work / "real").mkdir()
    (work / "real/gate.db").touch()
    (work / "link.db").symlink_to("real/gate.db")
    own = find_own(Start.of(str(work), [work / "link.db"]))
    for db in ("link.db", "real/gate.db"):
        assert set(ledger_names(str(work / db))) <= set(own.secret)
    assert f"{work}/real/gate.db-journal" in own.secret


def test_a_start_means_its_paths_from_where_it_began(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(work)
    start = Start.of("/", ["a.db"], ["config.yaml"], ["policy.yaml"])
    monkeypatch.chdir("/")
    own = find_own(start)
    assert {f"{work}/a.db", f"{work}/config.yaml"} <= set(own.secret)
    assert f"{work}/policy.yaml" in own.protected


def test_a_configuration_names_keys_and_ledger_besides_itself(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(work)
    config = a_config(
        gateway=GatewayConfig("127.0.0.1", 1, TLSConfig("cert.pem", "key.pem")),
        storage=StorageConfig(path="its.db"),
    )
    named = named_by("config.yaml", config)
    assert set(named.secret) == {
        *(f"{work}/{name}" for name in ("config.yaml", "key.pem")),
        *ledger_names(f"{work}/its.db"),
    }
    assert named.protected == (f"{work}/cert.pem",)


def test_settings_of_agents_are_where_their_variables_say_and_where_they_are_without(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/anna")
    monkeypatch.setenv("CODEX_HOME", "/srv/codex")
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", "relative")
    found = set(settings_of_agents(str(work)))
    assert {
        f"{work}/.claude/settings.local.json",
        f"{work}/.mcp.json",
        "/home/anna/.claude/settings.json",
        "/home/anna/.codex/hooks.json",
        "/srv/codex/hooks.json",
        "/home/anna/.config/opencode/plugin",
        "/etc/gemini-cli",
    } <= found
    assert all(path.startswith("/") for path in found)


def test_a_settings_directory_that_is_a_link_counts_where_it_leads_to(work: Path) -> None:
    (work / "dotfiles").mkdir()
    (work / ".claude").symlink_to("dotfiles")
    own = find_own(Start.of(str(work)))
    assert {f"{work}/.claude/settings.json", f"{work}/dotfiles/settings.json"} <= set(own.by_name)


def test_the_package_and_its_environment_are_the_gate_s_own(work: Path) -> None:
    found = installation(str(work))
    assert PACKAGE in found
    assert any(f"{sys.prefix}/".startswith(f"{path}/") for path in found) == (sys.prefix != sys.base_prefix)
    assert os.path.dirname(os.__file__) in found


def test_an_environment_around_the_working_directory_leaves_the_directory_free(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", str(work))
    monkeypatch.setattr(installation_module, "PACKAGE", str(work / "lib/python/site-packages/agent_gate"))
    installation.cache_clear()
    for directory in (work, work / "project"):
        found = installation(str(directory))
        assert str(work) not in found
        assert {f"{work}/bin", f"{work}/lib", f"{work}/pyvenv.cfg"} <= set(found)
    installation.cache_clear()
