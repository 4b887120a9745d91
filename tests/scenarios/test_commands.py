"""Commands through the whole gate: judged on what they lead to, run in a sandbox, recorded, ended when they must."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent_gate import Gate, Outcome, load_policy
from agent_gate.history.rejudge import Rejudge
from agent_gate.ledger.sqlite.reader import open_reader
from agent_gate.model.bounds import SHELL_COMMANDS_MAX
from agent_gate.model.outcome import Status
from agent_gate.policy.judge import Judge
from agent_gate.resolve.surroundings import look_around
from agent_gate.sandbox.choice import Choice
from tests.attacks.swapping import swapped
from tests.gates import QUICK_GATE, a_gate, agent, approve, code_of, entries, kinds_of, outcome_of, pending, until

NAMES = ["ls", "cat", "grep", "git", "sleep", "yes", "printf", "echo", "find", "sed", "awk", "sort", "wc"]
SHELL: dict[str, Any] = {
    "allow_executables": [*NAMES, "sh"],
    "unchecked_executables": ["sh"],
    "allow_env": ["GREETING", "PATH"],
    "deny_tokens": ["rm -rf"],
    "timeout_seconds": 20,
    "max_output_bytes": 100_000,
}
POLICY: dict[str, Any] = {
    "version": 1,
    "tools": {
        "shell.run": SHELL,
        "fs.read": {"allow_paths": ["./**"], "deny_paths": ["**/secrets/**"]},
        "fs.write": {"allow_paths": ["./out/**"]},
    },
    "boundary": "deny_by_default",
}

pytestmark = pytest.mark.skipif(asyncio.run(Choice().pick("auto")) is None, reason="this machine offers no sandbox")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    work = tmp_path.resolve() / "work"
    for folder in ("sub", "secrets", "out"):
        (work / folder).mkdir(parents=True)
    (work / "a.txt").write_text("one\ntwo\n")
    (work / "sub" / "b.txt").write_text("needle\n")
    (work / "secrets" / "k").write_text("CANARY needle\n")
    (work / ".env").write_text("CANARY needle\n")
    (work.parent / "secret.txt").write_text("CANARY needle\n")
    return work


@asynccontextmanager
async def gate_at(work: Path, policy: Any = POLICY, **options: Any) -> AsyncIterator[Gate]:
    """What it opens for commands, it closes."""
    before = set(os.listdir("/proc/self/fd"))
    async with a_gate(work, policy, working_dir=work, **options) as gate:
        yield gate
    await until(lambda: len(set(os.listdir("/proc/self/fd")) - before) <= 2)


def changed(**fields: Any) -> dict[str, Any]:
    return {**POLICY, "tools": {**POLICY["tools"], "shell.run": {**SHELL, **fields}}}


def commit(work: Path, *names: str) -> None:
    who = ["-c", "user.name=Anna", "-c", "user.email=anna@example.test", "-c", "core.hooksPath=/dev/null"]
    for words in (["init", "-q", "-b", "main"], ["add", *names], ["commit", "-q", "--allow-empty", "-m", "first"]):
        subprocess.run(["git", *who, *words], cwd=work, check=True)


def data_of(outcome: Outcome) -> dict[str, Any]:
    assert outcome.status is Status.SUCCESS, outcome
    assert isinstance(outcome.data, dict)
    return outcome.data


async def test_a_command_runs_and_its_record_tells_what_ran_and_in_which_sandbox(work: Path) -> None:
    async with gate_at(work) as gate:
        outcome = await gate.call("shell.run", command="cat a.txt")
        assert data_of(outcome) == {"return_code": 0, "stdout": "one\ntwo\n", "stderr": ""}
        assert outcome.signatures == ("shell.run(cat a.txt)",)
        assert kinds_of(gate, outcome.call_id) == ["performing", "settled"]
        (intent,) = (row for row in entries(gate, "performing") if row["call_id"] == outcome.call_id)
    resources = intent["body"]["resources"]
    assert resources["executable"].endswith("/cat")
    assert resources["sandbox"] in ("bubblewrap", "sandlock")
    assert resources["paths"]["a.txt"]["path"] == f"{work}/a.txt"
    assert {"layer": "guard", "rule": "cat"} in intent["body"]["reasons"]


async def test_a_return_code_that_is_not_zero_is_the_programs_answer_and_a_success_of_the_tool(work: Path) -> None:
    async with gate_at(work) as gate:
        outcome = await gate.call("shell.run", argv=["grep", "nothing", "a.txt"])
        assert data_of(outcome) == {"return_code": 1, "stdout": "", "stderr": ""}
        missing = data_of(await gate.call("shell.run", argv=["cat", "missing.txt"]))
        assert (missing["return_code"], "No such file" in missing["stderr"]) == (1, True)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("rm a.txt", 1004),
        ("./cat a.txt", 1004),
        ("git -c core.pager=x log", 1004),
        ("find . -delete", 1004),
        ("agent-gate approve x", 1004),
        ("echo rm -rf x", 1005),
        ("cat a.txt | sh", 1005),
        ("cat ../secret.txt", 1002),
        ("cat secrets/k", 1002),
        ("cat .env", 1002),
        ("cat /proc/self/environ", 1021),
        ("cat gate.db", 1021),
        ("cat 'a.txt", 2002),
    ],
)
async def test_a_command_that_is_refused_runs_nothing_and_is_recorded(command: str, code: int, work: Path) -> None:
    async with gate_at(work) as gate:
        outcome = await gate.call("shell.run", command=command)
        assert (code_of(outcome), outcome.data) == (code, None)
        assert kinds_of(gate, outcome.call_id) == ["settled"]


async def test_without_its_section_the_tool_is_denied(work: Path) -> None:
    async with gate_at(work, {"version": 1, "rules": [{"pattern": "*", "action": "allow"}]}) as gate:
        outcome = await gate.call("shell.run", argv=["ls"])
        assert str(outcome.error) == (
            "policy_denied: `shell.run` has no section under tools: in the policy;"
            " add one: tools: {shell.run: {allow_executables: [git, ls]}}"
        )


async def test_a_small_limit_for_written_files_keeps_no_command_from_starting(work: Path) -> None:
    policy = changed()
    policy["tools"]["fs.write"] = {"allow_paths": ["./**"], "max_size_bytes": 1}
    async with gate_at(work, policy) as gate:
        outcome = await gate.call("shell.run", argv=["ls"])
        assert (outcome.error, outcome.data["return_code"]) == (None, 0)


async def test_a_command_that_takes_too_long_is_ended_and_the_caller_can_only_lower_the_time(work: Path) -> None:
    async with gate_at(work, changed(timeout_seconds=0.5)) as gate:
        for timeout in (None, 60, 0.2):
            limit = {} if timeout is None else {"timeout": timeout}
            outcome = await gate.call("shell.run", {"argv": ["sleep", "60"], **limit})
            assert code_of(outcome) == 2004
            assert f"within {min(timeout or 0.5, 0.5):g} s" in str(outcome.error)
            assert kinds_of(gate, outcome.call_id) == ["performing", "settled"]


async def test_too_much_output_is_an_error_and_none_of_it_is_kept(work: Path) -> None:
    async with gate_at(work) as gate:
        outcome = await gate.call("shell.run", argv=["yes"])
        assert (code_of(outcome), outcome.data) == (2005, None)


async def test_output_that_is_not_text_is_told_with_its_bytes_written_out(work: Path) -> None:
    async with gate_at(work) as gate:
        outcome = await gate.call("shell.run", argv=["printf", "a\\377b"])
        assert data_of(outcome) == {"return_code": 0, "stdout": "a\\xffb", "stderr": "", "escaped": ["stdout"]}


async def test_the_environment_is_scrubbed_and_only_listed_names_are_added(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_THE_GATE", "x")
    async with gate_at(work) as gate:
        told = data_of(await gate.call("shell.run", argv=["sh", "-c", "env"], env={"GREETING": "hello"}))
        names = {line.partition("=")[0] for line in told["stdout"].splitlines()}
        assert names - {"TMPDIR", "PWD"} == {"GREETING", "HOME", "LANG", "PATH"}
        refused = await gate.call("shell.run", argv=["ls"], env={"LD_PRELOAD": "x"})
        assert (refused.status, code_of(refused)) == (Status.DENIED, 1001)


async def test_reading_through_a_directory_shows_nothing_that_the_policy_denies(work: Path) -> None:
    async with gate_at(work) as gate:
        told = data_of(await gate.call("shell.run", command="grep -rn needle ."))
        assert told.pop("left_out") > 0
        assert told == {"return_code": 0, "stdout": "./sub/b.txt:1:needle\n", "stderr": ""}


async def test_an_unchecked_program_writes_where_fs_write_may_and_reads_where_fs_read_may(work: Path) -> None:
    script = (
        "cat a.txt secrets/k .env ../secret.txt gate.db 2>/dev/null; echo x > out/new; echo x > a.txt; echo x > new"
    )
    async with gate_at(work) as gate:
        told = data_of(await gate.call("shell.run", argv=["sh", "-c", script]))
        assert told["stdout"] == "one\ntwo\n"
    assert (work / "out" / "new").read_text() == "x\n"
    assert (work / "a.txt").read_text() == "one\ntwo\n"
    assert not (work / "new").exists()


async def test_the_gates_own_files_stay_closed_where_all_may_be_written(work: Path) -> None:
    everything = {
        **POLICY,
        "tools": {
            "shell.run": SHELL,
            "fs.read": {"allow_paths": ["/**"], "allow_hidden": True},
            "fs.write": {"allow_paths": ["./**"], "allow_hidden": True},
        },
    }
    async with gate_at(work, everything) as gate:
        script = (
            "for f in gate.db*; do echo x >> $f; cat $f; done; echo x > free; cat /etc/hostname >/dev/null && echo read"
        )
        told = data_of(await gate.call("shell.run", argv=["sh", "-c", script]))
        assert told["stdout"] == "read\n"
        again = await gate.call("shell.run", argv=["ls", "free"])
        assert data_of(again)["stdout"] == "free\n"


async def test_a_repository_can_be_looked_at_and_names_of_hidden_files_are_its_own(work: Path) -> None:
    commit(work, "a.txt")
    (work / "a.txt").write_text("one\nthree\n")
    async with gate_at(work) as gate:
        assert data_of(await gate.call("shell.run", command="git status --short a.txt"))["stdout"] == " M a.txt\n"
        diff = data_of(await gate.call("shell.run", command="git diff"))["stdout"]
        assert diff.splitlines()[-2:] == ["-two", "+three"]
        log = data_of(await gate.call("shell.run", command="git log --format=%an:%s"))["stdout"]
        assert log == "Anna:first\n"


async def test_an_approval_covers_the_command_that_was_shown_and_no_other(work: Path) -> None:
    policy = {**POLICY, "rules": [{"pattern": "shell.run(cat *)", "action": "ask"}]}
    async with gate_at(work, policy) as gate:
        question = await pending(gate, "shell.run", {"argv": ["cat", "a.txt"]})
        assert question.signatures == ("shell.run(cat a.txt)",)
        await approve(gate, question)
        assert data_of(await outcome_of(gate, question))["stdout"] == "one\ntwo\n"
        question = await pending(gate, "shell.run", {"argv": ["cat", "a.txt"]})
        (work / "a.txt").rename(work / "old.txt")
        (work / "a.txt").write_text("another file\n")
        await approve(gate, question)
        assert code_of(await outcome_of(gate, question)) == 1015


async def test_off_must_be_written_and_is_shown_in_the_record(work: Path) -> None:
    async with gate_at(work, changed(sandbox="off")) as gate:
        outcome = await gate.call("shell.run", argv=["cat", "a.txt"])
        assert data_of(outcome)["stdout"] == "one\ntwo\n"
        (intent,) = (row for row in entries(gate, "performing") if row["call_id"] == outcome.call_id)
        assert intent["body"]["resources"]["sandbox"] == "off"


async def test_recorded_commands_are_judged_again_as_they_were(work: Path) -> None:
    async with gate_at(work) as gate:
        for command in ("cat a.txt", "cat secrets/k", "rm x", "git status", "grep -r x sub"):
            await gate.call("shell.run", command=command)
    policy = load_policy(POLICY)
    with closing(open_reader(work / "gate.db")) as reader:
        again, judge = Rejudge(reader), Judge(policy, look_around(policy, str(work)))
        verdicts = [(call.decision, again.verdict(call, judge, as_it_was=True).decision) for call in again.calls()]
    assert [before.value for before, _ in verdicts] == ["allow", "deny", "deny", "allow", "allow"]
    assert all(before is after for before, after in verdicts)


async def test_a_link_that_is_swapped_under_the_gates_feet_never_shows_what_it_may_not(work: Path) -> None:
    """The file that was judged is the file that is shown, whatever its name leads to by then."""
    other = work / "other"
    other.symlink_to("secrets/k")
    told = set()
    async with gate_at(work) as gate:
        with swapped({"race_swap": [str(work / "a.txt"), str(other)]}):
            for _ in range(60):
                outcome = await gate.call("shell.run", argv=["cat", "a.txt"])
                told.add((outcome.status, (outcome.data or {}).get("stdout"), code_of(outcome)))
    assert told <= {
        (Status.SUCCESS, "one\ntwo\n", None),
        (Status.DENIED, None, 1002),
        (Status.ERROR, None, 2003),
        (Status.ERROR, None, 2006),
    }
    assert not any("CANARY" in str(stdout) for _, stdout, _ in told)


_ONE_PROGRAM = ["ls -la", "cat a.txt", "grep -rn needle .", "find . -name '*.txt'", "sed -n 1p a.txt", "wc -l a.txt"]
_ONE_PROGRAM += ["awk '{print $1}' a.txt", "sort a.txt", "git log --oneline", "git status", "git diff", "git grep one"]
_COUNTED = {"git status", "git diff", "git grep one"}
"""With them git is started once more, to count what it was kept from showing."""


@pytest.mark.skipif(shutil.which("strace") is None, reason="no strace to watch with")
def test_a_checked_command_starts_one_program_and_no_other(work: Path) -> None:
    """Seen from outside of the process: after the sandbox's own start there is one more, of the judged file."""
    commit(work, "a.txt")
    program = """
import asyncio, json, sys
from agent_gate import open_gate
async def main():
    async with open_gate(json.loads(sys.argv[1]), "gate.db", working_dir=".") as gate:
        for command in json.loads(sys.argv[2]):
            outcome = await gate.call("shell.run", command=command)
            assert outcome.ok, outcome
asyncio.run(main())
"""
    log = work.parent / "trace"
    words = [sys.executable, "-c", program, json.dumps(POLICY), json.dumps(_ONE_PROGRAM)]
    subprocess.run(
        ["strace", "-f", "-qq", "-e", "trace=execve", "-e", "signal=none", "-o", log, *words], cwd=work, check=True
    )
    started = re.findall(r'execve\("([^"]+)".*= 0$', log.read_text(), re.MULTILINE)
    ran = [Path(path).name for path in started if Path(path).name not in ("bwrap", Path(sys.executable).name)]
    lines = [line for command in _ONE_PROGRAM for line in [command] * (2 if command in _COUNTED else 1)]
    wanted = [Path(os.path.realpath(f"/usr/bin/{line.split()[0]}")).name for line in lines]
    assert ran == ["true", *wanted], "the first is the trial of the sandbox"


async def test_commands_of_one_agent_leave_places_for_another(work: Path) -> None:
    async with gate_at(work, gate_bounds=replace(QUICK_GATE, shell_place_wait_s=0.01)) as gate:
        sleeping = [
            asyncio.create_task(gate.call("shell.run", argv=["sleep", "19"], agent=agent("one"), request_id=f"s{n}"))
            for n in range(SHELL_COMMANDS_MAX)
        ]
        done, running = await asyncio.wait(sleeping, timeout=5, return_when=asyncio.FIRST_COMPLETED)
        while len(running) > SHELL_COMMANDS_MAX // 2:
            done, running = await asyncio.wait(running, timeout=5, return_when=asyncio.FIRST_COMPLETED)
            assert done, "half of them are refused"
            assert [code_of(task.result()) for task in done] == [2006] * len(done)
        assert data_of(await gate.call("shell.run", argv=["echo", "two"], agent=agent("two")))["stdout"] == "two\n"
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
