"""The book of record, by what callers need of it."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from agent_gate.model.approval import BareRequest, Question
from agent_gate.model.charge import Charge
from agent_gate.model.committed import Committed
from agent_gate.model.entry import Entry
from agent_gate.model.grant import Grant
from agent_gate.model.project import ProjectHead, ProjectState
from agent_gate.model.service_tables import Row as TableRow
from agent_gate.model.service_tables import Table, Value
from agent_gate.model.tool import Json
from agent_gate.model.undone import Undone
from agent_gate.model.work import Work
from agent_gate.ports.surroundings import Clock

if TYPE_CHECKING:
    from agent_gate.ports.storage import Storage


class LedgerFigures(Struct, frozen=True):
    """Figures of the writing, since this process opened the ledger."""

    commits: int
    """Transactions, each with one fsync."""
    works: int
    """Pieces of work in them."""
    waiting: int
    """Pieces that wait now."""


class Turn(Protocol):
    """A task's turn at a project's state: nobody else changes it meanwhile."""

    @property
    def state(self) -> ProjectState:
        """It may still be on its way into the ledger; work that says `stands_on` counts only if that state does."""
        ...

    def commit(self, work: Work) -> Awaitable[Committed]:
        """The turn's last act: the next one begins as soon as the work has its place, before it is committed."""
        ...


class Append(Protocol):
    """Commits work, one piece after the other, and says whose turn it is at a project."""

    @property
    def instance(self) -> str: ...

    @property
    def storage(self) -> Storage:
        """The storage that it is kept in: looking back opens readers there, beside the writer."""
        ...

    def figures(self) -> LedgerFigures: ...

    def commit(self, work: Work) -> Awaitable[Committed]:
        """The work has its place in the order at once; what became of it is known when that is awaited."""
        ...

    def lock_project(self, project: str) -> AbstractAsyncContextManager[None]: ...

    def turn(self, project: str, *, alone: bool = False) -> AbstractAsyncContextManager[Turn]:
        """One task's turn at a project's state; `alone`: on a state that was committed."""
        ...

    async def wait_for_change(self, timeout_s: float) -> None:
        """Return when something was written, by whichever process, or when the time is up."""
        ...

    async def close(self) -> None: ...


class States(Protocol):
    """Projects: their heads, their states of now and of before, and whether calls may change them."""

    async def effective_status(self, project: str) -> str | None:
        """The project's status, unless the whole gate is paused; one of a moment ago is told without looking."""
        ...

    async def status(self, project: str) -> str | None:
        """`open`, `locked`, `archived`, or None; what another process changed may be noticed a moment later.

        The commit looks again, so nothing rests on it but an early answer.
        """
        ...

    async def head(self, project: str) -> ProjectHead | None: ...

    async def state(self, project: str) -> ProjectState: ...

    async def state_schema(self, project: str) -> Mapping[str, Json] | None: ...

    async def snapshot(self, project: str, snapshot_id: str) -> ProjectState | None:
        """The state of one of the project's snapshots; `initial` is the one that it was made with."""
        ...

    async def state_at(self, project: str, version: int) -> ProjectState:
        """The state that a project had at a version; 0 is its initial state."""
        ...


class Calls(Protocol):
    """Calls that were made: what was written of them, and what they used."""

    async def claimed(self, agent_id: str, request_id: str) -> tuple[str, str] | None:
        """(call_id, input_hash) of the call that used this request id."""
        ...

    async def entries_of(self, call_id: str, kind: str | None = None) -> Sequence[Entry]: ...

    async def undone(self, project: str, call_id: str) -> Undone | None:
        """By which call another was undone, or is being."""
        ...

    async def used(self, project: str, charge: Charge) -> float: ...

    async def denied_since(self, project: str, signature: str, since: float) -> bool:
        """Tell whether a person said no to this signature after that moment."""
        ...

    async def last_policy_hash(self) -> str | None: ...

    async def last_tools_hash(self) -> str | None: ...

    async def blob(self, hash: str) -> bytes | None: ...


