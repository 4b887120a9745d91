"""Runs that are broken off, by real signals to a real process and by cancelling: the record stays honest."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from agent_gate import Gate, Outcome, run_plan, tool
from agent_gate.history.verify import verify
from agent_gate.ledger.sqlite.reader import open_reader
from agent_gate.model.outcome import Status
from agent_gate.model.plan import Plan, PlanStep
from agent_gate.model.tool import Json
from agent_gate.sandbox.choice import Choice
from tests.gates import ALLOW_ALL, ASK_ALL, PATIENCE_S, People, a_gate, code_of, entries, reader, rows, sender, soon
from tests.scenarios.test_cli import COMMAND, _environment

POLICY: dict[str, Any] = {
    "version": 1,
    "rules": [{"pattern": "slow.*", "action": "allow"}],
    "tools": {
        "shell.run": {
            "allow_executables": ["sh"],
            "unchecked_executables": ["sh"],
            "timeout_seconds": 300,
            "writes": "direct",  # so that a test sees from outside how far a command has come
        },
        "fs.read": {"allow_paths": ["./**"]},
        "fs.write": {"allow_paths": ["./out/**"]},
    },
    "boundary": "deny_by_default",
}
NAPS = [f"9{os.getpid()}.{number}" for number in (1, 2, 3)]
"""Seconds that no other process sleeps."""
SCRIPT = f"(sleep {NAPS[0]} & sleep {NAPS[1]} &); echo begun > out/begun; sleep {NAPS[2]}; echo ended > out/ended"
_picked = asyncio.run(Choice().pick("auto"))
with_sandbox = pytest.mark.skipif(_picked is None, reason="no sandbox on this machine")
with_layers = pytest.mark.skipif(_picked is None or not _picked.layers, reason="no sandbox that shows changes")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    work = tmp_path.resolve() / "work"
    (work / "out").mkdir(parents=True)
    (work / "policy.yaml").write_text(json.dumps(POLICY))
    steps = [{"tool": "shell.run", "args": {"argv": ["sh", "-c", text]}} for text in ("true", SCRIPT, "true")]
    (work / "plan.yaml").write_text(json.dumps({"version": "1.0", "steps": steps}))
    return work


@contextmanager
def running(work: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """The command, in the middle of its second step."""
    process = subprocess.Popen(
        [COMMAND, "run", "plan.yaml", *options],
        cwd=work,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=_environment(),
    )
    try:
        until((work / "out" / "begun").exists)
        yield process
    finally:
        process.kill()
        process.communicate()


def until(holds: Any) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def survivors() -> list[str]:
    """Command lines of what the script has started."""
    found = []
    for process in Path("/proc").iterdir():
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")[:2]
        except OSError:
            continue
        if words[0].endswith(b"sleep") and words[1:2] and words[1].decode() in NAPS:
            found.append(repr(words))
    return found


def recorded(work: Path) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """The runs, and the entries of calls, once the ledger was found to be sound."""
    report = verify(work / "agent-gate.db")
    assert report.ok, report
    with closing(open_reader(work / "agent-gate.db")) as ledger:
        runs = ledger.rows("SELECT status, completed_steps, failed_steps, denied_steps, total_steps FROM runs")
        calls = ledger.rows("SELECT kind, status FROM entries WHERE call_id IS NOT NULL ORDER BY id")
        return [tuple(row) for row in runs], [tuple(row) for row in calls]


SETTLED = (
    [("failed", 1, 1, 0, 3)],
    [("performing", None), ("settled", "success"), ("performing", None), ("settled", "unknown")],
)


@with_sandbox
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_step_that_runs_and_the_run_is_settled(work: Path, number: signal.Signals) -> None:
    with running(work) as process:
        process.send_signal(number)
        shown, said = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, survivors()) == (130, [])
    assert b"Traceback" not in shown + said
    assert b"may have acted" in shown
    assert b"failed: withdrawn: the run was broken off" in shown
    assert recorded(work) == SETTLED
    assert sorted(path.name for path in (work / "out").iterdir()) == ["begun"]


@with_sandbox
def test_a_second_signal_takes_nothing_from_the_record(work: Path) -> None:
    with running(work) as process:
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGINT)
        shown, said = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, survivors(), b"Traceback" in shown + said) == (130, [], False)
    assert recorded(work) == SETTLED


@with_sandbox
def test_the_report_of_a_run_that_was_broken_off_is_printed_for_machines_too(work: Path) -> None:
    with running(work, "--json") as process:
        process.send_signal(signal.SIGINT)
        shown, _ = process.communicate(timeout=PATIENCE_S)
    report = json.loads(shown)
    assert process.returncode == 130
    assert [step["result"]["status"] for step in report["steps"]] == ["success", "unknown"]


@with_layers
def test_a_simulation_that_is_broken_off_leaves_nothing(work: Path) -> None:
    """Its second step writes on a copy, so that only the process tells when it has begun."""
    process = subprocess.Popen(
        [COMMAND, "run", "plan.yaml", "--simulate"], cwd=work, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=_environment(TMPDIR=str(work.parent)),
    )  # fmt: skip
    try:
        until(lambda: len(survivors()) == 3)
        process.send_signal(signal.SIGINT)
        shown, said = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
    assert (process.returncode, survivors(), b"Traceback" in shown + said) == (130, [], False)
    assert (list(work.glob("agent-gate.db*")), list((work / "out").iterdir())) == ([], [])
    assert [path.name for path in work.parent.iterdir()] == ["work"]


@with_sandbox
def test_the_run_s_timeout_ends_a_command_with_all_that_it_started(work: Path) -> None:
    (work / "policy.yaml").write_text(json.dumps({**POLICY, "global_timeout_seconds": 3}))
    with running(work) as process:
        shown, _ = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, survivors()) == (1, [])
    assert b"the run's global timeout was reached inside this step" in shown
    runs, calls = recorded(work)
    assert (runs, calls[-1]) == ([("failed", 1, 1, 0, 3)], ("settled", "error"))


def at_a_terminal(
    work: Path, marker: bytes, keys: bytes, command: tuple[str, ...] = ("run", "plan.yaml")
) -> tuple[int, str]:
    """What the command shows at a terminal where the keys are pressed as soon as the marker is there."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(work)
        os.execve(COMMAND, ["agent-gate", *command], _environment(TERM="xterm", COLUMNS="100"))
    shown, pressed = b"", False
    while select.select([terminal], [], [], PATIENCE_S)[0]:
        try:
            shown += os.read(terminal, 65_536)
        except OSError:
            break
        if not pressed and marker in shown:
            os.write(terminal, keys)
            pressed = True
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), shown.decode()


