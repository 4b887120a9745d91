"""Facts on their way into the ledger: entries, and the work that one transaction does with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from msgspec import Struct

from agent_gate.model.approval import Question
from agent_gate.model.charge import Charge
from agent_gate.model.grant import Grant
from agent_gate.model.tool import Json
from agent_gate.model.undone import Undone
from agent_gate.model.word import Word

GATE_PROJECT = "_gate"
"""The chain for facts that belong to no project: policies, refusals at the door."""


INITIAL_SNAPSHOT = "initial"
"""Names the state that a project was made with, in every project; the others have ids of their own."""


class Kind(Word):
    RUN = "run"
    HELD = "held"
    ANSWERED = "answered"
    PERFORMING = "performing"
    COMMITTING = "committing"
    SETTLED = "settled"
    JUDGED = "judged"
    EFFECT = "effect"
    COMMAND = "command"
    REVERTED = "reverted"
    REPLAYED = "replayed"
    POLICY = "policy"
    TOOLS = "tools"
    PROJECT = "project"
    ERASED = "erased"
    DOOR = "door"
    GRANT = "grant"
    CONTACT = "contact"
    CLOCK = "clock"
    SCHEMA = "schema"


class Draft(Struct, frozen=True):
    """One entry before it has a place in the chain."""

    kind: Kind
    at: str
    body: bytes
    """Canonical JSON; holds the signatures and a random salt, so that an erased body cannot be guessed."""
    call_id: str | None = None
    run_id: str | None = None
    request_id: str | None = None
    agent_id: str | None = None
    tool: str | None = None
    signature: str | None = None
    status: str | None = None


class Claim(Struct, frozen=True):
    """One agent's request id, used once."""

    agent_id: str
    request_id: str
    call_id: str
    input_hash: str


class StateRef(Struct, frozen=True):
    """One state of a project; the number alone would not tell it from another that was to have the same one."""

    version: int
    snapshot_id: str | None = None
    """None for the initial state."""


class StateChange(Struct, frozen=True):
    """A project's next state; its work says on which one it stands."""

    snapshot_id: str
    document: bytes
    document_hash: str
    value: Json
    """The document, decoded."""


class Resolve(Struct, frozen=True):
    """An answer (or the end) of an open question; checked against the question as it stands in the ledger."""

    call_id: str
    nonce: str
    at: float
    resolution: str
    """`approved`, `denied`, `expired`, `withdrawn`"""
    by: str = ""
    in_time: bool = False
    """Whether it was found, by a clock that nobody sets, that the deadline has not passed."""


@dataclass(frozen=True, slots=True)
class PendingRow:
    """A bare pending request, as the core-engine document stores it; a question adds who is asked."""

    request_id: str
    tool_name: str
    args: bytes
    signature: str
    created_at: float
    expires_at: float


@dataclass(frozen=True, slots=True)
class BareRequest:
    """A pending request of the core-engine document's as it is stored."""

    call_id: str
    request_id: str
    tool_name: str
    args: Mapping[str, Json]
    signature: str
    created_at: float
    expires_at: float


class OutboxRow(Struct, frozen=True):
    effect_id: str
    call_id: str
    tool: str
    payload: bytes


class ProjectChange(Struct, frozen=True):
    """A new project, or another status of one."""

    status: str
    create: bool = False
    initial_state: bytes | None = None
    state_schema: bytes | None = None


class LeaveResult(Struct, frozen=True):
    """The agent is away: the outcome waits until the agent says that it has it."""

    agent_id: str
    call_id: str
    request_id: str | None
    at: str


class TakeResults(Struct, frozen=True):
    """The agent has these; each id is that of a call or of the agent's own request."""

    agent_id: str
    ids: tuple[str, ...]


class GiveGrant(Struct, frozen=True):
    grant: Grant


class UseGrant(Struct, frozen=True):
    """One use less; refused where none is left, or where the time is over or a person took the grant back."""

    grant_id: str
    at: str
    entry: Draft
    """Tells of the use; written before the entries of the work."""


class RevokeGrant(Struct, frozen=True):
    grant_id: str
    at: str


class KeepMessage(Struct, frozen=True):
    """Where a messenger has shown a question, so that the message can be edited after a restart too."""

    call_id: str
    channel: str
    reference: str


class DropMessage(Struct, frozen=True):
    call_id: str
    channel: str


class PutContact(Struct, frozen=True):
    """What reaches or opens something on the owner's behalf, such as a token; another value under the key gives way."""

    key: str
    sealed: bytes
    at: str


class DropContact(Struct, frozen=True):
    key: str


class EntityRow(Struct, frozen=True):
    """One entity of a home as it was last seen."""

    entity_id: str
    state: str
    attributes: str | None
    """JSON; None where there was too much of it to keep."""
    last_updated: str
    captured_at: str


class KeepEntities(Struct, frozen=True):
    """Each in place of what was known of it before."""

    rows: tuple[EntityRow, ...]


