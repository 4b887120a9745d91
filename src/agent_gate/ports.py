"""What the core asks of the outside world: protocols that adapters fill."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from agent_gate.model.approval import Question
from agent_gate.model.entry import Charge, Committed, Entry, ProjectHead, ProjectState, Work
from agent_gate.model.tool import Json, ToolDeclaration


class Clock(Protocol):
    def now(self) -> float:
        """Epoch seconds."""
        ...

    def monotonic(self) -> float: ...


class Ids(Protocol):
    def new(self) -> str:
        """A ULID: unique, and sorted by time."""
        ...

    def salt(self) -> str:
        """Sixteen random bytes as text."""
        ...


class Secrets(Protocol):
    def keyed_hash(self, value: bytes) -> str:
        """Stands for a secret in the record: equal for equal values, useless without the key."""
        ...


class Notifier(Protocol):
    """Brings a question to people, and news of its end."""

    async def ask(self, question: Question) -> None: ...

    async def resolved(self, question: Question, resolution: str, by: str) -> None: ...


class Service(Protocol):
    """A provider of tools with a life cycle."""

    @property
    def name(self) -> str: ...

    @property
    def dependencies(self) -> Sequence[str]: ...

    def tools(self) -> Sequence[ToolDeclaration]: ...

    async def start(self) -> None: ...

    async def execute(self, tool_name: str, args: Mapping[str, Json]) -> Json: ...

    async def health_check(self) -> bool: ...

    async def close(self) -> None: ...


class Ledger(Protocol):
    """Appends, reads and notifies; questions about the past live in `history/`."""

    @property
    def instance(self) -> str: ...

    async def commit(self, work: Work) -> Committed: ...

    def lock_project(self, project: str) -> AbstractAsyncContextManager[None]: ...

    async def head(self, project: str) -> ProjectHead | None: ...

    async def state(self, project: str) -> ProjectState: ...

    async def state_schema(self, project: str) -> Mapping[str, Json] | None: ...

    async def snapshot(self, snapshot_id: str) -> tuple[str, ProjectState] | None:
        """The project that a snapshot belongs to, and its state."""
        ...

    async def claimed(self, agent_id: str, request_id: str) -> tuple[str, str] | None:
        """(call_id, input_hash) of the call that used this request id."""
        ...

    async def entries_of(self, call_id: str) -> Sequence[Entry]: ...

    async def used(self, project: str, charge: Charge) -> float: ...

    async def denied_since(self, project: str, signature: str, since: float) -> bool:
        """Whether a person said no to this signature after that moment."""
        ...

    async def question(self, call_id: str) -> tuple[Question, str | None, tuple[str, ...]] | None:
        """An open question, its resolution if it has one, and who has approved so far."""
        ...

    async def questions(self) -> Sequence[Question]: ...

    async def wait_for_answer(self, call_id: str, timeout_s: float) -> None:
        """Return when there may be news of this question, from whichever process, or when the time is up."""
        ...

    async def last_policy_hash(self) -> str | None: ...

    async def blob(self, hash: str) -> bytes | None: ...

    async def insert_pending(
        self, request_id: str, tool_name: str, args: Mapping[str, Json], signature: str, expires_at: float
    ) -> None: ...

    async def get_pending(self, request_id: str) -> dict[str, Any] | None: ...

    async def delete_pending(self, request_id: str) -> None: ...

    async def cleanup_stale_requests(self) -> list[dict[str, Any]]: ...

    async def close(self) -> None: ...
