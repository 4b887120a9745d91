"""Work for the ledger: entries and changes that one transaction commits, all of them or none.

A kind of change is one struct here, its name in `Change`, and its check and write in each ledger (`sqlite/changes/`).
"""

from __future__ import annotations

from typing import Literal, TypeAlias, TypeVar

from msgspec import Struct

from agent_gate.model.approval import Question
from agent_gate.model.charge import Charge
from agent_gate.model.entry import Draft
from agent_gate.model.grant import Grant
from agent_gate.model.project import StateRef
from agent_gate.model.service_tables import TableChange
from agent_gate.model.tool import Json


class Claim(Struct, frozen=True):
    """Use an agent's request id, once; refused where another call has it."""

    agent_id: str
    request_id: str
    call_id: str
    input_hash: str


class Open(Struct, frozen=True):
    """Begin what stays in doubt until it is closed."""

    kind: Literal["call", "run"]
    id: str


class Close(Struct, frozen=True):
    """End what was opened; refused where somebody has ended it."""

    id: str


class Undo(Struct, frozen=True):
    """Undo a call; refused where another has, or is at it."""

    call_id: str


class Release(Struct, frozen=True):
    """Give back what a call had reserved."""

    charge: Charge


class StateChange(Struct, frozen=True):
    """Give the project its next state; the work says on which one it stands."""

    snapshot_id: str
    document: bytes
    document_hash: str
    value: Json
    """The document, decoded."""


class Hold(Struct, frozen=True):
    """Put a question to people; one about the same call gives way."""

    question: Question


class HoldBare(Struct, frozen=True):
    """Keep a pending request as the core-engine document has it: without who is asked, and bound to no call."""

    request_id: str
    tool_name: str
    args: bytes
    signature: str
    created_at: float
    expires_at: float


class Resolve(Struct, frozen=True):
    """Answer (or end) an open question; checked against the question as it stands in the ledger."""

    call_id: str
    nonce: str
    at: float
    resolution: str
    """`approved`, `denied`, `expired`, `withdrawn`"""
    by: str = ""
    in_time: bool = False
    """Found, by a clock that nobody sets, to be before the deadline."""


class TakeOver(Struct, frozen=True):
    """Hold a question from now on; refused where `instance`, which is gone, does not hold it any more."""

    call_id: str
    instance: str


class Unhold(Struct, frozen=True):
    """Drop a question: the call goes on, or has ended."""

    call_id: str


class QueueEffect(Struct, frozen=True):
    """Let an effect wait in the outbox until its end is known."""

    effect_id: str
    call_id: str
    tool: str
    payload: bytes


class EndEffect(Struct, frozen=True):
    effect_id: str


class KeepBlob(Struct, frozen=True):
    """Keep bytes under a name, mostly their hash; what has the name already stays."""

    name: str
    data: bytes


class CreateProject(Struct, frozen=True):
    """Begin a project's chain; refused where there is one."""

    initial_state: bytes | None = None
    state_schema: bytes | None = None


class SetStatus(Struct, frozen=True):
    """Give the project another status: `open`, `locked`, `archived`, or `paused` for the whole gate."""

    status: str


class Erase(Struct, frozen=True):
    """Turn the bodies of these calls into tombstones."""

    call_ids: tuple[str, ...]


class LeaveResult(Struct, frozen=True):
    """Let the outcome wait, since the agent is away, until the agent says that it has it."""

    agent_id: str
    call_id: str
    request_id: str | None
    at: str


class TakeResults(Struct, frozen=True):
    """Drop what the agent has; each id is that of a call or of the agent's own request."""

    agent_id: str
    ids: tuple[str, ...]


class GiveGrant(Struct, frozen=True):
    grant: Grant


class UseGrant(Struct, frozen=True):
    """Take one use; refused where none is left, or where the time is over or a person took the grant back."""

    grant_id: str
    at: str
    entry: Draft
    """Tells of the use; written before the entries of the work."""


class RevokeGrant(Struct, frozen=True):
    """Take a grant back; refused where it is used up or over, or has been taken back."""

    grant_id: str
    at: str


class KeepMessage(Struct, frozen=True):
    """Keep where a messenger has shown a question, so that the message can be edited after a restart too."""

    call_id: str
    channel: str
    reference: str


class DropMessage(Struct, frozen=True):
    call_id: str
    channel: str


class PutContact(Struct, frozen=True):
    """Keep what acts on the owner's behalf, such as a token; another value under the key gives way."""

    key: str
    sealed: bytes
    at: str


class DropContact(Struct, frozen=True):
    key: str


class NoteClock(Struct, frozen=True):
    """Note how far the wall clock is ahead of the time since the machine started; refused where somebody has."""

    boot: str
    offset_s: float


Change: TypeAlias = (
    Claim
    | Open
    | Close
    | Undo
    | Charge
    | Release
    | StateChange
    | Hold
    | HoldBare
    | Resolve
    | TakeOver
    | Unhold
    | QueueEffect
    | EndEffect
    | KeepBlob
    | CreateProject
    | SetStatus
    | Erase
    | LeaveResult
    | TakeResults
    | GiveGrant
    | UseGrant
    | RevokeGrant
    | KeepMessage
    | DropMessage
    | PutContact
    | DropContact
    | NoteClock
    | TableChange
)
"""All that a transaction does besides its entries."""

Wanted = TypeVar("Wanted")


class Work(Struct, frozen=True):
    """A caller's wish to the ledger; it is committed in one transaction with whoever else waits."""

    project: str
    entries: tuple[Draft, ...] = ()
    changes: tuple[Change, ...] = ()
    """Checked in this order, then written in this order; the first that is refused refuses the work."""
    must_be_open: bool = False
    """Refused where the project is archived or locked."""
    stands_on: StateRef | None = None
    """The state that it was judged by and computed from: refused where the project has another one by then."""

    def find(self, kind: type[Wanted]) -> Wanted | None:
        """Return the first change of a kind."""
        for change in self.changes:
            if isinstance(change, kind):
                return change
        return None
