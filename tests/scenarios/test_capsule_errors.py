"""The Capsule document's error table: each category and each single code, reached by a real gate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_gate import (
    GateError,
    PlanValidationError,
    PolicyDeniedError,
    ReplayError,
    StorageError,
    ToolError,
    load_plan,
    verify_run,
)
from agent_gate.model.errors import NAMES
from agent_gate.model.tool import Json
from tests.gates import ALLOW_ALL, a_gate, entries
from tests.scenarios import reaching_denials, reaching_faults
from tests.scenarios.reaching import ELSEWHERE, GUARDED, REACHED, problem
from tests.scenarios.reaching_faults import opened

WAYS = (reaching_denials, reaching_faults)
"""Importing them fills the table of ways."""


def title(code: int) -> str:
    return f"{code} {REACHED[code].__name__.replace('_', ' ')}"


@pytest.mark.parametrize("code", sorted(REACHED), ids=title)
async def test_each_code_of_the_table_is_reached_by_a_real_gate(code: int, tmp_path: Path) -> None:
    found = await REACHED[code](tmp_path)
    assert (found.code, found.name) == (code, NAMES[code])
    assert str(found).startswith(f"{NAMES[code]}: ")
    assert "\n" not in str(found)


def test_no_code_of_the_documents_categories_is_left_out() -> None:
    assert {*REACHED, *ELSEWHERE} == {code for code in NAMES if code < 6000}


async def raised_by_outcome(directory: Path, tool_name: str, *tools: Any, **args: Json) -> GateError:
    async with a_gate(directory, GUARDED, *tools, working_dir=directory) as gate:
        outcome = await gate.call(tool_name, args)
    with pytest.raises(GateError) as error:
        outcome.raise_for_status()
    return error.value


async def test_policy_denied_error_1xxx_policy_blocks_action(tmp_path: Path) -> None:
    error = await raised_by_outcome(tmp_path, "fs.read", path="/etc/passwd")
    assert (type(error), error.code) == (PolicyDeniedError, 1002)
    assert ("fs.read" in str(error), "`/etc/passwd`" in str(error)) == (True, True)
    assert error.problem.suggestion


async def test_tool_error_2xxx_tool_execution_failures(tmp_path: Path) -> None:
    error = await raised_by_outcome(tmp_path, "fs.read", path="missing.txt")
    assert (type(error), error.code) == (ToolError, 2003)
    assert "/missing.txt` does not exist" in str(error)
    assert error.problem.suggestion


def test_plan_validation_error_3xxx_invalid_plan_format() -> None:
    with pytest.raises(PlanValidationError) as raised:
        load_plan({"version": "1.0", "name": "p", "steps": [{"tool": "fs.read", "arguments": {}}]})
    assert raised.value.code == 3001
    assert ("steps[0]" in str(raised.value), "arguments" in str(raised.value)) == (True, True)


async def test_replay_error_4xxx_replay_mismatches(tmp_path: Path) -> None:
    async with a_gate(tmp_path, ALLOW_ALL) as gate:
        with pytest.raises(ReplayError) as raised:
            await verify_run(gate, "nope")
    assert raised.value.code == 4001
    assert "`nope`" in str(raised.value)
    assert raised.value.problem.suggestion


async def test_storage_error_5xxx_database_operations(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear anna\n" * 200)
    with pytest.raises(StorageError) as raised:
        await opened(tmp_path / "letter.txt")
    assert raised.value.code == 5001
    assert "letter.txt" in str(raised.value)
    assert raised.value.problem.suggestion


def test_all_errors_have_numeric_codes_and_one_base() -> None:
    kinds = (PolicyDeniedError, ToolError, PlanValidationError, ReplayError, StorageError)
    for family, kind in enumerate(kinds, start=1):
        error = kind("x")
        assert isinstance(error, GateError)
        assert error.code // 1000 == family


async def test_a_denial_names_the_field_that_would_have_to_change(tmp_path: Path) -> None:
    mended = {
        **GUARDED,
        "tools": {**GUARDED["tools"], "fs.read": {"allow_paths": ["./**", f"{tmp_path}/up.txt"]}},
    }
    (tmp_path / "work").mkdir()
    (tmp_path / "up.txt").write_text("hello")
    async with a_gate(tmp_path / "work", GUARDED, working_dir=tmp_path / "work") as gate:
        denied = await gate.call("fs.read", path="../up.txt")
        recorded = entries(gate, "settled")[-1]["body"]["error"]
    async with a_gate(tmp_path / "work", mended, working_dir=tmp_path / "work") as gate:
        allowed = await gate.call("fs.read", path="../up.txt")
    assert "allow_paths of fs.read" in problem(denied).detail + problem(denied).suggestion
    assert recorded == problem(denied).to_json()
    assert allowed.ok