def test_a_question_at_the_terminal_is_withdrawn_by_ctrl_c(work: Path) -> None:
    policy = {**POLICY, "rules": [{"pattern": "shell.run(*)", "action": "ask"}], "approvals_at_terminal": True}
    (work / "policy.yaml").write_text(json.dumps(policy))
    code, shown = at_a_terminal(work, b"[y/N] ", b"\x03")
    assert (code, "Traceback" in shown) == (130, False)
    assert recorded(work) == (
        [("failed", 0, 0, 1, 3)],
        [("held", None), ("answered", "withdrawn"), ("settled", "denied")],
    )


def test_ctrl_c_ends_the_tour_where_it_waits_for_enter(work: Path) -> None:
    code, shown = at_a_terminal(work, b"[Enter] ", b"\x03", ("demo",))
    assert (code, "Traceback" in shown, "\n2." in shown.replace("\r", "")) == (130, False, False)


@with_sandbox
def test_ctrl_c_at_a_terminal_leaves_the_terminal_as_it_was(work: Path) -> None:
    code, shown = at_a_terminal(work, b"step 2 of 3", b"\x03")
    assert (code, "Traceback" in shown, survivors()) == (130, False, [])
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l"), "the cursor is there again"
    assert recorded(work)[0][0][:2] == ("failed", 1)


def test_whoever_insists_is_let_go_and_the_next_process_settles_what_was_open(tmp_path: Path) -> None:
    """A tool that will not be cancelled keeps the run from ending in good order."""
    program = """
        import signal
        from agent_gate.doors.cli.run import Interrupts

        async def main():
            @tool("stubborn", effect="write")
            async def stubborn() -> None:
                (directory / "begun").touch()
                while True:
                    try:
                        await asyncio.sleep(300)
                    except asyncio.CancelledError:
                        pass

            async with open_gate(ALLOW_ALL, directory / "gate.db", tools=[stubborn]) as gate:
                with Interrupts(lambda what: print(what, flush=True)):
                    await run_plan(gate, Plan((PlanStep("stubborn"), PlanStep("state.get"))))
    """
    opening = (
        "import asyncio, sys\nfrom pathlib import Path\nfrom tests.gates import *\nfrom agent_gate import *\n"
        "from agent_gate.model.plan import Plan, PlanStep\ndirectory = Path(sys.argv[1])\n"
    )
    code = f"{opening}{dedent(program)}\nasyncio.run(main())"
    root = Path(__file__).parent.parent.parent
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], cwd=root, stdout=subprocess.PIPE)
    assert process.stdout is not None
    until((tmp_path / "begun").exists)
    process.send_signal(signal.SIGINT)
    assert b"ending the step that runs" in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    assert b"still ending it" in process.stdout.readline()
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130

    async def look() -> list[tuple[str, str]]:
        async with a_gate(tmp_path, ALLOW_ALL) as gate:
            return [(row["kind"], row["status"]) for row in entries(gate) if row["run_id"]]

    assert asyncio.run(look()) == [
        ("run", "running"),
        ("performing", None),
        ("settled", "unknown"),
        ("run", "failed"),
    ]


