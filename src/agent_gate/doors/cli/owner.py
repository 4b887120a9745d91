"""`agent-gate owner`: what the gate's owner lets services use, such as an access token, kept sealed in the ledger."""

from __future__ import annotations

import getpass
import sys
import warnings
from collections.abc import Awaitable, Callable
from typing import Annotated

import typer

from agent_gate.doors.cli import screen
from agent_gate.doors.cli.faults import UsageMistake
from agent_gate.doors.cli.ledgers import existing_database, reading, writing
from agent_gate.doors.cli.options import DEFAULT_DB, AsJson, Db, commands, examples
from agent_gate.doors.cli.person import person_name
from agent_gate.doors.codes import Exit
from agent_gate.history.contacts import list_contacts
from agent_gate.model.visible import visible
from agent_gate.services.contacts import ContactsService
from agent_gate.services.contacts.service import check_key

LINE_BYTES_MAX = 8_192
"""More than the service takes, so that it can say what is wrong."""

app = commands("What the gate's owner lets services use, such as an access token.")

Key = Annotated[str, typer.Argument(metavar="KEY", help="Its name, such as home_assistant_token.")]


@app.command(
    "set",
    epilog=examples(
        "agent-gate owner set home_assistant_token",
        "agent-gate owner set home_assistant_token --db /var/lib/gate/agent-gate.db < token.txt",
    ),
)
def set_(key: Key, db: Db = DEFAULT_DB, as_json: AsJson = False) -> int:
    """Keep a value under KEY, in place of any that is there.

    A running server whose token is refused takes up another.
    At a terminal it is typed and not shown, otherwise it is the first line of the standard input. It is sealed with
    a key beside the ledger, and never printed again; the record says who set which KEY.
    """
    existing_database(db)
    check_key(key)
    value = _value(key)
    _change(db, lambda contacts: contacts.set(key, value, by=person_name()))
    return _say("set", key, as_json)


@app.command(epilog=examples("agent-gate owner unset home_assistant_token"))
def unset(key: Key, db: Db = DEFAULT_DB, as_json: AsJson = False) -> int:
    """Take away what is kept under KEY; the record says who did."""
    _change(db, lambda contacts: contacts.unset(key, by=person_name()))
    return _say("unset", key, as_json)


@app.command("list", epilog=examples("agent-gate owner list", "agent-gate owner list --json"))
def list_(db: Db = DEFAULT_DB, as_json: AsJson = False) -> int:
    """List the keys and when each was set; the values are not shown."""
    with reading(db) as reader:
        found = list_contacts(reader)
    if as_json:
        screen.print_json({"keys": [contact.to_json() for contact in found]})
    else:
        rows = [(contact.key, contact.updated_at[:19].replace("T", " ")) for contact in found]
        screen.print_table(("key", "set"), rows, empty="nothing is kept")
    return Exit.SUCCESS


def _change(db: str, change: Callable[[ContactsService], Awaitable[None]]) -> None:
    writing(db, lambda ledger, clock, ids: change(ContactsService(ledger, ledger.storage.secret(), clock, ids)))


def _value(key: str) -> str:
    """Never from an argument: other users of the machine can see those."""
    if screen.on_terminal(sys.stdin):
        return _typed(f"{key} (not shown): ").strip()
    try:
        return sys.stdin.buffer.readline(LINE_BYTES_MAX).decode().strip()
    except UnicodeDecodeError:
        raise UsageMistake("the value is not text in UTF-8", "agent-gate owner set") from None


def _typed(prompt: str) -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", getpass.GetPassWarning)
            return getpass.getpass(prompt)
    except EOFError:
        return ""
    except getpass.GetPassWarning:
        raise UsageMistake(
            "this terminal would show what is typed: give the value by a pipe", "agent-gate owner set"
        ) from None


def _say(done: str, key: str, as_json: bool) -> int:
    if as_json:
        screen.print_json({"key": key, "status": done})
    else:
        screen.say(f"{done}  {visible(key)}")
    return Exit.SUCCESS
