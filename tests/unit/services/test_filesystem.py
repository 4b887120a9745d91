"""The filesystem service alone: what its binders find, keep, do and let go."""

from __future__ import annotations

import asyncio
import base64
import fcntl
import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from agent_gate.config import load_policy
from agent_gate.model.call import Agent, BoundCall, CallRequest
from agent_gate.model.errors import GateError, ToolError
from agent_gate.model.outcome import Outcome, Status
from agent_gate.model.tool import Json
from agent_gate.policy.judge import Judge
from agent_gate.ports.tools import Binding, Recorded, RegisteredTool
from agent_gate.resolve.paths import PathResolver
from agent_gate.services.filesystem import FilesystemService, bind_for_check
from agent_gate.toolkit.services import completed, declarations
from tests.gates import soon

POLICY = {"tools": {"fs.read": {"allow_paths": ["./**"]}, "fs.write": {"allow_paths": ["./**"], "max_size_bytes": 100}}}
JUDGE = Judge(load_policy(POLICY))


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Path]:
    root = tmp_path.resolve()
    (root / "a.txt").write_text("one\n")
    before = set(os.listdir("/proc/self/fd"))
    yield root
    assert set(os.listdir("/proc/self/fd")) - before == set()


def registered(work: Path, tool: str) -> RegisteredTool:
    service = FilesystemService(PathResolver(str(work)))
    return next(registered for registered in service.registered_tools() if registered.declaration.name == tool)


def the_call(tool: str, args: dict[str, Json], binding: Binding) -> BoundCall:
    request = CallRequest(Agent("a"), tool, args)
    return BoundCall("c", request, args, args, binding.signatures, "h", binding.resources)


async def bound(work: Path, tool: str, **args: Json) -> Binding:
    of_tool = registered(work, tool)
    assert of_tool.bind is not None
    wrong = of_tool.validate(args)
    assert wrong is None, wrong
    return await of_tool.bind(CallRequest(Agent("a"), tool, args), args, JUDGE)


async def kept(binding: Binding) -> bytes | None:
    assert binding.keep is not None
    return await binding.keep(the_call("fs.write", {}, binding))


async def done(work: Path, tool: str, **args: Json) -> Json:
    """Bind, keep and act, as the gate does."""
    binding = await bound(work, tool, **args)
    return await performed(binding)


async def performed(binding: Binding) -> Json:
    assert binding.act is not None
    assert binding.release is not None
    try:
        if binding.keep is not None:
            await kept(binding)
        return await binding.act(the_call("fs.write", {}, binding))
    finally:
        binding.release()


def let_go(binding: Binding) -> Binding:
    assert binding.release is not None
    binding.release()
    return binding


async def problem(work: Path, tool: str, **args: Json) -> str:
    with pytest.raises(GateError) as raised:
        await done(work, tool, **args)
    return str(raised.value)


def identity(path: Path) -> dict[str, str]:
    status = path.stat()
    return {"device": f"{os.major(status.st_dev)}:{os.minor(status.st_dev)}", "inode": str(status.st_ino)}


async def test_a_read_is_bound_to_the_real_file(work: Path) -> None:
    (work / "link").symlink_to("a.txt")
    binding = let_go(await bound(work, "fs.read", path="link"))
    assert binding.signatures == (f"fs.read({work}/a.txt)",)
    assert binding.resources == {"path": f"{work}/a.txt", **identity(work / "a.txt")}
    assert binding.found == {"type": "file", "size": 4}


async def test_characters_that_mean_something_in_signatures_are_encoded(work: Path) -> None:
    binding = let_go(await bound(work, "fs.read", path="a (1), *[2]?\n%.txt"))
    assert binding.signatures == (f"fs.read({work}/a %281%29%2C %2A%5B2%5D%3F%0A%25.txt)",)