class DropEntities(Struct, frozen=True):
    entity_ids: tuple[str, ...]


class SeenEntities(Struct, frozen=True):
    """All that are kept were there at this moment, as they are kept."""

    at: str


class DropOldEntities(Struct, frozen=True):
    """Those that were captured before this moment."""

    before: str


class NoteClock(Struct, frozen=True):
    """How far the wall clock is ahead of the time since the machine started; refused where somebody has noted it."""

    boot: str
    offset_s: float


SideTableChange: TypeAlias = (
    LeaveResult
    | TakeResults
    | GiveGrant
    | UseGrant
    | RevokeGrant
    | KeepMessage
    | DropMessage
    | PutContact
    | DropContact
    | KeepEntities
    | DropEntities
    | SeenEntities
    | DropOldEntities
    | NoteClock
)
"""What a transaction does in the tables of approvers, agents, owners and homes, beside the chain."""


class Work(Struct, frozen=True):
    """What one caller wants committed: all of it or none, in one transaction with whoever else waits."""

    project: str
    entries: tuple[Draft, ...] = ()
    must_be_open: bool = False
    """Refused where the project is archived or locked."""
    claim: Claim | None = None
    opens: tuple[str, str] | None = None
    """(`call` or `run`, id) that stays in doubt until it is closed."""
    closes: str | None = None
    charges: tuple[Charge, ...] = ()
    releases: tuple[Charge, ...] = ()
    stands_on: StateRef | None = None
    """The state that it was judged by and computed from: refused where the project has another one by then."""
    state: StateChange | None = None
    holds: Question | None = None
    pending: PendingRow | None = None
    resolves: Resolve | None = None
    unholds: str | None = None
    takes_over: tuple[str, str] | None = None
    """(call id, instance): a question whose process is gone, and that this one holds from now on."""
    outbox: tuple[OutboxRow, ...] = ()
    outbox_done: str | None = None
    blobs: tuple[tuple[str, bytes], ...] = ()
    project_change: ProjectChange | None = None
    erases: tuple[str, ...] = ()
    """Calls whose bodies become tombstones."""
    side_tables: tuple[SideTableChange, ...] = ()
    undoes: str | None = None
    """The call that this one undoes; refused where another has, or is at it."""

    @property
    def is_plain(self) -> bool:
        """Whether it is entries and at most a change of the state, and nothing else."""
        return self == Work(self.project, self.entries, self.must_be_open, stands_on=self.stands_on, state=self.state)


class Applied(Struct, frozen=True):
    seq: int
    hash: bytes
    state_version: int


class NotOpen(Struct, frozen=True):
    status: str
    """`missing`, `archived`, `locked`, `exists`, `paused`"""


class RequestTaken(Struct, frozen=True):
    call_id: str
    input_hash: str


class NoRoom(Struct, frozen=True):
    charge: Charge
    used: float


class StateMoved(Struct, frozen=True):
    version: int


class NotPending(Struct, frozen=True):
    why: str
    """`missing`, `answered`, `late`, `other`"""


class AlreadyClosed(Struct, frozen=True):
    id: str


class GrantSpent(Struct, frozen=True):
    grant_id: str


class ClockKnown(Struct, frozen=True):
    """Another process has noted where the clock was set to."""


Refused: TypeAlias = (
    NotOpen | RequestTaken | NoRoom | StateMoved | NotPending | AlreadyClosed | GrantSpent | ClockKnown | Undone
)
Committed: TypeAlias = Applied | Refused


class ProjectHead(Struct, frozen=True):
    """A project as it stands: its status, the end of its chain and the version of its state."""

    project: str
    seq: int
    hash: bytes
    state_version: int
    snapshot_id: str | None
    status: str


class ProjectState(Struct, frozen=True):
    version: int
    document: Json
    """Nobody changes it: others look at the same one."""
    snapshot_id: str | None = None
    encoded: bytes | None = None
    """The document's canonical bytes, where they are at hand."""

    @property
    def ref(self) -> StateRef:
        return StateRef(self.version, self.snapshot_id)


class Entry(Struct, frozen=True):
    """One fact as it stands in the ledger."""

    project: str
    seq: int
    at: str
    kind: str
    run_id: str | None
    call_id: str | None
    request_id: str | None
    agent_id: str | None
    tool: str | None
    signature: str | None
    status: str | None
    body: bytes | None
    """None where it was erased."""
    body_hash: bytes
    prev_hash: bytes
    hash: bytes

    def to_json(self, body: Mapping[str, Json] | None) -> dict[str, Any]:
        fields: dict[str, Any] = {
            key: value
            for key in (
                "project",
                "seq",
                "at",
                "kind",
                "run_id",
                "call_id",
                "request_id",
                "agent_id",
                "tool",
                "signature",
                "status",
            )
            if (value := getattr(self, key)) is not None
        }
        fields["body"] = body
        fields |= {key: getattr(self, key).hex() for key in ("body_hash", "prev_hash", "hash")}
        return fields
