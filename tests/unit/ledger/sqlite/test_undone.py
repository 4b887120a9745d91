"""Finding the call that undid another: under the writer lock, so by indexes alone."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from agent_gate.ledger.sqlite.reader import open_reader
from agent_gate.ledger.sqlite.undone import UNDOINGS
from tests.gates import a_gate


async def test_whether_a_call_was_undone_is_found_without_a_walk_along_the_chain(tmp_path: Path) -> None:
    async with a_gate(tmp_path):
        pass
    with closing(open_reader(tmp_path / "gate.db")) as reader:
        rows = reader.connection.execute(
            f"EXPLAIN QUERY PLAN {UNDOINGS}", {"project": "default", "call": "x"}
        ).fetchall()
    searches = [row[3] for row in rows if row[3].startswith(("SEARCH", "SCAN"))]
    assert searches == [
        "SEARCH e USING INDEX entries_tool (tool=?)",
        "SEARCH entries USING INDEX entries_call (call_id=?)",
        "SEARCH s USING INDEX entries_call (call_id=?)",
    ]
