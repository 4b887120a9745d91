"""The service `contacts`: other services find here what the owner gave them to use, such as an access token."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from agent_gate.model.codec import canonical
from agent_gate.model.committed import Applied
from agent_gate.model.entry import GATE_PROJECT, Draft, Kind
from agent_gate.model.errors import StorageError, ToolError
from agent_gate.model.moment import iso
from agent_gate.model.tool import Json, ToolDeclaration
from agent_gate.model.work import Change, DropContact, PutContact, Work
from agent_gate.ports.ledger import Ledger
from agent_gate.ports.surroundings import Clock, Ids

if TYPE_CHECKING:
    from agent_gate.services.contacts.seal import Seal

KEY_CHARS_MAX = 64
VALUE_BYTES_MAX = 4_096
_KEY = re.compile(rf"[a-z][a-z0-9_]{{0,{KEY_CHARS_MAX - 1}}}")


class ContactsService:
    """No tool reaches these values; the record says who set which key, and never what it holds."""

    name = "contacts"

    def __init__(self, ledger: Ledger, secret: bytes, clock: Clock, ids: Ids) -> None:
        """The secret is the ledger's own, from its 0600 key file; the key of the seal is derived from it."""
        self._ledger, self._secret, self._clock, self._ids = ledger, secret, clock, ids

    async def resolve_owner_contact_info(self, key: str) -> str | None:
        """The value under this key; StorageError 5004 where the seal does not open."""
        sealed = await self._ledger.contact(key)
        if sealed is None:
            return None
        value = self._seal.open(key, sealed)
        if value is None:
            raise StorageError(
                f"contact info `{key}` cannot be opened with this ledger's key",
                code=5004,
                suggestion=f"set it again with `agent-gate owner set {key}`",
            )
        return value

    async def set(self, key: str, value: str, *, by: str) -> None:
        check_key(key)
        _check_value(value)
        at = iso(self._clock.now())
        await self._record("set", key, by, at, PutContact(key, self._seal.close(key, value), at))

    async def unset(self, key: str, *, by: str) -> None:
        check_key(key)
        if await self._ledger.contact(key) is None:
            raise ToolError(f"there is no contact info `{key}`", code=2002, suggestion="see `agent-gate owner list`")
        await self._record("unset", key, by, iso(self._clock.now()), DropContact(key))

    async def keys(self) -> Sequence[tuple[str, str]]:
        """(key, when it was set) of each."""
        return await self._ledger.contacts()

    async def _record(self, status: str, key: str, by: str, at: str, change: Change) -> None:
        draft = Draft(Kind.CONTACT, at, canonical({"by": by, "key": key, "salt": self._ids.salt()}), status=status)
        committed = await self._ledger.commit(Work(GATE_PROJECT, (draft,), (change,)))
        assert isinstance(committed, Applied), committed

    @cached_property
    def _seal(self) -> Seal:
        from agent_gate.services.contacts.seal import Seal  # noqa: PLC0415 -- 7 ms that most starts do not need

        return Seal(self._secret)

    def tools(self) -> Sequence[ToolDeclaration]:
        return ()

    async def execute(self, tool_name: str, args: Mapping[str, Json]) -> Json:  # noqa: ARG002 -- the service's shape
        raise ToolError(f"`contacts` has no tool `{tool_name}`", code=2001)


def check_key(key: str) -> None:
    if not _KEY.fullmatch(key):
        raise ToolError(
            f"`{key[: KEY_CHARS_MAX + 1]}` is no key of contact info",
            code=2002,
            suggestion=f"use 1 to {KEY_CHARS_MAX} of a-z, 0-9 and _, beginning with a letter",
        )


def _check_value(value: str) -> None:
    """Says what is wrong without the value itself."""
    if not value:
        raise ToolError("the value is empty", code=2002, suggestion="take a key away with `agent-gate owner unset`")
    if not value.isprintable():
        raise ToolError(
            "the value has characters that cannot be printed", code=2002, suggestion="give one line of text"
        )
    if len(value.encode()) > VALUE_BYTES_MAX:
        raise ToolError(f"the value is longer than {VALUE_BYTES_MAX} bytes", code=2002)
