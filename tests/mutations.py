"""Mutates the trust-critical files and counts what the tests find; for people to run: `python -m tests.mutations -h`.

Every mutant is made in a copy of `src/`; the working tree stays as it is. For each one only those tests are run that
execute the changed line, which a first run of the suite finds out and keeps for the next time.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "agent_gate"
SCORE = Path(__file__).with_name("mutations.json")
"""The last score that somebody found worth keeping."""
CRITICAL = (
    "ledger/anchor.py", "ledger/sqlite/apply.py", "ledger/sqlite/backing.py", "ledger/chain.py",
    "ledger/sqlite/recovery.py",
    "ledger/sqlite/transaction.py", "ledger/sqlite/writer.py", "history/replays.py", "history/verify_chain.py",
    "history/verify_contents.py", "pipeline/admit.py", "pipeline/bind.py", "pipeline/decide.py", "pipeline/hold.py",
    "pipeline/perform.py", "pipeline/settle.py", "policy/judge.py", "policy/layers.py", "policy/rules.py",
    "policy/expression.py", "policy/guards/paths.py", "policy/guards/urls.py", "policy/guards/addresses.py",
    "resolve/paths.py", "chain/executor.py", "chain/timing.py", "doors/callers.py", "doors/identity.py",
)  # fmt: skip
TESTS_EACH_MAX = 40
"""Tests that are tried on one mutant; those that execute the fewest lines come first, for they are about it."""
TIMEOUT_S = 300
_COVERAGE = "AGENT_GATE_MUTATIONS_COVERAGE"


@dataclass(frozen=True, slots=True)
class Mutant:
    file: str
    line: int
    what: str
    node: int
    """The place of the changed node in the order of `ast.walk`."""

    @property
    def name(self) -> str:
        return f"{self.file}:{self.line} {self.what}"

    @property
    def source(self) -> str:
        """The whole file with the one change."""
        tree = ast.parse((PACKAGE / self.file).read_text())
        node = next(node for place, node in enumerate(ast.walk(tree)) if place == self.node)
        next(change for what, change in _changes(node) if what == self.what)(node)
        return ast.unparse(ast.fix_missing_locations(tree))


_OPPOSITES: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add,
}  # fmt: skip


def mutants(file: str) -> Iterator[Mutant]:
    """One for each place and way."""
    for number, node in enumerate(ast.walk(ast.parse((PACKAGE / file).read_text()))):
        for what, _ in _changes(node):
            yield Mutant(file, getattr(node, "lineno", 0), what, number)


def _changes(node: ast.AST) -> Iterator[tuple[str, Any]]:
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in _OPPOSITES:
            yield _swapped(operator), lambda same: same.ops.__setitem__(0, _OPPOSITES[type(same.ops[0])]())
        case ast.BoolOp(op=operator) | ast.BinOp(op=operator) if type(operator) in _OPPOSITES:
            yield _swapped(operator), lambda same: setattr(same, "op", _OPPOSITES[type(same.op)]())
        case ast.UnaryOp(op=ast.Not()):
            yield "without `not`", _positive
        case ast.If() | ast.While() | ast.IfExp():
            for value in (True, False):
                yield f"`if {value}`", lambda same, value=value: setattr(same, "test", ast.Constant(value))
        case ast.Constant(value=bool() as value):
            yield f"{not value} for {value}", lambda same: setattr(same, "value", not same.value)
        case ast.Constant(value=int() as value):
            yield f"{value + 1} for {value}", lambda same: setattr(same, "value", same.value + 1)
        case ast.Return(value=ast.expr()):
            yield "returns None", lambda same: setattr(same, "value", ast.Constant(None))
        case ast.Raise():
            yield "does not raise", _emptied
        case ast.Expr(value=ast.Call() | ast.Await()):
            yield "call left out", lambda same: setattr(same, "value", ast.Constant(None))
        case _:
            return


def _swapped(operator: ast.AST) -> str:
    return f"{_OPPOSITES[type(operator)].__name__} for {type(operator).__name__}"


def _positive(same: ast.UnaryOp) -> None:
    """`not x` becomes `bool(x)`, which is x to whoever only asks whether it holds."""
    call = ast.Call(ast.Name("bool", ast.Load()), [same.operand], [])
    same.operand = ast.UnaryOp(ast.Not(), call)


def _emptied(same: ast.Raise) -> None:
    same.__class__ = ast.Pass  # type: ignore[assignment]  # the node stays in its place
    same.__dict__ = {key: value for key, value in same.__dict__.items() if "lineno" in key or "col" in key}


class CoverageOfTests:
    """A plugin of pytest: which lines of the critical files each test executes."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._files = {os.fspath(PACKAGE / file): file for file in CRITICAL}
        self._lines: set[tuple[str, int]] = set()
        self._found: dict[str, list[tuple[str, int]]] = {}

    def pytest_runtest_setup(self) -> None:
        self._lines = set()
        threading.settrace(self._trace)
        sys.settrace(self._trace)

    def pytest_runtest_teardown(self, item: Any) -> None:
        sys.settrace(None)
        threading.settrace(None)
        self._found[item.nodeid] = sorted(self._lines)

    def pytest_sessionfinish(self) -> None:
        self._target.write_text(json.dumps(self._found))

    def _trace(self, frame: FrameType, event: str, _: Any) -> Any:
        file = self._files.get(frame.f_code.co_filename)
        if file is None:
            return None

        def each(frame: FrameType, event: str, _: Any) -> Any:
            self._lines.add((file, frame.f_lineno))
            return each

        self._lines.add((file, frame.f_lineno))
        return each


