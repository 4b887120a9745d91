"""Tests of `check`: verdicts, explanations, many calls, and whatever is not one."""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from agent_gate.policy.layers import ORDER
from tests.unit.doors.cli.conftest import Command

POLICY = """
rules:
  - {pattern: "state.get*", action: allow, description: "reading is fine"}
  - {pattern: "state.delete*", action: deny, description: "keep it"}
  - {pattern: "state.set(/volume, *)", action: allow, when: "inputs['value'] <= 50"}
declare:
  admin.*: {risk: high}
  sure.*: {confirmation_required: true}
"""


@pytest.fixture
def policy(command: Command, tmp_path: Path) -> Path:
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY)
    return path


def test_an_allowed_call_exits_with_0(command: Command, policy: Path) -> None:
    said = command("check", "--tool", "state.get", "--args", '{"path": "/a"}', "-p", policy, "--json")
    assert (said.code, said.err) == (0, "")
    trace = said.json.pop("trace")
    assert trace[0] == {"layer": "rules", "rule": "state.get*", "text": "reading is fine", "answer": "allow"}
    fields = said.json
    del fields["trace"]
    assert fields == {
        "tool": "state.get",
        "status": "success",
        "signatures": ["state.get(/a)"],
        "decision": "allow",
        "reasons": [{"layer": "rules", "rule": "state.get*", "text": "reading is fine"}],
        "simulated": True,
        "rules_met": [{"signature": "state.get(/a)", "rules": [{"pattern": "state.get*", "action": "allow"}]}],
    }


def test_a_denied_call_exits_with_1_and_says_what_would_change_it(command: Command, policy: Path) -> None:
    said = command("check", "--tool", "state.delete", "--args", '{"path": "/a"}', "-p", policy, "--json")
    assert said.code == 1
    assert (said.json["status"], said.json["decision"]) == ("denied", "deny")
    assert said.json["error"] == {
        "code": 1001,
        "name": "policy_denied",
        "stage": "decide",
        "detail": "`state.delete(/a)` is denied by the rule `state.delete*` (keep it)",
        "suggestion": "narrow or remove it",
    }


def test_a_call_that_nothing_speaks_of_asks_and_exits_with_4(command: Command, policy: Path) -> None:
    said = command("check", "--tool", "other", "-p", policy, "--json")
    assert said.code == 4
    assert (said.json["status"], said.json["decision"]) == ("pending_approval", "ask")


def test_the_trace_holds_every_layer(command: Command, policy: Path) -> None:
    trace = command("check", "--tool", "state.get", "-p", policy, "--json").json["trace"]
    layers = list(ORDER)
    assert [answer["layer"] for answer in trace] == layers


def test_people_see_verdict_signature_rule_and_remedy(command: Command, policy: Path) -> None:
    said = command("check", "--tool", "state.delete", "--args", '{"path": "/a"}', "-p", policy)
    first, *others = said.out.splitlines()
    assert first == "deny  state.delete(/a)"
    assert [line.split()[0] for line in others[:3]] == ["rule", "why", "to"]
    assert "narrow or remove it" in said.out
    assert "nothing to say: guard, roles" in said.out


def test_explain_shows_every_layer_on_a_line(command: Command, policy: Path) -> None:
    said = command("check", "--tool", "state.get", "-p", policy, "--explain")
    assert [line.split()[:2] for line in said.out.splitlines()[-9:-7]] == [["rules", "allow"], ["guard", "–"]]


def test_the_policy_of_the_directory_is_the_default(command: Command, policy: Path) -> None:
    assert command("check", "--tool", "state.get").code == 0


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--tool", "admin.do"], 1),
        (["--tool", "admin.do", "--role", "admin"], 4),
        (["--tool", "admin.do", "--role", "viewer", "--role", "admin"], 4),
        (["--tool", "sure.thing"], 1),
        (["--tool", "sure.thing", "--confirmed"], 4),
        (["--tool", "state.get", "--mode", "autonomous", "--agent", "bot", "--project", "home", "--resolve"], 0),
    ],
)
def test_who_asks_and_how_is_part_of_the_question(command: Command, policy: Path, words: list[str], code: int) -> None:
    assert command("check", *words).code == code


@pytest.mark.parametrize(
    "args",
    [
        "",
        "{",
        "[]",
        "1",
        '"x"',
        "null",
        '{"a": 1, "a": 2}',
        '{"a": NaN}',
        '{"a": 1e999}',
        '{"a": 12345678901234567890}',
        '{"a": "\\ud800"}',
        "\udcff",
        "{'a': 1}",
        "[" * 100 + "]" * 100,
        '{"a":' * 80 + "1" + "}" * 80,
    ],
)
def test_malformed_arguments_are_denied_with_their_error(command: Command, policy: Path, args: str) -> None:
    said = command("check", "--tool", "state.get", "--args", args, "--json")
    assert said.code == 1
    assert (said.json["decision"], said.json["status"], said.json["error"]["code"]) == ("deny", "error", 2002)
    assert command("check", "--tool", "state.get", "--args", args).out.startswith("deny  state.get\n")


