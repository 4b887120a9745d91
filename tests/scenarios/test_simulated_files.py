"""A simulation carries files from step to step, says of each step what was done with it, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from agent_gate import load_plan, run_plan
from agent_gate.gate.plans import RunResult
from agent_gate.model.outcome import Status
from agent_gate.sandbox.choice import Choice
from tests.gates import a_gate, code_of, reader, sender
from tests.scenarios.test_cli import run
from tests.scenarios.test_command_writes import tree

SHELL: dict[str, Any] = {
    "allow_executables": ["sh", "cat", "ls", "grep", "wc"],
    "unchecked_executables": ["sh"],
    "timeout_seconds": 30,
}
POLICY: dict[str, Any] = {
    "version": 1,
    "tools": {"shell.run": SHELL, "fs.read": {"allow_paths": ["./**"]}, "fs.write": {"allow_paths": ["./out/**"]}},
}

_picked = asyncio.run(Choice().pick("auto"))
pytestmark = pytest.mark.skipif(_picked is None or not _picked.layers, reason="no sandbox of this machine has layers")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    work = tmp_path.resolve() / "work"
    (work / "out" / "kept").mkdir(parents=True)
    (work / "out" / "old").write_text("one\n")
    (work / "out" / "kept" / "x").write_text("x\n")
    return work


def sh(script: str, **args: Any) -> dict[str, Any]:
    return {"tool": "shell.run", "args": {"argv": ["sh", "-c", script], **args}}


def words(*argv: str, **args: Any) -> dict[str, Any]:
    return {"tool": "shell.run", "args": {"argv": list(argv), **args}}


def write(path: str, content: str, **args: Any) -> dict[str, Any]:
    return {"tool": "fs.write", "args": {"path": path, "content": content, **args}}


def read(path: str) -> dict[str, Any]:
    return {"tool": "fs.read", "args": {"path": path}}


def plan_of(*steps: dict[str, Any]) -> dict[str, Any]:
    return {"version": "1.0", "steps": list(steps)}


async def simulated(work: Path, *steps: dict[str, Any], policy: Any = POLICY, **options: Any) -> RunResult:
    before = tree(work)
    async with a_gate(work.parent, policy, working_dir=work) as gate:
        mine = await run_plan(gate, load_plan(plan_of(*steps)), simulate=True, **options)
    assert tree(work) == before
    return mine


def changes(outcome: Any) -> dict[str, str]:
    return {os.path.basename(change["path"]): change["change"] for change in outcome.data["changes"]}


STORIES: dict[str, list[dict[str, Any]]] = {
    "a file into a directory that a command made": [sh("mkdir -p out/new/deep"), write("out/new/deep/n", "n\n")],
    "a command reads what was written": [write("out/n", "n\n"), words("cat", "out/n"), sh("cat out/n > out/m")],
    "a command lists and searches what was written": [
        write("out/new/n", "needle\n", create_dirs=True),
        words("ls", "out/new"),
        words("grep", "-r", "needle", "out"),
        words("grep", "-r", "needle", "."),
        words("wc", "-l", "out/new/n", "out/old"),
    ],
    "appending": [write("out/old", "two\n", mode="append"), sh("echo three >> out/old"), words("cat", "out/old")],
    "removing and making again": [
        sh("rm out/old; rm -r out/kept"),
        words("ls", "out"),
        sh("mkdir out/kept; echo y > out/kept/y; echo o > out/old"),
        words("ls", "out/kept"),
        words("cat", "out/old", "out/kept/y"),
    ],
    "a file in the place of a directory, and the other way round": [
        sh("rm -r out/kept out/old; echo f > out/kept; mkdir out/old; echo d > out/old/d"),
        words("cat", "out/kept", "out/old/d"),
        sh("rm out/kept; rm -r out/old; mkdir out/kept"),
        words("ls", "out"),
        write("out/kept/again", "a"),
    ],
    "links": [
        sh("mkdir out/real; ln -s real out/link; ln -s old out/name"),
        write("out/link/n", "through\n"),
        words("cat", "out/real/n", "out/name"),
        write("out/name", "over\n"),
        words("cat", "out/old"),
    ],
    "working directories": [
        sh("mkdir out/there"),
        sh("echo h > here", cwd="out/there"),
        words("cat", "out/there/here"),
    ],
    "closed directories": [
        sh("mkdir -p out/shut/in; echo s > out/shut/s; chmod 555 out/shut"),
        words("cat", "out/shut/s"),
    ],
    "moving": [sh("mv out/old out/moved; chmod 600 out/kept/x"), words("cat", "out/moved"), sh("test ! -e out/old")],
    "what is removed after it was written": [
        write("out/n", "n"),
        sh("rm out/n"),
        sh("test ! -e out/n"),
        words("ls", "out"),
    ],
    "reads": [write("out/n", "n\n"), read("out/n"), sh("echo m > out/m"), read("out/m"), read("out/old")],
    "references": [
        {**sh("mkdir out/a; echo out/a/b"), "id": "made"},
        {**write("out/old", "${steps.made.data.stdout}"), "id": "w"},
        write("out/size", "${steps.w.data.size}: ${steps.w.data.path}"),
        words("cat", "out/old", "out/size"),
    ],
    "failures": [sh("echo half > out/half; exit 7"), words("cat", "out/half")],
}


@pytest.mark.parametrize("story", STORIES)
async def test_a_plan_comes_to_the_same_in_a_simulation_as_live(work: Path, story: str) -> None:
    """Status, what commands print and what files hold at each step; only then is it done for good."""
    steps = STORIES[story]
    tried = await simulated(work, *steps, with_reads=True, fail_fast=False)
    async with a_gate(work.parent, POLICY, working_dir=work) as gate:
        live = await run_plan(gate, load_plan(plan_of(*steps)), fail_fast=False)
    for one, other in zip(tried.outcomes, live.outcomes, strict=True):
        assert (one.status, code_of(one)) == (other.status, code_of(other)), (one, other)
        for key in ("return_code", "stdout", "content", "size"):
            if other.data and key in other.data and key in (one.data or {}):
                assert one.data[key] == other.data[key], key
        if other.files is not None or (one.files is not None):
            assert sorted(file["path"] for file in one.files or ()) == sorted(f["path"] for f in other.files or ())
    on_disk = ["really read" if step == read("out/old") else "done on a copy" for step in steps]
    assert [outcome.simulation for outcome in tried.outcomes] == on_disk


async def test_a_root_that_is_not_there_yet_is_there_after_the_step_that_makes_it(work: Path) -> None:
    policy = {**POLICY, "tools": {**POLICY["tools"], "fs.write": {"allow_paths": ["./fresh/**"]}}}
    steps = [
        write("fresh/deep/n", "n\n", create_dirs=True),
        words("cat", "fresh/deep/n"),
        sh("echo m > fresh/deep/m"),
        words("ls", "fresh/deep"),
    ]
    result = await simulated(work, *steps, policy=policy)
    assert [outcome.status for outcome in result.outcomes] == [Status.SUCCESS] * 4, result
    assert result.outcomes[3].data["stdout"] == "m\nn\n"


async def test_each_step_shows_its_own_changes_and_not_those_of_earlier_ones(work: Path) -> None:
    result = await simulated(
        work, sh("echo two >> out/old"), sh("echo three >> out/old; echo n > out/n"), sh("rm out/n")
    )
    first, second, third = result.outcomes
    assert (changes(first), changes(second), changes(third)) == (
        {"old": "changed"},
        {"n": "added", "old": "changed"},
        {"n": "removed"},
    )
    assert "+three" in second.data["changes"][1]["diff"]
    assert "+two" not in second.data["changes"][1]["diff"]


async def test_what_is_denied_is_not_carried_on(work: Path) -> None:
    result = await simulated(
        work, sh("echo a > out/a; echo s > out/.hidden"), words("ls", "-A", "out"), fail_fast=False
    )
    denied, listed = result.outcomes
    assert (code_of(denied), listed.data["stdout"]) == (1002, "kept\nold\n")


async def test_a_write_that_a_person_would_be_asked_about_is_there_for_later_steps(work: Path) -> None:
    policy = {**POLICY, "rules": [{"pattern": "fs.write(*/asked)", "action": "ask"}]}
    result = await simulated(work, write("out/asked", "yes\n"), words("cat", "out/asked"), policy=policy)
    asked, printed = result.outcomes
    assert (asked.status, asked.simulation) == (Status.PENDING_APPROVAL, "done on a copy")
    assert printed.data["stdout"] == "yes\n"


async def test_a_step_says_whether_it_was_done_on_a_copy_only_judged_or_cannot_be_known(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    acts: list[str] = []
    rules = [{"pattern": pattern, "action": "allow"} for pattern in ("mail.send*", "note.*", "state.*")]
    policy = {**POLICY, "rules": rules}
    steps = [
        write("out/n", "n"),
        {"tool": "state.set", "args": {"path": "/a", "value": 1}},
        {"tool": "mail.send", "args": {"text": "x"}, "id": "sent"},
        {"tool": "mail.send", "args": {"text": "${steps.sent.data.sent}"}},
        {"tool": "note.read", "args": {"text": "r"}},
        words("cat", "out/made-by-mail"),
        words("cat", "/etc/shadow"),
    ]
    own_place = work.parent / "runtime"  # where no other process keeps its layers
    own_place.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(own_place))
    async with a_gate(work.parent, policy, sender(acts), reader(acts), working_dir=work) as gate:
        result = await run_plan(gate, load_plan(plan_of(*steps)), simulate=True, fail_fast=False)
        assert list(own_place.iterdir()) == []
    assert [outcome.simulation for outcome in result.outcomes] == [
        "done on a copy",
        "done on a copy",
        "only judged",
        "cannot be known",
        "only judged",
        "cannot be known",
        "only judged",
    ]
    assert (acts, result.outcomes[5].status) == ([], Status.UNKNOWN)
    assert all(outcome.to_json()["simulation"] == outcome.simulation for outcome in result.outcomes)


async def test_a_file_that_may_not_be_read_is_not_shown_by_way_of_the_copies(work: Path) -> None:
    files = {
        "fs.read": {"allow_paths": ["./**"], "deny_paths": ["**/*.key"]},
        "fs.write": {"allow_paths": ["./out/**"]},
    }
    (work / "out" / "real.key").write_text("CANARY\n")
    policy = {**POLICY, "tools": {"shell.run": {**SHELL, "writes": "none"}, **files}}
    steps = [
        write("out/n", "n\n"),
        write("out/made.key", "CANARY\n"),
        words("grep", "-r", "CANARY", ".", fail_on="never"),
        sh("cat out/*.key; grep -r CANARY . ; true"),
        words("cat", "out/made.key"),
    ]
    result = await simulated(work, *steps, policy=policy, fail_fast=False)
    assert [code_of(outcome) for outcome in result.outcomes] == [None, None, None, None, 1002], result
    assert all("CANARY" not in json.dumps(outcome.data) for outcome in result.outcomes[2:])


def test_the_command_line_says_it_of_each_step_and_makes_no_database(work: Path) -> None:
    (work / "policy.yaml").write_text(json.dumps(POLICY))
    (work / "plan.yaml").write_text(
        json.dumps(plan_of(*STORIES["a file into a directory that a command made"], read("out/old")))
    )
    before = tree(work)
    done = run(work, "run", "plan.yaml", "--simulate")
    lines = [line.strip() for line in done.stdout.decode().splitlines()]
    assert (done.returncode, done.stderr) == (0, b"")
    assert [line for line in lines if line in ("done on a copy", "only judged")] == ["done on a copy"] * 2 + [
        "only judged"
    ]
    assert tree(work) == before


def test_a_simulation_leaves_a_ledger_that_is_there_as_it_was_and_counts_by_it(work: Path) -> None:
    (work / "policy.yaml").write_text(json.dumps({**POLICY, "limits": {"budget": {"daily": 3}}}))
    (work / "plan.yaml").write_text(json.dumps(plan_of(write("out/n", "n"))))
    for _ in range(2):
        assert run(work, "run", "plan.yaml").returncode == 0
    (work / "plan.yaml").write_text(json.dumps(plan_of(write("out/n", "m"), write("out/n", "o"))))
    changed = {**POLICY, "limits": {"budget": {"daily": 3}}, "rules": [{"pattern": "x", "action": "deny"}]}
    (work / "policy.yaml").write_text(json.dumps(changed))
    before = tree(work)
    done = run(work, "run", "plan.yaml", "--simulate", "--json")
    codes = [step.get("error", {}).get("code") for step in json.loads(done.stdout)["steps"]]
    assert (codes, tree(work) == before) == ([None, 1013], True)


def test_where_the_ledger_would_be_nothing_may_be_written_in_a_simulation_either(work: Path) -> None:
    anywhere = {**POLICY, "tools": {**POLICY["tools"], "fs.write": {"allow_paths": ["./**"]}}}
    (work / "policy.yaml").write_text(json.dumps(anywhere))
    (work / "plan.yaml").write_text(json.dumps(plan_of(write("agent-gate.db", "x"))))
    [step] = json.loads(run(work, "run", "plan.yaml", "--simulate", "--json").stdout)["steps"]
    assert step["error"]["code"] == 1021
