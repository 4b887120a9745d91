"""The path guard: pure answers on real names and on what binding found."""

from __future__ import annotations

from typing import Any

import pytest

from agent_gate.model.call import Agent, BoundCall, CallRequest, Facts
from agent_gate.model.policy import Guards, PathGuard, Policy
from agent_gate.model.tool import Mode
from agent_gate.model.verdict import Decision
from agent_gate.policy.guards import GuardContext, Surroundings, guard_of
from agent_gate.policy.guards.paths import PathRules
from agent_gate.tools.catalogue import BUILTIN

AROUND = Surroundings(
    "/srv/app",
    protected=("/srv/app/policy.yaml",),
    secret=("/srv/app/gate.db", "/srv/app/gate.db-wal", "/srv/app/gate.db.d"),
)
FILE = {"type": "file", "size": 10}
ABSENT = {"type": "absent"}


def rules(tool: str = "fs.read", *, protected_paths: tuple[str, ...] = (), **fields: Any) -> PathRules:
    section = PathGuard(**{"allow_paths": ("./**",), **fields})
    return PathRules(tool, section, Policy(protected_paths=protected_paths), AROUND)


def said(rules: PathRules, path: str, found: dict[str, Any] | None = None, given: str = "") -> str:
    """`allow` with the pattern, or the problem as people read it."""
    reason, problem = rules.judge(path, FILE if found is None else found, given)
    assert (reason.layer, reason.decision) == ("guard", Decision.DENY if problem else Decision.ALLOW)
    return str(problem) if problem else f"allow {reason.rule}"


def test_a_file_under_allow_paths_passes_and_the_pattern_is_named() -> None:
    assert said(rules(), "/srv/app/a.txt") == "allow ./**"


def test_a_refusal_names_the_path_the_list_and_the_remedy() -> None:
    assert said(rules(), "/etc/passwd") == (
        "path_denied: `/etc/passwd` is outside allow_paths of fs.read (./**);"
        " add it there, or read a file that they cover"
    )


def test_empty_allow_paths_allow_nothing() -> None:
    assert said(rules(allow_paths=()), "/srv/app/a.txt") == (
        "path_denied: `/srv/app/a.txt` is not allowed: allow_paths of fs.read is empty; add it there"
    )


def test_deny_paths_beat_allow_paths() -> None:
    guard = rules(allow_paths=("./**", "./private/k"), deny_paths=("private/**",))
    assert said(guard, "/srv/app/private/k") == (
        "path_denied: `/srv/app/private/k` is under deny_paths of fs.read (private/**);"
        " narrow it there, or leave this file alone"
    )
    assert said(guard, "/srv/app/public/k") == "allow ./**"


@pytest.mark.parametrize(
    ("tool", "own", "is_allowed"),
    [
        ("fs.read", "secret", False),
        ("fs.write", "secret", False),
        ("fs.read", "protected", True),
        ("fs.write", "protected", False),
    ],
)
def test_what_binding_found_to_be_the_gates_own_is_refused_also_where_its_name_is_not_known(
    tool: str, own: str, is_allowed: bool
) -> None:
    answer = said(rules(tool), "/srv/app/config.yaml", {**FILE, "own": own})
    assert answer == "allow ./**" if is_allowed else answer.startswith("protected_file: `/srv/app/config.yaml` is one")


def test_the_agents_own_word_is_shown_where_it_is_another_name() -> None:
    guard = rules()
    assert said(guard, "/etc/passwd", given="link").startswith("path_denied: `link` (really `/etc/passwd`) is outside")
    assert said(guard, "/srv/b", given="../b").startswith("path_denied: `../b` (really `/srv/b`) is outside")
    assert said(guard, "/srv/b/c", given="./c").startswith("path_denied: `/srv/b/c` is outside")


def test_invisible_characters_of_a_path_are_written_out() -> None:
    assert said(rules(), "/etc/\u202ea\nb").startswith("path_denied: `/etc/⟨U+202E⟩a⟨U+000A⟩b` is outside")


def test_a_long_path_is_cut_in_messages() -> None:
    assert len(said(rules(), "/" + "a" * 4000)) < 600


def test_a_hidden_file_needs_allow_hidden_or_a_pattern_that_names_it() -> None:
    assert said(rules(), "/srv/app/.env") == (
        "path_denied: `/srv/app/.env` is hidden: a name after the fixed part of `./**` begins with a dot;"
        " name it in allow_paths of fs.read, or set allow_hidden: true there"
    )
    assert said(rules(allow_hidden=True), "/srv/app/.env") == "allow ./**"
    assert said(rules(allow_paths=("./**", "./.env")), "/srv/app/.env") == "allow ./.env"


