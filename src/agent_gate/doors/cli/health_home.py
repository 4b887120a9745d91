"""Looks at the home of the configuration: whether it is there, its version, and what the gate's token may do."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from agent_gate.doors.cli.health import FAIL, OK, WARN, Row
from agent_gate.history.archive import open_archive
from agent_gate.model.errors import ConfigError, GateError, StorageError

if TYPE_CHECKING:
    from agent_gate.config import HomeAssistantConfig

NAME = "home assistant"


def home_rows(named: Path | None) -> Iterator[Row]:
    """None where the configuration has no home, or has mistakes, which are told elsewhere."""
    path = named or Path("config.yaml")
    if named is None and not path.exists():
        return
    from agent_gate.config import load_config

    try:
        config = load_config(path)
    except ConfigError:
        return
    if config.services.homeassistant is not None:
        yield asyncio.run(_home(config.services.homeassistant, StoredContacts(Path(config.storage.path))))


class StoredContacts:
    """What the owner gave, read without opening the ledger for work."""

    def __init__(self, ledger: Path) -> None:
        self._ledger = ledger

    async def resolve_owner_contact_info(self, key: str) -> str | None:
        from agent_gate.services.contacts.seal import Seal

        if not self._ledger.exists():
            return None
        archive = open_archive(self._ledger)
        with closing(archive.reader()) as reader:
            sealed = reader.contact(key)
        if sealed is None:
            return None
        value = Seal(archive.secret()).open(key, sealed)
        if value is None:
            raise StorageError(
                f"contact info `{key}` cannot be opened with this ledger's key",
                code=5004,
                suggestion=f"set it again with `agent-gate owner set {key}`",
            )
        return value


async def _home(settings: HomeAssistantConfig, contacts: StoredContacts) -> Row:
    from agent_gate.services.home_assistant.credentials import HOW_TO_SET, resolve_token
    from agent_gate.services.home_assistant.faults import AuthRefused
    from agent_gate.services.home_assistant.looking import look_at

    try:
        sight = await look_at(settings, await resolve_token(settings, contacts, os.environ))
    except AuthRefused as refused:
        return Row(NAME, FAIL, str(refused), f"no server starts with it: {HOW_TO_SET}")
    except GateError as error:
        return Row(NAME, FAIL, error.problem.detail, error.problem.suggestion)
    except OSError as error:
        return Row(NAME, FAIL, f"the owner's token cannot be read: {error}", "see the rows of the database")
    health = sight.health
    if health.trouble:
        advice = "see services.homeassistant; a server starts without its home, and tries again"
        return Row(NAME, WARN, f"{health.url}: {health.trouble}", advice)
    if not sight.is_running:
        return Row(NAME, WARN, f"{health.told}; it is still starting", "look again in a moment")
    return Row(NAME, OK, health.told)
