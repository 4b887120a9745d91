"""What the core asks of the outside world: protocols that adapters fill."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, runtime_checkable

import msgspec
from msgspec import Struct

from agent_gate.model.approval import Question
from agent_gate.model.call import BoundCall, CallRequest, Facts
from agent_gate.model.change import FileChange
from agent_gate.model.charge import Charge
from agent_gate.model.entry import Committed, EntityRow, Entry, ProjectHead, ProjectState, Work
from agent_gate.model.errors import Problem, ToolError
from agent_gate.model.grant import Grant
from agent_gate.model.outcome import Outcome
from agent_gate.model.policy import Policy
from agent_gate.model.tool import Json, ToolDeclaration
from agent_gate.model.undone import Undone
from agent_gate.model.verdict import Requirement, Verdict


class Judge(Protocol):
    """Judgement under the policy in force."""

    @property
    def policy(self) -> Policy: ...

    def needs_state(self, tool: ToolDeclaration) -> bool: ...

    def declared(self, tool: ToolDeclaration) -> ToolDeclaration: ...

    def decide(self, bound: BoundCall, facts: Facts, tool: ToolDeclaration) -> Verdict: ...

    def decide_changes(
        self, bound: BoundCall, facts: Facts, changes: Sequence[FileChange], requirement: Requirement
    ) -> Verdict: ...

    def withheld(
        self, bound: BoundCall, facts: Facts, tool: ToolDeclaration, beginning: str
    ) -> Callable[[str], bool] | None: ...


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request of somebody else's traffic that is judged here and performed elsewhere."""

    agent_id: str
    signature: str
    """`http.request({METHOD} {scheme}://{authority}{path})`, which rules match."""
    method: str
    url: str
    """In its one spelling, without the query."""
    query_params: tuple[tuple[str, str], ...]
    body: bytes = field(repr=False)
    target: str = ""
    """The URL with its query, byte by byte as it was sent; empty where nobody knows."""
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Those on which an approval rests, names in lower case."""
    credentials: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Likewise, but never shown or stored in clear."""
    body_unseen: bool = False
    """Whether a body follows that nobody could look at, so that nobody can agree to it."""


@dataclass(frozen=True, slots=True)
class RequestAllowed:
    """It may pass, this once."""


@dataclass(frozen=True, slots=True)
class RequestDenied:
    problem: Problem


@dataclass(frozen=True, slots=True)
class RequestHeld:
    """A person is asked; the caller may come again with the same request."""

    call_id: str
    retry_after_s: int


class RequestJudge(Protocol):
    async def judge_request(self, request: HttpRequest) -> RequestAllowed | RequestDenied | RequestHeld:
        """Never waits for a person.

        The same request finds its open question again; after an approval one such request is allowed, and the next
        one is a new question.
        """
        ...

    async def health_check(self) -> None:
        """GateError where it cannot judge, or could not write down that it has."""
        ...


class Clock(Protocol):
    def now(self) -> float:
        """Epoch seconds."""
        ...

    def monotonic(self) -> float:
        """Seconds since the machine started, also while it slept: nobody can set them."""
        ...

    @property
    def boot(self) -> str:
        """Which start of the machine they count from."""
        ...


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


Reached: TypeAlias = tuple[str, float]
"""A stage, and when a call came to it, on the monotonic clock."""


class Observer(Protocol):
    """Watches calls go by; it is quick, and never fails."""

    def ended(self, call_id: str, tool: str, outcome: Outcome | None, stages: Sequence[Reached] = ()) -> None:
        """With its outcome, None where the gate itself broke it off, and the stages that it was in."""
        ...

    def refused(self, problem: Problem) -> None:
        """Somebody was turned away at a door."""
        ...

    def looked(self, door: str, place: str) -> None:
        """A person looked at something."""
        ...


class Unobserved:
    """Nobody watches."""

    def ended(self, call_id: str, tool: str, outcome: Outcome | None, stages: Sequence[Reached] = ()) -> None: ...

    def refused(self, problem: Problem) -> None: ...

    def looked(self, door: str, place: str) -> None: ...


class PastStates(Protocol):
    """Earlier states of projects, as JSON."""

    async def at(self, project: str, version: int | None, snapshot_id: str | None) -> Json: ...

    async def history(self, project: str, limit: int) -> Json: ...

    async def diff(self, project: str, before: int, after: int | None) -> Json: ...


