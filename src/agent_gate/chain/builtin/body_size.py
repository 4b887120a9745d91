"""`body_size`: no body larger than this, whether it is here already or only announced."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agent_gate.chain.context import Phase, RequestContext
from agent_gate.chain.policy import BOTH_PHASES, PASSED, Policy, PolicyResult, denied, object_schema
from agent_gate.model.tool import Json


@dataclass(frozen=True, slots=True)
class BodySizeSettings:
    bytes_max: int


class BodySize(Policy[BodySizeSettings]):
    name = "body_size"
    description = "refuses bodies that are too large"
    phases = BOTH_PHASES
    metadata_schema = object_schema(
        {
            "max_bytes": {"type": "integer", "minimum": 0, "maximum": 2**40},
            "phase": {"enum": ["request", "response"]},
        },
        required=["max_bytes"],
    )

    def phases_with(self, metadata: Mapping[str, Json]) -> frozenset[Phase]:
        return frozenset({Phase(metadata.get("phase", "request"))})

    def prepare(self, metadata: Mapping[str, Json]) -> BodySizeSettings:
        return BodySizeSettings(int(metadata["max_bytes"]))

    async def execute(self, settings: BodySizeSettings, context: RequestContext) -> PolicyResult:
        in_response = context.phase is Phase.RESPONSE
        announced = context.headers.all("content-length")
        if not all(each.isascii() and each.isdigit() and len(each) <= 18 for each in announced) or len(announced) > 1:
            return denied("content-length is malformed", 502 if in_response else 400)
        size = max(len(context.body), *map(int, announced), 0)
        if size <= settings.bytes_max:
            return PASSED
        return denied(f"the body has more than {settings.bytes_max} bytes", 502 if in_response else 413)
