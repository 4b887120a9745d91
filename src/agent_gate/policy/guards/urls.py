"""A URL, read once by one strict parser: what is judged, shown, signed and dialled all comes from this object.

What readers of URLs disagree about is refused rather than guessed: user names before the host, backslashes, white
space, escapes or compatibility characters in hosts, and addresses in any form but the full one. A fragment never leaves
the client, so it is dropped.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from agent_gate.model.bounds import SHOWN_CHARS_MAX, URL_CHARS_MAX
from agent_gate.model.errors import PolicyDeniedError, ToolError
from agent_gate.model.tool import Json
from agent_gate.policy.guards.addresses import parse_address

DEFAULT_PORTS = {"http": 80, "https": 443}

_UNREADABLE = re.compile(r"[\x00-\x20\x7f-\xa0\\\ud800-\udfff]").search
_PARTS = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<authority>[^/?#]*)(?P<path>[^?#]*)(?:\?(?P<query>[^#]*))?(?:#.*)?"
).fullmatch
_AUTHORITY = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::([1-9][0-9]{0,4}))?").fullmatch
_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:").match
_LABEL = "[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*").fullmatch
_NUMBER = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)").fullmatch
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_PLAIN = "".join(sorted(_UNRESERVED)).encode() + b"!$&'()*+,;=:@/?"
_ODD = re.compile(f"%([0-9A-Fa-f]{{2}})?|[^{re.escape(_PLAIN.decode())}]")
_SIGNED = str.maketrans({character: f"%{ord(character):02X}" for character in "*?[](),"})
_HOST_CHARS_MAX = 253


@dataclass(frozen=True, slots=True)
class Url:
    scheme: str
    host: str
    """A name in lower case, as A-labels, without a final dot; or an address in its one spelling, without brackets."""
    port: int
    path: str
    query: str | None

    @property
    def authority(self) -> str:
        """The host as a request names it, with every port but the scheme's own."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.authority}"

    @property
    def target(self) -> str:
        return self.path if self.query is None else f"{self.path}?{self.query}"

    @property
    def text(self) -> str:
        return self.origin + self.target

    @property
    def signed(self) -> str:
        """The text as it stands in a signature."""
        return self.text.translate(_SIGNED)

    @property
    def signature(self) -> str:
        return f"http.get({self.signed})"

    @property
    def resources(self) -> dict[str, Json]:
        """The part that the guard judges and an approval rests on: not the addresses, which change by the hour."""
        return {"scheme": self.scheme, "host": self.host, "port": self.port}

    @property
    def is_address(self) -> bool:
        """True where the host is no name to look up."""
        return parse_address(self.host) is not None

    def join(self, reference: str) -> Url:
        """The URL that a redirect names, seen from this one."""
        if _ABSOLUTE(reference):
            return parse_url(reference)
        if reference.startswith("//"):
            return parse_url(f"{self.scheme}:{reference}")
        if reference.startswith("/"):
            return parse_url(self.origin + reference)
        if reference.startswith("?"):
            return parse_url(self.origin + self.path + reference)
        if not reference or reference.startswith("#"):
            return self
        return parse_url(f"{self.origin}{self.path[: self.path.rindex('/') + 1]}{reference}")


def parse_url(text: str) -> Url:
    """The URL in a text; ToolError 2002 where it is malformed, PolicyDeniedError 1003 where it is a disguise."""
    if len(text) > URL_CHARS_MAX:
        raise _bad(f"the URL has {len(text)} characters, more than {URL_CHARS_MAX}", "send less in it")
    if not (text.isascii() and text.isprintable()) or " " in text or "\\" in text:
        _refuse_unreadable(text)
    parts = _PARTS(text)
    if parts is None:
        raise _bad(f"`{_shown(text)}` is not a URL with scheme and host", "write https://host/path")
    scheme = parts["scheme"].lower()
    if scheme not in DEFAULT_PORTS:
        raise _disguised(f"`{_shown(scheme)}` is not a scheme of http.get", "use https, or http where it is allowed")
    host, port = parse_authority(parts["authority"])
    query = parts["query"]
    return Url(
        scheme,
        host,
        port or DEFAULT_PORTS[scheme],
        _normal_path(parts["path"]),
        None if query is None else _normal_text(query),
    )


