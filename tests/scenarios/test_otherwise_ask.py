"""`otherwise: ask` through the whole gate: what is merely not listed asks a person, and what is denied stays denied."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agent_gate import Gate, Outcome
from agent_gate.model.outcome import Status
from agent_gate.sandbox.choice import Choice
from tests.gates import ANNA, BOB, People, a_gate, agent, approve, code_of, deny, entries, outcome_of, pending, soon

READ: dict[str, Any] = {"allow_paths": ["./work/**"], "deny_paths": ["**/*.key"], "max_size_bytes": 100}
WRITE: dict[str, Any] = {"allow_paths": ["./work/**"], "deny_paths": ["**/*.key"], "max_size_bytes": 100}
SHELL: dict[str, Any] = {"allow_executables": ["cat"], "deny_tokens": ["rm -rf"]}

ADMIN = agent(roles=("admin",))

needs_sandbox = pytest.mark.skipif(asyncio.run(Choice().pick("auto")) is None, reason="this machine offers no sandbox")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    place = tmp_path.resolve() / "place"
    (place / "work").mkdir(parents=True)
    (place / "work" / "a.txt").write_text("one\n")
    (place / "work" / ".hidden").write_text("two\n")
    (place / "work" / "k.key").write_text("CANARY\n")
    (place / "beside.txt").write_text("three\n")
    (place / "beside.key").write_text("CANARY\n")
    (place / "large.txt").write_text("x" * 101)
    os.link(place / "beside.txt", place / "linked.txt")
    (place / "protected").mkdir()
    (place / "protected" / "p.txt").write_text("CANARY\n")
    return place


def policy(*rules: Mapping[str, Any], **sections: Any) -> dict[str, Any]:
    tools = {"fs.read": READ, "fs.write": WRITE, "shell.run": SHELL} | sections
    asking = {name: {**section, "otherwise": "ask"} for name, section in tools.items()}
    return {"tools": asking, "rules": list(rules), "protected_paths": ["./protected/**"], "boundary": "deny_by_default"}


def allow(pattern: str) -> dict[str, str]:
    return {"pattern": pattern, "action": "allow"}


async def agreed(gate: Gate, tool: str, args: Mapping[str, Any]) -> Outcome:
    question = await pending(gate, tool, args)
    await approve(gate, question)
    return await outcome_of(gate, question)


def why(gate: Gate) -> str:
    """The reason of the last question."""
    [*_, held] = entries(gate, "held")
    return str(held["body"]["reasons"][-1]["text"])


@pytest.mark.parametrize("path", ["beside.txt", "work/.hidden"])
async def test_a_file_that_is_not_listed_is_read_once_a_person_agreed(place: Path, path: str) -> None:
    async with a_gate(place, policy(**{"fs.read": {**READ, "allow_hardlinks": True}}), working_dir=place) as gate:
        outcome = await agreed(gate, "fs.read", {"path": path})
        assert outcome.status is Status.SUCCESS
        assert outcome.data["content"] == (place / path).read_text()
        assert "is outside allow_paths" in why(gate) or "is hidden" in why(gate)
        assert (await gate.call("fs.read", path="work/a.txt")).ok


@pytest.mark.parametrize("path", ["new.txt", "work/.new"])
async def test_a_file_that_is_not_listed_is_written_and_restored_once_a_person_agreed(place: Path, path: str) -> None:
    async with a_gate(place, policy(allow("gate.revert(*)")), working_dir=place, agent=ADMIN) as gate:
        outcome = await agreed(gate, "fs.write", {"path": path, "content": "hello"})
        assert (outcome.status, (place / path).read_text()) == (Status.SUCCESS, "hello")
        undone = await agreed(gate, "gate.revert", {"call_id": outcome.call_id})
        assert (undone.status, (place / path).exists()) == (Status.SUCCESS, False)


@pytest.mark.parametrize(
    ("tool", "args", "code"),
    [
        ("fs.read", {"path": "work/k.key"}, 1002),
        ("fs.read", {"path": "beside.key"}, 1002),
        ("fs.read", {"path": "protected/p.txt"}, 1021),
        ("fs.read", {"path": "gate.db"}, 1021),
        ("fs.read", {"path": "/proc/self/environ"}, 1021),
        ("fs.read", {"path": "large.txt"}, 1006),
        ("fs.read", {"path": "/dev/null"}, 1002),
        ("fs.read", {"path": "protected/.."}, 1002),
        ("fs.write", {"path": "beside.key", "content": ""}, 1002),
        ("fs.write", {"path": "beside.txt", "content": ""}, 1002),
        ("fs.write", {"path": "protected/new", "content": ""}, 1021),
        ("fs.write", {"path": "gate.db-journal", "content": ""}, 1021),
        ("fs.write", {"path": "new.txt", "content": "x" * 101}, 1006),
        ("shell.run", {"command": "true rm -rf x"}, 1005),
        ("shell.run", {"command": "true | true"}, 1005),
        ("shell.run", {"command": "agent-gate pending"}, 1004),
        ("shell.run", {"command": "sh -c 'agent-gate approve X'"}, 1004),
        ("shell.run", {"command": "no-such-program-anywhere"}, 1004),
        ("shell.run", {"command": "/opt/somewhere/program"}, 1004),
        ("shell.run", {"argv": ["sh", "-c", "id"], "env": {"LD_PRELOAD": "x"}}, 1001),
        ("shell.run", {"command": "cat --no-such-option"}, 1004),
        ("shell.run", {"command": "cat beside.key"}, 1002),
        ("shell.run", {"command": "cat protected/p.txt"}, 1021),
        ("shell.run", {"command": "head gate.db"}, 1021),
    ],
)
@needs_sandbox
async def test_what_is_denied_by_name_or_by_nature_stays_denied(
    place: Path, tool: str, args: dict[str, Any], code: int
) -> None:
    async with a_gate(place, policy(), working_dir=place) as gate:
        outcome = await gate.call(tool, args, wait=False)
        assert (outcome.status, code_of(outcome)) == (Status.DENIED, code), outcome


@pytest.mark.parametrize(
    ("tool", "args"),
    [
        ("fs.read", {"path": "beside.txt"}),
        ("fs.write", {"path": "new.txt", "content": ""}),
        ("shell.run", {"command": "true"}),
        ("shell.run", {"command": "cat work/.hidden"}),
    ],
)
@needs_sandbox
async def test_where_nobody_can_be_asked_it_is_denied_and_the_reason_told(
    place: Path, tool: str, args: dict[str, Any]
) -> None:
    async with a_gate(place, policy(), working_dir=place, approvers=()) as gate:
        outcome = await gate.call(tool, args)
        assert (outcome.status, code_of(outcome)) == (Status.DENIED, 1001)
        assert outcome.error is not None
        assert outcome.error.detail.startswith("a person would have to agree, and nobody can be asked here (`")
        assert not (place / "new.txt").exists()


async def test_a_no_is_a_no(place: Path) -> None:
    async with a_gate(place, policy(), working_dir=place) as gate:
        question = await pending(gate, "fs.write", {"path": "new.txt", "content": "x"})
        await deny(gate, question)
        assert code_of(await outcome_of(gate, question)) == 1015
        assert not (place / "new.txt").exists()


@pytest.mark.parametrize(
    ("tool", "args", "pattern"),
    [
        ("fs.read", {"path": "beside.txt"}, "fs.read(*/beside.txt)"),
        ("fs.write", {"path": "new.txt", "content": ""}, "fs.write(*/new.txt)"),
        ("shell.run", {"command": "true"}, "shell.run(true)"),
        ("shell.run", {"command": "cat work/.hidden"}, "shell.run(cat *)"),
    ],
)
@needs_sandbox
async def test_a_rule_that_allows_it_outright_silences_the_question(
    place: Path, tool: str, args: dict[str, Any], pattern: str
) -> None:
    async with a_gate(place, policy(allow(pattern)), working_dir=place, approvers=()) as gate:
        assert (await gate.call(tool, args)).status is Status.SUCCESS


@needs_sandbox
async def test_an_allow_rule_that_sees_only_an_alias_silences_nothing(place: Path) -> None:
    async with a_gate(place, policy(allow("shell.run(true)")), working_dir=place) as gate:
        await pending(gate, "shell.run", {"command": "/usr/bin/true"})


@needs_sandbox
async def test_a_program_that_is_not_listed_runs_in_the_sandbox_once_a_person_agreed(place: Path) -> None:
    words = "cat work/a.txt; cat beside.txt; echo new > work/new.txt; echo > beside-new.txt"
    async with a_gate(place, policy(), working_dir=place) as gate:
        outcome = await agreed(gate, "shell.run", {"argv": ["sh", "-c", words]})
        assert (outcome.status, outcome.data["stdout"]) == (Status.SUCCESS, "one\n")
        assert why(gate) == (
            "`sh` is not in allow_executables of shell.run (cat); it would run in the sandbox, without network,"
            " whatever its words make it do"
        )
        assert not (place / "beside-new.txt").exists()


@needs_sandbox
async def test_a_program_with_rules_for_its_words_is_read_by_them_though_it_is_not_listed(place: Path) -> None:
    async with a_gate(place, policy(), working_dir=place) as gate:
        outcome = await agreed(gate, "shell.run", {"command": "head -n 1 work/a.txt"})
        assert outcome.data["stdout"] == "one\n"
        assert why(gate).endswith("; it would run in the sandbox, without network")
        outcome = await agreed(gate, "shell.run", {"command": "head beside.txt"})
        assert outcome.data["stdout"] == "three\n"
        assert why(gate).count("is not in allow_executables") == why(gate).count("is outside allow_paths") == 1


@needs_sandbox
async def test_a_command_reads_the_file_that_a_person_agreed_to(place: Path) -> None:
    async with a_gate(place, policy(), working_dir=place) as gate:
        for path in ("work/.hidden", "beside.txt"):
            outcome = await agreed(gate, "shell.run", {"argv": ["cat", path]})
            assert outcome.data["stdout"] == (place / path).read_text()


async def test_without_a_sandbox_a_program_that_is_not_listed_stays_denied(place: Path) -> None:
    async with a_gate(place, policy(**{"shell.run": {**SHELL, "sandbox": "off"}}), working_dir=place) as gate:
        outcome = await gate.call("shell.run", command="true", wait=False)
        assert str(outcome.error) == (
            "executable_denied: `true` is not in allow_executables of shell.run (cat), and without a sandbox nothing"
            " would hold it that a person could agree to; add it there, or use one of them, or take `sandbox: off` away"
        )


async def test_an_approval_by_cost_and_a_guard_that_asks_are_one_question(place: Path) -> None:
    asking = {**policy(), "approvals": [{"min_cost": 1, "approver_role": "admin"}]}
    async with a_gate(place, asking, working_dir=place, approvers=(ANNA, BOB)) as gate:
        question = await pending(gate, "fs.write", {"path": "new.txt", "content": "x"})
        assert [reason["layer"] for reason in question.reasons] == ["guard", "approvals"]
        await approve(gate, question, by=ANNA)
        assert (await outcome_of(gate, question)).ok


@needs_sandbox
async def test_what_an_agreed_program_wrote_where_nothing_is_listed_is_a_second_question(place: Path) -> None:
    people = People()
    words = "echo listed > work/listed.txt; echo hidden > work/.envrc"
    async with a_gate(place, policy(), working_dir=place, people=people) as gate:
        calling = asyncio.create_task(gate.call("shell.run", argv=["sh", "-c", words]))
        await approve(gate, await people.question(1))
        second = await people.question(2)
        assert [reason["text"].partition(" is ")[2][:6] for reason in second.reasons] == ["hidden"]
        assert not (place / "work" / "listed.txt").exists()
        await approve(gate, second)
        assert (await soon(calling)).status is Status.SUCCESS
    assert (place / "work" / "listed.txt").read_text() == "listed\n"
    assert (place / "work" / ".envrc").read_text() == "hidden\n"


@needs_sandbox
async def test_a_command_sees_what_is_listed_below_a_directory_that_a_person_agreed_to(place: Path) -> None:
    beside = place / "other"
    (beside / "deep").mkdir(parents=True)
    for name in ("x.txt", "deep/y.txt", ".hidden", "k.key"):
        (beside / name).write_text(f"needle {name}\n")
    grep = {"shell.run": {**SHELL, "allow_executables": ["grep"]}}
    async with a_gate(place, policy(**grep), working_dir=place) as gate:
        outcome = await agreed(gate, "shell.run", {"argv": ["grep", "-rh", "needle", "other"]})
        assert sorted(outcome.data["stdout"].splitlines()) == ["needle deep/y.txt", "needle x.txt"]
