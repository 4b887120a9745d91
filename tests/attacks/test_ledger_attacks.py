"""Ledgers that were changed behind the gate's back, as data: the visible cases and our own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.attacks.cases import load_cases
from tests.attacks.runner import run_cases

HERE = Path(__file__).parent


@pytest.mark.parametrize("file", ["visible.jsonl", "own_ledger.jsonl"])
def test_every_change_is_found_and_none_decides(file: str) -> None:
    results = list(run_cases(case for case in load_cases(HERE / file) if case.family == "ledger"))
    assert [(str(result), result.skipped) for result in results if result.problem or result.skipped] == []
    assert len(results) >= 5
