"""Our own commands, bad and good, and those that we were given: they run through a whole gate, in its sandbox."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from agent_gate.sandbox.choice import Choice
from tests.attacks.cases import load_cases
from tests.attacks.runner import run_cases

HERE = Path(__file__).parent
CHUNKS = 4
"""So that several processes can share them."""


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_every_shell_case_passes_and_none_is_skipped(chunk: int) -> None:
    if asyncio.run(Choice().pick("auto")) is None:
        pytest.skip("this machine offers no sandbox")
    cases = [*load_cases(HERE / "own_shell.jsonl"), *load_cases(HERE / "visible.jsonl")]
    cases = [case for case in cases if case.family == "shell"]
    assert len(cases) >= 700
    results = list(run_cases(cases[chunk::CHUNKS]))
    assert [str(result) for result in results if result.problem or result.skipped] == []
