"""The names that answers and notifications have on a phone."""

from __future__ import annotations

import re
from collections.abc import Callable

from agent_gate.doors.messengers.seal import SealedAnswer, Verb

PREFIX = "AG_"
"""Of every action of ours; what phones answer to others is none of our business."""
_TAG_PURPOSE, _TAG_CHARS = b"home assistant tag\0", 32
_SHAPE = re.compile(rf"{PREFIX}(ALLOW|DENY)_([0-9A-Za-z]{{1,64}})_([0-9a-f]{{32}})\Z")


def action_of(answer: SealedAnswer) -> str:
    """An event of Home Assistant's does not prove who pressed; that this phone alone was given the seal proves it."""
    return f"{PREFIX}{answer.verb.name}_{answer.call_id}_{answer.seal}"


def read(action: str) -> SealedAnswer | None:
    """The parts of what came back; None where it has not their shape."""
    found = _SHAPE.match(action)
    return SealedAnswer(Verb[found[1]], found[2], found[3]) if found else None


def tag_of(call_id: str, service: str, keyed_hash: Callable[[bytes], str]) -> str:
    """By which a notification is replaced and cleared; an agent that knew it could take the question away."""
    return keyed_hash(_TAG_PURPOSE + f"{call_id}\0{service}".encode())[:_TAG_CHARS]