async def test_a_write_is_bound_to_the_file_and_to_what_would_be_written(work: Path) -> None:
    binding = let_go(await bound(work, "fs.write", path="a.txt", content="hé"))
    content_hash = sha256("hé".encode()).hexdigest()
    assert binding.resources == {
        "path": f"{work}/a.txt",
        **identity(work / "a.txt"),
        "sha256": content_hash,
        "changed_ns": str((work / "a.txt").stat().st_ctime_ns),
    }
    assert binding.found == {"type": "file", "size": 3}
    binding = let_go(await bound(work, "fs.write", path="a.txt", content="hé", mode="append"))
    assert binding.found == {"type": "file", "size": 7}
    binding = let_go(await bound(work, "fs.write", path="new.txt", content="hé", mode="append"))
    assert (binding.resources["path"], binding.found) == (f"{work}/new.txt", {"type": "absent", "size": 3})


@pytest.mark.parametrize(
    ("args", "content", "encoding"),
    [
        ({}, "häh", "utf-8"),
        ({"encoding": "latin-1"}, "h\xc3\xa4h", "iso8859-1"),
        ({"binary": True}, base64.b64encode("häh".encode()).decode(), "base64"),
        ({"binary": True, "encoding": "nonsense"}, base64.b64encode("häh".encode()).decode(), "base64"),
    ],
)
async def test_a_file_is_read_as_text_or_as_bytes(
    work: Path, args: dict[str, Json], content: str, encoding: str
) -> None:
    (work / "a.txt").write_text("häh", encoding="utf-8")
    expected = {"path": f"{work}/a.txt", "content": content, "encoding": encoding, "size": 4}
    assert await done(work, "fs.read", path="a.txt", **args) == expected


async def test_line_ends_are_read_and_written_as_they_are(work: Path) -> None:
    await done(work, "fs.write", path="a.txt", content="a\r\nb\rc\n")
    assert (work / "a.txt").read_bytes() == b"a\r\nb\rc\n"
    assert (await done(work, "fs.read", path="a.txt"))["content"] == "a\r\nb\rc\n"


@pytest.mark.parametrize(
    ("tool", "args", "words"),
    [
        ("fs.read", {"path": "nope"}, "tool_failed: `{work}/nope` does not exist; look at the spelling"),
        ("fs.read", {"path": "a.txt", "encoding": "zlib"}, "bad_arguments: `zlib` is not an encoding that is served"),
        ("fs.read", {"path": "bytes"}, "tool_failed: `{work}/bytes` is not utf-8: "),
        ("fs.write", {"path": "x/y", "content": ""}, "tool_failed: the directory of `{work}/x/y` does not exist; set"),
        (
            "fs.write",
            {"path": "dangling", "content": ""},
            "tool_failed: `{work}/nope` is a link to something that does",
        ),
        ("fs.write", {"path": "a.txt/x", "content": ""}, "tool_failed: `{work}/a.txt/x` cannot be reached: Not a dir"),
        ("fs.write", {"path": "a.txt", "content": "é", "encoding": "ascii"}, "bad_arguments: the content cannot be"),
        (
            "fs.write",
            {"path": "big", "content": ""},
            "output_too_large: `{work}/big` has 101 bytes, too many to be kept",
        ),
    ],
)
async def test_what_cannot_be_done_is_said(work: Path, tool: str, args: dict[str, Json], words: str) -> None:
    (work / "dangling").symlink_to("nope")
    (work / "bytes").write_bytes(b"\xff")
    (work / "big").write_bytes(b"x" * 101)
    assert (await problem(work, tool, **args)).startswith(words.format(work=work))


@pytest.mark.parametrize(
    "args",
    [
        {"path": ["a.txt"]},
        {"path": ""},
        {"path": 1},
        {"path": None},
        {},
        {"path": "a", "limit": 1},
        {"path": "a", "binary": "yes"},
        {"path": "a", "encoding": 8},
    ],
)
def test_arguments_that_do_not_fit_are_refused_by_the_schema(work: Path, args: dict[str, Any]) -> None:
    assert registered(work, "fs.read").validate(args)
    assert registered(work, "fs.write").validate({"content": "", **args})


