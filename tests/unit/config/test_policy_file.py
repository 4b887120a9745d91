"""policy.yaml becomes a typed policy, or every mistake in it is told; nothing doubtful ever becomes a rule."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_gate.config import ConfigError, load_permissions, load_policy, policy_from
from agent_gate.model.permission import PermissionRule, Permissions
from agent_gate.model.policy import (
    DEFAULT_ROLES,
    ApprovalRule,
    CommandGuard,
    Declare,
    Guards,
    PathGuard,
    Policy,
    ProjectLimits,
    Role,
    UrlGuard,
    Window,
)
from agent_gate.model.tool import Effect, Mode, Risk
from tests.unit.config.mistakes import as_far_as, mistakes

FULL = """
version: 1
timezone: Europe/Berlin
defaults: [{pattern: "ha_get_*", action: allow}]
rules:
  - {pattern: "ha_call_service(lock.*)", action: deny, description: "nobody opens it from afar"}
  - {pattern: "ha_call_service(light.*)", action: allow, when: "get(inputs, 'data.brightness', 255) < 80"}
boundary: deny_by_default
tools:
  fs.read:   {allow_paths: ["./**"], deny_paths: ["**/.env"], max_size_bytes: 1, allow_hidden: true,
              allow_hardlinks: false}
  fs.write:  {allow_paths: ["./out/**"], deny_paths: [], max_size_bytes: 2, allow_hidden: false}
  http.get:  {allow_domains: ["api.example.com", "*.example.org", "*"], allow_schemes: [https, http],
              allow_ports: [443, 80], deny_private_ips: false, max_response_bytes: 3, timeout_seconds: 4.5,
              max_redirects: 0}
  shell.run: {allow_executables: [git, ls], unchecked_executables: [make], allow_env: [LANG], trusted_dirs: [/usr/bin],
              deny_tokens: ["rm -rf", sudo], timeout_seconds: 6, max_output_bytes: 7, sandbox: off}
protected_paths: [/etc/x]
declare:
  "tracker_*": {effect: write, risk: high, cost: 5, required_roles: [admin], confirmation_required: false,
               preconditions: ["cost < 10"]}
  "wiki_*": {risk: low}
max_calls_per_tool: 100
global_timeout_seconds: 300
roles: {viewer: {max_risk: medium}, guest: {effects: [none], max_risk: low}}
limits: {rate: {per_minute: 60, per_hour: 1000}, budget: {daily: 1000}, steps: {interactive: 1, autonomous: 10}}
approvals:
  - {min_cost: 50, unless_role: admin, approver_role: guest, approvers_required: 2}
  - {risk: high, approver_role: operator}
approvals_at_terminal: true
cooldown_seconds: 60
windows:
  allowed:
    - {days: [fri, mon], hours: ["08:00", "18:30"]}
    - {hours: [22:00, 06:00]}
    - {days: [sun], hours: ["00:00", "24:00"]}
    - {days: [sat]}
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path("policy.yaml")


def problems_of(source: Path | dict[str, Any], text: str = "") -> tuple[str, ...]:
    if isinstance(source, Path):
        source.write_text(text)
    with pytest.raises(ConfigError) as refused:
        load_policy(source)
    return refused.value.problems


def test_every_field_of_a_full_policy_arrives(file: Path) -> None:
    file.write_text(FULL)
    policy = load_policy(file)
    assert policy == Policy(
        permissions=Permissions(
            [PermissionRule("ha_get_*", "allow")],
            [
                PermissionRule("ha_call_service(lock.*)", "deny", "nobody opens it from afar"),
                PermissionRule("ha_call_service(light.*)", "allow", when="get(inputs, 'data.brightness', 255) < 80"),
            ],
        ),
        version=1,
        timezone="Europe/Berlin",
        deny_by_default=True,
        guards=Guards(
            {
                "fs.read": PathGuard(("./**",), ("**/.env",), 1, True, False),
                "fs.write": PathGuard(("./out/**",), (), 2, False),
                "http.get": UrlGuard(
                    ("api.example.com", "*.example.org", "*"), ("https", "http"), (443, 80), False, 3, 4.5, 0
                ),
                "shell.run": CommandGuard(
                    ("git", "ls"), ("make",), ("LANG",), ("/usr/bin",), ("rm -rf", "sudo"), 6, 7, "off"
                ),
            }
        ),
        protected_paths=("/etc/x",),
        declare=(
            Declare("tracker_*", Effect.WRITE, Risk.HIGH, 5, ("admin",), False, ("cost < 10",)),
            Declare("wiki_*", risk=Risk.LOW),
        ),
        max_calls_per_tool=100,
        global_timeout_seconds=300,
        roles={
            "viewer": Role(Risk.MEDIUM, (Effect.READ,)),
            "operator": Role(Risk.MEDIUM),
            "admin": Role(Risk.HIGH),
            "guest": Role(Risk.LOW, (Effect.NONE,)),
        },
        limits=ProjectLimits(
            rate_per_minute=60,
            rate_per_hour=1000,
            budget_daily=1000,
            steps={Mode.INTERACTIVE: 1, Mode.AUTONOMOUS: 10},
        ),
        approvals=(ApprovalRule(50, None, "admin", "guest", 2), ApprovalRule(None, Risk.HIGH, "", "operator", 1)),
        approvals_at_terminal=True,
        cooldown_seconds=60,
        windows=(
            Window((0, 4), 480, 1110),
            Window((0, 1, 2, 3, 4, 5, 6), 1320, 360),
            Window((6,), 0, 1440),
            Window((5,), 0, 1440),
        ),
        source=policy.source,
    )


