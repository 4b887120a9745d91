"""Our own cases of server-side request forgery pass, and their runner sees what it must not overlook."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.attacks.cases import Case, load_cases
from tests.attacks.runner import run_cases

OWN = Path(__file__).parent / "own_ssrf.jsonl"
PUBLIC, PRIVATE = "93.184.215.14", "10.0.0.1"
OPEN: dict[str, Any] = {"allow_domains": ["*"], "allow_schemes": ["https"], "allow_ports": [443]}


def test_every_own_case_passes() -> None:
    results = list(run_cases(load_cases(OWN)))
    assert [str(result) for result in results if result.problem or result.skipped] == []
    assert len(results) > 300


@pytest.mark.parametrize(
    ("policy", "check", "problem"),
    [
        ({}, {}, "expected deny, got allow"),
        ({"block_private": False}, {"never_connect": [PRIVATE]}, f"connected to {PRIVATE}"),
        ({}, {"never_resolve": ["a.example.test"]}, "looked up a.example.test"),
        ({}, {"max_lookups": 0}, "2 of max_lookups 0"),
        ({}, {"max_connections": 0}, "2 of max_connections 0"),
        ({}, {"must_not_contain": ["status_code"]}, "the outcome holds 'status_code'"),
    ],
)
def test_the_runner_reports_what_went_through(policy: dict[str, Any], check: dict[str, Any], problem: str) -> None:
    answers = [[PRIVATE]] if "block_private" in policy else [[PUBLIC]]
    setup = (
        {"dns": {"a.example.test": answers}},
        {"http": {"https://a.example.test/": {"status": 302, "location": "/b"}}},
    )
    case = Case(
        "x", "ssrf.x", "http.get", {"url": "https://a.example.test/"}, {**OPEN, **policy}, "deny", "", setup, check
    )
    assert [result.problem for result in run_cases([case])] == [problem]