def plan(*steps: PlanStep | str) -> Plan:
    return Plan(tuple(step if isinstance(step, PlanStep) else PlanStep(step) for step in steps))


class Endless:
    """A tool that runs until it is cancelled."""

    def __init__(self, effect: str) -> None:
        self.begun, self.ended = asyncio.Event(), False

        @tool("endless", effect=effect, risk="low", cost=1)
        async def endless() -> Json:
            self.begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.ended = True

        self.tool = endless


def run_row(gate: Gate) -> tuple[Any, ...]:
    [row] = rows(gate, "SELECT status, completed_steps, failed_steps, denied_steps, total_steps FROM runs")
    return tuple(row.values())


async def broken_off(run: asyncio.Task[Any]) -> None:
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await soon(run)


@pytest.mark.parametrize(("effect", "status", "code"), [("write", Status.UNKNOWN, 2007), ("read", Status.ERROR, 2003)])
async def test_who_cancels_a_run_finds_its_step_settled(tmp_path: Path, effect: str, status: Status, code: int) -> None:
    endless, acts = Endless(effect), list[str]()
    told: list[Outcome] = []
    async with a_gate(tmp_path, ALLOW_ALL, endless.tool, sender(acts)) as gate:
        steps = plan("mail.send", "endless", "mail.send")
        run = asyncio.create_task(run_plan(gate, steps, on_step=lambda _, __, outcome: told.append(outcome)))
        await soon(endless.begun.wait())
        await broken_off(run)
        assert endless.ended
        assert [(outcome.status, code_of(outcome)) for outcome in told] == [(Status.SUCCESS, None), (status, code)]
        assert (run_row(gate), acts) == (("failed", 1, 1, 0, 3), [""])
        ended = entries(gate, "run")[-1]["body"]
        assert ended["error"]["code"] == 1020
        assert entries(gate)[-1]["kind"] == "run"
        assert (await gate.call("mail.send")).ok


async def test_a_tool_that_blocks_its_thread_does_not_keep_a_run_from_ending(tmp_path: Path) -> None:
    begun, may_end = threading.Event(), threading.Event()

    @tool("blocking", effect="write")
    def blocking() -> None:
        begun.set()
        may_end.wait(PATIENCE_S)

    async with a_gate(tmp_path, ALLOW_ALL, blocking) as gate:
        run = asyncio.create_task(run_plan(gate, plan("blocking", "blocking")))
        await asyncio.to_thread(begun.wait, PATIENCE_S)
        await broken_off(run)
        assert run_row(gate) == ("failed", 0, 1, 0, 2)
        may_end.set()


async def test_a_step_that_ends_by_itself_has_its_real_outcome(tmp_path: Path) -> None:
    begun = asyncio.Event()

    @tool("last.words", effect="write")
    async def last_words() -> Json:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return {"rolled": "back"}

    told: list[Outcome] = []
    async with a_gate(tmp_path, ALLOW_ALL, last_words) as gate:
        run = asyncio.create_task(run_plan(gate, plan("last.words"), on_step=lambda _, __, end: told.append(end)))
        await soon(begun.wait())
        await broken_off(run)
        assert [(end.status, end.data) for end in told] == [(Status.SUCCESS, {"rolled": "back"})]


async def test_a_question_of_a_run_that_is_broken_off_is_withdrawn(tmp_path: Path) -> None:
    acts: list[str] = []
    people = People()
    async with a_gate(tmp_path, ASK_ALL, sender(acts), people=people) as gate:
        run = asyncio.create_task(run_plan(gate, plan("mail.send", "mail.send")))
        await people.question()
        await broken_off(run)
        assert [row["body"]["error"]["code"] for row in entries(gate, "settled")] == [1020]
        assert (await gate.ledger.questions(), acts, run_row(gate)) == ([], [], ("failed", 0, 0, 1, 2))
        assert [how for _, how, _ in people.ended] == ["withdrawn"]


async def test_a_run_that_is_cancelled_at_any_moment_is_on_record_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    """Cancelled after so many turns of the event loop, until it is too late."""
    for turns in (*range(20), *range(20, 300, 9)):
        async with a_gate(tmp_path, ALLOW_ALL, sender([]), reader([]), name=f"{turns}.db") as gate:
            run = asyncio.create_task(run_plan(gate, plan("mail.send", "note.read")))
            for _ in range(turns):
                await asyncio.sleep(0)
            if not run.done():
                await broken_off(run)
            found = rows(gate, "SELECT status, completed_steps, total_steps FROM runs")
            opened = {row["call_id"] for row in entries(gate, "performing")}
            settled = {row["call_id"] for row in entries(gate, "settled") if row["status"] == "success"}
            assert opened <= {row["call_id"] for row in entries(gate, "settled")}
            assert [row["status"] for row in found] in ([], ["failed"], ["completed"])
            assert not found or found[0]["completed_steps"] == len(settled)
        assert verify(tmp_path / f"{turns}.db").ok
