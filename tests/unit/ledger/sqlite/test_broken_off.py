"""How an act ended whose process is gone: a commit that is finished by another tells what the first would have told."""

from __future__ import annotations

import sqlite3
from typing import Any

import orjson
import pytest

from agent_gate.ledger.sqlite.broken_off import how_it_ended
from agent_gate.model.codec import sha256_hex
from agent_gate.model.errors import Problem
from agent_gate.model.record import undo_blob
from agent_gate.ports.tools import FinishedCommit

JOURNAL = b"journal"
FAILURE = Problem(2003, "`make` ended with return code 2", "see what it printed", "perform").to_json()


@pytest.mark.parametrize(
    ("told", "made", "status", "error", "message"),
    [
        ({}, True, "success", None, "committed after a restart"),
        ({"failure": FAILURE}, True, "error", FAILURE, "what it wrote stays, committed after a restart"),
        ({"failure": FAILURE}, False, "error", "nothing was written", None),
    ],
)
def test_a_command_that_failed_has_failed_also_where_another_process_finishes_its_commit(
    told: dict[str, Any], made: bool, status: str, error: Any, message: str | None
) -> None:
    data = {"return_code": 2}
    body = {**told, "data": data, "kept_hash": sha256_hex(JOURNAL)}
    with sqlite3.connect(":memory:") as connection:
        connection.execute("CREATE TABLE entries (call_id, kind, seq, body)")
        connection.execute("CREATE TABLE blobs (hash, data)")
        connection.execute("INSERT INTO entries VALUES ('c', 'committing', 2, ?)", (orjson.dumps(body).decode(),))
        connection.execute("INSERT INTO blobs VALUES (?, ?)", (undo_blob("c"), JOURNAL))
        ended = how_it_ended(connection, "c", "judge", lambda *_: FinishedCommit(made))
    connection.close()
    assert ended is not None
    assert (ended.status, ended.fields["data"], ended.fields.get("message")) == (status, data, message)
    found: Any = ended.fields.get("error")
    assert error in found["detail"] if isinstance(error, str) else found == error
