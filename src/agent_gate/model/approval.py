"""A question put to a person, and the answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import orjson

from agent_gate.model.bounds import GRANT_SECONDS_MAX, GRANT_USES_MAX
from agent_gate.model.errors import Problem
from agent_gate.model.roles import roles_that_include
from agent_gate.model.tool import Json

WRITTEN = "wrote"
"""Stands beside the arguments of a call whose changes are made ready and wait."""


class Time(Protocol):
    """The port `Clock`, as far as deadlines need it."""

    def now(self) -> float: ...

    def monotonic(self) -> float: ...

    @property
    def boot(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Approver:
    """A person who may answer, as the configuration knows them."""

    id: str
    roles: tuple[str, ...] = ("operator",)

    def has_role(self, name: str) -> bool:
        """Tell whether a question for this role is one for this person."""
        return any(role in self.roles for role in roles_that_include(name))


@dataclass(frozen=True, slots=True)
class Question:
    """A question as an approver is shown it: the bound call, why it is asked, and until when."""

    call_id: str
    request_id: str
    project: str
    agent_id: str
    owner: str
    tool: str
    args: Mapping[str, Json]
    signatures: tuple[str, ...]
    reasons: tuple[Mapping[str, str], ...]
    bound_hash: str
    nonce: str
    policy_hash: str
    approver_roles: tuple[str, ...]
    approvers_required: int
    created_at: float
    expires_at: float
    sensitive: tuple[str, ...] = ()
    run_id: str | None = None
    has_run: bool = False
    """True where it is about what a command wrote, which waits; otherwise the call is still to be made."""
    boot: str = ""
    """The start of the machine in which it was put, and when it ends, in seconds since then."""
    ends_at: float = 0.0

    def left_s(self, clock: Time) -> float:
        """Seconds for which it can still be answered.

        Within one start of the machine a wall clock that is set changes nothing; after another, there is no other.
        """
        return self.ends_at - clock.monotonic() if self.boot == clock.boot else self.expires_at - clock.now()

    @property
    def once_only(self) -> str:
        """The reason why a yes to it is a yes to this one call alone; empty where only
        its tool can have one (`tools/grants.py`)."""
        if self.has_run:
            return "what a command wrote is agreed to once, not for later"
        if self.approvers_required > 1:
            return "what needs more than one person cannot be granted for later"
        return ""

    @property
    def written(self) -> Sequence[Mapping[str, Json]] | None:
        """Files that a command has written and that wait to be agreed to."""
        return self.args[WRITTEN] if self.has_run else None

    @property
    def given(self) -> Mapping[str, Json]:
        """The arguments without that."""
        return {name: value for name, value in self.args.items() if name != WRITTEN} if self.has_run else self.args


@dataclass(frozen=True, slots=True)
class GrantTerms:
    """Terms of a standing grant: how long it lasts, and how often it can be used."""

    seconds: int = 3_600
    uses: int = 5

    def wrong(self) -> Problem | None:
        if 1 <= self.seconds <= GRANT_SECONDS_MAX and 1 <= self.uses <= GRANT_USES_MAX:
            return None
        return Problem(
            2002,
            f"a grant of {self.uses} uses in {self.seconds} s is out of bounds",
            f"give 1 to {GRANT_USES_MAX} uses and 1 to {GRANT_SECONDS_MAX} seconds",
            "hold",
        )


@dataclass(frozen=True, slots=True)
class Answer:
    """One person's yes or no to one question; the nonce says which showing of it was answered."""

    call_id: str
    nonce: str
    approve: bool
    by: Approver
    at: float
    note: str = ""
    grant: GrantTerms | None = None
    """Also let the same call pass again."""


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


def question_of(text: str) -> Question:
    """The question that was stored as this JSON."""
    fields = orjson.loads(text)
    for name in ("signatures", "sensitive", "approver_roles"):
        fields[name] = tuple(fields[name])
    fields["reasons"] = tuple(fields["reasons"])
    return Question(**fields)