def parse_authority(text: str) -> tuple[str, int | None]:
    """The host in its one spelling, and the port where one is named; the same errors as for a URL."""
    if "@" in text:
        raise _bad("the URL names a user before the host", "send credentials as a header")
    found = _AUTHORITY(text)
    if found is None or int(found[2] or 1) > 65535:
        raise _bad(f"`{_shown(text)}` is not a host with a port", "write host or host:port")
    host = _literal(found[1]) if found[1].startswith("[") else normal_host(found[1])
    return host, int(found[2]) if found[2] else None


def _refuse_unreadable(text: str) -> None:
    found = _UNREADABLE(text)
    if found:
        raise _bad(f"the URL holds U+{ord(found[0]):04X}", "escape it as its UTF-8 bytes: %20 for a space")


def normal_host(text: str) -> str:
    """The one spelling of a name, or of an address of four numbers; of an address in disguise, a refusal."""
    host = text.lower() if text.isascii() else _a_labels(text)
    host = host.removesuffix(".")
    if len(host) > _HOST_CHARS_MAX or not _NAME(host):
        raise _bad(f"`{_shown(text)}` is not the name of a host", "write it in letters, digits, `-` and dots")
    if _NUMBER(host) and parse_address(host) is None:
        raise _disguised(
            f"`{_shown(text)}` is an address in a form that programs read differently",
            "write it as four decimal numbers",
        )
    return host


def _a_labels(text: str) -> str:
    """Without mapping compatibility characters: what looks like another name, or a digit, must not become one."""
    import idna  # noqa: PLC0415 -- 20 ms that few starts need

    folded = unicodedata.normalize("NFC", text.lower())
    try:
        if _ascii_count(folded) > _ascii_count(text):
            raise UnicodeError("a letter of it would turn into another one")
        return idna.encode(folded, strict=True).decode("ascii")
    except UnicodeError as error:
        raise _bad(f"`{_shown(text)}` is not an international name: {error}", "write its xn-- form") from None


def _ascii_count(text: str) -> int:
    return sum(map(str.isascii, text))


def _literal(text: str) -> str:
    address = parse_address(text[1:-1])
    if address is None or address.version != 6:
        raise _bad(f"`{_shown(text)}` is not an IPv6 address", "write it in brackets, without a zone")
    return address.text


def _normal_text(text: str) -> str:
    return _ODD.sub(_escape, text) if text.encode().translate(None, _PLAIN) else text


def _normal_path(text: str) -> str:
    path = _normal_text(text)
    if "/." not in path:
        return path or "/"
    kept: list[str] = []
    segments = path.split("/")[1:]
    for segment in segments:
        if segment == "..":
            del kept[-1:]
        elif segment != ".":
            kept.append(segment)
    if segments[-1] in (".", ".."):
        kept.append("")
    return "/" + "/".join(kept)


def _escape(found: re.Match[str]) -> str:
    digits = found[1]
    if digits is None and found[0] == "%":
        raise _bad("the URL holds a `%` that escapes nothing", "write %25 for a percent sign")
    if digits is None:
        return "".join(f"%{byte:02X}" for byte in found[0].encode())
    character = chr(int(digits, 16))
    return character if character in _UNRESERVED else f"%{digits.upper()}"


def _bad(detail: str, suggestion: str) -> ToolError:
    return ToolError(detail, code=2002, suggestion=suggestion)


def _disguised(detail: str, suggestion: str) -> PolicyDeniedError:
    return PolicyDeniedError(detail, code=1003, suggestion=suggestion)


def _shown(text: str) -> str:
    """For a message: bounded, and without characters that could hide or turn its words."""
    return ascii(text[:SHOWN_CHARS_MAX])[1:-1]
