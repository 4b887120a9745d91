"""An export holds every entry, in an order and a form in which anybody can check the chain again."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from hashlib import sha256
from types import GeneratorType

import pytest

from agent_gate.history.export import export
from agent_gate.ledger.sqlite.reader import open_reader
from agent_gate.ports.reading import Reader
from tests.unit.history.made import Made


def test_every_entry_is_one_line_with_its_body_as_an_object(made: Made, reader: Reader) -> None:
    entries = [json.loads(line) for line in export(reader)]
    assert len(entries) == reader.count_entries()
    first = next(entry for entry in entries if entry.get("call_id") == made.calls["read"])
    assert first["body"]["args"] == {"text": "hello"}
    assert {len(first[name]) for name in ("body_hash", "prev_hash", "hash")} == {64}


def test_the_hash_of_a_body_can_be_taken_from_its_line(reader: Reader) -> None:
    for line in export(reader):
        entry = json.loads(line)
        if entry["body"] is not None:
            start = line.index(b'"body":') + len(b'"body":')
            body = line[start : line.index(b',"body_hash":', start)]
            assert sha256(body).hexdigest() == entry["body_hash"]


def test_the_chain_can_be_followed_from_line_to_line(reader: Reader) -> None:
    previous = "0" * 64
    for number, entry in enumerate(map(json.loads, export(reader, project="default")), 1):
        assert (entry["project"], entry["seq"], entry["prev_hash"]) == ("default", number, previous)
        previous = entry["hash"]


def test_an_erased_entry_is_marked(made: Made, reader: Reader) -> None:
    entries = [entry for entry in map(json.loads, export(reader)) if entry.get("erased")]
    assert [(entry["call_id"], entry["body"]) for entry in entries] == [(made.calls["erased"], None)] * 2


def test_one_run_can_be_exported(made: Made, reader: Reader) -> None:
    kinds = [json.loads(line)["kind"] for line in export(reader, run_id=made.run_id)]
    assert kinds == ["run", "settled", "settled", "effect", "settled", "run"]


def test_lines_are_made_one_at_a_time(reader: Reader) -> None:
    assert isinstance(export(reader), GeneratorType)


@pytest.mark.parametrize("body", ["not json", '{"a":'])
def test_a_body_that_is_no_json_is_shown_as_a_text(copy: Made, body: str) -> None:
    with closing(sqlite3.connect(copy.db, isolation_level=None)) as connection:
        connection.execute("UPDATE entries SET body = ? WHERE call_id = ?", (body, copy.calls["read"]))
    with closing(open_reader(copy.db)) as reader:
        entries = [json.loads(line) for line in export(reader)]
    assert [entry["body"] for entry in entries if entry.get("call_id") == copy.calls["read"]] == [body]