@pytest.mark.parametrize("tool", ["fs.read", "fs.write"])
@pytest.mark.parametrize("path", ["gate.db", "gate.db-wal", "gate.db.d", "gate.db.d/anchor.key"])
def test_secret_files_of_the_gate_are_neither_read_nor_written(tool: str, path: str) -> None:
    assert said(rules(tool), f"/srv/app/{path}", ABSENT) == (
        f"protected_file: `/srv/app/{path}` is one of the gate's own files;"
        " leave it alone: no section of tools: opens it"
    )


@pytest.mark.parametrize("path", ["gate.db2", "gate.db.data", "xgate.db", "policy.yaml.bak"])
def test_a_name_that_only_begins_like_a_file_of_the_gate_is_not_one(path: str) -> None:
    assert said(rules("fs.write"), f"/srv/app/{path}") == "allow ./**"


def test_the_policy_may_be_read_but_not_written() -> None:
    assert said(rules("fs.read"), "/srv/app/policy.yaml") == "allow ./**"
    assert said(rules("fs.write"), "/srv/app/policy.yaml").startswith("protected_file: ")


def test_another_name_of_a_file_of_the_gate_does_not_help() -> None:
    same = {**FILE, "same_as": "/srv/app/gate.db"}
    assert said(rules(), "/srv/app/innocent.txt", same).startswith("protected_file: `/srv/app/innocent.txt` is one of")
    other = {**FILE, "same_as": "/srv/app/policy.yaml"}
    assert said(rules(), "/srv/app/innocent.txt", other) == "allow ./**"
    assert said(rules("fs.write"), "/srv/app/innocent.txt", other).startswith("protected_file: ")


@pytest.mark.parametrize("tool", ["fs.read", "fs.write"])
def test_protected_paths_of_the_policy_are_out_of_reach(tool: str) -> None:
    guard = rules(tool, protected_paths=("**/.gate/**", "keys"), allow_hidden=True)
    assert said(guard, "/srv/app/.gate/policy.yaml") == (
        "protected_file: `/srv/app/.gate/policy.yaml` is under protected_paths (**/.gate/**);"
        " leave it alone: no section of tools: opens it"
    )
    assert said(guard, "/srv/app/keys/one").startswith("protected_file: ")


@pytest.mark.parametrize("path", ["/proc/1/environ", "/proc/77/mem", "/proc/77/task/78/fd/3", "/proc/1"])
def test_what_belongs_to_a_process_is_out_of_reach_even_where_everything_is_allowed(path: str) -> None:
    assert said(rules(allow_paths=("/**",)), path).startswith(f"protected_file: `{path}` belongs to a process;")
    assert said(rules(allow_paths=("/**",)), "/proc/loadavg") == "allow /**"


@pytest.mark.parametrize("kind", ["directory", "named pipe", "socket", "device", "link"])
def test_only_regular_files_are_served(kind: str) -> None:
    assert said(rules(), "/srv/app/x", {"type": kind}) == (
        f"path_denied: `/srv/app/x` is a {kind}, and only regular files are served; name a file"
    )


def test_nothing_is_said_of_the_kind_of_what_lies_outside() -> None:
    assert "named pipe" not in said(rules(), "/etc/x", {"type": "named pipe"})


def test_hard_links_are_never_written_and_read_unless_the_policy_says_otherwise() -> None:
    linked = {**FILE, "nlink": 2}
    assert said(rules("fs.write"), "/srv/app/x", linked) == (
        "path_denied: `/srv/app/x` has other names besides this one (hard links); write a new file instead"
    )
    assert said(rules(), "/srv/app/x", linked) == "allow ./**"
    assert said(rules(allow_hardlinks=False), "/srv/app/x", linked) == (
        "path_denied: `/srv/app/x` has other names besides this one (hard links);"
        " set allow_hardlinks: true under fs.read"
    )


def test_a_file_larger_than_max_size_bytes_is_refused_with_its_own_code() -> None:
    guard = rules(max_size_bytes=10)
    assert said(guard, "/srv/app/x", {"type": "file", "size": 10}) == "allow ./**"
    assert said(guard, "/srv/app/x", {"type": "file", "size": 11}) == (
        "size_denied: `/srv/app/x` has 11 bytes, more than max_size_bytes of fs.read (10);"
        " raise it there, or read a smaller file"
    )
    assert said(rules("fs.write", max_size_bytes=10), "/srv/app/x", {"type": "absent", "size": 11}) == (
        "size_denied: `/srv/app/x` would have 11 bytes, more than max_size_bytes of fs.write (10);"
        " raise it there, or write less"
    )


def test_many_allow_paths_are_not_all_named_in_a_message() -> None:
    guard = rules(allow_paths=tuple(f"./d{number}/**" for number in range(50)))
    assert "(./d0/**, ./d1/**, ./d2/**, ./d3/**, ./d4/**, …)" in said(guard, "/etc/passwd")


