"""Our own cases at the doors: headers, tokens and pages that are not what they claim to be."""

from __future__ import annotations

from pathlib import Path

from tests.attacks.cases import load_cases
from tests.attacks.runner import run_cases

OWN = Path(__file__).parent / "own_door.jsonl"


def test_every_case_at_the_doors_passes() -> None:
    results = list(run_cases(load_cases(OWN)))
    assert [str(result) for result in results if result.problem or result.skipped] == []
    assert len(results) > 20
