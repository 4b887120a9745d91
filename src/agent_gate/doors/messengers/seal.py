"""The seal on an answer: whoever sends it back was given it by this gate, for one question as it was shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from hmac import compare_digest

_SEAL_CHARS = 32


class Verb(Enum):
    """An answer that can be offered; the value is its short name in the text of a button."""

    ALLOW = "a"
    DENY = "d"
    GRANT = "g"
    """Allow, and the same call again for a while."""


def offered(*, complete: bool, once_only: bool) -> tuple[Verb, ...]:
    """The answers to a question: what cannot be shown in full can only be denied, and not everything is granted."""
    if not complete:
        return (Verb.DENY,)
    return (Verb.ALLOW, Verb.DENY) if once_only else (Verb.ALLOW, Verb.DENY, Verb.GRANT)


@dataclass(frozen=True, slots=True)
class SealedAnswer:
    verb: Verb
    call_id: str
    seal: str

    @property
    def text(self) -> str:
        """61 bytes: the smallest buttons, Telegram's, carry 64."""
        return f"{self.verb.value}.{self.call_id}.{self.seal}"


class Seals:
    """The key is the ledger's: answers stay good across restarts, and nobody else can make one.

    A seal binds the verb, the whole question (its digest: call, arguments, nonce, deadline), the channel that it was
    sent by, and the holder where only one of several was given it.
    """

    def __init__(self, keyed_hash: Callable[[bytes], str], channel: str) -> None:
        self._keyed_hash, self._channel = keyed_hash, channel

    def sealed(self, verb: Verb, call_id: str, digest: str, holder: str = "") -> SealedAnswer:
        return SealedAnswer(verb, call_id, self._seal(verb, digest, holder))

    def hold(self, answer: SealedAnswer, digest: str, holder: str = "") -> bool:
        """Say whether this gate made the answer, for this question as it stands and for this holder."""
        return compare_digest(answer.seal.encode(), self._seal(answer.verb, digest, holder).encode())

    def _seal(self, verb: Verb, digest: str, holder: str) -> str:
        bound = f"answer\0{self._channel}\0{verb.value}\0{holder}\0{digest}"
        return self._keyed_hash(bound.encode())[:_SEAL_CHARS]


def read(text: str) -> SealedAnswer | None:
    """The parts of what came back; None where it has not their shape."""
    verb, _, rest = text.partition(".")
    call_id, _, seal = rest.partition(".")
    if verb not in _VERBS or not call_id or len(seal) != _SEAL_CHARS or not text.isascii():
        return None
    return SealedAnswer(Verb(verb), call_id, seal)


_VERBS = frozenset(verb.value for verb in Verb)
