"""Each field of a policy, a plan and a configuration has an effect, or is refused."""

from __future__ import annotations

import ast
import os
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import agent_gate.config as config_package
from agent_gate.config import ConfigError, load_plan, load_policy
from agent_gate.doors.cli.judging import Judges, Wish, answer, to_json
from agent_gate.model.errors import PlanValidationError
from agent_gate.model.policy import LIMITS, CommandGuard, PathGuard, Policy, UrlGuard
from tests.unit.config.fields import leaves

ROOT = Path(__file__).parents[3]
READ: dict[str, Any] = {"allow_paths": ["./**"]}
WEB: dict[str, Any] = {"allow_domains": ["example.com"]}
RUN: dict[str, Any] = {"allow_executables": ["ls"]}
ALLOW = [{"pattern": "*", "action": "allow"}]


class Probe(NamedTuple):
    """Two policies that differ in one field, and a call of which they think differently."""

    without: dict[str, Any]
    having: dict[str, Any]
    tool: str = "own.tool"
    args: Mapping[str, Any] = {}
    wish: Mapping[str, Any] = {}


def guard(tool: str, base: dict[str, Any], args: Mapping[str, Any], **field: Any) -> Probe:
    return Probe({"tools": {tool: base}}, {"tools": {tool: {**base, **field}}}, tool, args)


def top(args: Mapping[str, Any] | None = None, wish: Mapping[str, Any] | None = None, **field: Any) -> Probe:
    return Probe({"rules": ALLOW}, {"rules": ALLOW, **field}, args=args or {}, wish=wish or {})


def declared(**field: Any) -> Probe:
    plain = {"effect": "read", "risk": "low"}
    base = {"rules": ALLOW, "approvals": [{"min_cost": 50}], "declare": {"own.*": plain}}
    return Probe(base, {**base, "declare": {"own.*": {**plain, **field}}}, wish={"roles": ("viewer",)})


