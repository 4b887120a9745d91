"""Tests of `owner`: a value goes in from the standard input, is used by the gate, and never comes out again."""

from __future__ import annotations

import asyncio
import io
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from agent_gate.ledger.sqlite.ledger import SqliteLedger
from agent_gate.services.contacts import ContactsService
from agent_gate.system.clock import RandomIds, SystemClock
from tests.unit.doors.cli.conftest import Command, Said

TOKEN = "made-up-for-a-test"


@pytest.fixture
def give(command: Command, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Said]:
    """`owner set` with these bytes on its standard input."""
    command("init")

    def give(given: bytes, *words: str) -> Said:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given)))
        return command("owner", "set", *words)

    return give


def resolved(path: Path, key: str) -> str | None:
    async def resolve() -> str | None:
        clock, ids = SystemClock(), RandomIds()
        ledger = SqliteLedger(path, clock, ids)
        try:
            return await ContactsService(ledger, ledger.storage.secret(), clock, ids).resolve_owner_contact_info(key)
        finally:
            await ledger.close()

    return asyncio.run(resolve())


@pytest.mark.parametrize("given", [b"%b", b"%b\n", b"%b\r\n", b"  %b \n", b"%b\nanother line\n"])
def test_the_first_line_of_the_standard_input_is_kept(give: Callable[..., Said], tmp_path: Path, given: bytes) -> None:
    said = give(given.replace(b"%b", TOKEN.encode()), "token")
    assert (said.code, said.out, said.err) == (0, "set  token\n", "")
    assert resolved(tmp_path / "agent-gate.db", "token") == TOKEN


def test_keys_are_listed_and_taken_away_and_values_are_not_shown(give: Callable[..., Said], command: Command) -> None:
    assert command("owner", "list").out == "nothing is kept\n"
    assert give(TOKEN.encode(), "b_token", "--json").json == {"key": "b_token", "status": "set"}
    give(TOKEN.encode(), "a_token")
    listed = command("owner", "list", "--json")
    assert [sorted(found) for found in listed.json["keys"]] == [["key", "updated_at"]] * 2
    assert [found["key"] for found in listed.json["keys"]] == ["a_token", "b_token"]
    assert command("owner", "unset", "a_token", "--json").json == {"key": "a_token", "status": "unset"}
    shown = command("owner", "list").out
    assert ("a_token" in shown, "b_token" in shown, TOKEN in shown + listed.out) == (False, True, False)


@pytest.mark.parametrize(
    ("given", "key", "code", "told"),
    [
        (b"", "token", 3, "the value is empty"),
        (b" \n", "token", 3, "the value is empty"),
        (b"\xff\xfe-secret", "token", 2, "the value is not text in UTF-8"),
        (b"a\x00b-secret", "token", 3, "characters that cannot be printed"),
        (b"secret" * 10_000, "token", 3, "the value is longer than"),
        (b"secret", "Token", 3, "`Token` is no key"),
        (b"secret", "--value", 2, "no such option"),
    ],
)
def test_what_cannot_be_kept_is_one_line_without_the_value(
    give: Callable[..., Said], command: Command, given: bytes, key: str, code: int, told: str
) -> None:
    said = give(given, key)
    assert (said.code, said.out, said.err.count("\n")) == (code, "", 1)
    assert told.lower() in said.err.lower()
    assert "secret" not in said.err
    assert command("owner", "list", "--json").json == {"keys": []}


def test_what_is_not_there_cannot_be_taken_away(give: Callable[..., Said], command: Command) -> None:
    said = command("owner", "unset", "token")
    assert (said.code, "there is no contact info `token`" in said.err) == (3, True)


def test_it_works_while_a_gate_has_the_ledger_open(give: Callable[..., Said], tmp_path: Path) -> None:
    path = tmp_path / "agent-gate.db"

    async def with_a_gate_open() -> bytes | None:
        ledger = SqliteLedger(path, SystemClock(), RandomIds())
        try:
            said = await asyncio.to_thread(give, TOKEN.encode(), "token")
            assert said.code == 0
            return await ledger.contact("token")
        finally:
            await ledger.close()

    assert asyncio.run(with_a_gate_open()) is not None


def test_the_record_says_which_person_of_this_machine_it_was(
    give: Callable[..., Said], command: Command, tmp_path: Path
) -> None:
    give(TOKEN.encode(), "token")
    command("owner", "unset", "token")
    with closing(sqlite3.connect(tmp_path / "agent-gate.db")) as connection:
        told = connection.execute(
            "SELECT project, status, body ->> '$.key', substr(body ->> '$.by', 1, 6) FROM entries"
            " WHERE kind = 'contact' ORDER BY id"
        ).fetchall()
    assert told == [("_gate", "set", "token", "local:"), ("_gate", "unset", "token", "local:")]
    assert command("verify").code == 0