@pytest.mark.parametrize("name", ["", "a b", "a(b", "x" * 300, "a\nb", "\udcff", "\u202e"])
def test_odd_names_of_tools_never_pass(command: Command, policy: Path, name: str) -> None:
    assert command("check", "--tool", name, "--json").code in (1, 2, 4)
    assert "Traceback" not in command("check", "--tool", name).err


def test_invisible_characters_are_written_out_for_people(command: Command, policy: Path) -> None:
    said = command("check", "--tool", "note", "--args", json.dumps({"text": "a\u202eb\u200b\x1b[31m"}))
    assert said.out.isascii() or "\u202e" not in said.out
    assert "U+202E" in said.out
    assert "\x1b" not in said.out
    assert "\u200b" not in said.out


def test_a_broken_policy_denies_and_exits_with_3(command: Command, policy: Path) -> None:
    policy.write_text("rules: [{pattern: x}]\nother: 1\n")
    said = command("check", "--tool", "x", "--json")
    assert (said.code, said.json["decision"], said.json["error"]["code"]) == (3, "deny", 6001)


def test_every_mistake_of_a_policy_is_told_on_its_own_line(command: Command, policy: Path) -> None:
    policy.write_text("rules: [{pattern: x}]\nother: 1\n")
    said = command("check", "--tool", "x")
    assert (said.code, said.out) == (3, "")
    assert [line.split(":")[:3] for line in said.err.splitlines()] == [
        ["agent-gate", " config", " policy.yaml"],
        ["agent-gate", " config", " policy.yaml"],
    ]


def _lines(path: Path, *lines: Any) -> Path:
    path.write_text("".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines))
    return path


def test_many_calls_get_one_line_each_and_a_bad_one_stops_nothing(
    command: Command, policy: Path, tmp_path: Path
) -> None:
    calls = _lines(
        tmp_path / "calls.jsonl",
        {"tool": "state.get", "id": "first"},
        "not json\n",
        "\n",
        {"tool": "other", "args": {"x": 1}},
        {"tool": "other", "policy": {"rules": [{"pattern": "other", "action": "allow"}]}},
        {"tool": "other", "policy": {"rules": "none"}},
        '{"tool": "state.get"}',
    )
    said = command("check", "--calls", calls, "--json")
    answers = [(answer["line"], answer["decision"], answer["status"]) for answer in said.json_lines]
    assert answers == [
        (1, "allow", "success"),
        (2, "deny", "error"),
        (4, "ask", "pending_approval"),
        (5, "allow", "success"),
        (6, "deny", "error"),
        (7, "allow", "success"),
    ]
    assert said.json_lines[0]["request_id"] == "first"
    assert [answer.get("error", {}).get("code") for answer in said.json_lines] == [None, 2002, None, None, 6001, None]
    assert said.code == 1


@pytest.mark.parametrize(
    ("tools", "code"), [(["state.get"], 0), (["state.get", "other"], 4), (["other", "state.delete"], 1), ([], 0)]
)
def test_the_exit_code_of_many_calls_is_that_of_the_strictest_answer(
    command: Command, policy: Path, tmp_path: Path, tools: list[str], code: int
) -> None:
    calls = _lines(tmp_path / "calls.jsonl", *({"tool": tool, "args": {"path": "/x"}} for tool in tools))
    assert command("check", "--calls", calls).code == code


@pytest.mark.parametrize(
    "line",
    [
        {},
        {"tool": 1},
        {"tool": ""},
        {"tool": "x", "args": []},
        {"tool": "x", "args": None},
        {"tool": "x", "policy": "policy.yaml"},
        {"tool": "x", "roles": "admin"},
        {"tool": "x", "roles": [1]},
        {"tool": "x", "mode": "wild"},
        {"tool": "x", "mode": ["assisted"]},
        {"tool": "x", "confirmed": "yes"},
        {"tool": "x", "id": 7},
        {"tool": "x", "working_dir": "/no/such/directory"},
        {"tool": "x", "working_dir": "\u0000"},
        {"tool": "x", "surprise": True},
        [],
        "text",
        '{"tool": "x", "tool": "y"}\n',
        "\ufeff{}\n",
    ],
)
def test_a_line_with_a_wrong_field_is_denied(command: Command, policy: Path, tmp_path: Path, line: Any) -> None:
    said = command("check", "--calls", _lines(tmp_path / "calls.jsonl", line), "--json")
    (answer,) = said.json_lines
    assert (said.code, answer["decision"], answer["status"]) == (1, "deny", "error")
    assert answer["error"]["code"] in (2002, 6001)


