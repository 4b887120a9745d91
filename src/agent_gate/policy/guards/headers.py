"""Headers that an agent may send: none that say where a request goes, how it is framed, or whom it passes."""

from __future__ import annotations

import re
from collections.abc import Mapping

from agent_gate.model.bounds import HEADERS_CHARS_MAX, SHOWN_CHARS_MAX
from agent_gate.model.errors import ToolError

Headers = tuple[tuple[str, str], ...]

_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+").fullmatch
_VALUE = re.compile(r"(?:[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?)?").fullmatch
_OURS = frozenset(
    {
        "accept-encoding",
        "connection",
        "content-length",
        "expect",
        "host",
        "http2-settings",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "via",
    }
)
_KEPT_ACROSS_ORIGINS = frozenset({"accept", "accept-language", "user-agent"})


def agent_headers(given: Mapping[str, str]) -> Headers:
    """The headers as they will be sent; ToolError 2002 names the first that may not be."""
    headers: dict[str, str] = {}
    for name, value in given.items():
        lower = name.lower()
        if not _TOKEN(name):
            raise _bad(f"{name[:SHOWN_CHARS_MAX]!a} is not the name of a header", "use letters, digits and `-`")
        if lower in _OURS or lower.startswith("proxy-"):
            raise _bad(f"header `{name}` is the gate's to set", "leave it out")
        if lower in headers:
            raise _bad(f"header `{name}` is given twice", "give it once")
        if not _VALUE(value):
            raise _bad(f"header `{name}` holds a character that no header may hold", "use printable ASCII")
        headers[lower] = value
    if sum(len(name) + len(value) for name, value in headers.items()) > HEADERS_CHARS_MAX:
        raise _bad(f"the headers have more than {HEADERS_CHARS_MAX} characters", "send less in them")
    return tuple(headers.items())


def for_other_origin(headers: Headers) -> Headers:
    """Keep what may follow a redirect to another origin: nothing that could be a credential."""
    return tuple((name, value) for name, value in headers if name in _KEPT_ACROSS_ORIGINS)


def _bad(detail: str, suggestion: str) -> ToolError:
    return ToolError(detail, code=2002, suggestion=suggestion)
