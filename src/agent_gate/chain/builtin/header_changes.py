"""`set_headers` and `remove_headers`: fixed changes to the headers of one phase."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agent_gate.chain.context import Phase, RequestContext
from agent_gate.chain.faults import InstructionError
from agent_gate.chain.instruction import RemoveHeader, SetHeader
from agent_gate.chain.policy import BOTH_PHASES, PASSED, Policy, PolicyResult, Settings, object_schema
from agent_gate.model.errors import GateError
from agent_gate.model.tool import Json
from agent_gate.policy.guards.urls import parse_url

_NAME = "^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,200}$"


class _OfOnePhase(Policy[Settings]):
    phases = BOTH_PHASES

    def phases_with(self, metadata: Mapping[str, Json]) -> frozenset[Phase]:
        """Of the request unless it says otherwise: a credential for those behind must not end up with the caller."""
        return frozenset({Phase(metadata.get("phase", "request"))})


@dataclass(frozen=True, slots=True)
class Destination:
    """A destination of a header: one host, or every host below a name, by one scheme and port."""

    scheme: str
    host: str
    port: int
    below: bool

    @classmethod
    def named(cls, text: str) -> Destination | None:
        """`api.example.com`, `*.example.com`, with a port, and by https unless it says http; None for `*`."""
        if text == "*":
            return None
        scheme, _, rest = text.rpartition("://")
        below = rest.startswith("*.")
        try:
            url = parse_url(f"{scheme or 'https'}://{rest.removeprefix('*.')}")
        except GateError as error:
            raise ValueError(f"hosts: {error.problem.detail}") from None
        if (url.path, url.query) != ("/", None) or rest.endswith("/"):
            raise ValueError("hosts: a host has no path")
        return cls(url.scheme, url.host, url.port, below)

    def takes(self, context: RequestContext) -> bool:
        try:
            url = parse_url(f"{context.scheme}://{context.authority}")
        except GateError:
            return False
        named = url.host.endswith(f".{self.host}") if self.below else url.host == self.host
        return named and (url.scheme, url.port) == (self.scheme, self.port)


@dataclass(frozen=True, slots=True)
class SetHeadersSettings:
    result: PolicyResult
    """The same for every message that goes where it may be set."""
    destinations: tuple[Destination, ...] | None
    """None: everywhere."""


class SetHeaders(_OfOnePhase[SetHeadersSettings]):
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
            "hosts": {
                "type": "array",
                "minItems": 1,
                "maxItems": 64,
                "items": {"type": "string", "minLength": 1, "maxLength": 300},
            },
            "phase": {"enum": ["request", "response"]},
        },
        required=["headers"],
    )

    def prepare(self, metadata: Mapping[str, Json]) -> SetHeadersSettings:
        headers: Mapping[str, str] = metadata["headers"]
        if len({name.lower() for name in headers}) < len(headers):
            raise ValueError("a header is set twice, in two spellings")
        try:
            result = PolicyResult(instructions=tuple(SetHeader(name, value) for name, value in headers.items()))
        except InstructionError as error:
            raise ValueError(error.problem.detail) from None
        named = [Destination.named(text) for text in metadata.get("hosts", ("*",))]
        destinations = tuple(destination for destination in named if destination is not None)
        return SetHeadersSettings(result, destinations if len(destinations) == len(named) else None)

    async def execute(self, settings: SetHeadersSettings, context: RequestContext) -> PolicyResult:
        destinations = settings.destinations
        if destinations is None or any(destination.takes(context) for destination in destinations):
            return settings.result
        return PASSED


class RemoveHeaders(_OfOnePhase[PolicyResult]):
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

    async def execute(self, settings: PolicyResult, _: RequestContext) -> PolicyResult:
        return settings
