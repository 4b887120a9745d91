"""`secret_scrub`: takes known values, and what has the shape of a credential, out of a response.

One pass of an automaton finds the values and the beginnings of shapes, so the work is linear in the length of the text:
a shape is tried only where it begins, never inside a run that it could have begun, and gives nothing back.
"""

from __future__ import annotations

import asyncio
import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import quote

import ahocorasick

from agent_gate.chain.context import RequestContext
from agent_gate.chain.faults import InstructionError
from agent_gate.chain.instruction import Instruction, RemoveHeader, SetBody, SetHeader
from agent_gate.chain.policy import PASSED, RESPONSE_PHASE, Policy, PolicyResult, StatusCode, object_schema
from agent_gate.model.limits import SCRUB_STRETCH_CHARS
from agent_gate.model.secrecy import HIDDEN
from agent_gate.model.tool import Json

_WORD = "A-Za-z0-9_-"
_SEGMENT = f"[{_WORD}]{{10,}}+"


class Shape(NamedTuple):
    """A literal with which every credential of a kind begins, and the whole of one."""

    beginnings: tuple[str, ...]
    whole: re.Pattern[str]


def _run(beginnings: Iterable[str], characters: str, least: int) -> Shape:
    """A beginning and then so many characters; not where something of the same kind goes before."""
    given = tuple(beginnings)
    return Shape(given, re.compile(f"(?<![{_WORD}])(?:{'|'.join(given)})[{characters}]{{{least},}}+"))


SHAPES = {
    "anthropic_key": _run(["sk-ant-"], _WORD, 20),
    "aws_access_key": _run(["AKIA", "ASIA"], "A-Z0-9", 16),
    "bearer": Shape(("bearer ", "Bearer ", "BEARER "), re.compile(r"(?i:\bbearer )[A-Za-z0-9._~+/-]{16,}+=*+")),
    "github_token": _run(["ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"], "A-Za-z0-9_", 22),
    "gitlab_token": _run(["glpat-"], _WORD, 20),
    "google_key": _run(["AIza"], _WORD, 30),
    "jwt": Shape(("eyJ",), re.compile(rf"(?<![{_WORD}])eyJ{_SEGMENT}\.eyJ{_SEGMENT}\.{_SEGMENT}")),
    "openai_key": _run(["sk-"], _WORD, 20),
    # One that is cut off is a key too.
    "private_key": Shape(
        ("-----BEGIN ",),
        re.compile(r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z)"),
    ),
    "slack_token": _run([f"xox{kind}-" for kind in "abeoprs"], "A-Za-z0-9-", 10),
    "stripe_key": _run(["rk_live_", "rk_test_", "sk_live_", "sk_test_"], "A-Za-z0-9", 16),
}


@dataclass(frozen=True, slots=True)
class SecretScrubSettings:
    automaton: ahocorasick.Automaton = field(repr=False)
    """Finds words, each with its length, whether it is a known value, and the shapes that it may begin."""

    def scrubbed(self, text: str) -> str:
        parts: list[str] = []
        reached = 0
        for start, end in _merged(self._spans(text)):
            parts += text[reached:start], HIDDEN
            reached = end
        return "".join((*parts, text[reached:])) if parts else text

    def _spans(self, text: str) -> Iterator[tuple[int, int]]:
        reached: dict[re.Pattern[str], int] = {}
        for last, (length, is_value, shapes) in self._words(text):
            start = last - length + 1
            if is_value:
                yield start, last + 1
            for shape in shapes:
                found = shape.match(text, start) if start >= reached.get(shape, 0) else None
                if found:
                    reached[shape] = found.end()
                    yield found.span()

    def _words(self, text: str) -> Iterator[tuple[int, tuple[int, bool, tuple[re.Pattern[str], ...]]]]:
        """Stretch by stretch: while the automaton looks for the next word, no other thread of Python's runs."""
        search = self.automaton.iter(text[:SCRUB_STRETCH_CHARS])
        yield from search
        for start in range(SCRUB_STRETCH_CHARS, len(text), SCRUB_STRETCH_CHARS):
            search.set(text[start : start + SCRUB_STRETCH_CHARS])
            yield from search


class SecretScrub(Policy[SecretScrubSettings]):
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

    def prepare(self, metadata: Mapping[str, Json]) -> SecretScrubSettings:
        values = {spelling for value in metadata.get("values", ()) for spelling in _spellings(value)}
        named = set(metadata.get("patterns", ()))
        words: dict[str, list[re.Pattern[str]]] = {value: [] for value in values}
        for name, shape in SHAPES.items():
            if named & {"all", name}:
                for beginning in shape.beginnings:
                    words.setdefault(beginning, []).append(shape.whole)
        automaton = ahocorasick.Automaton()
        for word, shapes in words.items():
            automaton.add_word(word, (len(word), word in values, tuple(shapes)))
        automaton.make_automaton()
        return SecretScrubSettings(automaton)

    async def execute(self, settings: SecretScrubSettings, context: RequestContext) -> PolicyResult:
        encoding = (context.headers.get("content-encoding") or "identity").strip().lower()
        if context.body and encoding != "identity":
            return PolicyResult(StatusCode.POLICY_DENIED, (), "the response is compressed and cannot be looked through")
        if len(context.body) > SCRUB_STRETCH_CHARS:
            instructions = await asyncio.to_thread(_changes, settings, context)
        else:
            instructions = _changes(settings, context)
        return PolicyResult(instructions=instructions) if instructions else PASSED


def _changes(settings: SecretScrubSettings, context: RequestContext) -> list[Instruction]:
    return [*_header_changes(settings, context), *_body_changes(settings, context)]


def _header_changes(settings: SecretScrubSettings, context: RequestContext) -> Iterator[Instruction]:
    """A repeated header has no one value to set: it goes as a whole.

    InstructionError where the secret is in a header that no policy may touch: then nothing of the response goes on.
    """
    for name in dict.fromkeys(name.lower() for name, _ in context.headers):
        if name == "content-length":
            continue
        before = context.headers.all(name)
        after = [_text(settings.scrubbed(_bytes(value))) for value in before]
        if list(before) == after:
            continue
        try:
            yield SetHeader(name, after[0]) if len(after) == 1 else RemoveHeader(name)
        except InstructionError:
            yield RemoveHeader(name)


def _body_changes(settings: SecretScrubSettings, context: RequestContext) -> Iterator[Instruction]:
    before = context.body.decode("latin-1")
    after = settings.scrubbed(before)
    if after != before:
        yield SetBody(after.encode("latin-1"))


def _merged(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """In order; those that touch or overlap go together."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def _spellings(value: str) -> Iterator[str]:
    """A value as it may stand in a response; bytes are looked at as one character each."""
    raw = value.encode()
    for spelling in (
        value,
        json.dumps(value)[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
        quote(value, safe=""),
        b64encode(raw).decode().rstrip("="),
        urlsafe_b64encode(raw).decode().rstrip("="),
        raw.hex(),
    ):
        yield _bytes(spelling)


def _bytes(text: str) -> str:
    """The UTF-8 bytes of a text, one character each."""
    return text.encode("utf-8", "surrogatepass").decode("latin-1")


def _text(characters: str) -> str:
    return characters.encode("latin-1").decode("utf-8", "replace")
