"""A ledger row by row, as it is stored: verification trusts no value in it, and no type of one either."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from msgspec import Struct

from agent_gate.model.errors import StorageError
from agent_gate.model.grant import Grant

Row: TypeAlias = tuple[Any, ...]
Heads: TypeAlias = dict[str, tuple[int, bytes]]
"""project → (count of entries, hash of the last)"""


class Unreadable(StorageError):
    """Stored values that cannot be read, or not in time."""

    default_code = 5003

    def __init__(self, why: object) -> None:
        super().__init__(f"the ledger cannot be read: {why}", suggestion="run `agent-gate verify`")
        self.why = str(why)


class Anchored(Struct, frozen=True):
    """The heads that an anchor vouches for; `wrong` is what is wrong with it where the ledger has entries."""

    status: str
    """`ok`, `missing`, `empty`, `broken`, `no_key`"""
    heads: Heads = {}
    wrong: str = ""


class EntryPlace(Struct, frozen=True):
    """The place of an entry: in the order of writing, and in its chain."""

    id: int
    seq: int
    hash: bytes
    prev_hash: bytes
    body: Any


COLUMNS: Mapping[str, tuple[str, ...]] = {
    "heads": (
        "project", "seq", "hash", "created_at", "state_version", "snapshot_id", "status", "initial_state",
        "state_schema",
    ),
    "open_work": ("id", "kind", "project", "instance"),
    "pending_requests": (
        "call_id", "request_id", "project", "agent_id", "tool_name", "args", "signature", "created_at", "expires_at",
        "question", "nonce", "approvers_required", "approved_by", "resolution", "instance", "boot", "ends_at",
    ),
    "requests": ("agent_id", "request_id", "call_id", "input_hash"),
    "counters": ("project", "scope", "bucket", "amount"),
    "refusals": ("project", "signature", "at", "call_id"),
    "outbox": ("effect_id", "project", "call_id", "tool", "instance", "payload"),
    "contact_info": ("key", "value", "updated_at"),
    "blobs": ("hash", "data"),
}  # fmt: skip
"""Tables that verification reads whole, and the order of their columns; rows come in the order of the key."""


class Scratch(Protocol):
    """A place for what verification counts up on its way, so that millions of rows do not fill the memory."""

    def note_erased(self, project: object, seq: object, calls: Iterable[object]) -> None: ...

    def is_erased_after(self, project: str, call_id: str, seq: int) -> bool: ...

    def count(self, project: str, scope: str, bucket: int, amount: float, window: int) -> None:
        """Add to a count and forget what is out of its window, as the ledger itself does."""
        ...

    def forget_quotas(self, project: str, run_id: str) -> None: ...

    def begin_counters(self, project: str | None, rows: Sequence[Sequence[Any]]) -> None:
        """Forget the counts of one project, or of all, and begin with these rows."""
        ...

    def note_refusals(self, rows: Iterable[Row]) -> None: ...

    def rows(self, table: str) -> Iterator[Row]:
        """Of `counters` or `refusals`, as `StoredTables.rows` gives those of the ledger."""
        ...

    def close(self) -> None: ...


class StoredTables(Protocol):
    """Rows as they are; every method may raise `Unreadable`."""

    def schema_findings(self) -> Iterator[str]:
        """Each thing that differs from what this release makes."""
        ...

    def page_findings(self, limit: int) -> Iterator[str]:
        """Each thing that the storage itself finds wrong with what it has stored, such as an index without a row."""
        ...

    def names(self) -> set[str]:
        """The tables that are there."""
        ...

    def rows(self, table: str) -> Iterator[Row]:
        """All of one of `COLUMNS`."""
        ...

    def entries(self, run_id: str | None = None) -> Iterator[Row]:
        """Each with the fields of `Entry`, by no index, because one can be made to hide a row.

        With a run, those of its projects, and bodies of its own entries alone.
        """
        ...

    def entries_between(self, run_id: str | None, project: str, first_id: int, last_id: int | None) -> Iterator[Row]:
        """Likewise along one project, between two places in the order of writing, or to its end."""
        ...

    def run_places(self, run_id: str) -> tuple[EntryPlace, EntryPlace]:
        """The run's first and last entry of its own; a run that has not ended has one."""
        ...

    def has_run(self, run_id: str) -> bool: ...

    def erasures(self) -> Iterator[Row]:
        """(project, number, body) of each entry that erased something."""
        ...

    def hash_at(self, project: str, seq: int) -> object: ...

    def body_at(self, project: str, seq: int) -> Any: ...

    def first_entry(self, call_id: object) -> Row | None:
        """(id, agent, request, body) of a call."""
        ...

    def last_entry(self, call_id: str, kinds: Sequence[str]) -> Row | None:
        """(project, number, body) of a call's last entry of these kinds."""
        ...

    def last_schema_id(self) -> int:
        """The place of the entry that tells of the last change of the schema; 0 where there is none."""
        ...

    def snapshot(self, snapshot_id: object) -> Row | None:
        """(project, version, call, hash of the document)"""
        ...

    def is_erased_state(self, project: str, version: int, snapshot_id: object) -> bool:
        """Tell whether a call whose body was erased made this state."""
        ...

    def blob(self, name: object) -> Row | None: ...

    def has_blob(self, name: object) -> bool: ...

    def grants(self) -> Iterator[tuple[Grant, object]]:
        """With the moment at which each was revoked."""
        ...

    def grant_status(self, grant: Grant) -> tuple[int, str | None] | None:
        """Tell how many uses are left and when it was revoked, by the entries; None where nobody gave this grant."""
        ...

    def is_as_put(self, call_id: str) -> bool:
        """Tell whether the question about a call still is the one that its entry says was put."""
        ...

    def answers(self, call_id: str, nonce: str, required: int) -> tuple[str | None, tuple[str, ...]]:
        """Tell how a question was answered and who agreed, as the entries say."""
        ...

    def snapshots_with_calls(self) -> Iterator[Row]:
        """(id, project, whether the entry is of the same moment, its body, version) of each snapshot."""
        ...

    def results_of_others(self) -> Iterator[Row]:
        """(call, agent) of each outcome that waits for an agent whose call it is not."""
        ...

    def messages_about_nothing(self) -> Iterator[Row]:
        """(call,) of each message about a call that nobody was asked about."""
        ...

    def scratch(self) -> Scratch: ...
