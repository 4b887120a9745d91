"""What every storage promises to whoever looks back: one suite for each implementation of the port."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agent_gate.model.entry import GATE_PROJECT, Draft, Entry, Kind
from agent_gate.model.errors import StorageError
from agent_gate.model.moment import iso
from agent_gate.model.project import StateRef
from agent_gate.model.work import Close, Hold, KeepBlob, Open, PutContact, QueueEffect, Work
from agent_gate.ports.examining import COLUMNS, Unreadable
from agent_gate.ports.ledger import Ledger
from agent_gate.ports.reading import ALL_ENTRIES, ChangeRow, EntryFilter, NoLedgerError, Reader
from agent_gate.ports.storage import Storage
from agent_gate.system.clock import RandomIds
from tests.contract.storages import STORAGES
from tests.contract.test_ledger import NOW, SetClock, answer, change, new_project, question, work

AT = iso(NOW)


def draft(kind: Kind, call_id: str, **fields: Any) -> Draft:
    told = {"agent_id": "ann", "tool": "fs.read", "signature": f"fs.read({call_id})", "status": "success"}
    return Draft(kind, fields.pop("at", AT), fields.pop("body", b'{"salt":"s"}'), call_id, **{**told, **fields})


@pytest.fixture(params=STORAGES)
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    return STORAGES[request.param](tmp_path)


@pytest.fixture
async def ledger(storage: Storage) -> AsyncIterator[Ledger]:
    ledger = storage.open(SetClock(), RandomIds())
    yield ledger
    await ledger.close()


@pytest.fixture
async def written(ledger: Ledger) -> Ledger:
    """Six entries of three calls, in two projects."""
    await ledger.commit(new_project("home"))
    for one in (
        Work("default", (draft(Kind.HELD, "a", run_id="r"), draft(Kind.SETTLED, "a", run_id="r"))),
        Work("home", (draft(Kind.SETTLED, "b", agent_id="bob", tool="mail.send", body=b'{"text":"Pears"}'),)),
        Work("default", (draft(Kind.JUDGED, "c", status="denied", at=iso(NOW + 60)),)),
    ):
        await ledger.commit(one)
    return ledger


def found(reader: Reader, wanted: EntryFilter = ALL_ENTRIES, **options: Any) -> list[tuple[str | None, str]]:
    return [(entry.call_id, entry.kind) for entry in reader.entries(wanted, **options) if entry.call_id]


A_HELD, A, B, C = ("a", "held"), ("a", "settled"), ("b", "settled"), ("c", "judged")


@pytest.mark.parametrize(
    ("wanted", "entries"),
    [
        (EntryFilter(), [A_HELD, A, B, C]),
        (EntryFilter(project="default"), [A_HELD, A, C]),
        (EntryFilter(run_id="r"), [A_HELD, A]),
        (EntryFilter(call_id="a", project="default"), [A_HELD, A]),
        (EntryFilter(kinds=(Kind.SETTLED,)), [A, B]),
        (EntryFilter(kinds=(Kind.SETTLED, Kind.JUDGED)), [A, B, C]),
        (EntryFilter(status="denied"), [C]),
        (EntryFilter(tool="mail.send"), [B]),
        (EntryFilter(tool="fs.*", kinds=(Kind.SETTLED,)), [A]),
        (EntryFilter(agent="[!a]*"), [B]),
        (EntryFilter(since=iso(NOW + 30)), [C]),
        (EntryFilter(text="pEARS"), [B]),
        (EntryFilter(text="FS.READ(C)"), [C]),
        (EntryFilter(holding='"text":'), [B]),
        (EntryFilter(holding='"TEXT":'), []),
        (EntryFilter(before=("default", 3)), [A_HELD, A, B]),
    ],
)
async def test_a_filter_finds_what_it_says_in_the_order_of_writing_and_in_reverse(
    storage: Storage, written: Ledger, wanted: EntryFilter, entries: list[tuple[str, str]]
) -> None:
    with closing(storage.reader()) as reader:
        assert found(reader, wanted) == entries
        assert found(reader, wanted, newest_first=True) == entries[::-1]
        assert found(reader, wanted, newest_first=True, limit=1) == entries[::-1][:1]
        others = reader.count_entries(wanted) - len(entries)
        assert others == sum(entry.call_id is None for entry in reader.entries(wanted))


async def test_an_entry_is_as_the_ledger_tells_it_and_found_at_its_place(storage: Storage, written: Ledger) -> None:
    [entry] = await written.entries_of("b")
    with closing(storage.reader()) as reader:
        assert list(reader.entries(EntryFilter(call_id="b"))) == [entry]
        assert reader.entry_at("home", entry.seq) == entry
        assert reader.entry_at("home", 99) is None


async def test_heads_are_the_ends_of_the_chains(storage: Storage, written: Ledger) -> None:
    with closing(storage.reader()) as reader:
        ends = {head.project: (head.seq, head.hash, head.status) for head in reader.heads()}
        last: dict[str, Entry] = {entry.project: entry for entry in reader.entries()}
        assert list(ends) == sorted(ends)
        assert {"default", "home", GATE_PROJECT} == set(ends)
        assert {name: end[:2] for name, end in ends.items() if name in last} == {
            name: (entry.seq, entry.hash) for name, entry in last.items()
        }
        assert (reader.head("home"), reader.head("nowhere")) == (
            next(head for head in reader.heads() if head.project == "home"),
            None,
        )


async def test_states_are_found_by_version_and_by_name(storage: Storage, ledger: Ledger) -> None:
    await ledger.commit(change("default", StateRef(0), b'{"n":1}', "first", call_id="a"))
    await ledger.commit(change("default", StateRef(1, "first"), b'{"n":2}', "second", call_id="b"))
    with closing(storage.reader()) as reader:
        first, second = reader.snapshot("default", 1), reader.snapshot("default", "second")
        assert first is not None
        assert second is not None
        assert (first.snapshot_id, first.document) == ("first", b'{"n":1}')
        assert (second.version, second.document) == (2, b'{"n":2}')
        assert (reader.snapshot("default", 3), reader.snapshot("home", "first")) == (None, None)
        rows = reader.changes("default", 5)
        assert rows == [
            ChangeRow(2, "second", AT, rows[0].call_id, "t", "ann", None),
            ChangeRow(1, "first", AT, rows[1].call_id, "t", "ann", None),
        ]
        assert reader.changes("default", 1) == rows[:1]


async def test_open_questions_are_those_that_nobody_answered_in_time(storage: Storage, ledger: Ledger) -> None:
    later = question("c", created_at=NOW + 1, expires_at=NOW + 600, agent_id="bob")
    for asked in (question("a"), question("b"), later):
        await ledger.commit(work(Hold(asked)))
    await ledger.commit(answer(question("b"), "denied"))
    with closing(storage.reader()) as reader:
        clock = SetClock()
        assert [one.question.call_id for one in reader.open_questions(clock)] == ["a", "c"]
        assert [one.question for one in reader.open_questions(clock, agent="bob")] == [later]
        assert [one.question.call_id for one in reader.open_questions(clock, limit=1)] == ["a"]
        [brief, _] = reader.open_questions(clock, brief_chars=2)
        assert (brief.question.args, brief.question.signatures, brief.approved_by) == ({}, ("t(",), ())
        assert [one.question.call_id for one in reader.open_questions(NOW + 61)] == ["c"]
        assert (reader.count_open_questions(clock), reader.count_open_questions(clock, "bob")) == (2, 1)
        assert [mark[0] for mark in reader.open_question_marks(clock)] == ["a", "c"]
        assert (reader.resolution("b"), reader.resolution("a"), reader.resolution("x")) == ("denied", None, None)


async def test_what_is_at_work_asked_about_or_owed_is_open_and_the_rest_can_be_erased(
    storage: Storage, written: Ledger
) -> None:
    await written.commit(Work("default", (draft(Kind.PERFORMING, "d"),), (Open("call", "d"),)))
    await written.commit(work(Hold(question("e"))))
    await written.commit(Work("default", (draft(Kind.SETTLED, "f"),), (QueueEffect("x", "f", "t", b"{}"),)))
    with closing(storage.reader()) as reader:
        assert [reader.is_open(one) for one in "adef"] == [False, True, True, True]
        ended = reader.ended_calls("default", before=iso(NOW + 30), after=0, limit=10)
        assert [call_id for _, call_id in ended] == ["a"]
        assert reader.ended_calls("default", before=iso(NOW + 30), after=ended[-1][0], limit=10) == []
        assert reader.count_erasable("default", ["a", "c"]) == (3, 0)
        totals = reader.totals()
        assert (totals.open_work, totals.effects, totals.waiting_results) == (1, 1, 0)
        assert totals.entries == reader.count_entries()
    await written.commit(Work("default", (draft(Kind.SETTLED, "d"),), (Close("d"),)))
    with closing(storage.reader()) as reader:
        assert not reader.is_open("d")


async def test_stored_values_come_back_by_their_names(storage: Storage, ledger: Ledger) -> None:
    kept = (KeepBlob("abc", b"one"), KeepBlob("output:x", b"two"), PutContact("lamp", b"sealed", AT))
    await ledger.commit(work(*kept))
    with closing(storage.reader()) as reader:
        assert [reader.blob(name) for name in ("abc", "output:x", "ab")] == [b"one", b"two", None]
        assert (reader.blob_beginning("ab"), reader.blob_beginning("zz")) == (b"one", None)
        assert (reader.contact("lamp"), reader.contact("x"), list(reader.contacts())) == (
            b"sealed",
            None,
            [("lamp", AT)],
        )


async def test_everything_within_one_moment_is_as_it_was_at_its_start(storage: Storage, ledger: Ledger) -> None:
    with closing(storage.reader()) as reader:
        with reader.one_moment():
            before = reader.count_entries()
            with reader.one_moment():
                await ledger.commit(work(call_id="a"))
            assert reader.count_entries() == before
        assert reader.count_entries() == before + 1


async def test_a_question_is_given_up_in_time_and_the_next_one_answered(storage: Storage, written: Ledger) -> None:
    body = b'{"salt":"' + b"x" * 2_000 + b'"}'
    await written.commit(Work("default", tuple(draft(Kind.SETTLED, f"x{n}", body=body) for n in range(2_000))))
    with closing(storage.reader()) as reader:
        reader.give_up_at(time.monotonic() - 1)
        with pytest.raises(Unreadable):
            list(reader.entries(EntryFilter(text="nowhere")))
        reader.give_up_at(None)
        assert reader.count_entries() > 2_000


async def test_verification_reads_each_table_with_the_columns_that_the_port_names(
    storage: Storage, written: Ledger
) -> None:
    with closing(storage.reader()) as reader:
        tables = reader.tables
        assert list(tables.schema_findings()) == list(tables.page_findings(10)) == []
        assert COLUMNS.keys() <= tables.names()
        for table, columns in COLUMNS.items():
            assert {len(row) for row in tables.rows(table)} <= {len(columns)}
        assert len(list(tables.entries())) == reader.count_entries()


async def test_where_there_is_none_nothing_is_read_and_nothing_is_made(storage: Storage) -> None:
    with pytest.raises(NoLedgerError):
        storage.reader()
    with pytest.raises(StorageError, match="is gone"):
        storage.reader(at_work=True)
    assert not storage.path.exists()
    assert not storage.was_deleted()