class ServiceHandler(Protocol):
    """What the core-engine document asks of a service."""

    async def execute(self, tool_name: str, args: Mapping[str, Json]) -> Json: ...

    async def health_check(self) -> bool: ...

    async def close(self) -> None: ...


class ToolProvider(Protocol):
    """The least that a service is; whatever else it does not have gets a default when it is started."""

    def tools(self) -> Sequence[ToolDeclaration]: ...

    async def execute(self, tool_name: str, args: Mapping[str, Json]) -> Json: ...


class Service(ServiceHandler, Protocol):
    """A provider of tools with a life cycle."""

    @property
    def name(self) -> str: ...

    @property
    def dependencies(self) -> Sequence[str]: ...

    def tools(self) -> Sequence[ToolDeclaration]: ...

    async def start(self) -> None: ...


class LedgerFigures(Struct, frozen=True):
    """How the writing goes, since this process opened the ledger."""

    commits: int
    """Transactions, each with one fsync."""
    works: int
    """Pieces of work in them."""
    waiting: int
    """Pieces that wait now."""


class Ledger(Protocol):
    """Appends, reads and notifies; questions about the past live in `history/`."""

    @property
    def instance(self) -> str: ...

    def figures(self) -> LedgerFigures: ...

    def commit(self, work: Work) -> Awaitable[Committed]:
        """The work has its place in the order at once; what became of it is known when that is awaited."""
        ...

    def lock_project(self, project: str) -> AbstractAsyncContextManager[None]: ...

    def turn(self, project: str, *, alone: bool = False) -> AbstractAsyncContextManager[ProjectState]:
        """One task's turn at a project's state: nobody else changes it meanwhile.

        The state may still be on its way into the ledger: whatever is found on it is committed within the turn, with
        `stands_on`, so that it only counts if that state does. `alone`: the state is one that was committed.
        """
        ...

    async def effective_status(self, project: str) -> str | None:
        """The project's status, unless the whole gate is paused."""
        ...

    def known_effective_status(self, project: str) -> str | None:
        """The same without looking, where it was looked at a moment ago; else None."""
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

    async def claimed(self, agent_id: str, request_id: str) -> tuple[str, str] | None:
        """(call_id, input_hash) of the call that used this request id."""
        ...

    async def entries_of(self, call_id: str, kind: str | None = None) -> Sequence[Entry]: ...

    async def undone(self, project: str, call_id: str) -> Undone | None:
        """By which call another was undone, or is being."""
        ...

    async def used(self, project: str, charge: Charge) -> float: ...

    async def denied_since(self, project: str, signature: str, since: float) -> bool:
        """Whether a person said no to this signature after that moment."""
        ...

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
        """Whether the question about a call still is the one that its entry says was put."""
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

    async def wait_for_change(self, timeout_s: float) -> None:
        """Return when something was written, by whichever process, or when the time is up."""
        ...

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

    async def entity_snapshot(self) -> Sequence[EntityRow]:
        """The home as it was last seen, by entity id."""
        ...

    async def entity_stamps(self) -> Mapping[str, str]:
        """When each of those entities had last been updated."""
        ...

    async def last_policy_hash(self) -> str | None: ...

    async def last_tools_hash(self) -> str | None: ...

    async def blob(self, hash: str) -> bytes | None: ...

    async def insert_pending(
        self, request_id: str, tool_name: str, args: Mapping[str, Json], signature: str, expires_at: float
    ) -> None: ...

    async def get_pending(self, request_id: str) -> dict[str, Any] | None: ...

    async def delete_pending(self, request_id: str) -> None: ...

    async def cleanup_stale_requests(self) -> list[dict[str, Any]]: ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class NewState:
    """What a pure tool returns: the state after it, and what to tell the agent."""

    state: Json
    message: str = ""
    data: Json = None


class Moved(ToolError):
    """What a call would touch is not what was bound: raised by `keep` to have it bound again, by `act` to end it."""

    default_code = 2006


Transition: TypeAlias = Callable[[dict[str, Json], Json], NewState]
Keep: TypeAlias = Callable[[BoundCall], Awaitable[bytes | None]]
"""Runs when a call is about to be performed and gives what undoing it will need, which is stored with the intent."""
Act: TypeAlias = Callable[[BoundCall], Awaitable["Json | Failed | Proposal"]]
"""Does what was bound and gives the result, or a proposal of what is to be done.

As a preview it tells what the act would come to, and leaves the world as it is; ToolError 2006 where it cannot.
"""


