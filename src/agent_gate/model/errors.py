"""Every way a call can be refused or fail, with its stable code.

GateError
├── PolicyDeniedError    1xxx  the gate or a person said no
├── ToolError            2xxx  the tool could not do it
│   └── ExecutionError         routing: unknown tool, service not configured
├── PlanValidationError  3xxx  the plan is not one
├── ReplayError          4xxx  the record and the replay disagree
├── StorageError         5xxx  the ledger cannot be read, written or trusted
└── ConfigError          6001  a file that people write is wrong
    IdentityError        6002, 6003
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

NAMES: dict[int, str] = {
    1001: "policy_denied",
    1002: "path_denied",
    1003: "domain_denied",
    1004: "executable_denied",
    1005: "token_denied",
    1006: "size_denied",
    1007: "quota_exceeded",
    1008: "run_timeout",
    1009: "role_denied",
    1010: "confirmation_required",
    1011: "precondition_failed",
    1012: "rate_exceeded",
    1013: "budget_exceeded",
    1014: "outside_window",
    1015: "denied_by_person",
    1016: "approval_expired",
    1017: "project_closed",
    1018: "step_limit",
    1019: "private_address",
    1020: "withdrawn",
    1021: "protected_file",
    1022: "cooldown",
    2001: "unknown_tool",
    2002: "bad_arguments",
    2003: "tool_failed",
    2004: "tool_timeout",
    2005: "output_too_large",
    2006: "service_unavailable",
    2007: "outcome_unknown",
    2008: "conflict",
    3001: "plan_format",
    3002: "plan_empty",
    3003: "plan_unknown_tool",
    3004: "plan_arguments",
    4001: "run_not_found",
    4002: "plan_mismatch",
    4003: "step_mismatch",
    4004: "hash_mismatch",
    5001: "storage_connect",
    5002: "storage_write",
    5003: "storage_read",
    5004: "storage_integrity",
    6001: "config",
    6002: "not_authenticated",
    6003: "not_entitled",
}


@dataclass(frozen=True)
class Problem:
    """A reason why something did not happen: a code, the user's own words, and what to do about it.

    How it is told is kept: a verdict's problem is told again and again.
    """

    code: int
    detail: str
    suggestion: str = ""
    stage: str = ""

    @property
    def name(self) -> str:
        return NAMES[self.code]

    def at(self, stage: str) -> Problem:
        return self if self.stage else replace(self, stage=stage)

    def to_json(self) -> dict[str, object]:
        return self._fields.copy()

    @cached_property
    def _fields(self) -> dict[str, object]:
        fields: dict[str, object] = {"code": self.code, "name": self.name}
        for key, value in (("stage", self.stage), ("detail", self.detail), ("suggestion", self.suggestion)):
            if value:
                fields[key] = value
        return fields

    @classmethod
    def from_json(cls, fields: dict[str, object]) -> Problem:
        code = fields["code"]
        assert isinstance(code, int)
        return cls(code, str(fields.get("detail", "")), str(fields.get("suggestion", "")), str(fields.get("stage", "")))

    def __str__(self) -> str:
        return self._text

    @cached_property
    def _text(self) -> str:
        text = f"{self.name}: {self.detail}"
        return " ".join((f"{text}; {self.suggestion}" if self.suggestion else text).split())


class GateError(Exception):
    """A problem that is raised: the world failed, or a caller asked for exceptions."""

    default_code = 2003
    call_id = tool = ""
    """Of the call that ended so, where it was an outcome that was raised."""
    arguments: Mapping[str, Any] = MappingProxyType({})
    """Likewise, as they are recorded: without secrets; empty where it is not known which of them are."""

    def __init__(self, detail: str, *, code: int | None = None, suggestion: str = "", stage: str = "") -> None:
        self.problem = Problem(code or self.default_code, detail, suggestion, stage)
        super().__init__(str(self.problem))

    @property
    def code(self) -> int:
        return self.problem.code

    @classmethod
    def of(cls, problem: Problem) -> GateError:
        """The exception class that belongs to the problem's code."""
        kind = _FAMILIES.get(problem.code // 1000, GateError)
        if problem.code in (6002, 6003):
            kind = IdentityError
        return kind(problem.detail, code=problem.code, suggestion=problem.suggestion, stage=problem.stage)


class PolicyDeniedError(GateError):
    default_code = 1001


class ToolError(GateError):
    default_code = 2003


class ExecutionError(ToolError):
    """A call that no service can take; its text is the bare sentence that the core-engine document promises."""

    default_code = 2001

    def __str__(self) -> str:
        return self.problem.detail


class PlanValidationError(GateError):
    default_code = 3001


class ReplayError(GateError):
    default_code = 4001


class StorageError(GateError):
    default_code = 5002


class ConfigError(GateError):
    """One or more mistakes in a file that people write; `problems` holds them all."""

    default_code = 6001

    def __init__(self, detail: str, *, code: int | None = None, suggestion: str = "", stage: str = "") -> None:
        super().__init__(detail, code=code, suggestion=suggestion, stage=stage)
        self.problems: tuple[str, ...] = (detail,)

    @classmethod
    def of_all(cls, problems: list[str]) -> ConfigError:
        error = cls("; ".join(problems))
        error.problems = tuple(problems)
        return error


class IdentityError(GateError):
    default_code = 6002


_FAMILIES: dict[int, type[GateError]] = {
    1: PolicyDeniedError,
    2: ToolError,
    3: PlanValidationError,
    4: ReplayError,
    5: StorageError,
    6: ConfigError,
}
