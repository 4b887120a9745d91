"""A policy of the chain, and what it answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar, Generic, TypeVar

from agent_gate.chain.context import Phase, RequestContext
from agent_gate.chain.instruction import ImmediateResponse, Instruction
from agent_gate.model.codec import canonical
from agent_gate.model.tool import Json

Settings = TypeVar("Settings")

BOTH_PHASES = frozenset(Phase)
REQUEST_PHASE = frozenset({Phase.REQUEST})
RESPONSE_PHASE = frozenset({Phase.RESPONSE})


class StatusCode(Enum):
    OK = 0
    POLICY_DENIED = 1
    POLICY_ERROR = 2
    TIMEOUT = 3


@dataclass(frozen=True, slots=True)
class PolicyResult:
    status: StatusCode = StatusCode.OK
    instructions: Sequence[Instruction] = ()
    message: str = ""
    """Shown to whoever sent the request: no secret belongs in it."""
    metadata: Mapping[str, str] = field(default_factory=dict)


PASSED = PolicyResult()


def object_schema(properties: Mapping[str, Json], required: Sequence[str] = (), **more: Json) -> Mapping[str, Json]:
    """The JSON Schema of metadata: these properties and no others."""
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": dict(properties),
        "required": list(required),
        **more,
    }


class Policy(ABC, Generic[Settings]):
    """One step of a chain.

    `execute` is `async`, or `blocking` is set and it runs in a bounded pool of threads. It may be called for many
    requests at once.
    """

    name: ClassVar[str]
    version: ClassVar[str] = "1.0.0"
    description: ClassVar[str] = ""
    phases: ClassVar[frozenset[Phase]] = REQUEST_PHASE
    metadata_schema: ClassVar[Mapping[str, Json]] = object_schema({})
    blocking: ClassVar[bool] = False

    def initialize(self, config: Mapping[str, Json]) -> None:
        """Called once, when the policy is registered, with its section of `policies` in the configuration.

        ValueError says what is wrong with it, without quoting a secret.
        """

    def phases_with(self, metadata: Mapping[str, Json]) -> frozenset[Phase]:  # noqa: ARG002 -- for those that ask
        """The phases in which it works, given metadata that fit the schema."""
        return self.phases

    @abstractmethod
    def prepare(self, metadata: Mapping[str, Json]) -> Settings:
        """Build what `execute` will be given; made once for each chain, from metadata that fit the schema.

        ValueError says what is wrong with them besides, without quoting a secret.
        """

    def adopt(self, settings: Settings) -> None:
        """Called for each step of a chain of the configuration: what it needs is part of this policy's health."""

    @abstractmethod
    def execute(
        self, settings: Settings, context: RequestContext
    ) -> Coroutine[Any, Any, PolicyResult] | PolicyResult: ...

    async def health_check(self) -> None:
        """Raises where the policy cannot do its work; the words of a PolicyFailure are told."""


@dataclass(frozen=True, slots=True)
class PolicyInfo:
    name: str
    version: str
    description: str
    metadata_schema: Mapping[str, Json]
    phases: frozenset[Phase]


def denied(
    message: str, status: int, headers: Mapping[str, str] | None = None, more: Mapping[str, Json] | None = None
) -> PolicyResult:
    """No, with an answer to the caller: a JSON object that says why, and more."""
    body = canonical({"error": message, **(more or {})})
    response = ImmediateResponse(status, {"content-type": "application/json", **(headers or {})}, body)
    return PolicyResult(StatusCode.POLICY_DENIED, (response,), message)
