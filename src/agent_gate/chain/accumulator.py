"""Collects what the policies of one chain ask for, and makes the answer of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from agent_gate.chain.applying import applied
from agent_gate.chain.context import RequestContext
from agent_gate.chain.faults import InstructionError
from agent_gate.chain.instruction import INSTRUCTIONS, ImmediateResponse, Instruction
from agent_gate.chain.policy import PolicyResult, StatusCode
from agent_gate.model.bounds import CHAIN_METADATA_BYTES_MAX


@dataclass(frozen=True, slots=True)
class Failure:
    """A policy that did not run to its end though the chain went on."""

    policy_name: str
    message: str


@dataclass(frozen=True, slots=True)
class Response:
    request_id: str
    status: StatusCode
    message: str
    policy_name: str
    """The policy that ended the chain; empty where all had their turn."""
    instructions: Sequence[Instruction]
    context: RequestContext
    """As it is after the instructions."""
    metadata: dict[str, str] = field(default_factory=dict)
    failures: Sequence[Failure] = ()
    warnings: Sequence[str] = ()
    """Oddities that did no harm, each with its policy's name."""

    @property
    def immediate(self) -> ImmediateResponse | None:
        """The answer in place of passing the message on."""
        last = self.instructions[-1] if self.instructions else None
        return last if isinstance(last, ImmediateResponse) else None

    @property
    def passes(self) -> bool:
        """True where the message may go on; nothing else means yes."""
        return self.status is StatusCode.OK and self.immediate is None


class Accumulator:
    __slots__ = ("context", "failures", "instructions", "metadata", "request_id", "warnings")

    def __init__(self, request_id: str, context: RequestContext) -> None:
        self.request_id = request_id
        self.context = context
        self.instructions: list[Instruction] = []
        self.metadata: dict[str, str] = {}
        self.failures: list[Failure] = []
        self.warnings: list[str] = []

    def add(self, name: str, result: PolicyResult, body_bytes_max: int, state_bytes_max: int) -> bool:
        """Takes over what a policy asks for, all or nothing; true where it answers the caller itself."""
        instructions = tuple(result.instructions)
        immediate = False
        for instruction in instructions:
            if not isinstance(instruction, INSTRUCTIONS):
                raise InstructionError("what the policy returned is no instruction", suggestion="use one of the six")
            if immediate:
                raise InstructionError("an instruction follows IMMEDIATE_RESPONSE", suggestion="return it last")
            immediate = isinstance(instruction, ImmediateResponse)
        warnings: list[str] = []
        context = applied(
            self.context, instructions, warnings, body_bytes_max=body_bytes_max, state_bytes_max=state_bytes_max
        )
        if result.metadata:
            self._add_metadata(dict(result.metadata))
        self.context = context
        self.instructions += instructions
        if warnings:
            self.warnings += [f"policy `{name}`: {warning}" for warning in warnings]
        return immediate

    def _add_metadata(self, metadata: dict[str, str]) -> None:
        merged = {**self.metadata, **metadata}
        if not all(isinstance(key, str) and isinstance(value, str) for key, value in merged.items()):
            raise InstructionError("metadata of the result are not text", suggestion="use text for keys and values")
        try:
            size = sum(len(key.encode()) + len(value.encode()) for key, value in merged.items())
        except UnicodeEncodeError:
            raise InstructionError("metadata of the result hold half of a surrogate pair") from None
        if size > CHAIN_METADATA_BYTES_MAX:
            raise InstructionError(
                f"the metadata have more than {CHAIN_METADATA_BYTES_MAX} bytes", suggestion="tell less"
            )
        self.metadata = merged

    def build(self, status: StatusCode, message: str, policy_name: str = "") -> Response:
        return Response(
            self.request_id,
            status,
            message,
            policy_name,
            self.instructions,
            self.context,
            self.metadata,
            self.failures,
            self.warnings,
        )
