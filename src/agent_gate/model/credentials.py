"""Credentials by their shape and by the names that they go by: a kind that nobody hides yet is added here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import product

from agent_gate.model.redaction import Shape

_WORD = "A-Za-z0-9_-"
_SEGMENT = f"[{_WORD}]{{10,}}+"

is_credential_name = re.compile(
    r"(?i)auth|cookie|token|secret|passw|passphrase|(api|access|private|signing)[_-]?key|credential|dsn"
).search
"""Tell whether a setting or a header of this name holds something that nobody else should read."""


def _run(beginnings: Iterable[str], characters: str, least: int) -> Shape:
    """A beginning and then so many characters; not where something of the same kind goes before."""
    given = tuple(beginnings)
    return Shape(given, re.compile(f"(?<![{_WORD}])(?:{'|'.join(given)})[{characters}]{{{least},}}+"))


def _in_any_case(word: str) -> Iterator[str]:
    return map("".join, product(*({letter.lower(), letter.upper()} for letter in word)))


SHAPES: Mapping[str, Shape] = {
    "anthropic_key": _run(["sk-ant-"], _WORD, 20),
    "aws_access_key": _run(["AKIA", "ASIA"], "A-Z0-9", 16),
    "bearer": Shape(tuple(_in_any_case("bearer ")), re.compile(r"(?i:\bbearer )[A-Za-z0-9._~+/-]{16,}+=*+")),
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
AUTHORIZATION = Shape(
    (*_in_any_case("bearer"), *_in_any_case("basic")),
    re.compile(r"(?i:\b(?:bearer|basic))\s++(?P<secret>[^\s\"',;]++)"),
)
"""The word after the name of a scheme, however short: for texts that quote headers, such as logs."""