PROBES: dict[str, Probe] = {
    "timezone": Probe(
        {"rules": ALLOW, "windows": {"allowed": [{"hours": ["00:00", "12:00"]}]}},
        {"rules": ALLOW, "windows": {"allowed": [{"hours": ["00:00", "12:00"]}]}, "timezone": "Etc/GMT+12"},
    ),
    "defaults[].pattern": top(defaults=[{"pattern": "x", "action": "deny"}])._replace(
        without={"defaults": [{"pattern": "own.tool", "action": "deny"}]},
        having={"defaults": [{"pattern": "other", "action": "deny"}]},
    ),
    "defaults[].action": Probe(
        {"defaults": [{"pattern": "*", "action": "deny"}]}, {"defaults": [{"pattern": "*", "action": "allow"}]}
    ),
    "defaults[].description": Probe(
        {"defaults": [{"pattern": "*", "action": "deny"}]},
        {"defaults": [{"pattern": "*", "action": "deny", "description": "not here"}]},
    ),
    "defaults[].when": Probe(
        {"defaults": [{"pattern": "*", "action": "deny"}]},
        {"defaults": [{"pattern": "*", "action": "deny", "when": "1 == 2"}]},
    ),
    "rules[].pattern": Probe(
        {"rules": [{"pattern": "own.tool", "action": "deny"}]}, {"rules": [{"pattern": "other", "action": "deny"}]}
    ),
    "rules[].action": Probe({"rules": ALLOW}, {"rules": [{"pattern": "*", "action": "deny"}]}),
    "rules[].description": Probe(
        {"rules": [{"pattern": "*", "action": "deny"}]},
        {"rules": [{"pattern": "*", "action": "deny", "description": "not here"}]},
    ),
    "rules[].when": Probe({"rules": ALLOW}, {"rules": [{**ALLOW[0], "when": "1 == 2"}]}),
    "boundary": Probe({"rules": []}, {"rules": [], "boundary": "deny_by_default"}),
    "tools.fs.read.allow_paths[]": guard("fs.read", {}, {"path": "a.txt"}, **READ),
    "tools.fs.read.deny_paths[]": guard("fs.read", READ, {"path": "a.txt"}, deny_paths=["**/a.txt"]),
    "tools.fs.read.max_size_bytes": guard("fs.read", READ, {"path": "a.txt"}, max_size_bytes=1),
    "tools.fs.read.allow_hidden": guard("fs.read", READ, {"path": ".hidden"}, allow_hidden=True),
    "tools.fs.read.allow_hardlinks": guard("fs.read", READ, {"path": "linked.txt"}, allow_hardlinks=False),
    "tools.fs.read.otherwise": guard("fs.read", {}, {"path": "a.txt"}, otherwise="ask"),
    "tools.fs.write.allow_paths[]": guard("fs.write", {}, {"path": "b", "content": "x"}, **READ),
    "tools.fs.write.deny_paths[]": guard("fs.write", READ, {"path": "b", "content": "x"}, deny_paths=["**/b"]),
    "tools.fs.write.max_size_bytes": guard("fs.write", READ, {"path": "b", "content": "xx"}, max_size_bytes=1),
    "tools.fs.write.allow_hidden": guard("fs.write", READ, {"path": ".b", "content": "x"}, allow_hidden=True),
    "tools.fs.write.otherwise": guard("fs.write", {}, {"path": "b", "content": "x"}, otherwise="ask"),
    "tools.http.get.allow_domains[]": guard("http.get", {}, {"url": "https://example.com/"}, **WEB),
    "tools.http.get.allow_schemes[]": guard(
        "http.get", {**WEB, "allow_ports": [80]}, {"url": "http://example.com/"}, allow_schemes=["http"]
    ),
    "tools.http.get.allow_ports[]": guard("http.get", WEB, {"url": "https://example.com:8443/"}, allow_ports=[8443]),
    "tools.http.get.deny_private_ips": guard(
        "http.get", {"allow_domains": ["127.0.0.1"]}, {"url": "https://127.0.0.1/"}, deny_private_ips=False
    ),
    "tools.http.get.otherwise": guard("http.get", {}, {"url": "https://example.com/"}, otherwise="ask"),
    "tools.shell.run.allow_executables[]": guard("shell.run", {}, {"argv": ["ls"]}, **RUN),
    "tools.shell.run.unchecked_executables[]": guard(
        "shell.run", {"allow_executables": ["env"]}, {"argv": ["env"]}, unchecked_executables=["env"]
    ),
    "tools.shell.run.allow_env[]": guard("shell.run", RUN, {"argv": ["ls"], "env": {"A": "b"}}, allow_env=["A"]),
    "tools.shell.run.trusted_dirs[]": guard("shell.run", RUN, {"argv": ["ls"]}, trusted_dirs=["/nowhere"]),
    "tools.shell.run.deny_tokens[]": guard("shell.run", RUN, {"argv": ["ls", "-l"]}, deny_tokens=["-l"]),
    "tools.shell.run.otherwise": guard("shell.run", {}, {"argv": ["ls"]}, otherwise="ask"),
    "protected_paths[]": Probe(
        {"tools": {"fs.write": READ}},
        {"tools": {"fs.write": READ}, "protected_paths": ["./b"]},
        "fs.write",
        {"path": "b", "content": "x"},
    ),
    "declare.own.*.effect": declared(effect="write"),
    "declare.own.*.risk": declared(risk="high"),
    "declare.own.*.cost": declared(cost=60),
    "declare.own.*.required_roles[]": declared(required_roles=["admin"]),
    "declare.own.*.confirmation_required": declared(confirmation_required=True),
    "declare.own.*.preconditions[]": declared(preconditions=["1 == 2"]),
    "roles.clerk.max_risk": top(roles={"clerk": {"max_risk": "high"}}, wish={"roles": ("clerk",)}),
    "roles.clerk.effects[]": Probe(
        {"rules": ALLOW, "roles": {"clerk": {"max_risk": "high"}}},
        {"rules": ALLOW, "roles": {"clerk": {"max_risk": "high", "effects": ["read"]}}},
        wish={"roles": ("clerk",)},
    ),
    "approvals[].min_cost": top(approvals=[{"min_cost": 1}]),
    "approvals[].risk": top(approvals=[{"risk": "medium"}]),
    "approvals[].unless_role": Probe(
        {"rules": ALLOW, "approvals": [{"min_cost": 1}]},
        {"rules": ALLOW, "approvals": [{"min_cost": 1, "unless_role": "operator"}]},
    ),
    "windows.allowed[].days[]": Probe(
        {"rules": ALLOW, "windows": {"allowed": [{"days": ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]}]}},
        {"rules": ALLOW, "windows": {"allowed": [{"days": ["wed"]}]}},
    ),
    "windows.allowed[].hours[]": top(windows={"allowed": [{"hours": ["13:00", "14:00"]}]}),
}
"""Fields whose effect can be seen without a call; the moment is a Thursday at 06:00 UTC."""