def test_a_write_needs_content_and_knows_two_modes(work: Path) -> None:
    validate = registered(work, "fs.write").validate
    assert validate({"path": "a"})
    assert validate({"path": "a", "content": "", "mode": "truncate"})
    assert validate({"path": "a", "content": "", "mode": "append", "create_dirs": True, "encoding": "utf-8"}) is None


async def test_a_write_tells_what_it_did(work: Path) -> None:
    path = f"{work}/n/new.txt"
    wrote = await done(work, "fs.write", path="n/new.txt", content="abc", create_dirs=True)
    assert wrote == {"path": path, "bytes_written": 3, "created": True, "size": 3}
    wrote = await done(work, "fs.write", path="n/new.txt", content="de", mode="append")
    assert wrote == {"path": path, "bytes_written": 2, "created": False, "size": 5}
    wrote = await done(work, "fs.write", path="n/new.txt", content="AAE=", encoding="base64")
    assert wrote == {"path": path, "bytes_written": 2, "created": False, "size": 2}
    assert (work / "n/new.txt").read_bytes() == b"\x00\x01"


async def test_only_an_overwrite_keeps_what_was_there(work: Path) -> None:
    for args, expected in (
        ({"path": "a.txt"}, b"one\n"),
        ({"path": "a.txt", "mode": "append"}, None),
        ({"path": "new.txt"}, None),
    ):
        binding = await bound(work, "fs.write", content="x", **args)
        assert await kept(binding) == expected
        let_go(binding)


async def test_writes_of_one_file_wait_for_each_other(work: Path) -> None:
    lines = [f"line {number}\n" for number in range(8)]
    (work / "a.txt").write_text("")
    await soon(asyncio.gather(*(done(work, "fs.write", path="a.txt", content=line, mode="append") for line in lines)))
    assert sorted((work / "a.txt").read_text().splitlines(keepends=True)) == lines


async def test_a_write_waits_for_another_program_that_has_the_lock(work: Path) -> None:
    with (work / "a.txt").open() as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        task = asyncio.create_task(done(work, "fs.write", path="a.txt", content="x"))
        await asyncio.sleep(0.05)
        assert (work / "a.txt").read_text() == "one\n"
        fcntl.flock(other, fcntl.LOCK_UN)
        await soon(task)
    assert (work / "a.txt").read_text() == "x"


async def test_a_write_that_is_given_up_lets_the_file_go(work: Path) -> None:
    with (work / "a.txt").open() as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        task = asyncio.create_task(done(work, "fs.write", path="a.txt", content="x"))
        await asyncio.sleep(0.02)
        task.cancel()
        await asyncio.wait({task})
    await soon(done(work, "fs.write", path="a.txt", content="y"))
    assert (work / "a.txt").read_text() == "y"


async def test_a_file_that_grew_since_it_was_judged_is_not_appended_to_beyond_the_bound(work: Path) -> None:
    binding = await bound(work, "fs.write", path="a.txt", content="x" * 50, mode="append")
    (work / "a.txt").write_text("y" * 60)
    with pytest.raises(ToolError, match="would have more than 100 bytes by now"):
        await performed(binding)
    assert (work / "a.txt").read_text() == "y" * 60


async def test_a_read_of_what_is_not_in_memory_goes_through_a_thread(work: Path) -> None:
    slow = PathResolver(str(work), by_walking=True)
    bind = FilesystemService(slow).registered_tools()[0].bind
    assert bind is not None
    binding = await bind(CallRequest(Agent("a"), "fs.read", {}), {"path": "a.txt"}, JUDGE)
    assert (await performed(binding))["content"] == "one\n"


def recorded(work: Path, args: dict[str, Json], kept: bytes | None, size: int, kind: str = "file") -> Recorded:
    outcome = Outcome(call_id="W", status=Status.SUCCESS, data={"size": size})
    return Recorded("W", args, {"path": f"{work}/a.txt"}, {"type": kind, "size": size}, outcome, kept)


