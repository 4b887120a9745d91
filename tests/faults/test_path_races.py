"""Links are swapped under the gate's feet while it reads and writes: nothing outside is ever read or written."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import struct
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_gate import Gate, Outcome, open_gate
from agent_gate.model.call import Agent
from agent_gate.model.errors import GateError
from agent_gate.resolve import files
from agent_gate.resolve.paths import PathResolver
from tests.faults.shim import COMPILER

THOROUGH = os.environ.get("AGENT_GATE_THOROUGH") == "1"
SWAPS = 5_000_000 if THOROUGH else 300_000
CALLS = 20_000 if THOROUGH else 1_000
LOOKS = 1_000_000 if THOROUGH else 60_000
CALLERS = 8
LONGEST_S = 3_600 if THOROUGH else 120
SOURCE = Path(__file__).with_name("swapper.c")
CANARY = "CANARY"

pytestmark = [pytest.mark.serial, pytest.mark.skipif(COMPILER is None, reason="no C compiler for the swapper")]

POLICY: dict[str, Any] = {
    "tools": {"fs.read": {"allow_paths": ["./**"]}, "fs.write": {"allow_paths": ["./**"]}},
    "rules": [{"pattern": "gate.revert(*)", "action": "allow"}, {"pattern": "fs.write(*)", "action": "allow"}],
    "boundary": "deny_by_default",
}


class Swapping:
    """A file and a link to one outside, a directory and a link to one outside, each pair trading names."""

    def __init__(self, root: Path) -> None:
        self.work, self.outside = root / "work", root / "outside"
        self._counter = root / "swaps"
        for folder in (self.work / "dir", self.work / "deep/dir", self.outside):
            folder.mkdir(parents=True)
        for file in ("target", "dir/f", "deep/dir/f"):
            (self.work / file).write_text("inside")
        for file in ("secret", "f", "target"):
            (self.outside / file).write_text(CANARY)
        (self.work / "link").symlink_to("../outside/secret")
        (self.work / "dirlink").symlink_to("../outside")
        (self.work / "deep/dirlink").symlink_to(self.outside)
        self._counter.write_bytes(bytes(8))
        self._before = self._seen()
        program = root / "swapper"
        subprocess.run([str(COMPILER), "-O2", "-o", program, SOURCE], check=True)
        pairs = ("target", "link", "dir", "dirlink", "deep/dir", "deep/dirlink")
        names = [str(self.work / name) for name in pairs]
        self._process = subprocess.Popen([program, self._counter, *names], stdin=subprocess.PIPE)

    @property
    def swaps(self) -> int:
        assert self._process.poll() is None, "the swapper ended early"
        count: int = struct.unpack("=Q", self._counter.read_bytes())[0]
        return count

    def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(30) == 0

    def _seen(self) -> dict[str, tuple[bytes, int]]:
        return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in self.outside.iterdir()}

    def check_outside(self) -> None:
        assert self._seen() == self._before


@pytest.fixture
def swapping(tmp_path: Path) -> Iterator[Swapping]:
    swapping = Swapping(tmp_path.resolve())
    try:
        yield swapping
    finally:
        swapping.stop()


def test_a_descriptor_judged_inside_is_never_one_from_outside(swapping: Swapping) -> None:
    work, seen = str(swapping.work) + "/", Counter[str]()
    ways = [PathResolver(str(swapping.work)), PathResolver(str(swapping.work), by_walking=True)]
    paths = itertools.cycle(["target", "dir/f", "deep/dir/f", "dir/../target", "dir/new", "deep/dir/x/new"])
    for resolver in ways:
        for path in itertools.islice(paths, LOOKS // len(ways)):
            seen[_look(resolver, path, work)] += 1
    swapping.check_outside()
    assert seen["outside"] > 100
    assert seen["inside"] > 100


def _look(resolver: PathResolver, path: str, work: str) -> str:
    try:
        target = resolver.resolve(path)
    except GateError:
        return "refused"
    try:
        if not target.path.startswith(work):
            return "outside"
        if target.kind == "file":
            assert CANARY.encode() not in files.read(target, 1_000)
        elif not target.obstacle:
            files.create(target, b"new")
            (Path(work) / target.path).unlink(missing_ok=True)
    except GateError:
        return "refused late"
    except OSError:
        return "moved on"
    finally:
        target.release()
    return "inside"


async def test_a_gate_that_reads_and_writes_never_leaves_its_directory(swapping: Swapping, tmp_path: Path) -> None:
    admin = Agent("admin", roles=("admin",))
    async with open_gate(POLICY, tmp_path / "gate.db", working_dir=swapping.work, agent=admin) as gate:
        callers = [_Caller(gate, number) for number in range(CALLERS)]
        ends = time.monotonic() + LONGEST_S
        while swapping.swaps < SWAPS or sum(caller.calls for caller in callers) < CALLS:
            assert time.monotonic() < ends, f"only {swapping.swaps} swaps"
            await asyncio.gather(*(caller.call() for caller in callers))
    swapping.check_outside()
    outcomes = sum((caller.statuses for caller in callers), Counter[str]())
    assert outcomes["success"] > 20
    assert outcomes["denied"] > 20
    assert set(outcomes) <= {"success", "denied", "error"}


class _Caller:
    def __init__(self, gate: Gate, number: int) -> None:
        self._gate, self._number = gate, number
        self._chance = random.Random(number)
        self._written: list[str] = []
        self.statuses: Counter[str] = Counter()
        self.calls = 0

    async def call(self) -> None:
        self.calls += 1
        outcome = await self._any_call()
        self.statuses[outcome.status.value] += 1
        if outcome.ok:
            assert CANARY not in str(outcome.data)
            assert "/work/" in outcome.data["path"]
            if "bytes_written" in outcome.data:
                self._written.append(outcome.call_id)

    async def _any_call(self) -> Outcome:
        chance, path = self._chance, self._chance.choice(["target", "dir/f", "deep/dir/f"])
        what = chance.randrange(10)
        if what < 4:
            return await self._gate.call("fs.read", path=path)
        if what < 6:
            return await self._gate.call("fs.write", path=path, content=f"inside {self._number}")
        if what < 7:
            return await self._gate.call("fs.write", {"path": path, "content": "+", "mode": "append"})
        if what < 9 or not self._written:
            name = f"{chance.choice(['dir', 'deep/dir', 'dir/sub'])}/new-{self._number}-{self.calls}"
            return await self._gate.call("fs.write", path=name, content="inside", create_dirs=True)
        return await self._gate.call("gate.revert", call_id=self._written.pop())
