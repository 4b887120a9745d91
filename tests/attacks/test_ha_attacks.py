"""Our own calls to a home, bad and good, and those that we were given: through a whole gate, to a simulated home."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.attacks.cases import load_cases
from tests.attacks.runner import run_cases

HERE = Path(__file__).parent
CHUNKS = 4
"""So that several processes can share them."""


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_every_case_of_a_home_passes_and_none_is_skipped(chunk: int) -> None:
    cases = [*load_cases(HERE / "own_ha.jsonl"), *load_cases(HERE / "visible.jsonl")]
    cases = [case for case in cases if case.family == "ha"]
    assert len(cases) >= 140
    results = list(run_cases(cases[chunk::CHUNKS]))
    assert [str(result) for result in results if result.problem or result.skipped] == []