class Questions(Protocol):
    """Questions to people that have no outcome yet."""

    async def question(self, call_id: str) -> tuple[Question, str | None, tuple[str, ...]] | None:
        """An open question, its resolution if it has one, and who has approved so far."""
        ...

    async def question_about(
        self, agent_id: str, bound_hash: str
    ) -> tuple[Question, str | None, tuple[str, ...]] | None:
        """The question about exactly this, told as `question` tells it; of several an answered or the oldest one."""
        ...

    async def answer_to(self, call_id: str) -> tuple[str | None, tuple[str, ...]] | None:
        """The resolution of a question, if it has one, and who has approved so far."""
        ...

    async def is_as_put(self, call_id: str) -> bool:
        """Tell whether the question about a call still is the one that its entry says was put."""
        ...

    async def abandoned_by(self, call_id: str) -> str | None:
        """The instance that held an open question, where its process is gone or this one; who asks knows its own."""
        ...

    async def abandoned_calls(self) -> frozenset[str]:
        """The calls about which a question is open whose process is gone."""
        ...

    async def questions(self) -> Sequence[Question]: ...

    async def open_questions(self) -> Sequence[tuple[Question, tuple[str, ...]]]:
        """Those without an answer, and who has approved each so far."""
        ...

    async def unsettled_questions(self) -> Sequence[Question]:
        """Every question whose call has no outcome yet, also where it was answered."""
        ...

    async def questions_of(self, agent_id: str) -> Sequence[str]:
        """The calls of this agent about which a question is open."""
        ...

    def wait_for_answer(
        self, call_id: str, timeout_s: float | None = None, deadline: float | None = None
    ) -> Awaitable[None]:
        """Done when there may be news of this question, from whichever process, or when the time is up.

        The deadline is a moment of the monotonic clock.
        """
        ...


class SideTables(Protocol):
    """Grants, results that wait to be fetched, messages that show questions, and sealed values of the owner."""

    async def grants(self, at: float) -> Sequence[Grant]:
        """Those that could be used at that moment."""
        ...

    async def grants_of(self, project: str, agent_id: str, key: str, at: float) -> Sequence[Grant]: ...

    async def waiting_results(self, agent_id: str, limit: int) -> Sequence[str]:
        """The calls whose outcome waits for this agent, oldest first."""
        ...

    async def waiting_results_count(self, agent_id: str) -> int: ...

    async def messages(self, channel: str) -> Sequence[tuple[str, str]]:
        """(call id, reference) of every question that a messenger shows."""
        ...

    async def contact(self, key: str) -> bytes | None:
        """The sealed value that the owner gave under this key."""
        ...

    async def contacts(self) -> Sequence[tuple[str, str]]:
        """(key, when it was set) of each, by key."""
        ...


class BareRequests(Protocol):
    """Pending requests that no question stands behind, as `compat` keeps them."""

    @property
    def clock(self) -> Clock: ...

    async def bare_request(self, request_id: str) -> BareRequest | None: ...

    async def bare_requests_until(self, at: float) -> Sequence[BareRequest]:
        """Those whose deadline is past at that moment, the earliest first."""
        ...


class TablesOfServices(Protocol):
    """Tables that services bring; they are changed by works, alone or with the entries that they belong to."""

    async def rows_of(
        self, table: Table, where: Mapping[str, Value] = ..., columns: Sequence[str] = ...
    ) -> Sequence[TableRow]:
        """The rows with these values, by key, whole or in these columns; none where the table was not made yet."""
        ...

    async def steps_taken(self, service: str) -> int:
        """Tell how many of the steps to a service's tables were taken here."""
        ...


class Ledger(Append, States, Calls, Questions, SideTables, BareRequests, TablesOfServices, Protocol):
    """Appends, reads and notifies; questions about the past live in `history/`."""
