"""Our own cases at the socket of the policy agent pass, as do the visible ones."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.attacks.cases import load_cases
from tests.attacks.runner import run_cases

HERE = Path(__file__).parent


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
@pytest.mark.parametrize(("file", "count"), [("own_grpc.jsonl", 31), ("visible.jsonl", 2)])
def test_every_case_passes_and_none_is_skipped(file: str, count: int) -> None:
    results = list(run_cases(case for case in load_cases(HERE / file) if case.family == "grpc"))
    assert [str(result) for result in results if result.problem or result.skipped] == []
    assert len(results) == count
