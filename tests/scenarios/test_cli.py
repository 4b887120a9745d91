"""The installed command, as a new user would type it: from init to a ledger that was tampered with."""

from __future__ import annotations

import json
import os
import pty
import select
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

import agent_gate
from agent_gate.ledger.sqlite.migrate import HEAD

COMMAND = Path(sys.executable).with_name("agent-gate")
TIMEOUT_S = 60

CALLS = """
import asyncio
from agent_gate import open_gate

async def main():
    async with open_gate("policy.yaml", "agent-gate.db") as gate:
        for number in range(3):
            await gate.call("state.set", path=f"/notes/{number}", value="rain")
        await gate.call("state.set", path="/settings/admin", value=1)
        await gate.call("state.delete", path="/notes/1")

asyncio.run(main())
"""


_BYTECODE = tempfile.TemporaryDirectory(prefix="agent-gate-bytecode-")


def _environment(**more: str) -> dict[str, str]:
    """As a user has it: nothing of ours set, and bytecode kept from one start to the next."""
    unwanted = ("AGENT_GATE_", "NO_COLOR", "PYTHONDONTWRITEBYTECODE")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(unwanted)}
    return {**kept, "PYTHONPYCACHEPREFIX": _BYTECODE.name, **more}


def run(
    directory: Path, *words: object, stdin: str | bytes = "", **environment: str
) -> subprocess.CompletedProcess[bytes]:
    done = subprocess.run(
        [COMMAND, *map(str, words)],
        cwd=directory,
        input=stdin.encode() if isinstance(stdin, str) else stdin,
        capture_output=True,
        timeout=TIMEOUT_S,
        env=_environment(**environment),
        check=False,
    )
    assert b"Traceback" not in done.stderr + done.stdout
    return done


