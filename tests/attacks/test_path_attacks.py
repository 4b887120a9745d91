"""Our own bad paths, and the good ones beside them, pass through a whole gate."""

from __future__ import annotations

from pathlib import Path

from tests.attacks.cases import load_cases
from tests.attacks.runner import run_cases

HERE = Path(__file__).parent


def test_every_path_case_passes_and_none_is_skipped() -> None:
    cases = [*load_cases(HERE / "own_path.jsonl"), *load_cases(HERE / "visible.jsonl")]
    results = list(run_cases(case for case in cases if case.family == "path"))
    assert [str(result) for result in results if result.problem or result.skipped] == []
    assert len(results) >= 195