SHOWN_BY = {
    "tools.http.get.max_response_bytes": "scenarios/test_fetch.py",
    "tools.http.get.timeout_seconds": "scenarios/test_fetch.py",
    "tools.http.get.max_redirects": "unit/services/test_http.py",
    "tools.shell.run.timeout_seconds": "scenarios/test_commands.py",
    "tools.shell.run.max_output_bytes": "scenarios/test_commands.py",
    "tools.shell.run.sandbox": "scenarios/test_commands.py",
    "tools.shell.run.writes": "unit/doors/cli/test_check.py",
    "tools.shell.run.discard_paths[]": "scenarios/test_command_writes.py",
    "tools.shell.run.max_changes": "scenarios/test_command_writes.py",
    "tools.shell.run.max_changed_bytes": "scenarios/test_command_writes.py",
    "max_calls_per_tool": "scenarios/test_plans.py",
    "global_timeout_seconds": "scenarios/test_plans.py",
    "limits.rate.per_minute": "scenarios/test_calls.py",
    "limits.rate.per_hour": "unit/policy/test_layers.py",
    "limits.budget.daily": "scenarios/test_calls.py",
    "limits.steps.interactive": "scenarios/test_plans.py",
    "limits.steps.assisted": "scenarios/test_plans.py",
    "limits.steps.autonomous": "scenarios/test_plans.py",
    "approvals[].approver_role": "scenarios/test_approvals.py",
    "approvals[].approvers_required": "scenarios/test_approvals.py",
    "approvals_at_terminal": "scenarios/test_questions_at_a_terminal.py",
    "cooldown_seconds": "scenarios/test_approvals.py",
}
"""Fields that count when a call is made, and the tests in which they do."""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("time.time", lambda: 1_704_348_000.0)
    (tmp_path / "a.txt").write_text("text")
    (tmp_path / ".hidden").write_text("text")
    (tmp_path / "linked.txt").write_text("text")
    os.link(tmp_path / "linked.txt", tmp_path / "other.txt")
    return tmp_path


def thought(policy: dict[str, Any], probe: Probe) -> tuple[Any, str]:
    wish = Wish(probe.tool, dict(probe.args), policy, str(Path.cwd()), **probe.wish)
    checked = answer(Judges(Path("none.yaml")), wish)
    told = to_json(checked, wish)
    assert told.get("error", {}).get("code") not in (2002, 6001), told
    return told, checked.writes


@pytest.mark.parametrize("name", PROBES)
def test_a_field_of_a_policy_changes_what_is_thought_of_a_call(name: str, here: Path) -> None:
    probe = PROBES[name]
    assert thought(probe.without, probe) == thought(probe.without, probe)
    assert thought(probe.without, probe) != thought(probe.having, probe)


def test_every_field_of_a_policy_is_shown_to_count() -> None:
    known = {known.name for known in leaves("policy")} - {"version"}
    assert known == PROBES.keys() | SHOWN_BY.keys()
    assert PROBES.keys().isdisjoint(SHOWN_BY)


@pytest.mark.parametrize("name", SHOWN_BY)
def test_the_tests_in_which_a_field_counts_name_it(name: str) -> None:
    field = name.removesuffix("[]").rpartition(".")[2]
    assert field in (ROOT / "tests" / SHOWN_BY[name]).read_text()


def test_versions_of_the_files_are_those_that_are_understood() -> None:
    with pytest.raises(ConfigError, match="version"):
        load_policy({"version": 2, "rules": []})
    with pytest.raises(PlanValidationError, match="version"):
        load_plan({"version": "2.0", "steps": [{"tool": "state.get"}]})


def test_every_field_of_a_plan_stands_in_what_is_recorded_of_it() -> None:
    step = {"tool": "t", "args": {"a": 1}, "id": "i", "name": "n", "confirmed": True}
    plan = {"version": "1.0", "name": "n", "description": "d", "steps": [step]}
    assert load_plan(plan).to_json() == plan
    assert {known.name for known in leaves("plan")} == {*plan.keys() - {"steps"}, *(f"steps[].{key}" for key in step)}


@cache
def read_outside_config() -> frozenset[str]:
    """Every name of an attribute that the rest of the program reads."""
    source = ROOT / "src" / "agent_gate"
    files = [file for file in source.rglob("*.py") if (source / "config") not in file.parents]
    nodes = (node for file in files for node in ast.walk(ast.parse(file.read_text())))
    return frozenset(node.attr for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load))


PUBLIC = [getattr(config_package, name) for name in config_package.__all__]
KINDS = [kind for kind in (*PUBLIC, Policy, PathGuard, UrlGuard, CommandGuard) if is_dataclass(kind)]
SETTINGS = [
    pytest.param(kind, field.name, id=f"{kind.__name__}.{field.name}")
    for kind in KINDS
    if isinstance(kind, type) and kind.__name__ != "Document"
    for field in fields(kind)
]


@pytest.mark.parametrize(("kind", "name"), SETTINGS)
def test_every_setting_is_read_by_something(kind: type, name: str) -> None:
    limits = {one.fields[-1] for one in LIMITS.values()}  # read by what they declare
    chosen_by_schema = {("StorageConfig", "type"), ("MessengerConfig", "type")}  # one value each: others are refused
    read_together = {("Config", "messenger"), ("Config", "messengers")}  # as `every_messenger`
    assert name in read_outside_config() | limits or (kind.__name__, name) in chosen_by_schema | read_together
