"""The list of what is shown on a real Home Assistant names tests that are there, and every row of the facts."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
INDEX = (TESTS / "real" / "README.md").read_text()
ROWS = [*(f"A{number}" for number in range(1, 8)), *(f"B{number}" for number in range(1, 14))]


def _tests() -> set[str]:
    texts = (path.read_text() for path in TESTS.rglob("test_*.py"))
    return {name for text in texts for name in re.findall(r"def (test_\w+)\(", text)}


def test_every_test_that_the_index_names_is_there() -> None:
    named = set(re.findall(r"`(test_\w+)`", INDEX))
    assert len(named) > 60
    assert named - _tests() == set()


def test_every_row_has_a_test_of_what_servers_do_and_one_of_what_we_do() -> None:
    found = re.findall(r"^\| ([AB]\d+) [^|]*\| ([^|]*)\| ([^|]*)\|$", INDEX, re.MULTILINE)
    assert [row for row, _, _ in found] == ROWS
    assert all("`test_" in contract and "`test_" in ours for _, contract, ours in found)