def pytest_configure(config: Any) -> None:
    """This file is itself the plugin, where the run for coverage asks for it."""
    if target := os.environ.get(_COVERAGE):
        config.pluginmanager.register(CoverageOfTests(Path(target)))


def covering(kept: Path, tests: Sequence[str]) -> dict[tuple[str, int], list[str]]:
    """The tests that execute each line, those first that execute little else."""
    if not kept.exists():
        print(f"finding out which test executes what, once: {kept}", flush=True)
        command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "tests.mutations", "--timeout=0", *tests]
        subprocess.run(command, cwd=ROOT, env={**os.environ, _COVERAGE: os.fspath(kept)}, check=False)
    found: dict[str, list[tuple[str, int]]] = json.loads(kept.read_text())
    by_line: dict[tuple[str, int], list[str]] = {}
    for test, lines in sorted(found.items(), key=lambda item: len(item[1])):
        for file, line in lines:
            by_line.setdefault((file, line), []).append(test)
    return by_line


def _tests_of(mutant: Mutant, by_line: dict[tuple[str, int], list[str]]) -> list[str]:
    """Of the last executed line up to it: a statement of several lines counts where it begins."""
    lines = [line for file, line in by_line if file == mutant.file and line <= mutant.line]
    return by_line[mutant.file, max(lines)] if lines else []


def is_found(mutant: Mutant, tests: Sequence[str], copied: Path) -> bool:
    """Whether a test fails, or none comes to its end."""
    file = copied / "agent_gate" / mutant.file
    file.write_text(mutant.source)
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider", *tests]
    env = {**os.environ, "PYTHONPATH": os.fspath(copied), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return True
    finally:
        shutil.copy(PACKAGE / mutant.file, file)
    return done.returncode != 0


def tried(chosen: Sequence[Mutant], by_line: dict[tuple[str, int], list[str]]) -> dict[str, list[str]]:
    """The names of mutants, by what became of them."""
    score: dict[str, list[str]] = {"found": [], "survived": [], "not executed": []}
    with tempfile.TemporaryDirectory() as directory:
        copied = Path(directory) / "src"
        shutil.copytree(ROOT / "src", copied, ignore=shutil.ignore_patterns("__pycache__"))
        for mutant in chosen:
            tests = _tests_of(mutant, by_line)[:TESTS_EACH_MAX]
            became = "not executed" if not tests else "found" if is_found(mutant, tests, copied) else "survived"
            score[became].append(mutant.name)
            print(f"{became:12}  {mutant.name}", flush=True)
    return score


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", nargs="*", help="below src/agent_gate; without any, every critical file")
    parser.add_argument("--sample", type=int, default=60, help="how many mutants are tried (60)")
    parser.add_argument("--seed", type=int, default=0, help="which ones (0)")
    parser.add_argument("--coverage", type=Path, default=Path(tempfile.gettempdir()) / "agent-gate-mutations.json")
    parser.add_argument("--tests", nargs="*", default=["tests"], help="the tests that count (all)")
    parser.add_argument("--record", action="store_true", help=f"write the score to {SCORE.name}")
    given = parser.parse_args()
    files = given.files or [file for file in CRITICAL if (PACKAGE / file).exists()]
    everything = [mutant for file in files for mutant in mutants(file)]
    chosen = random.Random(given.seed).sample(everything, min(given.sample, len(everything)))
    score = tried(chosen, covering(given.coverage, given.tests))
    told = {
        "mutants": len(everything), "tried": len(chosen), "seed": given.seed, "tests": given.tests,
        "found": len(score["found"]), "survived": score["survived"], "not_executed": score["not executed"],
    }  # fmt: skip
    print(f"{told['found']} of {told['tried']} found, of {told['mutants']} that can be made")
    if given.record:
        SCORE.write_text(json.dumps(told, indent=2) + "\n")


if __name__ == "__main__":
    main()
