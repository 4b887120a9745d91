"""A tool as the gate holds it, from binding a call to undoing it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

import msgspec
from msgspec import Struct

from agent_gate.model.call import BoundCall, CallRequest, Facts
from agent_gate.model.change import FileChange
from agent_gate.model.charge import Charge
from agent_gate.model.errors import Problem, ToolError
from agent_gate.model.outcome import Outcome
from agent_gate.model.project import ProjectState
from agent_gate.model.service_tables import TableChange
from agent_gate.model.tool import Json, ToolDeclaration
from agent_gate.model.verdict import Verdict

if TYPE_CHECKING:  # 60 ms that who only reads the ledger does not pay
    from agent_gate.policy.judge import Judge


@dataclass(frozen=True, slots=True)
class NewState:
    """The result of a pure tool: the state after it, and what to tell the agent."""

    state: Json
    message: str = ""
    data: Json = None


class Moved(ToolError):
    """Things are not as they were bound: raised by `keep` to have the call bound again, by `act` to end it."""

    default_code = 2006


Transition: TypeAlias = Callable[[dict[str, Json], Json], NewState]
Keep: TypeAlias = Callable[[BoundCall], Awaitable[bytes | None]]
"""Runs when a call is about to be performed and gives what undoing it will need, which is stored with the intent."""
Act: TypeAlias = Callable[[BoundCall], Awaitable["Json | Failed | WithRows | Proposal"]]
"""Does what was bound and gives the result, or a proposal of what is to be done.

As a preview it tells what the act would come to, and leaves the world as it is; ToolError 2006 where it cannot.
"""


@dataclass(frozen=True, slots=True)
class FinishedCommit:
    """The end of a commit to files that a process left half-way."""

    made: bool
    """True where all of it is there; otherwise nothing of it is, but for `in_doubt`."""
    in_doubt: tuple[str, ...] = ()
    """Paths that somebody else changed meanwhile."""


FinishCommit: TypeAlias = Callable[[str, bytes | None], FinishedCommit]
"""By call and journal; without a journal nothing was begun, and what was staged is removed."""


class Failed(Struct, frozen=True):
    """An act that went to its end and did not reach what it was for: what it tells all the same, and why it failed."""

    data: Json
    problem: Problem


class WithRows(Struct, frozen=True):
    """A result with changes of its service's tables, which are written in the transaction that settles the call."""

    data: Json
    rows: tuple[TableChange, ...]


@runtime_checkable
class Proposal(Protocol):
    """An act that was made ready and not done: a command's writes, which wait in layers until they are judged."""

    @property
    def result(self) -> Json:
        """Data that the tool tells besides."""
        ...

    @property
    def problem(self) -> Problem | None:
        """Reason why it cannot be done, whatever is judged of it."""
        ...

    @property
    def failure(self) -> Problem | None:
        """Reason why the call has failed though what is proposed may count: the command itself said so."""
        ...

    @property
    def changes(self) -> Sequence[FileChange]: ...

    @property
    def manifest_hash(self) -> str:
        """Of everything that would be done."""
        ...

    async def shown(self) -> list[dict[str, Json]]:
        """The changes as people see them, each with its difference."""
        ...

    async def stage(self, call_id: str) -> bytes:
        """Make all of it ready beside its place and durable; what is needed to go on after a crash, and to undo it.

        GateError 2008 where somebody changed one of the paths meanwhile.
        """
        ...

    async def commit(self) -> None:
        """All of it or nothing; GateError 2007 with the paths that somebody else changed in that very moment."""
        ...

    async def carry(self) -> None:
        """Let the later steps of a simulation find what was made ready; GateError where they cannot."""
        ...

    async def discard(self) -> None:
        """Let go of what waits; called at the end in any case."""
        ...