@dataclass(frozen=True, slots=True)
class FinishedCommit:
    """How a commit to files that a process left half-way has ended."""

    made: bool
    """Whether all of it is there; otherwise nothing of it is, but for `in_doubt`."""
    in_doubt: tuple[str, ...] = ()
    """Paths that somebody else changed meanwhile."""


FinishCommit: TypeAlias = Callable[[str, bytes | None], FinishedCommit]
"""By call and journal; without a journal nothing was begun, and what was staged is removed."""


class Failed(Struct, frozen=True):
    """An act that went to its end and did not reach what it was for: what it tells all the same, and why it failed."""

    data: Json
    problem: Problem


@runtime_checkable
class Proposal(Protocol):
    """What an act made ready and has not done: a command's writes, which wait in layers until they are judged."""

    @property
    def result(self) -> Json:
        """What the tool tells besides."""
        ...

    @property
    def problem(self) -> Problem | None:
        """Why it cannot be done, whatever is judged of it."""
        ...

    @property
    def failure(self) -> Problem | None:
        """Why the call has failed though what is proposed may count: the command itself said so."""
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
    """What a tool's own binder found: the names that rules match, and the things that will be touched."""

    signatures: tuple[str, ...]
    resources: Mapping[str, Json] = msgspec.field(default_factory=dict)
    act: Act | None = None
    transition: Transition | None = None
    """Where what is to be done depends on what was found; otherwise the hand's own way holds."""
    release: Callable[[], None] | None = None
    """Gives back what is held between bind and perform, such as a descriptor."""
    found: Mapping[str, Json] = msgspec.field(default_factory=dict)
    """What judging needs to know of those things but an approval does not rest on, such as a file's size."""
    keep: Keep | None = None
    preview: Act | None = None
    proposes: bool = False
    """Whether the act only makes a proposal: while it runs, nothing is done that counts."""
    copies: bool = False
    """Whether the preview does on a copy what the act would do, so that later steps of a simulation find it."""
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
    """What the call's own hand kept for its undoing."""
    undoes: Recorded | None = None
    """Of a call that undid another, that other: undoing it does again what that one did."""

    @property
    def origin(self) -> Recorded:
        """The call of the tool itself, at the end of a row of undoings."""
        return self if self.undoes is None else self.undoes.origin

    @property
    def is_in_effect(self) -> bool:
        """Whether, after it, stands what the tool's own call did; otherwise that is undone."""
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
    """What is wrong with the arguments, or None."""
    sign: Callable[[Mapping[str, Json]], tuple[str, ...]]
    """The call's signatures, where no binder of the tool's own finds them."""
    act: Callable[[BoundCall], Awaitable[Json]] | None = None
    """Effects `read` and `write`."""
    list_act: ListAct | None = None
    """In place of `act`, for a tool that reads many things, of which rules may deny some: those it leaves out."""
    transition: Transition | None = None
    """Effect `none`: pure, on copies."""
    is_brief: bool = False
    """Whether its transition takes time by the size of arguments and state alone: small ones need no thread.

    It also leaves what it is given as it is, and may give back parts of it: it needs no copy.
    """
    only_looks: bool = False
    """Whether its transition always gives back the state that it was given."""
    bind: Bind | None = None
    """For tools whose signature is more than their arguments; it may ask the judge before it looks further."""
    post_execution: Callable[[dict[str, Json]], Awaitable[Json]] | None = None
    """Runs after the commit, from the outbox; gets the outcome as JSON."""
    normalise: Callable[[Mapping[str, Json]], Mapping[str, Json]] | None = None
    """One spelling for each meaning, before anything else sees the arguments; ToolError where they have none."""
    reverts: bool = False
    """Whether its success undoes something: then a `reverted` entry says what."""
    undo: Callable[[Recorded, Judge], Awaitable[Binding]] | None = None
    """Binds the undoing of an earlier call of this tool that was performed: what it would touch, and how."""
    nulls_absent: frozenset[str] = frozenset()
    """Arguments for which null is as if absent; none of a tool that another server holds, which says itself."""


class Tools(Protocol):
    """Everything that can be called here."""

    def find(self, name: str) -> RegisteredTool | None: ...

    def missing(self, name: str) -> Problem:
        """Why a name leads to no hand."""
        ...

    def all(self) -> Sequence[RegisteredTool]: ...


class Prepared(Struct, frozen=True):
    """A bound call with what the later stages need beside it: its facts, its hand and its judged declaration."""

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
    """Whether the verdict may rest on the project's state."""
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
