"""Values of earlier steps in the arguments of later ones: `${steps.ID.data.PATH}`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from agent_gate.model.codec import canonical
from agent_gate.model.tool import Json

_REFERENCE = re.compile(r"\$\{steps\.([A-Za-z_][A-Za-z0-9_-]*)\.data((?:\.[A-Za-z0-9_-]+)*)\}")
_MISSING = object()


class References:
    """Fills in what earlier steps reached, and notes what none of them did."""

    def __init__(self, data: Mapping[str, Json]) -> None:
        self._data = data
        self.missing: list[str] = []

    def filled(self, value: Json) -> Json:
        """A reference that is a whole text keeps its type; inside a text it stands as text."""
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
        return value if isinstance(value, str) else canonical(value).decode()

    def _resolved(self, match: re.Match[str]) -> Json:
        value = self._data.get(match[1], _MISSING)
        for part in match[2].split(".")[1:]:
            if isinstance(value, dict):
                value = value.get(part, _MISSING)
            elif isinstance(value, list) and part.isdigit() and int(part) < len(value):
                value = value[int(part)]
            else:
                value = _MISSING
        if value is not _MISSING:
            return value
        self.missing.append(match.group())
        return match.group()
