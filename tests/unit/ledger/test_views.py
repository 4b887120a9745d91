"""The documents' views find a call's other entries by an index, however long its project's chain is."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from agent_gate.ledger.reader import open_reader
from agent_gate.ledger.sqlite import SqliteLedger
from agent_gate.system import RandomIds, SystemClock


@pytest.mark.parametrize("view", ["audit_log", "tool_calls", "ha_command_log"])
async def test_a_view_never_walks_a_chain_for_one_call(tmp_path: Path, view: str) -> None:
    await SqliteLedger(tmp_path / "a.db", SystemClock(), RandomIds()).close()
    with closing(open_reader(tmp_path / "a.db")) as reader:
        steps = [row[3] for row in reader.execute(f"EXPLAIN QUERY PLAN SELECT * FROM {view}")]
    assert "SEARCH f USING INDEX entries_call (call_id=?)" in steps
    assert not any("entries_chain" in step for step in steps)