def run_json(directory: Path, *words: object) -> Any:
    done = run(directory, *words, "--json")
    assert (done.returncode, done.stderr) == (0, b"")
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def worked_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a policy and a ledger of five calls; tests that change it take a backup."""
    directory = tmp_path_factory.mktemp("worked-in")
    assert run(directory, "init").returncode == 0
    subprocess.run([sys.executable, "-c", CALLS], cwd=directory, check=True, timeout=TIMEOUT_S, env=_environment())
    return directory


@pytest.fixture
def copied(worked_in: Path, tmp_path: Path) -> Path:
    assert run(worked_in, "db", "backup", tmp_path / "agent-gate.db").returncode == 0
    (tmp_path / "policy.yaml").write_bytes((worked_in / "policy.yaml").read_bytes())
    return tmp_path


def _call_id(directory: Path, tool: str) -> str:
    return str(run_json(directory, "audit", "--tool", tool)["entries"][0]["call_id"])


@pytest.mark.parametrize("command", [[str(COMMAND)], [sys.executable, "-m", "agent_gate"]])
def test_the_version_is_told(command: list[str], tmp_path: Path) -> None:
    done = subprocess.run([*command, "--version"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == f"agent-gate {agent_gate.__version__}\n"


def test_every_command_that_judges_warns_alike_of_a_rule_without_effect(tmp_path: Path) -> None:
    rules = [{"pattern": "state.*", "action": "allow"}, {"pattern": "state.sett(*)", "action": "deny"}]
    (tmp_path / "policy.yaml").write_text(json.dumps({"version": 1, "rules": rules}))
    (tmp_path / "plan.yaml").write_text(json.dumps({"version": "1.0", "name": "p", "steps": [{"tool": "state.get"}]}))
    told = b"warning: rules[1] `state.sett(*)` can never match: there is no tool `state.sett`; `state.set(*)` would\n"
    for words in (
        ["check", "--tool", "state.get"],
        ["run", "plan.yaml", "--simulate"],
        ["run", "plan.yaml"],
        ["state", "revert", "initial"],
    ):
        done = run(tmp_path, *words)
        assert (done.returncode, done.stderr) == (0, told), words


@pytest.mark.parametrize(
    ("words", "decision", "code"),
    [
        (["--tool", "state.get"], "allow", 0),
        (["--tool", "rm"], "deny", 1),
        (["--tool", "state.set", "--args", '{"path": "/settings/x", "value": 1}'], "ask", 4),
        (["--tool", "state.set", "--args", '{"path": "/notes/x", "path": "/settings/x", "value": 1}'], "deny", 1),
        (["--tool", "state.set", "--args", "nonsense"], "deny", 1),
    ],
)
def test_check_answers_by_its_exit_code(worked_in: Path, words: list[str], decision: str, code: int) -> None:
    done = run(worked_in, "check", *words, "-p", "policy.yaml", "--json")
    assert (done.returncode, json.loads(done.stdout)["decision"]) == (code, decision)
    assert run(worked_in, "check", *words).stdout.startswith(decision.encode() + b"  ")


def test_check_streams_many_calls(worked_in: Path) -> None:
    """Each answer comes before the next question is put."""
    words = [str(COMMAND), "check", "--calls", "-", "--json"]
    with subprocess.Popen(
        words, cwd=worked_in, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=_environment(PYTHONUNBUFFERED="1")
    ) as process:
        assert process.stdin
        assert process.stdout
        for tool, decision in (("state.get", "allow"), ("rm", "deny")):
            process.stdin.write(json.dumps({"tool": tool}).encode() + b"\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["decision"] == decision
        process.stdin.close()
        assert process.wait(TIMEOUT_S) == 1


_FOR_COMMANDS = {"typer", "click", "rich", "pydantic"}
_FOR_WRITING = {"asyncio", "cryptography", "sqlalchemy", "alembic"}


@pytest.mark.parametrize(
    ("words", "heavy"),
    [
        (("check", "--tool", "state.get", "-p", "policy.yaml"), _FOR_COMMANDS | _FOR_WRITING | {"sqlite3"}),
        (("list-runs",), _FOR_COMMANDS | _FOR_WRITING),
        (("run", "plan.yaml"), _FOR_COMMANDS | {"sqlalchemy", "alembic", "mcp", "starlette", "grpc"}),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_an_ordinary_command_imports_nothing_heavy(
    worked_in: Path, tmp_path: Path, words: tuple[str, ...], heavy: set[str]
) -> None:
    place = Path(shutil.copytree(worked_in, tmp_path / "place"))
    (place / "plan.yaml").write_text("version: '1.0'\nsteps:\n  - {tool: state.get, args: {}}\n")
    program = (
        "import sys; from agent_gate.doors.cli.program import run; code = run(sys.argv[1:]);"
        "print('\\n'.join(sys.modules), file=sys.stderr); sys.exit(code)"
    )
    command = [sys.executable, "-c", program, *words]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=True, env=_environment())
    assert heavy & set(done.stderr.split()) == set()


def test_the_version_imports_no_library_for_commands(tmp_path: Path) -> None:
    program = (
        "import sys; sys.argv = ['agent-gate', '--version']; from agent_gate.__main__ import main; main();"
        "print('\\n'.join(name for name in sys.modules if name.split('.')[0] in ('typer', 'agent_gate')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split()[2:] == ["agent_gate", "agent_gate.__main__"]


def test_audit_tells_what_happened(worked_in: Path) -> None:
    entries = run_json(worked_in, "audit")["entries"]
    assert [(entry["tool"], entry["status"]) for entry in entries] == [
        ("state.delete", "success"),
        ("state.set", "denied"),
        ("state.set", "success"),
        ("state.set", "success"),
        ("state.set", "success"),
    ]
    assert len(run_json(worked_in, "audit", "--limit", 2)["entries"]) == 2
    assert len(run_json(worked_in, "audit", "--status", "denied", "--since", "1h", "--agent", "local")["entries"]) == 1
    assert run_json(worked_in, "audit", "--project", "other")["entries"] == []
    table = run(worked_in, "audit").stdout.decode().splitlines()
    assert table[0].split() == ["when", "project", "agent", "status", "call", "why", "id"]
    assert "1001 policy_denied" in table[2]


def test_state_is_shown_listed_and_compared(worked_in: Path) -> None:
    assert run_json(worked_in, "state", "show")["document"] == {"notes": {"0": "rain", "2": "rain"}}
    assert run_json(worked_in, "state", "show", "--version", 0)["document"] == {}
    versions = run_json(worked_in, "state", "history")["versions"]
    assert [version["version"] for version in versions] == [4, 3, 2, 1, 0]
    shown = run_json(worked_in, "state", "show", "--snapshot", versions[-2]["snapshot_id"])
    assert shown["document"] == {"notes": {"0": "rain"}}
    assert run_json(worked_in, "state", "diff") == {
        "project": "default",
        "from": 3,
        "to": 4,
        "diff": [{"op": "remove", "path": "/notes/1"}],
    }
    assert run(worked_in, "state", "diff", 1, 2).stdout.decode().splitlines()[1] == '+ /notes/1  "rain"'


def test_a_revert_is_judged_by_the_policy(copied: Path) -> None:
    first = run_json(copied, "state", "history")["versions"][-2]["snapshot_id"]
    denied = run(copied, "state", "revert", first, "--json")
    assert (denied.returncode, json.loads(denied.stdout)["error"]["code"]) == (1, 1001)
    (copied / "free.yaml").write_text("rules: [{pattern: 'state.revert(*)', action: allow}]")
    assert run_json(copied, "state", "revert", first, "-p", "free.yaml")["status"] == "success"
    assert run_json(copied, "state", "show")["document"] == {"notes": {"0": "rain"}}
    assert run(copied, "state", "revert", "nonsense", "-p", "free.yaml").returncode == 3
    assert run_json(copied, "state", "revert", "initial", "-p", "free.yaml")["status"] == "success"
    assert run_json(copied, "state", "show")["document"] == {}


def test_a_project_is_made_locked_and_archived(copied: Path) -> None:
    (copied / "schema.json").write_text('{"type": "object", "required": ["lights"]}')
    create = ["project", "create", "home", "--initial-state", '{"lights": {}}', "--state-schema", "schema.json"]
    assert run_json(copied, *create) == {"project": "home", "status": "open"}
    for action, status in (("lock", "locked"), ("unlock", "open"), ("archive", "archived")):
        assert run_json(copied, "project", action, "home") == {"project": "home", "status": status}
    assert [project["status"] for project in run_json(copied, "project", "list")["projects"]] == ["open", "archived"]
    assert run(copied, "project", "archive", "home").returncode == 1
    assert run(copied, "project", "create", "home").returncode == 3
    assert run(copied, "project", "create", "other", "--initial-state", "[]").returncode == 3
    assert run(copied, "project", "create", "other", "--initial-state", "{").returncode == 2
    assert run(copied, "project", "create", "other", "--state-schema", "missing.json").returncode == 2
    assert run_json(copied, "verify")["ok"]


def test_an_erased_call_is_gone_and_the_rest_verifies(copied: Path) -> None:
    call = _call_id(copied, "state.delete")
    refused = run(copied, "db", "erase", call)
    assert (refused.returncode, refused.stderr.count(b"\n")) == (2, 1)
    assert run_json(copied, "db", "erase", call, "--yes")["calls"] == 1
    report = run_json(copied, "verify")
    assert (report["ok"], report["erased"]) == (True, 1)
    assert run_json(copied, "db", "retain", "--days", 0, "--yes")["calls"] == 4
    assert run_json(copied, "db", "retain", "--days", 30, "--yes")["calls"] == 0
    assert b"rain" not in (copied / "agent-gate.db").read_bytes() or run_json(copied, "state", "show")
    assert run(copied, "db", "erase", "nonsense", "--yes").returncode == 3


def test_a_backup_stands_on_its_own(copied: Path) -> None:
    assert run_json(copied, "verify")["entries"] == 6
    assert (copied / "agent-gate.db").stat().st_mode & 0o077 == 0
    assert run(copied, "db", "backup", "agent-gate.db").returncode == 5
    assert run_json(copied, "db", "upgrade") == {"upgraded": False, "schema": HEAD}


def test_export_holds_every_entry(worked_in: Path, tmp_path: Path) -> None:
    lines = run(worked_in, "export", "--format", "jsonl").stdout.splitlines()
    assert [json.loads(line)["kind"] for line in lines] == ["policy", *["settled"] * 5]
    target = tmp_path / "out.jsonl"
    assert run_json(worked_in, "export", "--output", target) == {"output": str(target), "entries": 6}
    assert target.read_bytes().splitlines() == lines
    assert target.stat().st_mode & 0o077 == 0
    assert run(worked_in, "export", "--output", target).returncode == 3
    assert run(worked_in, "export", "--output", "agent-gate.db").returncode == 3
    assert run_json(worked_in, "verify")["ok"]


def test_tampering_is_found(copied: Path) -> None:
    with sqlite3.connect(copied / "agent-gate.db") as connection:
        connection.execute("UPDATE entries SET status = 'success' WHERE status = 'denied'")
    connection.close()
    done = run(copied, "verify", "--json")
    assert (done.returncode, json.loads(done.stdout)["problems"][0]["code"]) == (6, 5004)
    told = run(copied, "verify").stdout.decode()
    assert told.startswith("broken  ")
    assert "project `default`, entry 4" in told


def test_a_ledger_that_vanished_is_found_by_its_anchor(copied: Path) -> None:
    (copied / "agent-gate.db").unlink()
    assert run(copied, "verify").returncode == 6


def test_doctor_looks_at_machine_and_ledger(worked_in: Path, copied: Path) -> None:
    report = run_json(worked_in, "doctor")
    names = [check["name"] for check in report["checks"]]
    assert names[:4] == ["python", "agent-gate", "packages", "sqlite"]
    ledger = ["database", "schema", "permissions", "anchor", "processes", "open work", "questions", "clock"]
    assert names[-8:] == ledger
    assert {check["status"] for check in report["checks"]} <= {"ok", "warn"}
    (copied / "agent-gate.db").chmod(0o644)
    done = run(copied, "doctor", "--json")
    assert (done.returncode, json.loads(done.stdout)["ok"]) == (3, False)


def test_doctor_works_where_no_ledger_is(tmp_path: Path) -> None:
    report = run_json(tmp_path, "doctor")
    assert [check["status"] for check in report["checks"] if check["name"] == "database"] == ["warn"]
    assert list(tmp_path.iterdir()) == []


def test_the_ledger_can_be_named_by_the_environment(worked_in: Path, tmp_path: Path) -> None:
    db = str(worked_in / "agent-gate.db")
    assert run(tmp_path, "verify", AGENT_GATE_DB=db).returncode == 0
    assert run(tmp_path, "verify", AGENT_GATE_DB="missing.db").returncode == 5


def test_bytes_that_are_not_utf8_break_nothing(worked_in: Path) -> None:
    for words in ([b"check", b"--tool", b"\xff\xfe"], [b"audit", b"--tool", b"\xff"], [b"\xff"], [b"verify", b"\xff"]):
        for json_flag in ([], [b"--json"]):
            done = subprocess.run(
                [os.fsencode(COMMAND), *words, *json_flag],
                cwd=worked_in,
                capture_output=True,
                env=_environment(),
                check=False,
            )
            assert b"Traceback" not in done.stderr
            if json_flag:
                json.loads(done.stdout)


@pytest.mark.parametrize("words", [["audit"], ["export"], ["check", "--tool", "state.get"], ["--help"], ["--version"]])
def test_output_that_nobody_reads_or_that_cannot_be_written_is_borne_in_silence(
    words: list[str], worked_in: Path
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with open("/dev/full", "wb") as full, open(writing, "wb") as broken:
        for stream in (full, broken):
            done = subprocess.run(
                [COMMAND, *words], cwd=worked_in, stdout=stream, stderr=subprocess.PIPE, env=_environment(), check=False
            )
            assert b"Traceback" not in done.stderr
            assert b"Exception ignored" not in done.stderr
            assert done.returncode != 0
    closed = ["sh", "-c", '"$0" "$@" >&- 2>&-', str(COMMAND), *words]
    assert subprocess.run(closed, cwd=worked_in, env=_environment(), check=False).returncode in (0, 3)


def _at_a_terminal(
    directory: Path, answer: str, *words: str, columns: int = 100, asked: bytes = b"[y/N] "
) -> tuple[int, str]:
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(directory)
        os.execve(COMMAND, ["agent-gate", *words], _environment(TERM="xterm", COLUMNS=str(columns)))
    told, answered = b"", False
    while select.select([terminal], [], [], TIMEOUT_S)[0]:
        try:
            told += os.read(terminal, 65_536)
        except OSError:
            break
        if asked in told and not answered:
            os.write(terminal, answer.encode() + b"\n")
            answered = True
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), told.decode()


def test_the_person_at_the_terminal_answers_an_ask(copied: Path) -> None:
    first = run_json(copied, "state", "history")["versions"][-2]["snapshot_id"]
    code, told = _at_a_terminal(copied, "n", "state", "revert", first)
    assert (code, "1015 denied_by_person" in told) == (1, True)
    (copied / "policy.yaml").write_text("approvals_at_terminal: true\nrules: [{pattern: 'state.*', action: ask}]")
    code, told = _at_a_terminal(copied, "y", "state", "revert", first)
    assert (code, f"│ snapshot_id │ {first}" in told) == (0, True)
    (entry,) = run_json(copied, "audit", "--limit", 1)["entries"]
    assert (entry["resolution"], entry["resolved_by"].split(":")[0]) == ("approved", "local")


def test_what_the_owner_types_is_not_shown_and_not_printed_again(copied: Path) -> None:
    words = ("owner", "set", "home_assistant_token")
    code, told = _at_a_terminal(copied, " made-up-for-a-test ", *words, asked=b"(not shown): ")
    assert (code, "made-up" in told, "set  home_assistant_token" in told) == (0, False, True)
    code, told = _at_a_terminal(copied, "", *words, asked=b"(not shown): ")
    assert (code, "the value is empty" in told) == (3, True)
    assert [found["key"] for found in run_json(copied, "owner", "list")["keys"]] == ["home_assistant_token"]
    assert run_json(copied, "verify")["ok"]


def test_erasing_is_confirmed_at_the_terminal(copied: Path) -> None:
    call = _call_id(copied, "state.delete")
    assert _at_a_terminal(copied, "no", "db", "erase", call)[0] == 1
    assert run_json(copied, "verify")["erased"] == 0
    assert _at_a_terminal(copied, "y", "db", "erase", call)[0] == 0
    assert run_json(copied, "verify")["erased"] == 1


def test_colour_is_for_terminals(worked_in: Path) -> None:
    assert "\x1b[31m" in _at_a_terminal(worked_in, "", "check", "--tool", "rm")[1]
    assert b"\x1b[" not in run(worked_in, "check", "--tool", "rm").stdout
    assert b"\x1b[" not in run(worked_in, "audit").stdout


@pytest.mark.serial
def test_the_tour_runs_to_its_end(tmp_path: Path) -> None:
    assert run(tmp_path, "demo", "--once").returncode == 0
    assert list(tmp_path.iterdir()) == []
