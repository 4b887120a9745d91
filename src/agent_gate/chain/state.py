"""State that the policies of a chain share: JSON values by key, stored as bytes, so that nobody can change them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from agent_gate.model.codec import normalise, restore
from agent_gate.model.tool import Json


class State(Mapping[str, Json]):
    """Whoever reads a value gets a copy of its own."""

    __slots__ = ("_encoded",)

    def __init__(self, values: Mapping[str, Json] | None = None) -> None:
        self._encoded = {key: encoded(value) for key, value in (values or {}).items()}

    @classmethod
    def of_encoded(cls, values: dict[str, bytes]) -> State:
        """Takes the values over; who made them keeps no hand on them."""
        state = cls.__new__(cls)
        state._encoded = values
        return state

    def encoded(self) -> dict[str, bytes]:
        """A copy to work on."""
        return self._encoded.copy()

    def size_bytes(self) -> int:
        return sum(len(key.encode()) + len(value) for key, value in self._encoded.items())

    def __getitem__(self, key: str) -> Json:
        return restore(self._encoded[key])

    def __contains__(self, key: object) -> bool:
        return key in self._encoded

    def __iter__(self) -> Iterator[str]:
        return iter(self._encoded)

    def __len__(self) -> int:
        return len(self._encoded)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, State) and self._encoded == other._encoded

    def __hash__(self) -> int:
        return hash(frozenset(self._encoded.items()))

    def __repr__(self) -> str:
        """Keys only: a value may be a credential."""
        return f"State({', '.join(self._encoded)})"


def encoded(value: Json) -> bytes:
    """CodecError where the value is not JSON."""
    return normalise(value)[1]
