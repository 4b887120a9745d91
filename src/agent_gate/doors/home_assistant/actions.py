"""What a button on a phone carries: a verb and a call, sealed for one question as one phone shows it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from hmac import compare_digest

from agent_gate.doors.home_assistant.phones import Phone

PREFIX = "AG_"
"""Of every action of ours; what phones answer to others is none of our business."""
_PURPOSE, _TAG_PURPOSE = b"home assistant action\0", b"home assistant tag\0"
_SEAL_CHARS, _TAG_CHARS = 32, 32
_SHAPE = re.compile(rf"{PREFIX}(ALLOW|DENY)_([0-9A-Za-z]{{1,64}})_([0-9a-f]{{{_SEAL_CHARS}}})\Z")


class Verb(Enum):
    ALLOW = "ALLOW"
    DENY = "DENY"


@dataclass(frozen=True, slots=True)
class Pressed:
    verb: Verb
    call_id: str
    seal: str


class Seals:
    """The key is the ledger's: buttons stay good across restarts, and nobody else can make one.

    An event of Home Assistant's does not prove who pressed: what proves it is that this phone alone was given the seal.
    """

    def __init__(self, keyed_hash: Callable[[bytes], str]) -> None:
        self._keyed_hash = keyed_hash

    def action(self, verb: Verb, call_id: str, digest: str, phone: Phone) -> str:
        """`digest` is that of the question: its call, its arguments, its nonce and its deadline."""
        return f"{PREFIX}{verb.value}_{call_id}_{self._seal(verb, digest, phone)}"

    def hold(self, pressed: Pressed, digest: str, phone: Phone) -> bool:
        """Whether the button was made by this gate, for this question as it stands and for this phone."""
        return compare_digest(pressed.seal.encode(), self._seal(pressed.verb, digest, phone).encode())

    def tag(self, call_id: str, service: str) -> str:
        """By which a notification is replaced and cleared; an agent that knew it could take the question away."""
        return self._keyed_hash(_TAG_PURPOSE + f"{call_id}\0{service}".encode())[:_TAG_CHARS]

    def _seal(self, verb: Verb, digest: str, phone: Phone) -> str:
        bound = f"{verb.value}\0{phone.approver.id}\0{phone.service}\0{digest}"
        return self._keyed_hash(_PURPOSE + bound.encode())[:_SEAL_CHARS]


def read(action: str) -> Pressed | None:
    """The parts of what came back; None where it has not their shape."""
    found = _SHAPE.match(action)
    return Pressed(Verb(found[1]), found[2], found[3]) if found else None