async def undone(work: Path, call: Recorded) -> Json:
    undo = registered(work, "fs.write").undo
    assert undo is not None
    return await performed(await undo(call, JUDGE))


async def test_undoing_an_overwrite_brings_the_previous_content_back(work: Path) -> None:
    call = recorded(work, {"content": "one\n"}, b"before", 4)
    assert await undone(work, call) == {"path": f"{work}/a.txt", "restored_bytes": 6}
    assert (work / "a.txt").read_bytes() == b"before"
    with pytest.raises(ToolError, match="already is as it was before call `W`"):
        await undone(work, call)


async def test_undoing_an_append_cuts_what_it_added(work: Path) -> None:
    call = recorded(work, {"content": "ne\n", "mode": "append"}, None, 4)
    assert await undone(work, call) == {"path": f"{work}/a.txt", "restored_bytes": 1}
    assert (work / "a.txt").read_bytes() == b"o"


async def test_undoing_a_creation_removes_the_file(work: Path) -> None:
    call = recorded(work, {"content": "one\n"}, None, 4, kind="absent")
    assert await undone(work, call) == {"path": f"{work}/a.txt", "removed": True}
    assert not (work / "a.txt").exists()
    with pytest.raises(ToolError, match="is gone since call `W`"):
        await undone(work, call)


@pytest.mark.parametrize(
    ("args", "kept", "kind"),
    [
        ({"content": "other\n"}, b"before", "file"),
        ({"content": "other\n", "mode": "append"}, None, "file"),
        ({"content": "other\n"}, None, "absent"),
    ],
)
async def test_a_file_that_changed_since_is_left_alone_and_the_difference_shown(
    work: Path, args: dict[str, Json], kept: bytes | None, kind: str
) -> None:
    with pytest.raises(ToolError) as raised:
        await undone(work, recorded(work, args, kept, 6, kind))
    assert raised.value.problem.detail == (
        f"`{work}/a.txt` has changed since call `W`:\n"
        "--- as call W left it\n+++ as it is now\n@@ -1 +1 @@\n-other\n+one"
    )
    assert (work / "a.txt").read_text() == "one\n"


async def test_more_that_was_appended_later_is_a_change(work: Path) -> None:
    call = recorded(work, {"content": "one\n", "mode": "append"}, None, 8)
    with pytest.raises(ToolError, match="has changed since call `W`"):
        await undone(work, call)


async def test_a_path_that_now_leads_elsewhere_is_not_undone(work: Path) -> None:
    (work / "b.txt").write_text("one\n")
    (work / "a.txt").unlink()
    (work / "a.txt").symlink_to("b.txt")
    with pytest.raises(ToolError, match="now leads to"):
        await undone(work, recorded(work, {"content": "one\n"}, b"before", 4))
    assert (work / "b.txt").read_text() == "one\n"


async def test_what_was_not_kept_cannot_come_back(work: Path) -> None:
    with pytest.raises(ToolError, match="was not kept"):
        await undone(work, recorded(work, {"content": "one\n"}, None, 4))


def test_a_call_that_is_only_checked_is_described_and_nothing_stays_open(work: Path) -> None:
    args = {"path": "a.txt", "content": "ab", "mode": "append"}
    resources = {"path": f"{work}/a.txt", **identity(work / "a.txt"), "sha256": sha256(b"ab").hexdigest()}
    assert bind_for_check("fs.write", args, PathResolver(str(work))) == Binding(
        (f"fs.write({work}/a.txt)",), resources, found={"type": "file", "size": 6}
    )


async def test_the_service_has_the_shape_of_every_service(work: Path) -> None:
    service = completed(FilesystemService(PathResolver(str(work))))
    await service.start()
    assert (service.name, await service.health_check()) == ("filesystem", True)
    assert [tool.name for tool in declarations(service)] == ["fs.read", "fs.write"]
    with pytest.raises(ToolError, match="through the gate"):
        await service.execute("fs.read", {})
    await service.close()
