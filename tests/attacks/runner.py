"""Runs cases by the handler of their family and scores what comes of them.

A handler is a module `tests.attacks.<family>_cases` with `run(case, root)`, which answers allow, deny or error,
raises `CheckFailed` where one of the case's own checks does not hold, and names those checks in `CHECKS`.
"""

from __future__ import annotations

import importlib
import importlib.util
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType

from tests.attacks.arrange import arrange
from tests.attacks.cases import Case, expand
from tests.attacks.memory import Growth

_GENERAL_CHECKS = frozenset({"max_seconds", "max_rss_mb_growth", "process_alive", "must_not_exist", "must_exist"})


class CheckFailed(AssertionError):
    """A check of the case does not hold, whatever its outcome."""


class Skipped(Exception):
    """The handler has no way to run this case."""


@dataclass(frozen=True)
class Result:
    case: Case
    problem: str = ""
    """Empty if it passed."""
    skipped: bool = False

    def __str__(self) -> str:
        return f"FAIL {self.case.id} {self.case.kind}: {self.problem} ({self.case.why})"


def run_cases(cases: Iterable[Case]) -> Iterator[Result]:
    for case in cases:
        handler = _handler(case.family)
        yield Result(case, skipped=True) if handler is None else _run(case, handler)


def _handler(family: str) -> ModuleType | None:
    name = f"tests.attacks.{family}_cases"
    return importlib.import_module(name) if family.isidentifier() and importlib.util.find_spec(name) else None


def _run(case: Case, handler: ModuleType) -> Result:
    try:
        with tempfile.TemporaryDirectory(prefix="attack-") as folder:
            root = Path(folder).resolve()
            _score(_expanded(case, root), root, handler)
    except Skipped:
        return Result(case, skipped=True)
    except CheckFailed as failed:
        return Result(case, str(failed))
    except Exception as error:
        # Whatever a case lets loose is a failure of that case alone.
        return Result(case, f"crashed with {type(error).__name__}: {str(error)[:200]}")
    return Result(case)


def _expanded(case: Case, root: Path) -> Case:
    return replace(
        case,
        args=expand(case.args, root),
        policy=expand(case.policy, root),
        setup=tuple(expand(list(case.setup), root)),
        check=expand(case.check, root),
    )


def _score(case: Case, root: Path, handler: ModuleType) -> None:
    unknown = set(case.check) - _GENERAL_CHECKS - set(getattr(handler, "CHECKS", ()))
    if unknown:
        raise CheckFailed(f"no handler for the check {', '.join(sorted(unknown))}")
    for step in case.setup:
        arrange(step)
    run: Callable[[Case, Path], str] = handler.run
    started, growth = time.perf_counter(), Growth()
    outcome = run(case, root)
    seconds, grown_mb = time.perf_counter() - started, growth.mb()
    if outcome not in case.accepted:
        raise CheckFailed(f"expected {case.expect}, got {outcome}")
    if seconds > case.check.get("max_seconds", seconds):
        raise CheckFailed(f"took {seconds:.2f} s of {case.check['max_seconds']}")
    if grown_mb > case.check.get("max_rss_mb_growth", grown_mb):
        raise CheckFailed(f"grew by {grown_mb:.0f} MB of {case.check['max_rss_mb_growth']}")
    for path in case.check.get("must_not_exist", ()):
        if Path(path).exists():
            raise CheckFailed(f"{path} exists")
    for path in case.check.get("must_exist", ()):
        if not Path(path).exists():
            raise CheckFailed(f"{path} does not exist")
