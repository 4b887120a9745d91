"""Headers of a request on which an approval rests, and those of them that are credentials which nobody is shown."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from agent_gate.chain.headers import Field
from agent_gate.model.credentials import SHAPES, is_credential_name
from agent_gate.model.redaction import Redactor

_FRAMING = (
    "connection", "content-length", "expect", "host", "keep-alive", "proxy-connection", "te", "trailer",
    "transfer-encoding",
)  # fmt: skip
"""Headers by which one hop carries the message; authority and body are bound themselves."""
_OF_ONE_ATTEMPT = (
    "b3", "date", "sentry-trace", "traceparent", "tracestate", "uber-trace-id", "x-amzn-trace-id", "x-b3-flags",
    "x-b3-parentspanid", "x-b3-sampled", "x-b3-spanid", "x-b3-traceid", "x-cloud-trace-context", "x-correlation-id",
    "x-datadog-parent-id", "x-datadog-sampling-priority", "x-datadog-trace-id", "x-envoy-attempt-count",
    "x-envoy-expected-rq-timeout-ms", "x-ot-span-context", "x-request-id", "x-request-start",
)  # fmt: skip
"""Headers of when and where an attempt was made: another one for the same thing has others."""
NEVER_BOUND = frozenset(_FRAMING)
UNBOUND = frozenset({*_FRAMING, *_OF_ONE_ATTEMPT})
"""Headers on which an approval does not rest unless the chain says so."""

_OF_HEADERS = re.compile("session|signature|jwt").search
"""Names that only headers with credentials have: of settings, `jwt` may be anything."""
_BY_SHAPE = Redactor(shapes=SHAPES.values())


@dataclass(frozen=True, slots=True)
class BoundHeaders:
    only: frozenset[str] | None = None
    """In lower case; None: all but those of `ignored`."""
    ignored: frozenset[str] = UNBOUND

    def of(self, headers: Iterable[Field]) -> tuple[tuple[Field, ...], tuple[Field, ...]]:
        """The bound ones by name, in the order of their values: those that are shown, and the credentials."""
        bound = sorted(((name.lower(), value) for name, value in headers), key=lambda field: field[0])
        bound = [field for field in bound if self._binds(field[0])]
        credentials = {name for name, value in bound if _is_credential(name, value)}
        return (
            tuple(field for field in bound if field[0] not in credentials),
            tuple(field for field in bound if field[0] in credentials),
        )

    def _binds(self, name: str) -> bool:
        return name not in self.ignored if self.only is None else name in self.only


def _is_credential(name: str, value: str) -> bool:
    return bool(is_credential_name(name) or _OF_HEADERS(name)) or _BY_SHAPE.text(value) != value
