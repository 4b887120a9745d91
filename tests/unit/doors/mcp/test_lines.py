"""Tests of the wire of `agent-gate mcp`: lines of any length, descriptors of any kind, messages read strictly."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp_types import JSONRPCRequest

from agent_gate.doors.mcp.lines import Lines, TooLong
from agent_gate.doors.mcp.stdio import Unreadable, message_in
from agent_gate.model.bounds import MESSAGE_BYTES_MAX
from tests.gates import soon


class Pipes:
    def __init__(self) -> None:
        self.reading, self.given = os.pipe()
        self.taken, self.writing = os.pipe()

    def close(self) -> None:
        for number in (self.given, self.taken):
            try:
                os.close(number)
            except OSError:
                continue


@pytest.fixture
def pipes() -> Iterator[Pipes]:
    """Their far ends stay open: threads of the near ones may still be there."""
    pair = Pipes()
    yield pair
    pair.close()


async def all_of(lines: Lines) -> list[bytes | TooLong]:
    return [line async for line in lines]


async def given(pipes: Pipes, data: bytes) -> list[Any]:
    lines = Lines(pipes.reading, pipes.writing)
    reading = asyncio.create_task(all_of(lines))

    def give() -> None:
        rest = data
        while rest:
            rest = rest[os.write(pipes.given, rest) :]
        os.close(pipes.given)

    await asyncio.to_thread(give)
    return ["too long" if isinstance(line, TooLong) else line for line in await soon(reading)]


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"a\nb\n", [b"a", b"b"]),
        (b"a\n\nb", [b"a", b"", b"b"]),
        (b"x" * MESSAGE_BYTES_MAX + b"\nb\n", [b"x" * MESSAGE_BYTES_MAX, b"b"]),
        (b"x" * (MESSAGE_BYTES_MAX + 1) + b"\nb\n", ["too long", b"b"]),
        (b"x" * (3 * MESSAGE_BYTES_MAX) + b"\nb\n", ["too long", b"b"]),
        (b"b\n" + b"x" * (3 * MESSAGE_BYTES_MAX), [b"b", "too long"]),
    ],
    ids=["nothing", "two", "an empty one", "just short enough", "just too long", "far too long", "without an end"],
)
async def test_lines_are_read_whole_and_long_ones_are_passed_over(pipes: Pipes, data: bytes, lines: list[Any]) -> None:
    assert await given(pipes, data) == lines


async def test_a_file_is_read_like_a_pipe(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"a\nb")
    with (tmp_path / "in").open("rb") as source, (tmp_path / "out").open("wb") as target:
        lines = Lines(source.fileno(), target.fileno())
        assert await soon(all_of(lines)) == [b"a", b"b"]
        await soon(lines.write(b"c"))
    assert (tmp_path / "out").read_bytes() == b"c\n"


async def test_what_is_not_looked_at_is_not_read_on(pipes: Pipes) -> None:
    lines = Lines(pipes.reading, pipes.writing)
    os.set_blocking(pipes.given, False)
    accepted, full = 0, 0
    while full < 10 and accepted < 64 * MESSAGE_BYTES_MAX:
        try:
            accepted += os.write(pipes.given, b"x" * 65_536)
            full = 0
        except BlockingIOError:
            full += 1
            await asyncio.sleep(0.01)  # the thread may be about to read: only what stays full is full
    assert accepted < 2 * MESSAGE_BYTES_MAX
    os.close(pipes.given)
    await soon(all_of(lines))


async def test_lines_are_written_in_the_order_in_which_they_were_given(pipes: Pipes) -> None:
    lines = Lines(pipes.reading, pipes.writing)
    reading = asyncio.create_task(asyncio.to_thread(_read_bytes, pipes.taken, 3 * 200_001))
    await soon(asyncio.gather(*(lines.write(letter * 200_000) for letter in (b"a", b"b", b"c"))))
    assert await soon(reading) == b"\n".join((b"a" * 200_000, b"b" * 200_000, b"c" * 200_000)) + b"\n"


async def test_a_reader_that_is_gone_is_told(pipes: Pipes) -> None:
    lines = Lines(pipes.reading, pipes.writing)
    os.close(pipes.taken)
    with pytest.raises(BrokenPipeError):
        await soon(lines.write(b"a"))


def _read_bytes(number: int, count: int) -> bytes:
    data = b""
    while len(data) < count:
        data += os.read(number, 65_536)
    return data


def test_a_message_is_read() -> None:
    message = message_in(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}')
    assert message == JSONRPCRequest(jsonrpc="2.0", id=1, method="ping")


@pytest.mark.parametrize(
    ("line", "code", "id"),
    [
        (TooLong(), -32600, None),
        (b"{", -32700, None),
        (b"\xff", -32700, None),
        (b'{"jsonrpc": "2.0", "id": 1, "id": 2, "method": "ping"}', -32700, None),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"a": 1e999}}', -32700, None),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "\\ud800"}', -32700, None),
        (b"[" * 1000, -32700, None),
        (b"7", -32600, None),
        (b'[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]', -32600, None),
        (b'{"jsonrpc": "1.0", "id": 1, "method": "ping"}', -32600, 1),
        (b'{"jsonrpc": "2.0", "id": "x"}', -32600, "x"),
        (b'{"jsonrpc": "2.0", "id": {}, "method": "ping"}', -32600, None),
        (b'{"jsonrpc": "2.0", "id": null, "method": "ping"}', -32600, None),
    ],
)
def test_what_is_no_message_is_answered_with_an_error(line: bytes | TooLong, code: int, id: str | int | None) -> None:
    with pytest.raises(Unreadable) as refused:
        message_in(line)
    assert (refused.value.answer.error.code, refused.value.answer.id) == (code, id)


def test_nothing_but_the_protocol_reaches_standard_output() -> None:
    program = """
import os, subprocess, sys
from agent_gate.doors.mcp.stdio import protocol_pipes
with protocol_pipes() as (reading, writing):
    print("stray", flush=True)
    os.write(1, b"raw\\n")
    subprocess.run([sys.executable, "-c", "print('child', repr(input()))"], stderr=subprocess.DEVNULL)
    os.write(writing, os.read(reading, 100))
print("after", flush=True)
"""
    done = subprocess.run([sys.executable, "-c", program], input="line\n", capture_output=True, text=True, check=True)
    assert done.stdout == "line\nafter\n"
    assert done.stderr == "stray\nraw\n"