def test_the_source_is_the_content_of_the_file_and_makes_the_same_policy_again(file: Path) -> None:
    file.write_text(FULL)
    policy = load_policy(file)
    assert policy.source["boundary"] == "deny_by_default"
    assert policy_from(policy.source) == policy


def test_a_policy_that_says_nothing_has_every_default() -> None:
    assert load_policy({"version": 1}) == Policy(source={"version": 1})
    assert load_policy({"version": 1}).roles == DEFAULT_ROLES


def test_an_absent_field_of_a_guard_has_its_default_and_allows_nothing() -> None:
    policy = load_policy({"tools": {"fs.read": {}, "fs.write": {}, "http.get": {}, "shell.run": {}}})
    assert policy.guards == Guards(
        {"fs.read": PathGuard(), "fs.write": PathGuard(), "http.get": UrlGuard(), "shell.run": CommandGuard()}
    )
    assert load_policy({"tools": {}}).guards == Guards()


def test_permissions_are_the_rules_of_a_file(file: Path) -> None:
    file.write_text(
        "defaults:\n  - {pattern: 'ha_get_*', action: allow}\nrules:\n  - {pattern: x, action: ask, description: d}\n"
    )
    assert load_permissions(file) == Permissions(
        [PermissionRule("ha_get_*", "allow")], [PermissionRule("x", "ask", "d")]
    )


def test_permissions_may_have_an_empty_list_of_rules(file: Path) -> None:
    file.write_text("defaults: []\nrules: []\n")
    assert load_permissions(str(file)) == Permissions([], [])


def test_the_file_names_have_defaults(file: Path) -> None:
    for load, name in ((load_policy, "policy.yaml"), (load_permissions, "permissions.yaml")):
        with pytest.raises(ConfigError, match=f"{name}: no such file"):
            load()
    file.write_text("rules: []\n")
    assert load_policy() == Policy(source={"rules": []})


def test_a_mapping_is_copied() -> None:
    rules = [{"pattern": "x", "action": "deny"}]
    policy = policy_from({"rules": rules})
    rules[0]["action"] = "allow"
    assert policy.source == {"rules": [{"pattern": "x", "action": "deny"}]}


def test_whole_floats_are_integers_where_a_count_is_meant() -> None:
    policy = policy_from(
        {"max_calls_per_tool": 5.0, "tools": {"http.get": {"allow_ports": [80.0], "max_redirects": 2.0}}}
    )
    assert repr((policy.max_calls_per_tool, policy.guards.http_get)) == repr(
        (5, UrlGuard(allow_ports=(80,), max_redirects=2))
    )


@pytest.mark.parametrize(("text", "answers"), mistakes("policy"))
def test_a_mistake_is_told_with_line_field_and_remedy(file: Path, text: str, answers: tuple[str, ...]) -> None:
    expected = tuple(f"policy.yaml:{answer}" for answer in answers)
    assert as_far_as(problems_of(file, text), expected) == expected


@pytest.mark.parametrize("place", ["rules", "defaults"])
@pytest.mark.parametrize(
    "source", ["nosuch < 5", "inputs.path", "__import__('os')", "1 +", "x" * 3000, "[i for i in roles]", " "]
)
def test_a_condition_that_cannot_be_compiled_is_refused_at_load(place: str, source: str) -> None:
    (problem,) = problems_of({place: [{"pattern": "x", "action": "deny", "when": source}]})
    assert problem.startswith(f"policy: {place}[0].when: ")


def test_a_precondition_that_cannot_be_compiled_is_refused_at_load() -> None:
    (problem,) = problems_of({"declare": {"git hub_*": {"preconditions": ["cost < 5", "cost <"]}}})
    assert problem.startswith('policy: declare["git hub_*"].preconditions[1]: ')


def test_all_problems_of_a_file_are_told_at_once_in_the_order_of_their_lines(file: Path) -> None:
    rules = "rules:\n  - pattern: x\n    action: alow\n    when: nosuch < 5\n  - 5\n"
    rest = "tols: {}\nversion: 2\napprovals: [{risk: high, approver_role: x}, {}]\n"
    problems = problems_of(file, rules + rest)
    assert [problem.split(" ")[:2] for problem in problems] == [
        ["policy.yaml:3:", "rules[0].action:"],
        ["policy.yaml:4:", "rules[0].when:"],
        ["policy.yaml:5:", "rules[1]:"],
        ["policy.yaml:6:", "tols:"],
        ["policy.yaml:7:", "version:"],
        ["policy.yaml:8:", "approvals[0].approver_role:"],
        ["policy.yaml:8:", "approvals[1]:"],
    ]


def test_problems_without_end_are_cut() -> None:
    problems = problems_of({"rules": [{"pattern": "x", "action": "deny", "when": 5, "other": n} for n in range(1000)]})
    assert (len(problems), problems[-1]) == (51, "policy: and more; these first")


@pytest.mark.parametrize(
    "mapping",
    [
        {},
        {"rules": [{"pattern": "x", "action": "deny", "when": float("nan")}]},
        {1: 2},
        {"rules": object()},
        {"cooldown_seconds": float("inf")},
        {"timezone": "\ud800"},
        {"max_calls_per_tool": 2**60},
    ],
)
def test_a_mapping_that_no_file_could_hold_is_refused(mapping: Any) -> None:
    assert len(problems_of(mapping)) == 1


def test_a_policy_of_many_rules_loads_in_linear_time() -> None:
    rules = [{"pattern": f"tool_{n}(x)", "action": "deny"} for n in range(100_000)]
    assert len(policy_from({"rules": rules}).rules) == 100_000