class Binding(Struct, frozen=True):
    """The findings of a tool's own binder: the names that rules match, and the things that will be touched."""

    signatures: tuple[str, ...]
    resources: Mapping[str, Json] = msgspec.field(default_factory=dict)
    act: Act | None = None
    transition: Transition | None = None
    """Given where what is to be done depends on what was found; otherwise the tool's own holds."""
    release: Callable[[], None] | None = None
    """Gives back what is held between bind and perform, such as a descriptor."""
    found: Mapping[str, Json] = msgspec.field(default_factory=dict)
    """Facts of those things that judging needs but an approval does not rest on, such as a file's size."""
    keep: Keep | None = None
    preview: Act | None = None
    proposes: bool = False
    """True where the act only makes a proposal: while it runs, nothing is done that counts."""
    copies: bool = False
    """True where the preview does on a copy what the act would do, so that later steps of a simulation find it."""
    aliases: tuple[str, ...] = ()
    """Other names of what would be done: deny and ask rules see them, allow rules and grants do not."""
    changes: Callable[[Json], tuple[str, ...]] | None = None
    """Further aliases, by the state that the call would change."""
    look_further: Callable[[], Awaitable[Binding]] | None = None
    """Finds the rest, where the call is allowed as far as is known: a look-up of a name tells it to others."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """An earlier call as the ledger tells it."""

    call_id: str
    args: Mapping[str, Json]
    resources: Mapping[str, Json]
    found: Mapping[str, Json]
    outcome: Outcome
    kept: bytes | None = None
    """Bytes that the tool kept for its undoing."""
    undoes: Recorded | None = None
    """Of a call that undid another, that other: undoing it does again what that one did."""

    @property
    def origin(self) -> Recorded:
        """The call of the tool itself, at the end of a row of undoings."""
        return self if self.undoes is None else self.undoes.origin

    @property
    def is_in_effect(self) -> bool:
        """True where, after it, stands what the tool's own call did; otherwise that is undone."""
        return self.undoes is None or not self.undoes.is_in_effect


Withheld: TypeAlias = Callable[[str], Callable[[str], bool] | None]
"""By the beginning of their alias signatures, which things of a list the caller may not see; None where it may see all.

The policy in force when the call was bound says so.
"""
ListAct: TypeAlias = Callable[[BoundCall, Withheld], Awaitable[Json]]

Bind: TypeAlias = Callable[[CallRequest, Mapping[str, Json], "Judge"], Awaitable["Binding"]]


@dataclass(frozen=True, slots=True)
class RegisteredTool:
    """One tool as the gate holds it: the declaration, and the ways to bind and to do it."""

    declaration: ToolDeclaration
    service: str
    validate: Callable[[Json], str | None]
    """Find what is wrong with the arguments, or None."""
    sign: Callable[[Mapping[str, Json]], tuple[str, ...]]
    """The call's signatures, where no binder of the tool's own finds them."""
    act: Callable[[BoundCall], Awaitable[Json]] | None = None
    """Effects `read` and `write`."""
    list_act: ListAct | None = None
    """In place of `act`, for a tool that reads many things, of which rules may deny some: those it leaves out."""
    transition: Transition | None = None
    """Effect `none`: pure, on copies."""
    is_brief: bool = False
    """True where its transition takes time by the size of arguments and state alone: small ones need no thread.

    It also leaves what it is given as it is, and may give back parts of it: it needs no copy.
    """
    only_looks: bool = False
    """True where its transition always gives back the state that it was given."""
    bind: Bind | None = None
    """For tools whose signature is more than their arguments; it may ask the judge before it looks further."""
    post_execution: Callable[[dict[str, Json]], Awaitable[Json]] | None = None
    """Runs after the commit, from the outbox; gets the outcome as JSON."""
    normalise: Callable[[Mapping[str, Json]], Mapping[str, Json]] | None = None
    """One spelling for each meaning, before anything else sees the arguments; ToolError where they have none."""
    reverts: bool = False
    """True where its success undoes something: then a `reverted` entry says what."""
    undo: Callable[[Recorded, Judge], Awaitable[Binding]] | None = None
    """Binds the undoing of an earlier call of this tool that was performed: what it would touch, and how."""
    nulls_absent: frozenset[str] = frozenset()
    """Arguments for which null is as if absent; none of a tool that another server holds, which says itself."""


class Tools(Protocol):
    """Everything that can be called here."""

    def find(self, name: str) -> RegisteredTool | None: ...

    def declaration(self, name: str) -> ToolDeclaration | None: ...

    def missing(self, name: str) -> Problem:
        """Say why a name leads to no tool."""
        ...

    def all(self) -> Sequence[RegisteredTool]: ...


class Prepared(Struct, frozen=True):
    """A bound call with what the later stages need beside it: its facts, its tool and the judged declaration."""

    call: BoundCall
    facts: Facts
    registered: RegisteredTool
    declaration: ToolDeclaration
    charges: tuple[Charge, ...] = ()
    act: Act | None = None
    transition: Transition | None = None
    on_release: Callable[[], None] | None = None
    keep: Keep | None = None
    preview: Act | None = None
    needs_state: bool = False
    """True where the verdict may rest on the project's state."""
    proposes: bool = False
    copies: bool = False
    state: ProjectState = ProjectState(0, None)
    """The state that it was bound on, where it needs one."""

    @property
    def undoes(self) -> str | None:
        """The call that it would undo."""
        return self.call.resources.get("call_id") if self.registered.reverts else None

    def release(self) -> None:
        if self.on_release:
            self.on_release()


class Judged(Struct, frozen=True):
    """A bound call and the verdict on it."""

    prepared: Prepared
    verdict: Verdict
