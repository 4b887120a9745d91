"""What a button carries: a verb and a call, sealed for exactly the question that stands above it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from hmac import compare_digest

from agent_gate.doors.shapes import digest
from agent_gate.model.approval import Question
from agent_gate.model.limits import TELEGRAM_BUTTON_BYTES_MAX

_PURPOSE = b"telegram button\0"
_SEAL_CHARS = 32


class Verb(Enum):
    ALLOW = "a"
    DENY = "d"
    GRANT = "g"


@dataclass(frozen=True, slots=True)
class Pressed:
    verb: Verb
    call_id: str
    seal: str


class Seals:
    """The key is the ledger's: buttons stay good across restarts, and nobody else can make one."""

    def __init__(self, keyed_hash: Callable[[bytes], str]) -> None:
        self._keyed_hash = keyed_hash

    def data(self, verb: Verb, question: Question) -> str:
        text = f"{verb.value}.{question.call_id}.{self._seal(verb, question)}"
        assert len(text.encode()) <= TELEGRAM_BUTTON_BYTES_MAX
        return text

    def hold(self, pressed: Pressed, question: Question) -> bool:
        """Whether the button was made by this gate, for this question as it stands."""
        return compare_digest(pressed.seal.encode(), self._seal(pressed.verb, question).encode())

    def _seal(self, verb: Verb, question: Question) -> str:
        return self._keyed_hash(_PURPOSE + f"{verb.value}\0{digest(question)}".encode())[:_SEAL_CHARS]


def read(data: str) -> Pressed | None:
    """The parts of what came back; None where it has not their shape."""
    verb, _, rest = data.partition(".")
    call_id, _, seal = rest.partition(".")
    if verb not in _VERBS or not call_id or len(seal) != _SEAL_CHARS or not data.isascii():
        return None
    return Pressed(Verb(verb), call_id, seal)


_VERBS = frozenset(verb.value for verb in Verb)
