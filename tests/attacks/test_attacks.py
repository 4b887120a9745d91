"""The visible cases pass, and the runner tells the truth about those that do not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.attacks.__main__ import main
from tests.attacks.cases import expand, load_cases
from tests.attacks.memory import Growth
from tests.attacks.runner import run_cases

VISIBLE = Path(__file__).parent / "visible.jsonl"
OWN = Path(__file__).parent / "own.jsonl"


@pytest.mark.parametrize("file", [VISIBLE, OWN], ids=lambda file: file.name)
def test_every_case_that_has_a_handler_passes(file: Path) -> None:
    results = list(run_cases(load_cases(file)))
    assert [str(result) for result in results if result.problem] == []
    assert {"json", "yaml", "expr"} <= {result.case.family for result in results if not result.skipped}


def cases_file(folder: Path, *cases: dict[str, Any]) -> str:
    file = folder / "cases.jsonl"
    base = {"id": "x", "class": "expr.x", "tool": "expr.eval", "policy": {}, "expect": "allow", "why": "w"}
    file.write_text("\n".join(json.dumps({**base, **case}) for case in cases) + "\n")
    return str(file)


TRUE: dict[str, Any] = {"args": {"expr": "n == 1", "vars": {"n": 1}}}
WRONG: dict[str, Any] = {"args": {"expr": "n.real", "vars": {"n": 1}}}


@pytest.mark.parametrize(
    ("case", "line"),
    [
        (TRUE, ""),
        (WRONG, "FAIL x expr.x: expected allow, got error (w)\n"),
        ({**TRUE, "expect": "deny"}, "FAIL x expr.x: expected deny, got allow (w)\n"),
        ({**TRUE, "expect": "deny", "accept": ["allow"]}, ""),
        ({**WRONG, "expect": "deny"}, ""),
        ({**TRUE, "check": {"result": True}}, ""),
        ({**TRUE, "check": {"result": 1}}, "FAIL x expr.x: expected the result 1, got True (w)\n"),
        ({**TRUE, "check": {"max_seconds": 0}}, "FAIL x expr.x: took 0.00 s of 0 (w)\n"),
        ({**TRUE, "check": {"must_exist": ["{root}"], "must_not_exist": ["{root}/x"]}}, ""),
        ({**TRUE, "check": {"unheard_of": 1}}, "FAIL x expr.x: no handler for the check unheard_of (w)\n"),
        ({"args": {}}, "FAIL x expr.x: crashed with KeyError: 'expr' (w)\n"),
    ],
)
def test_a_failing_case_has_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], case: dict[str, Any], line: str
) -> None:
    code = main([cases_file(tmp_path, case)])
    assert (code, capsys.readouterr().out) == (
        (1, f"{line}0 passed, 1 failed, 0 skipped\n") if line else (0, "1 passed, 0 failed, 0 skipped\n")
    )


def test_a_family_without_a_handler_is_counted_as_skipped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = cases_file(tmp_path, TRUE, {**TRUE, "class": "nobody.x"}, {**TRUE, "class": "../x"})
    assert (main([file]), capsys.readouterr().out) == (0, "1 passed, 0 failed, 2 skipped\n")


def test_a_class_can_be_chosen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = cases_file(tmp_path, TRUE, {**TRUE, "class": "expr.other"}, {**TRUE, "class": "exp.x"})
    assert (main([file, "--class", "expr.o"]), capsys.readouterr().out) == (0, "1 passed, 0 failed, 0 skipped\n")


def test_memory_that_was_taken_and_given_back_is_seen() -> None:
    bytearray(200 << 20)
    growth = Growth()
    bytearray(100 << 20)
    assert 90 < growth.mb() < 150


def test_lone_surrogates_and_line_separators_do_not_disturb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "odd.jsonl"
    line = '{"id":"\\ud800\u2028","class":"json.x","tool":"t","args":{"raw":"{}"},"expect":"allow"}'
    file.write_text(line + "\n\n")
    assert (main([str(file)]), capsys.readouterr().out) == (
        1,
        "FAIL \\ud800\\u2028 json.x: expected allow, got error ()\n0 passed, 1 failed, 0 skipped\n",
    )


def test_shorthand_is_expanded_at_every_depth() -> None:
    value = {
        "a": [{"$repeat": ["{root}-", 2]}],
        "b": {"$concat": ["x", {"$repeat": ["y", 2]}, {"$b64": "/w=="}]},
        "c": 1,
    }
    assert expand(value, Path("/r")) == {"a": ["/r-/r-"], "b": b"xyy\xff", "c": 1}
