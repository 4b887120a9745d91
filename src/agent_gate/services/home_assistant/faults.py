"""Faults of a home: nothing was sent, the server said no, or nobody knows.

ToolError
├── Unreachable      2006  nothing was sent, or only a question
├── Refused          2003  the server said no, in its own words
└── OutcomeUnknown   2007  it was sent, and then the connection was lost or the time passed
RuntimeError
└── AuthRefused            the token is not good; final
Lost                       what a connection says of its own end, before anybody knows what that means for a call
"""

from __future__ import annotations

from agent_gate.model.errors import ToolError
from agent_gate.model.visible import visible_words

_CHARS_MAX = 1_000


class Unreachable(ToolError):
    """Nothing changed: the call was not sent, or it was only a question."""

    default_code = 2006


class Refused(ToolError):
    """The server said no."""

    def __init__(self, reason: str, detail: str, *, suggestion: str = "") -> None:
        self.reason = reason
        """The server's own code: `not_found`, `invalid_format`, `service_validation_error`, `unauthorized`, …"""
        super().__init__(one_line(detail) or reason, suggestion=suggestion)


class OutcomeUnknown(ToolError):
    """It may have happened."""

    default_code = 2007


class AuthRefused(RuntimeError):
    """The server does not take the token; trying again leads nowhere, and may get this host banned."""


class Lost(Exception):
    """The connection ended, or could not be made, or an answer did not come in time."""

    def __init__(self, reason: str, *, sent: bool) -> None:
        super().__init__(reason)
        self.sent = sent
        """True where the server may have heard what was said."""


def one_line(text: str) -> str:
    """Make what a server says fit for a message."""
    return visible_words(text[: 2 * _CHARS_MAX], _CHARS_MAX)
