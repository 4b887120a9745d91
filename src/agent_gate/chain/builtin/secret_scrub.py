"""`secret_scrub`: takes known values, and what has the shape of a credential, out of a response."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping

from agent_gate.chain.context import RequestContext
from agent_gate.chain.faults import InstructionError
from agent_gate.chain.instruction import Instruction, RemoveHeader, SetBody, SetHeader
from agent_gate.chain.policy import PASSED, RESPONSE_PHASE, Policy, PolicyResult, StatusCode, object_schema
from agent_gate.model.bounds import SCRUB_STRETCH_CHARS
from agent_gate.model.credentials import SHAPES
from agent_gate.model.redaction import Redactor
from agent_gate.model.tool import Json


class SecretScrub(Policy[Redactor]):
    name = "secret_scrub"
    description = "takes secrets out of responses"
    phases = RESPONSE_PHASE
    metadata_schema = object_schema(
        {
            "values": {
                "type": "array",
                "minItems": 1,
                "maxItems": 1000,
                "items": {"type": "string", "minLength": 6, "maxLength": 8192},
            },
            "patterns": {"type": "array", "minItems": 1, "items": {"enum": ["all", *SHAPES]}},
        },
        minProperties=1,
    )

    def prepare(self, metadata: Mapping[str, Json]) -> Redactor:
        named = set(metadata.get("patterns", ()))
        return Redactor(metadata.get("values", ()), [shape for name, shape in SHAPES.items() if named & {"all", name}])

    async def execute(self, redactor: Redactor, context: RequestContext) -> PolicyResult:
        encoding = (context.headers.get("content-encoding") or "identity").strip().lower()
        if context.body and encoding != "identity":
            return PolicyResult(StatusCode.POLICY_DENIED, (), "the response is compressed and cannot be looked through")
        if len(context.body) > SCRUB_STRETCH_CHARS:
            instructions = await asyncio.to_thread(_changes, redactor, context)
        else:
            instructions = _changes(redactor, context)
        return PolicyResult(instructions=instructions) if instructions else PASSED


def _changes(redactor: Redactor, context: RequestContext) -> list[Instruction]:
    return [*_header_changes(redactor, context), *_body_changes(redactor, context)]


def _header_changes(redactor: Redactor, context: RequestContext) -> Iterator[Instruction]:
    """A repeated header has no one value to set: it goes as a whole.

    InstructionError where the secret is in a header that no policy may touch: then nothing of the response goes on.
    """
    for name in dict.fromkeys(name.lower() for name, _ in context.headers):
        if name == "content-length":
            continue
        before = context.headers.all(name)
        after = [_text(redactor.text(_bytes(value))) for value in before]
        if list(before) == after:
            continue
        try:
            yield SetHeader(name, after[0]) if len(after) == 1 else RemoveHeader(name)
        except InstructionError:
            yield RemoveHeader(name)


def _body_changes(redactor: Redactor, context: RequestContext) -> Iterator[Instruction]:
    before = context.body.decode("latin-1")
    after = redactor.text(before)
    if after != before:
        yield SetBody(after.encode("latin-1"))


def _bytes(text: str) -> str:
    """The UTF-8 bytes of a text, one character each."""
    return text.encode("utf-8", "surrogatepass").decode("latin-1")


def _text(characters: str) -> str:
    return characters.encode("latin-1").decode("utf-8", "replace")
