"""Looking back: a handle that reads a ledger, at work or at rest, and never writes it.

Each method is one plain question that any storage can answer; what the answers mean is found in `history/`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, TypeAlias

from msgspec import Struct

from agent_gate.model.approval import Question
from agent_gate.model.entry import Entry, Kind
from agent_gate.model.errors import StorageError
from agent_gate.model.tool import Json
from agent_gate.ports.examining import StoredTables
from agent_gate.ports.surroundings import Clock


class NoLedgerError(StorageError):
    """There is no ledger, or it is something else; not raised for a ledger of another release."""

    default_code = 5001


class EntryFilter(Struct, frozen=True):
    """A choice of entries; each field that is given narrows it."""

    project: str | None = None
    run_id: str | None = None
    call_id: str | None = None
    kinds: tuple[Kind, ...] = ()
    status: str | None = None
    tool: str | None = None
    """A name, or a glob pattern such as `fs.*`; likewise `agent`."""
    agent: str | None = None
    since: str | None = None
    """The earliest moment, ISO 8601."""
    text: str | None = None
    """Stands in the signature or the body, whatever its case."""
    holding: str | None = None
    """Stands in the body, which was not erased, letter by letter: a key of canonical JSON can be found as text."""
    before: tuple[str, int] | None = None
    """(project, number): only what was written before that entry."""
    with_body: bool = False
    """Leaves out what was erased."""


ALL_ENTRIES = EntryFilter()


class RunRow(Struct, frozen=True):
    """One run of a plan, as the view `runs` has it."""

    run_id: str
    created_at: str
    completed_at: str | None
    plan_hash: str | None
    policy_hash: str | None
    plan_json: str | None
    policy_json: str | None
    mode: str | None
    status: str
    total_steps: int | None
    completed_steps: int
    denied_steps: int
    failed_steps: int


class HeadRow(Struct, frozen=True):
    """A project and the end of its chain."""

    project: str
    status: str
    created_at: str
    seq: int
    hash: bytes
    state_version: int
    initial_state: str | None
    """Canonical JSON; None for the empty one."""


class SnapshotRow(Struct, frozen=True):
    """One state of a project; the document is None where it is missing, which nothing of ours leaves behind."""

    version: int
    snapshot_id: str
    at: str
    call_id: str | None
    document: bytes | None


class ChangeRow(Struct, frozen=True):
    """One change of a project's state and the call that made it."""

    version: int
    snapshot_id: str
    at: str
    call_id: str | None
    tool: str | None
    agent_id: str | None
    operations: int | None
    """Of its difference; None where the call was erased."""


class OpenQuestion(Struct, frozen=True):
    """A question without an answer, who has agreed so far, and how large it is as JSON."""

    question: Question
    approved_by: tuple[str, ...]
    size: int


class Totals(Struct, frozen=True):
    """Sizes of a ledger that cost next to nothing to find."""

    entries: int
    open_work: int
    effects: int
    waiting_results: int


JudgedRow: TypeAlias = tuple[str, int, str, str | None, str, str, str, str]
"""project, number, moment, run, call, agent, tool and body; a plain row, because a trial reads every one there is."""


class PastEntries(Protocol):
    """Entries and what they name."""

    def entries(
        self, wanted: EntryFilter = ALL_ENTRIES, *, newest_first: bool = False, limit: int | None = None
    ) -> Iterator[Entry]:
        """Those that are wanted, in the order in which they were written."""
        ...

    def count_entries(self, wanted: EntryFilter = ALL_ENTRIES) -> int: ...

    def entry_at(self, project: str, seq: int) -> Entry | None: ...

    def judged_calls(self, since: str | None = None, run_id: str | None = None) -> Iterator[JudgedRow]:
        """The entries that tell by what facts a call was judged: the first of each that was bound and not erased."""
        ...

    def runs(
        self,
        *,
        beginning: str | None = None,
        agent: str | None = None,
        limit: int | None = None,
        with_documents: bool = True,
    ) -> Iterator[RunRow]:
        """The newest first: those whose id begins so, or that an agent began; plan and policy only where asked for."""
        ...

    def blob(self, name: str) -> bytes | None: ...

    def blob_beginning(self, hash: str) -> bytes | None:
        """One whose hash begins so."""
        ...


class PastStatesOf(Protocol):
    """Projects and the states that they had."""

    def heads(self) -> Sequence[HeadRow]:
        """Every chain by the name of its project, the gate's own among them."""
        ...

    def head(self, project: str) -> HeadRow | None: ...

    def snapshot(self, project: str, place: int | str) -> SnapshotRow | None:
        """The state of a version, or of the snapshot with this id."""
        ...

    def changes(self, project: str, limit: int) -> Sequence[ChangeRow]:
        """The newest first."""
        ...


class OpenMatters(Protocol):
    """Reads of what is not settled yet, and of what waits for somebody."""

    def open_questions(
        self, by: Clock | float, *, agent: str | None = None, limit: int | None = None, brief_chars: int | None = None
    ) -> Iterator[OpenQuestion]:
        """The oldest first; open by a clock that nobody sets, or, with a moment, by the wall clock alone.

        With `brief_chars` they come without their arguments and with so much of their first signature: a list of a
        hundred calls may be a hundred megabytes otherwise.
        """
        ...

    def count_open_questions(self, clock: Clock, agent: str | None = None) -> int: ...

    def open_question_marks(self, clock: Clock) -> Sequence[tuple[str, str, str]]:
        """(call id, nonce, who has agreed) of each open question, by call: changes whenever one of them does."""
        ...

    def resolution(self, call_id: str) -> str | None:
        """Find how a question ended whose call has no outcome yet."""
        ...

    def is_open(self, id: str) -> bool:
        """Tell whether somebody is at work on this call or run, is asked about it, or owes an effect of it."""
        ...

    def ended_calls(self, project: str, before: str, after: int, limit: int) -> Sequence[tuple[int, str]]:
        """(number, call id) of calls that ended before a moment and have something to erase, along the chain."""
        ...

    def count_erasable(self, project: str, calls: Sequence[str]) -> tuple[int, int]:
        """Entries of these calls that have a body, and states that they made."""
        ...

    def totals(self) -> Totals: ...


class StoredValues(Protocol):
    """Reads of what is kept for the owner and for services."""

    def contact(self, key: str) -> bytes | None:
        """The sealed value that the owner gave under this key."""
        ...

    def contacts(self) -> Sequence[tuple[str, str]]:
        """(key, when it was set), by key."""
        ...

    def count_old_rows(self, before: str) -> int:
        """Count the rows of services, which say from when they are, from before a moment."""
        ...


class Reader(PastEntries, PastStatesOf, OpenMatters, StoredValues, Protocol):
    """One handle, used by one thread at a time; what cannot be read raises `Unreadable`."""

    @property
    def tables(self) -> StoredTables:
        """The same ledger row by row, for verification."""
        ...

    def one_moment(self) -> AbstractContextManager[None]:
        """Everything read inside is the ledger as it was at one moment, whatever is written meanwhile."""
        ...

    def give_up_at(self, moment: float | None) -> None:
        """Break questions off that take longer than to this moment of `time.monotonic`: they raise `Unreadable`."""
        ...

    def is_current(self) -> bool:
        """Tell whether the ledger that it reads still is the one that others find."""
        ...

    def close(self) -> None: ...


class PastStates(Protocol):
    """Earlier states of projects, as JSON."""

    async def at(self, project: str, version: int | None, snapshot_id: str | None) -> Json: ...

    async def history(self, project: str, limit: int) -> Json: ...

    async def diff(self, project: str, before: int, after: int | None) -> Json: ...
