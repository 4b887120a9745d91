"""`cors`: answers browsers that ask whether a page of another origin may call, and marks the responses for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agent_gate.chain.context import Phase, RequestContext
from agent_gate.chain.faults import InstructionError
from agent_gate.chain.headers import is_token
from agent_gate.chain.instruction import ImmediateResponse, Instruction, RemoveHeader, SetHeader, SetState
from agent_gate.chain.policy import BOTH_PHASES, PASSED, Policy, PolicyResult, denied, object_schema
from agent_gate.model.tool import Json

ORIGIN = "cors.origin"
"""The key of the state that carries the caller's origin from the request to the response."""

_NAMES = {"type": "array", "maxItems": 100, "items": {"type": "string", "maxLength": 200}}
_MARKS = (
    "access-control-allow-origin",
    "access-control-allow-credentials",
    "access-control-expose-headers",
)


@dataclass(frozen=True, slots=True)
class CorsSettings:
    origins: frozenset[str]
    any_origin: bool
    methods: frozenset[str]
    headers: frozenset[str]
    expose: tuple[str, ...]
    credentials: bool
    max_age_s: int
    deny_other_origins: bool

    def allows(self, origin: str) -> bool:
        return self.any_origin or origin.lower() in self.origins


class Cors(Policy[CorsSettings]):
    name = "cors"
    description = "answers preflights and marks responses for browsers"
    phases = BOTH_PHASES
    metadata_schema = object_schema(
        {
            "allow_origins": {**_NAMES, "minItems": 1},
            "allow_methods": _NAMES,
            "allow_headers": _NAMES,
            "expose_headers": _NAMES,
            "allow_credentials": {"type": "boolean"},
            "max_age_s": {"type": "integer", "minimum": 0, "maximum": 86400},
            "deny_other_origins": {"type": "boolean"},
        },
        required=["allow_origins"],
    )

    def prepare(self, metadata: Mapping[str, Json]) -> CorsSettings:
        origins = frozenset(each.lower() for each in metadata["allow_origins"])
        credentials = metadata.get("allow_credentials", False)
        if "*" in origins and (credentials or len(origins) > 1):
            raise ValueError("`*` in allow_origins stands alone, and without allow_credentials")
        methods = frozenset(metadata.get("allow_methods", ("GET", "HEAD", "POST")))
        headers = frozenset(each.lower() for each in metadata.get("allow_headers", ()))
        expose = tuple(metadata.get("expose_headers", ()))
        if not all(map(is_token, (*methods, *headers, *expose))):
            raise ValueError("methods and headers are tokens")
        settings = CorsSettings(
            origins,
            "*" in origins,
            methods,
            headers,
            expose,
            credentials,
            int(metadata.get("max_age_s", 600)),
            metadata.get("deny_other_origins", False),
        )
        for origin in origins:
            _marks(settings, origin)
        return settings

    async def execute(self, settings: CorsSettings, context: RequestContext) -> PolicyResult:
        if context.phase is Phase.RESPONSE:
            return _marked(settings, context)
        origins = context.headers.all("origin")
        if not origins:
            return PASSED
        asked = context.headers.get("access-control-request-method")
        if context.method == "OPTIONS" and asked is not None:
            return _preflight(settings, context, origins, asked)
        if len(origins) == 1 and settings.allows(origins[0]):
            return PolicyResult(instructions=(SetState(ORIGIN, origins[0]),))
        if settings.deny_other_origins:
            return denied("the page's origin is not among those allowed", 403)
        return PASSED


def _preflight(settings: CorsSettings, context: RequestContext, origins: tuple[str, ...], asked: str) -> PolicyResult:
    wanted = [each.strip().lower() for each in (context.headers.get("access-control-request-headers") or "").split(",")]
    if len(origins) != 1 or not settings.allows(origins[0]):
        return denied("the page's origin is not among those allowed", 403, {"vary": "Origin"})
    if asked not in settings.methods or not settings.headers.issuperset(filter(None, wanted)):
        return denied("the method or a header is not among those allowed", 403, {"vary": "Origin"})
    headers = {
        **_marks(settings, origins[0]),
        "access-control-allow-methods": ", ".join(sorted(settings.methods)),
        "access-control-max-age": str(settings.max_age_s),
        "vary": "Origin, Access-Control-Request-Method, Access-Control-Request-Headers",
    }
    if settings.headers:
        headers["access-control-allow-headers"] = ", ".join(sorted(settings.headers))
    return PolicyResult(instructions=(ImmediateResponse(204, headers),), message="preflight answered")


def _marked(settings: CorsSettings, context: RequestContext) -> PolicyResult:
    """Take off what the server behind says of origins: the chain alone speaks of them."""
    origin = context.state.get(ORIGIN)
    off: list[Instruction] = [RemoveHeader(name) for name in _MARKS if name in context.headers]
    marks = _marks(settings, origin) if isinstance(origin, str) and settings.allows(origin) else {}
    vary = context.headers.get("vary")
    if vary is None or "origin" not in [each.strip().lower() for each in vary.split(",")]:
        marks["vary"] = f"{vary}, Origin" if vary else "Origin"
    return PolicyResult(instructions=(*off, *(SetHeader(name, value) for name, value in marks.items())))


def _marks(settings: CorsSettings, origin: str) -> dict[str, str]:
    marks = {"access-control-allow-origin": "*" if settings.any_origin else origin}
    if settings.credentials:
        marks["access-control-allow-credentials"] = "true"
    if settings.expose:
        marks["access-control-expose-headers"] = ", ".join(settings.expose)
    try:
        tuple(map(SetHeader, marks, marks.values()))
    except InstructionError:
        raise ValueError("allow_origins holds what no header may hold") from None
    return marks
