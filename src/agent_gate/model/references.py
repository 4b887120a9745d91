"""Values of earlier steps in the arguments of later ones: `${steps.ID.data.PATH}`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from agent_gate.model.codec import CodecError, canonical, weight
from agent_gate.model.limits import ARGS_BYTES_MAX, INDEX_DIGITS_MAX
from agent_gate.model.tool import Json

_REFERENCE = re.compile(r"\$\{steps\.([A-Za-z_][A-Za-z0-9_-]*)\.data((?:\.[A-Za-z0-9_-]+)*)\}")
_MISSING = object()


class References:
    """Fills in what earlier steps reached, and notes what none of them did.

    Sizes are counted before anything is filled in: a short text may refer to a long value many times.
    """

    def __init__(self, data: Mapping[str, Json], bytes_max: int = ARGS_BYTES_MAX) -> None:
        self._data = data
        self._bytes_max = self._bytes_left = bytes_max
        self.missing: list[str] = []

    def filled(self, value: Json) -> Json:
        """A reference that is a whole text keeps its type; inside a text it stands as text.

        CodecError where all that is filled in is more than the arguments of a call may be.
        """
        if isinstance(value, dict):
            return {key: self.filled(part) for key, part in value.items()}
        if isinstance(value, list):
            return [self.filled(part) for part in value]
        if not isinstance(value, str) or "${" not in value:
            return value
        whole = _REFERENCE.fullmatch(value)
        return self._resolved(whole) if whole else _REFERENCE.sub(self._as_text, value)

    def _as_text(self, match: re.Match[str]) -> str:
        value = self._resolved(match)
        if isinstance(value, str):
            return value
        text = canonical(value).decode()
        self._take(len(text))
        return text

    def _resolved(self, match: re.Match[str]) -> Json:
        value = self._data.get(match[1], _MISSING)
        for part in match[2].split(".")[1:]:
            value = _member(value, part)
        if value is _MISSING:
            self.missing.append(match.group())
            return match.group()
        self._take(weight(value, self._bytes_left))
        return value

    def _take(self, size: int) -> None:
        self._bytes_left -= size
        if self._bytes_left < 0:
            raise CodecError(f"larger than {self._bytes_max} bytes")


def _member(value: Json, part: str) -> Json:
    if isinstance(value, dict):
        return value.get(part, _MISSING)
    if isinstance(value, list) and part.isdigit() and len(part) <= INDEX_DIGITS_MAX and int(part) < len(value):
        return value[int(part)]
    return _MISSING
