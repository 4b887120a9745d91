"""`set_headers` and `remove_headers`: fixed changes to the headers of one phase."""

from __future__ import annotations

from collections.abc import Mapping

from agent_gate.chain.context import Phase, RequestContext
from agent_gate.chain.faults import InstructionError
from agent_gate.chain.instruction import RemoveHeader, SetHeader
from agent_gate.chain.policy import BOTH_PHASES, Policy, PolicyResult, object_schema
from agent_gate.model.tool import Json

_NAME = "^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,200}$"


class _OfOnePhase(Policy[PolicyResult]):
    """The settings are the result itself: it is the same for every request."""

    phases = BOTH_PHASES

    def phases_with(self, metadata: Mapping[str, Json]) -> frozenset[Phase]:
        """Of the request unless it says otherwise: a credential for those behind must not end up with the caller."""
        return frozenset({Phase(metadata.get("phase", "request"))})

    async def execute(self, settings: PolicyResult, _: RequestContext) -> PolicyResult:
        return settings


class SetHeaders(_OfOnePhase):
    name = "set_headers"
    description = "sets headers, in place of whatever they were"
    metadata_schema = object_schema(
        {
            "headers": {
                "type": "object",
                "minProperties": 1,
                "maxProperties": 64,
                "propertyNames": {"pattern": _NAME},
                "additionalProperties": {"type": "string", "maxLength": 8192},
            },
            "phase": {"enum": ["request", "response"]},
        },
        required=["headers"],
    )

    def prepare(self, metadata: Mapping[str, Json]) -> PolicyResult:
        headers: Mapping[str, str] = metadata["headers"]
        if len({name.lower() for name in headers}) < len(headers):
            raise ValueError("a header is set twice, in two spellings")
        try:
            return PolicyResult(instructions=tuple(SetHeader(name, value) for name, value in headers.items()))
        except InstructionError as error:
            raise ValueError(error.problem.detail) from None


class RemoveHeaders(_OfOnePhase):
    name = "remove_headers"
    description = "removes headers"
    metadata_schema = object_schema(
        {
            "headers": {
                "type": "array",
                "minItems": 1,
                "maxItems": 64,
                "items": {"type": "string", "pattern": _NAME},
            },
            "phase": {"enum": ["request", "response"]},
        },
        required=["headers"],
    )

    def prepare(self, metadata: Mapping[str, Json]) -> PolicyResult:
        try:
            return PolicyResult(instructions=tuple(map(RemoveHeader, metadata["headers"])))
        except InstructionError as error:
            raise ValueError(error.problem.detail) from None
