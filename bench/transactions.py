"""Whole commands: one that reads beside bare bubblewrap; those that write, through layers and a commit, beside the same
command writing directly, and beside `cp -r`."""

from __future__ import annotations

import asyncio
import os
import shutil
import statistics
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agent_gate import Gate, open_gate
from agent_gate.ledger.sqlite.ledger import SqliteLedger
from agent_gate.resolve.commit import journal
from agent_gate.resolve.commit.layer import Bounds, read_layers
from agent_gate.resolve.commit.transaction import Transaction
from agent_gate.resolve.own_watch import OwnWatch
from agent_gate.sandbox.bubblewrap import candidates
from agent_gate.sandbox.choice import Choice
from agent_gate.system.clock import RandomIds, SystemClock
from bench.figure import Figure, at_most, median_us
from bench.ledger import append_durations, template_draft

ROUNDS = 15
FILES, FILE_BYTES = 1_000, 10_240
COMMIT_ROUNDS = 5
TEN_FILES = "for n in 0 1 2 3 4 5 6 7 8 9; do echo $1 > small$n; done"


def figures(directory: Path) -> Iterator[Figure]:
    picked = asyncio.run(Choice().pick("auto"))
    if picked is None or not picked.layers:
        return
    if picked.name == "bubblewrap":
        yield asyncio.run(_one_operand(directory, next(candidates())))
    yield asyncio.run(_ten_files(directory))
    yield _thousand_files(directory)


async def _one_operand(directory: Path, bubblewrap: str) -> Figure:
    """One file among others: all of a call, recorded, beside the start of the program in such a sandbox."""
    work = directory / "reading"
    work.mkdir()
    for name in ("a.txt", "b.txt", ".env", ".hidden"):
        (work / name).write_text("text\n" * 100)
    bare = [bubblewrap, "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    ours, started = [], []
    policy = {"tools": {"fs.read": {"allow_paths": ["./**"]}, "shell.run": {"allow_executables": ["cat"]}}}
    async with open_gate(policy, directory / "reading.db", working_dir=work) as gate:
        for number in range(2 * ROUNDS + 2):
            start = time.perf_counter()
            outcome = await gate.call("shell.run", command="cat a.txt")
            middle = time.perf_counter()
            process = await asyncio.create_subprocess_exec(
                *bare, "cat", str(work / "a.txt"), stdout=asyncio.subprocess.PIPE
            )
            await process.communicate()
            end = time.perf_counter()
            assert outcome.ok, outcome
            assert process.returncode == 0
            if number >= 2:
                ours.append(middle - start)
                started.append(end - middle)
    return at_most(
        "a command with a file operand", median_us(ours), median_us(started), "the program in bare bubblewrap", "µs", 2
    )


async def _ten_files(directory: Path) -> Figure:
    """Rounds take turns, so that noise from outside meets all three."""
    work = directory / "writing"
    work.mkdir()
    template = await template_draft(directory / "writing-template.db")
    ledger = SqliteLedger(directory / "writing-appends.db", SystemClock(), RandomIds())
    times: dict[str, list[float]] = {"judge": [], "direct": [], "append": []}
    async with (
        open_gate(_policy("judge"), directory / "judge.db", working_dir=work) as judged,
        open_gate(_policy("direct"), directory / "direct.db", working_dir=work) as direct,
    ):
        for number in range(ROUNDS + 2):
            taken = {"judge": await _run_s(judged, f"j{number}"), "direct": await _run_s(direct, f"d{number}")}
            append = await append_durations(ledger, template, 20)
            if number >= 2:
                times["append"] += append
                for name, seconds in taken.items():
                    times[name].append(seconds)
    await ledger.close()
    ours, plain, appended = (statistics.median(times[name]) * 1e6 for name in ("judge", "direct", "append"))
    reference = 1.5 * plain + 3 * appended
    return at_most(
        "a command that writes ten small files", ours, reference, "1.5 × the same written directly, and 3 A", "µs", 1
    )


def _policy(writes: str) -> dict[str, Any]:
    return {
        "tools": {
            "fs.read": {"allow_paths": ["./**"]},
            "fs.write": {"allow_paths": ["./**"]},
            "shell.run": {"allow_executables": ["sh"], "unchecked_executables": ["sh"], "writes": writes},
        }
    }


async def _run_s(gate: Gate, text: str) -> float:
    start = time.perf_counter()
    outcome = await gate.call("shell.run", argv=["sh", "-c", TEN_FILES, "sh", text])
    taken = time.perf_counter() - start
    assert outcome.ok, outcome
    return taken


def _thousand_files(directory: Path) -> Figure:
    """What a command wrote, read, staged, journalled, committed and tidied up: all that follows its end, but two A."""
    layer = directory / "layer"
    (layer / "made").mkdir(parents=True)
    for number in range(FILES):
        (layer / "made" / f"f{number}").write_bytes(os.urandom(FILE_BYTES))
    ours, copied = [], []
    for number in range(COMMIT_ROUNDS):
        place, target = directory / f"place{number}", directory / f"copy{number}"
        place.mkdir()
        start = time.perf_counter()
        _commit(directory, place, layer, f"call{number}")
        ours.append(time.perf_counter() - start)
        start = time.perf_counter()
        subprocess.run(["cp", "-r", str(layer), str(target)], check=True)
        subprocess.run(["sync", "-f", str(target)], check=True)
        copied.append(time.perf_counter() - start)
        shutil.rmtree(place)
        shutil.rmtree(target)
    return at_most(
        "1,000 files of 10 KB committed",
        statistics.median(ours) * 1e3,
        statistics.median(copied) * 1e3,
        "cp -r and sync -f",
        "ms",
        6,
    )


def _commit(directory: Path, place: Path, layer: Path, call_id: str) -> None:
    bounds = Bounds(10_000, 1 << 30)
    found = read_layers([(str(place), str(layer))], lambda _: False, bounds, 1 << 70, OwnWatch())
    assert len(found.changes) == FILES + 1, found.problem
    transaction = Transaction(call_id, found.changes, str(directory / f"{call_id}.json"))
    transaction.stage()
    journal.encode(transaction.units, found.changes)
    transaction.commit()
    transaction.tidy()
