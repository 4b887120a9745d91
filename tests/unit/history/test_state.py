"""The state of a project can be seen at every version, with who changed it and how."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from agent_gate.history.state import StateVersion, diff, history, show
from agent_gate.ledger.sqlite.reader import open_reader
from agent_gate.model.errors import GateError
from agent_gate.ports.reading import Reader
from tests.unit.history.made import Made


def test_the_state_now_is_that_of_the_last_version(reader: Reader) -> None:
    state = show(reader, "default")
    assert (state.version, state.document) == (4, {"n": 4})
    assert show(reader, "default", state.version) == state
    assert show(reader, "default", snapshot_id=state.snapshot_id) == state


def test_version_0_is_the_initial_state_and_has_a_snapshot_id(reader: Reader) -> None:
    first = show(reader, "default", 0)
    assert first == StateVersion("default", 0, {}, "initial", first.at)
    assert show(reader, "default", snapshot_id="initial") == first
    assert show(reader, "home", 0).document == show(reader, "home", snapshot_id="initial").document == {"lamps": []}
    assert show(reader, "_gate").to_json().keys() == {"project", "version", "document", "snapshot_id", "at"}
    assert diff(reader, "default", "initial", 1) == diff(reader, "default", 0, 1)


def test_history_tells_who_changed_what_newest_first(made: Made, reader: Reader) -> None:
    changes = history(reader, "default")
    assert [(change.version, change.tool, change.agent_id, change.operations) for change in changes] == [
        (4, "count.up", "robot", 1),
        (3, "state.revert", "robot", 1),
        (2, "state.set", "robot", 1),
        (1, "count.up", "robot", 1),
        (0, None, None, None),
    ]
    assert changes[-2].call_id == made.calls["first"]
    assert (changes[-1].snapshot_id, changes[-1].call_id) == ("initial", None)
    assert changes[0].to_json().keys() == {
        "version", "snapshot_id", "at", "call_id", "tool", "agent_id", "operations"
    }  # fmt: skip
    assert history(reader, "default", limit=1) == changes[:1]
    assert [change.snapshot_id for change in history(reader, "_gate")] == ["initial"]


def test_a_diff_turns_one_state_into_the_other(reader: Reader) -> None:
    newest = show(reader, "default").snapshot_id
    assert newest is not None
    assert diff(reader, "default", 0, 1) == [{"op": "add", "path": "/n", "value": 1}]
    assert diff(reader, "default", 1, newest) == [{"op": "replace", "path": "/n", "value": 4}]
    assert diff(reader, "default", newest, 4) == []


@pytest.mark.parametrize(
    ("project", "version", "snapshot_id", "code"),
    [
        ("nowhere", None, None, 1017),
        ("default", 99, None, 2002),
        ("default", -1, None, 2002),
        ("home", None, "x", 2002),
    ],
)
def test_what_never_was_is_a_coded_error(
    reader: Reader, project: str, version: int | None, snapshot_id: str | None, code: int
) -> None:
    with pytest.raises(GateError) as unknown:
        show(reader, project, version, snapshot_id)
    assert unknown.value.code == code


def test_a_snapshot_of_another_project_is_not_shown(reader: Reader) -> None:
    with pytest.raises(GateError, match="project `home` has no snapshot"):
        show(reader, "home", snapshot_id=show(reader, "default").snapshot_id)


def test_history_of_an_unknown_project_and_of_nothing_are_coded_errors(reader: Reader) -> None:
    with pytest.raises(GateError) as unknown:
        history(reader, "nowhere")
    with pytest.raises(GateError) as nothing:
        history(reader, "default", limit=0)
    assert (unknown.value.code, nothing.value.code) == (1017, 2002)


@pytest.mark.parametrize("damage", ["DELETE FROM blobs", "UPDATE blobs SET data = x'7b'"])
def test_a_document_that_is_lost_or_damaged_is_an_integrity_error(copy: Made, damage: str) -> None:
    with closing(sqlite3.connect(copy.db, isolation_level=None)) as connection:
        connection.execute(damage)
    with closing(open_reader(copy.db)) as reader, pytest.raises(GateError) as lost:
        show(reader, "default")
    assert lost.value.code == 5004
