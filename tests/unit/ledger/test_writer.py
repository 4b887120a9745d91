"""The writer: what is anchored when a caller is answered, and what an anchor that fails takes from nobody."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import pytest

from agent_gate.ledger.anchor import Anchor, AnchorKey, Heads, read
from agent_gate.ledger.sqlite import SqliteLedger
from agent_gate.model.codec import canonical
from agent_gate.model.entry import Applied, Draft, Kind, Work
from agent_gate.model.errors import StorageError
from agent_gate.model.limits import WAL_CHECKPOINT_BYTES
from agent_gate.model.moment import iso
from tests.gates import NOON, CountedIds, HandClock


def work(text: str = "") -> Work:
    return Work("default", (Draft(Kind.POLICY, iso(NOON), canonical({"text": text})),))


def anchored(ledger: SqliteLedger) -> Heads:
    return read(ledger.files.anchor, AnchorKey.of(ledger.files))


async def test_what_a_caller_is_told_is_anchored_already(tmp_path: Path) -> None:
    ledger = SqliteLedger(tmp_path / "a.db", HandClock(), CountedIds())
    for _ in range(5):
        result = await ledger.commit(work())
        assert isinstance(result, Applied)
        assert anchored(ledger)["default"] == (result.seq, result.hash)
    await ledger.close()


@pytest.mark.parametrize("error", [OSError(28, "no space"), ValueError("a defect")])
async def test_where_the_anchor_fails_the_entry_stands_and_the_next_waits_for_it(
    tmp_path: Path, error: Exception
) -> None:
    ledger = SqliteLedger(tmp_path / "a.db", HandClock(), CountedIds())
    with patch.object(Anchor, "append", side_effect=error):
        first = await ledger.commit(work())
        with pytest.raises(StorageError):
            await ledger.commit(work())
    head = await ledger.head("default")
    assert isinstance(first, Applied)
    assert head is not None
    assert (head.seq, head.hash) == (first.seq, first.hash)
    await ledger.close()


async def test_the_log_is_written_over_when_it_is_long(tmp_path: Path) -> None:
    ledger = SqliteLedger(tmp_path / "a.db", HandClock(), CountedIds())
    for _ in range(12):
        await ledger.commit(work("x" * (WAL_CHECKPOINT_BYTES // 4)))
    await ledger.commit(work())
    assert (tmp_path / "a.db-wal").stat().st_size < 3 * WAL_CHECKPOINT_BYTES
    await ledger.close()
