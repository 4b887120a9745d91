"""Start-up: what a person waits for before a command does anything.

As in an installation, where the installer or the first start has written the bytecode. A variable that forbids it, as
many test machines set it, would have all the source compiled at every start.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bench.figure import Figure, at_most

ROUNDS = 15


def figures(directory: Path) -> Iterator[Figure]:
    policy = directory / "policy.yaml"
    policy.write_text("rules:\n  - {pattern: 'clock.*', action: allow}\n  - {pattern: state.get*, action: allow}\n")
    command = str(Path(sys.executable).with_name("agent-gate"))
    plan, db = directory / "plan.yaml", str(directory / "startup.db")
    plan.write_text("version: '1.0'\nsteps:\n  - {tool: state.get, args: {}}\n")
    run = [command, "run", str(plan), "-p", str(policy), "--db", db]
    list_runs = [command, "list-runs", "--db", db]
    check = [command, "check", "--tool", "clock.read", "--args", '{"place": "kitchen"}', "-p", str(policy)]
    commands = [[sys.executable, "-c", "pass"], [command, "--version"], check, run, list_runs]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(directory / "bytecode")
    python, version, checked, ran, listed = _medians_ms(commands, environment)
    yield at_most("agent-gate --version", version, python, "python -c pass", "ms", 4)
    yield at_most("agent-gate check", checked, python, "python -c pass", "ms", 15)
    yield at_most("agent-gate list-runs", listed, python, "python -c pass", "ms", 20)
    yield at_most("agent-gate run, one step", ran, python, "python -c pass", "ms", 30)


def _medians_ms(commands: Sequence[Sequence[str]], environment: Mapping[str, str]) -> list[float]:
    """The commands take turns, so that noise from outside meets all of them.

    The first turn does not count: it writes the bytecode, and makes the ledger.
    """
    durations: list[list[float]] = [[] for _ in commands]
    for _ in range(1 + ROUNDS):
        for command, times in zip(commands, durations, strict=True):
            start = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True, env=environment)
            times.append(time.perf_counter() - start)
    return [sorted(times[1:])[ROUNDS // 2] * 1e3 for times in durations]