@pytest.mark.parametrize("path", ["/etc/hosts", "/srv/app/.hidden", "/srv/app/.git/config"])
def test_with_otherwise_ask_what_is_hidden_or_not_listed_asks_where_somebody_can_be_asked(path: str) -> None:
    guard = rules(otherwise="ask")
    reason, problem = guard.judge_or_ask(path, FILE)
    assert (reason.layer, reason.decision, problem) == ("guard", Decision.ASK, None)
    assert reason.text.startswith(f"`{path}` is ")
    assert said(guard, path).startswith("path_denied: ")
    assert rules().judge_or_ask(path, FILE)[0].decision is Decision.DENY


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/srv/app/gate.db", FILE),
        ("/etc/no", FILE),
        ("/etc/protected", FILE),
        ("/proc/1/mem", FILE),
        ("/etc/hosts", {"type": "fifo"}),
        ("/etc/hosts", {"type": "directory"}),
        ("/etc/hosts", {**FILE, "size": 1 << 40}),
        ("/etc/hosts", {**FILE, "nlink": 2}),
        ("/etc/hosts", {**FILE, "same_as": "/srv/app/gate.db"}),
    ],
)
def test_with_otherwise_ask_what_is_denied_by_name_or_by_nature_is_denied(path: str, found: dict[str, Any]) -> None:
    fields: dict[str, Any] = {"deny_paths": ("/etc/no",), "allow_hardlinks": False}
    guard = rules(otherwise="ask", protected_paths=("/etc/protected",), **fields)
    assert guard.judge_or_ask(path, found)[0].decision is Decision.DENY


def test_a_directory_that_was_agreed_to_is_opened_but_for_what_is_denied_or_hidden_below() -> None:
    guard = rules(otherwise="ask", deny_paths=("**/*.key",))
    opened = PathRules("fs.read", guard.opened(["/data/a[1]", "/srv/app", "/srv/app/.git"]), Policy(), AROUND)
    assert opened.section.allow_paths == ("./**", "/data/a[[]1]/**", "/srv/app/.git/**")
    assert said(opened, "/data/a[1]/x").startswith("allow ")
    assert said(opened, "/srv/app/.git/config").startswith("allow ")
    for path in ("/data/a1/x", "/data/a[1]/k.key", "/data/a[1]/.h", "/srv/app/.env", "/srv/app/.git/k.key"):
        assert said(opened, path).startswith("path_denied")
    strict = rules()
    assert strict.opened(["/data"]) is strict.section


def judged(tool: str, policy: Policy, resources: dict[str, Any], found: dict[str, Any]) -> Decision | None:
    guard = guard_of(BUILTIN[tool], GuardContext(policy, AROUND))
    assert guard is not None
    call = BoundCall("c", CallRequest(Agent("a"), tool, {}), {"path": "x"}, {}, ("s",), "h", resources)
    return guard(call, Facts(0.0, Mode.ASSISTED, (), False, "h", found=found))[0].decision


def test_a_revert_that_writes_a_file_is_refused_what_fs_write_is_refused_and_granted_nothing() -> None:
    policy = Policy(guards=Guards({"fs.write": PathGuard(allow_paths=("./**",), deny_paths=("./no/**",))}))
    assert judged("gate.revert", policy, {"path": "/srv/app/a"}, FILE) is None
    assert judged("gate.revert", policy, {"path": "/srv/app/no/a"}, FILE) is Decision.DENY
    assert judged("gate.revert", policy, {"path": "/srv/app/gate.db"}, FILE) is Decision.DENY
    assert judged("gate.revert", Policy(), {"path": "/srv/app/a"}, FILE) is Decision.DENY
    assert judged("gate.revert", Policy(), {"to_version": 3}, {}) is None


def test_a_call_whose_path_nobody_resolved_is_denied() -> None:
    policy = Policy(guards=Guards({"fs.read": PathGuard(allow_paths=("/**",))}))
    assert judged("fs.read", policy, {}, FILE) is Decision.DENY
    assert judged("fs.read", policy, {"path": "/srv/app/a"}, {}) is Decision.DENY


def test_a_tool_without_its_section_is_denied_and_one_without_a_guard_has_none() -> None:
    policy = Policy(guards=Guards({"fs.read": PathGuard(allow_paths=("./**",))}))
    assert judged("fs.write", policy, {"path": "/srv/app/a"}, FILE) is Decision.DENY
    assert guard_of(BUILTIN["state.set"], GuardContext(policy, AROUND)) is None
    assert judged("fs.read", policy, {"path": "/srv/app/a"}, FILE) is Decision.ALLOW