def test_a_line_of_endless_length_is_denied_and_the_next_one_judged(
    command: Command, policy: Path, tmp_path: Path
) -> None:
    calls = tmp_path / "calls.jsonl"
    calls.write_bytes(b'{"tool": "' + b"x" * 5_000_000 + b'"}\n{"tool": "state.get"}\n')
    assert [answer["decision"] for answer in command("check", "--calls", calls, "--json").json_lines] == [
        "deny",
        "allow",
    ]


def test_calls_can_come_from_standard_input(command: Command, policy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"tool": "state.get"}\n{"tool": "other"}\n')))
    said = command("check", "--calls", "-")
    assert said.out.splitlines() == ["   1  allow  state.get", "   2  ask    other", "1 allow, 1 ask"]


def test_a_call_with_several_targets_shows_each_signature(command: Command, policy: Path) -> None:
    args = {"domain": "light", "service": "turn_on", "entity_id": ["light.a", "light.b"]}
    said = command("check", "--tool", "ha_call_service", "--args", json.dumps(args))
    assert said.out.splitlines()[:2] == [
        "ask  ha_call_service(light.turn_on, light.a)",
        "     ha_call_service(light.turn_on, light.b)",
    ]


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--tool", "x", "--calls", "f"],
        ["--calls", "missing.jsonl"],
        ["--calls", "."],
        ["--calls", "policy.yaml", "--args", "{}"],
        ["--tool", "x", "--working-dir", "missing"],
        ["--tool", "x", "--mode", "wild"],
        ["--tool"],
        ["--unknown"],
        ["--tool", "x", "surplus"],
    ],
)
def test_a_command_line_that_cannot_be_meant_is_a_usage_mistake(
    command: Command, policy: Path, words: list[str]
) -> None:
    said = command("check", *words)
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("agent-gate: usage: ")
    assert said.err.count("\n") == 1
    assert command("check", "--json", *words).json["error"]["name"] == "usage"


def test_nothing_is_written(command: Command, policy: Path, tmp_path: Path) -> None:
    command("check", "--tool", "state.get")
    assert os.listdir(tmp_path) == ["policy.yaml"]


def test_the_policy_itself_cannot_be_written(command: Command, tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text("tools: {fs.write: {allow_paths: ['./**']}}")
    checked = command("check", "--tool", "fs.write", "--args", '{"path": "policy.yaml", "content": "x"}', "--json")
    assert (checked.code, checked.json["error"]["name"]) == (1, "protected_file")


def test_the_rules_that_a_command_meets_by_another_name_are_shown(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "git.yaml"
    path.write_text(
        'tools: {shell.run: {allow_executables: [git], sandbox: "off"}, fs.read: {allow_paths: ["./**"]}}\n'
        'rules: [{pattern: "shell.run(git log*)", action: deny}]\n'
    )
    line = ("check", "--tool", "shell.run", "--args", '{"command": "git --no-pager log"}', "-p", path)
    said = command(*line, "--json")
    met = [{"pattern": "shell.run(git log*)", "action": "deny"}]
    assert (said.code, said.json["aliases"]) == (1, ["shell.run(git log)"])
    assert said.json["rules_met"] == [{"alias": "shell.run(git log)", "rules": met}]
    shown = command(*line).out
    assert "  also known as\n    shell.run(git log)  meets deny shell.run(git log*)\n" in shown


def test_what_a_policy_says_without_effect_is_told_beside_the_answer(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "bash.yaml"
    path.write_text("tools: {shell.run: {allow_executables: [bash]}}\n")
    said = command("check", "--tool", "shell.run", "--args", '{"command": "bash -c ls"}', "-p", path, "--json")
    assert (said.code, said.json["decision"]) == (1, "deny")
    assert said.err.startswith("warning: allow_executables of shell.run: `bash` is refused all the same: it runs code")


@pytest.mark.parametrize(
    ("writes", "told"),
    [
        ("judge", "each file that it changes is judged when it has run"),
        ("ask", "a person is asked about the files that it changes when it has run"),
        ("none", ""),
        ("direct", "to the disk itself: nobody judges what it changes"),
    ],
)
def test_a_command_that_may_write_says_what_becomes_of_it(
    command: Command, policy: Path, writes: str, told: str
) -> None:
    policy.write_text(
        "tools:\n  fs.read: {allow_paths: [./**]}\n  fs.write: {allow_paths: [./**]}\n"
        f"  shell.run: {{allow_executables: [sh], unchecked_executables: [sh], writes: {writes}, sandbox: auto}}\n"
    )
    said = command("check", "--tool", "shell.run", "--args", '{"argv": ["sh", "-c", "true"]}', "-p", policy)
    lines = [line.split(None, 1)[1] for line in said.out.splitlines() if line.startswith("  writes ")]
    assert lines == ([told] if told else [])
