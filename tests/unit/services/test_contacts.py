"""What the owner gives is sealed, opens under its own key only, and is never in the record."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from agent_gate.history.erase import retain
from agent_gate.history.events import last_events
from agent_gate.history.export import export
from agent_gate.history.verify import verify
from agent_gate.ledger.sqlite.backup import backup
from agent_gate.ledger.sqlite.ledger import SqliteLedger
from agent_gate.ledger.sqlite.reader import open_reader
from agent_gate.model.errors import StorageError, ToolError
from agent_gate.services.contacts import ContactsService
from tests.gates import CountedIds, HandClock

TOKEN = "eyJhbGciOi.made-up-for-a-test"


def opened(path: Path) -> tuple[SqliteLedger, ContactsService]:
    clock, ids = HandClock(), CountedIds()
    ledger = SqliteLedger(path, clock, ids)
    return ledger, ContactsService(ledger, ledger.storage.secret(), clock, ids)


@pytest.fixture
async def contacts(tmp_path: Path) -> AsyncIterator[ContactsService]:
    ledger, contacts = opened(tmp_path / "a.db")
    yield contacts
    await ledger.close()


def rewrite(path: Path, sql: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(sql)


def stored(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


async def test_a_value_is_resolved_by_its_key_until_it_is_unset(contacts: ContactsService) -> None:
    await contacts.set("home_assistant_token", "first", by="anna")
    await contacts.set("home_assistant_token", TOKEN, by="anna")
    assert await contacts.resolve_owner_contact_info("home_assistant_token") == TOKEN
    assert await contacts.resolve_owner_contact_info("other") is None
    assert [key for key, _ in await contacts.keys()] == ["home_assistant_token"]
    await contacts.unset("home_assistant_token", by="anna")
    assert await contacts.resolve_owner_contact_info("home_assistant_token") is None
    assert await contacts.keys() == []


async def test_a_value_outlives_the_process_that_set_it(tmp_path: Path) -> None:
    for step in ("set", "resolve"):
        ledger, contacts = opened(tmp_path / "a.db")
        if step == "set":
            await contacts.set("token", TOKEN, by="anna")
        assert await contacts.resolve_owner_contact_info("token") == TOKEN
        await ledger.close()


async def test_the_same_value_is_never_sealed_the_same_way(contacts: ContactsService, tmp_path: Path) -> None:
    ledger = SqliteLedger(tmp_path / "a.db", HandClock(), CountedIds())
    sealed = set()
    for _ in range(5):
        await contacts.set("token", TOKEN, by="anna")
        sealed.add(await ledger.contact("token"))
    await ledger.close()
    assert len(sealed) == 5


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE contact_info SET value = (SELECT value FROM contact_info WHERE key = 'other') WHERE key = 'token'",
        "UPDATE contact_info SET value = x'' WHERE key = 'token'",
        "UPDATE contact_info SET value = x'00112233445566778899' WHERE key = 'token'",
        "UPDATE contact_info SET value = substr(value, 1, length(value) - 1) WHERE key = 'token'",
        "UPDATE contact_info SET value = CAST('plain text that is long enough' AS BLOB) WHERE key = 'token'",
    ],
    ids=["another key's row", "nothing", "too short", "cut off", "not sealed"],
)
async def test_what_was_not_sealed_under_this_key_does_not_open(
    contacts: ContactsService, tmp_path: Path, sql: str
) -> None:
    await contacts.set("token", TOKEN, by="anna")
    await contacts.set("other", "another value", by="anna")
    rewrite(tmp_path / "a.db", sql)
    with pytest.raises(StorageError, match="`token` cannot be opened") as fault:
        await contacts.resolve_owner_contact_info("token")
    assert fault.value.code == 5004
    assert TOKEN not in str(fault.value)
    assert "another value" not in str(fault.value)


async def test_another_ledgers_secret_does_not_open_it(tmp_path: Path) -> None:
    ledger, contacts = opened(tmp_path / "a.db")
    await contacts.set("token", TOKEN, by="anna")
    thief = ContactsService(ledger, bytes(32), HandClock(), CountedIds())
    with pytest.raises(StorageError, match="cannot be opened"):
        await thief.resolve_owner_contact_info("token")
    await ledger.close()


@pytest.mark.parametrize("key", ["", "Token", "1st", "a-b", "a.b", "a b", "ä", "x\n", "a" * 65])
async def test_a_key_that_is_none_is_refused(contacts: ContactsService, key: str) -> None:
    for act in (contacts.set(key, TOKEN, by="anna"), contacts.unset(key, by="anna")):
        with pytest.raises(ToolError, match="is no key") as refused:
            await act
        assert refused.value.code == 2002
    assert await contacts.keys() == []


@pytest.mark.parametrize("value", ["", "two\nlines", "tab\there", "\0", "x" * 4_097, "\ud800"])
async def test_a_value_that_cannot_be_one_is_refused_without_being_quoted(
    contacts: ContactsService, value: str
) -> None:
    with pytest.raises(ToolError) as refused:
        await contacts.set("token", value, by="anna")
    assert refused.value.code == 2002
    assert not value or value not in str(refused.value)


async def test_unsetting_what_is_not_there_is_told_and_not_recorded(contacts: ContactsService, tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="there is no contact info `token`"):
        await contacts.unset("token", by="anna")
    assert verify(tmp_path / "a.db").entries == 0


async def test_the_record_says_who_and_which_key_and_nothing_holds_the_value(tmp_path: Path) -> None:
    ledger, contacts = opened(tmp_path / "a.db")
    await contacts.set("token", TOKEN, by="local:anna")
    await contacts.unset("token", by="local:bob")
    await contacts.set("token", TOKEN, by="local:anna")
    with closing(open_reader(tmp_path / "a.db")) as reader:
        lines = list(export(reader))
        events = [event.text for event in last_events(reader, 10)]
    await ledger.close()
    assert [b"contact" in line and b"token" in line for line in lines] == [True] * 3
    assert events == [
        "the owner's `token` was set by local:anna",
        "the owner's `token` was unset by local:bob",
        "the owner's `token` was set by local:anna",
    ]
    assert verify(tmp_path / "a.db").ok
    assert TOKEN.encode() not in stored(tmp_path) + b"".join(lines)


async def test_a_sealed_value_that_was_taken_away_is_in_no_file_any_more(tmp_path: Path) -> None:
    ledger, contacts = opened(tmp_path / "a.db")
    await contacts.set("token", TOKEN, by="anna")
    sealed = await ledger.contact("token")
    assert sealed is not None
    assert sealed in stored(tmp_path)
    await contacts.unset("token", by="anna")
    await ledger.close()
    assert sealed not in stored(tmp_path)


async def test_retaining_nothing_leaves_what_the_owner_gave(tmp_path: Path) -> None:
    ledger, contacts = opened(tmp_path / "a.db")
    await contacts.set("token", TOKEN, by="anna")
    await retain(ledger, 0, by="anna", clock=HandClock(), ids=CountedIds())
    assert await contacts.resolve_owner_contact_info("token") == TOKEN
    await ledger.close()


async def test_a_backup_has_the_value_sealed_and_the_key_that_opens_it(tmp_path: Path) -> None:
    ledger, contacts = opened(tmp_path / "a.db")
    await contacts.set("token", TOKEN, by="anna")
    await asyncio.to_thread(backup, tmp_path / "a.db", tmp_path / "copy.db")
    await ledger.close()
    assert TOKEN.encode() not in stored(tmp_path)
    copied, contacts = opened(tmp_path / "copy.db")
    assert await contacts.resolve_owner_contact_info("token") == TOKEN
    await copied.close()
    shutil.copy(tmp_path / "a.db.d" / "anchor.key", tmp_path / "copy.db.d" / "secret.key")
    copied, contacts = opened(tmp_path / "copy.db")
    with pytest.raises(StorageError, match="cannot be opened"):
        await contacts.resolve_owner_contact_info("token")
    await copied.close()
