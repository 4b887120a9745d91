"""One suite for every sandbox: how a command is started, bounded, ended and told of."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from agent_gate.model.errors import ToolError
from agent_gate.sandbox import tree
from agent_gate.sandbox.child import Child
from agent_gate.sandbox.choice import Sandbox
from agent_gate.sandbox.command import Access, Place
from agent_gate.sandbox.running import run
from tests.gates import soon
from tests.unit.sandbox.commands import finished, made, said, sandboxes


@pytest.fixture(params=["bubblewrap", "sandlock", "off"])
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    if request.param not in sandboxes():
        pytest.skip(f"this machine has no {request.param}")
    return sandboxes()[request.param]


@pytest.fixture(params=["bubblewrap", "sandlock"])
def wall(request: pytest.FixtureRequest) -> Sandbox:
    if request.param not in sandboxes():
        pytest.skip(f"this machine has no {request.param}")
    return sandboxes()[request.param]


async def test_both_streams_and_the_return_code_come_back(sandbox: Sandbox) -> None:
    done = await finished(sandbox, ["sh", "-c", "echo out; echo err >&2; exit 7"])
    assert (done.return_code, done.stdout, done.stderr) == (7, b"out\n", b"err\n")


async def test_words_reach_the_program_as_they_are(sandbox: Sandbox) -> None:
    words = ["", " ", "a b", "$HOME", "*", "'", '"', "\n", "--", "ü", "\\"]
    done = await finished(sandbox, ["printf", "%s\\0", *words], starts_programs=False)
    assert done.stdout.decode().split("\0")[:-1] == words


async def test_a_signal_is_told_as_shells_tell_it(sandbox: Sandbox) -> None:
    assert (await finished(sandbox, ["sh", "-c", "kill -9 $$"])).return_code == 128 + 9


async def test_there_is_nothing_to_read_from_standard_input(sandbox: Sandbox) -> None:
    assert (await finished(sandbox, ["cat"], starts_programs=False)).stdout == b""


async def test_the_environment_is_what_was_given(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_GATE", "x")
    names = (await said(sandbox, "env", env={"PATH": "/usr/bin:/bin", "GIVEN": "y"})).splitlines()
    assert set(names) - {f"PWD={os.sep}"} - {name for name in names if name.startswith("TMPDIR=")} == {
        "PATH=/usr/bin:/bin",
        "GIVEN=y",
    }


async def test_no_descriptor_is_left_open(sandbox: Sandbox) -> None:
    script = "for n in 3 4 5 6 7 8 9; do (: <&$n) 2>/dev/null && echo $n; done; true"
    held = await said(sandbox, script)
    assert held == "" or sandbox.name == "off", "without a sandbox the program's own file stays open"


async def test_a_command_that_does_not_end_is_ended(sandbox: Sandbox) -> None:
    with pytest.raises(ToolError, match=r"did not end within 0\.3 s") as ended:
        await soon(finished(sandbox, ["sleep", "60"], timeout_s=0.3, starts_programs=False))
    assert ended.value.code == 2004


async def test_temporary_files_go_with_the_command_however_it_ends(sandbox: Sandbox) -> None:
    before = _scratches()
    await said(sandbox, 'echo x > "${TMPDIR:-/tmp}/x"')
    with pytest.raises(ToolError):
        await finished(sandbox, ["sh", "-c", 'echo x > "${TMPDIR:-/tmp}/x"; sleep 60'], timeout_s=0.5)
    assert _scratches() - before == set()


async def test_what_a_command_left_in_the_background_ends_with_it(sandbox: Sandbox, tmp_path: Path) -> None:
    lock = tmp_path / "held"
    lock.touch()
    place = Place(str(tmp_path), Access.WRITE, True)
    await said(sandbox, f"(setsid sleep 77.77 & ) ; exec 9<{lock}", places=[place])
    assert _sleeping("77.77") == []


async def test_what_ignores_signals_and_left_its_session_ends_with_the_timeout(sandbox: Sandbox) -> None:
    with pytest.raises(ToolError):
        await finished(sandbox, ["sh", "-c", "trap '' TERM HUP; setsid sleep 78.78 & sleep 78.78"], timeout_s=0.5)
    assert _sleeping("78.78") == []


async def test_a_cancelled_call_leaves_nothing_behind(sandbox: Sandbox) -> None:
    task = asyncio.create_task(finished(sandbox, ["sleep", "79.79"], starts_programs=False))
    async with asyncio.timeout(20):
        while not _sleeping("79.79"):  # noqa: ASYNC110 -- another process cannot set an event of ours
            await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert _sleeping("79.79") == []


async def test_a_command_that_nobody_tells_to_begin_does_not_begin(sandbox: Sandbox) -> None:
    """Also where there is nobody left who could: the gate was killed."""
    with made(["sleep", "76.76"]) as command:
        launch = sandbox.wrap(command)
        outer = Child(launch.argv, launch.inherited)
        launch.handed_over()
        launch.close()
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(outer.end(), 1)
            assert _sleeping("76.76") == []
        finally:
            tree.kill(outer.pid)
            outer.kill()
            await outer.end()
            outer.close()


async def test_more_output_than_allowed_is_an_error_and_ends_the_command(sandbox: Sandbox) -> None:
    with pytest.raises(ToolError, match="more than max_output_bytes") as ended:
        await finished(sandbox, ["yes"], output_bytes=1_000, starts_programs=False)
    assert ended.value.code == 2005
    exact = await finished(sandbox, ["printf", "%s", "x" * 1_000], output_bytes=1_000, starts_programs=False)
    assert len(exact.stdout) == 1_000


async def test_a_file_cannot_grow_beyond_its_bound(sandbox: Sandbox, tmp_path: Path) -> None:
    place = Place(str(tmp_path), Access.WRITE, True)
    words = ["dd", "if=/dev/zero", f"of={tmp_path}/x", "bs=65536", "count=100"]
    done = await finished(sandbox, words, places=[place])
    assert done.return_code != 0
    assert (tmp_path / "x").stat().st_size == 1_048_576


async def test_many_processes_are_refused_or_end_the_command(sandbox: Sandbox) -> None:
    script = "i=0; while [ $i -lt 100 ]; do sleep 30 & i=$((i+1)); done; echo all; wait"
    try:
        done = await finished(sandbox, ["sh", "-c", script], processes=20)
    except ToolError as ended:
        assert ended.code == 2003  # noqa: PT017 -- either is right
    else:
        assert b"all" not in done.stdout


async def test_a_program_that_may_not_start_others_cannot(wall: Sandbox) -> None:
    done = await finished(wall, ["sh", "-c", "ls | cat"], starts_programs=False)
    assert done.return_code != 0
    assert b"ork" in done.stderr


async def test_threads_are_no_processes(wall: Sandbox) -> None:
    done = await finished(wall, ["sort", "--parallel=2", "/dev/null"], starts_programs=False)
    assert done.return_code == 0


async def test_only_what_is_shown_is_there_and_only_as_it_is_shown(wall: Sandbox, tmp_path: Path) -> None:
    for name in ("read", "write", "unseen"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "f").write_text(name)
    (tmp_path / "read" / "hidden").write_text("hidden")
    places = [
        Place(str(tmp_path / "read"), Access.READ, True),
        Place(str(tmp_path / "read" / "hidden"), Access.NONE, False),
        Place(str(tmp_path / "write"), Access.WRITE, True),
    ]
    script = (
        f"cd {tmp_path}; cat read/f; cat read/hidden; cat unseen/f; echo x > read/f; echo x > write/new; cat write/f"
    )
    done = await finished(wall, ["sh", "-c", script], places=places)
    assert done.stdout == b"readwrite"
    assert (tmp_path / "read" / "f").read_text() == "read"
    assert (tmp_path / "write" / "new").read_text() == "x\n"


async def test_a_program_that_was_replaced_after_it_was_judged_is_not_what_runs(wall: Sandbox, tmp_path: Path) -> None:
    """Either the judged file is started, or nothing is."""
    program, other = tmp_path / "program", tmp_path / "other"
    for file, word in ((program, "judged"), (other, "replaced")):
        file.write_text(f"#!/bin/sh\necho {word}\n")
        file.chmod(0o755)
    with made(["true"]) as template:
        descriptor = os.open(program, os.O_PATH)
        program.rename(tmp_path / "before")
        other.rename(program)
        command = replace(template, executable=str(program), descriptor=descriptor, argv=("program",))
        try:
            told = (await run(command, wall.wrap(command))).stdout
        except ToolError as refused:
            told = str(refused).encode()
        finally:
            os.close(descriptor)
    assert told == b"judged\n" or b"was replaced after it was judged" in told


def _scratches() -> set[Path]:
    """Directories of commands that wrote what the test's commands write."""
    return {path for path in Path("/tmp").glob("agent-gate-*") if (path / "x").exists()}


def _sleeping(how_long: str) -> list[int]:
    """Processes that sleep for just this long."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[:2] == [b"sleep", how_long.encode()] or words[:2] == [b"/usr/bin/sleep", how_long.encode()]:
            found.append(int(folder.name))
    return found
