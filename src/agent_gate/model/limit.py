"""Kinds of limits: what counts, for whom, within which window, and what is said where there is no room.

A kind is declared once, in the annotation of the policy's field that sets it (`model/policy.py`); the key in
policy.yaml, the charge, the recorded fact, the verdict and the message follow from it:

    per_tool: Annotated[
        Count | None,
        Setting("calls of one tool in the last 60 minutes", at=("rate", "per_tool_per_hour")),
        Limit("tool_hour", Scope.TOOL, LAST_HOUR, Counts.CALLS, 1012, "{used:g} calls of `{tool}` in the last hour, …"),
    ] = None
"""

from __future__ import annotations

from datetime import datetime, tzinfo
from enum import Enum, auto
from typing import NamedTuple, TypeAlias

from agent_gate.model.charge import Charge
from agent_gate.model.errors import Problem


class Scope(Enum):
    """Those whose calls count together."""

    PROJECT = auto()
    TOOL = auto()
    """Calls of one tool, in one project."""
    TOOL_IN_RUN = auto()
    """Calls of one tool in one run; a call outside of runs does not count."""


class Counts(Enum):
    """Share of a call in the limit."""

    CALLS = auto()
    """One for each call, in whole numbers."""
    COST = auto()
    """The cost of its tool; a call that costs nothing does not count."""


class Sliding(NamedTuple):
    """The last moments, in buckets: exact to within one."""

    buckets: int
    bucket_s: int

    def bucket(self, at: float, _zone: tzinfo) -> int:
        return int(at // self.bucket_s)


class Day(NamedTuple):
    """A day of the policy's time zone."""

    buckets: int = 1

    def bucket(self, at: float, zone: tzinfo) -> int:
        return datetime.fromtimestamp(at, zone).toordinal()


class Always(NamedTuple):
    """As long as the scope lasts."""

    buckets: int = 1

    def bucket(self, _at: float, _zone: tzinfo) -> int:
        return 0


Window: TypeAlias = Sliding | Day | Always

LAST_MINUTE, LAST_HOUR = Sliding(60, 1), Sliding(60, 60)


class CountedCall(NamedTuple):
    """A call as far as limits look at it."""

    at: float
    zone: tzinfo
    tool: str
    cost: float
    run_id: str | None


class Limit(NamedTuple):
    name: str
    """The beginning of the scope that the ledger counts under, and the rule that a reason names."""
    scope: Scope
    window: Window
    amount: Counts
    code: int
    detail: str
    """Reason why there is no room; names `used`, `limit`, `amount` and `tool`."""
    instead: str = ""
    """Advice other than to raise the limit."""
    fact: str = ""
    """Name of what was used among the recorded facts, if another than the limit's own."""

    @property
    def recorded_as(self) -> str:
        return self.fact or self.name

    def charge(self, most: float, call: CountedCall) -> Charge | None:
        """Return what a call would count against; None where it does not."""
        scope = self._scope(call)
        amount = 1 if self.amount is Counts.CALLS else call.cost
        if scope is None or not amount:
            return None
        return Charge(scope, self.window.bucket(call.at, call.zone), self.window.buckets, amount, most, self.code)

    def _scope(self, call: CountedCall) -> str | None:
        match self.scope:
            case Scope.PROJECT:
                return self.name
            case Scope.TOOL:
                return f"{self.name}:{call.tool}"
            case Scope.TOOL_IN_RUN:  # the ledger forgets what begins with the run's own name when the run ends
                return None if call.run_id is None else f"{self.name}:{call.run_id}:{call.tool}"

    def used(self, counted: float) -> float:
        """Return a count as it is recorded."""
        return int(counted) if self.amount is Counts.CALLS else counted

    def no_room(self, charge: Charge, used: float, key: str) -> Problem:
        """Say why a call is denied; `key` is where policy.yaml sets the limit."""
        tool = charge.scope.rpartition(":")[2]
        detail = self.detail.format(used=used, limit=charge.limit, amount=charge.amount, tool=tool)
        return Problem(
            self.code, detail, f"{self.instead} or raise {key}" if self.instead else f"raise {key}", "decide"
        )
