"""The cases of a file: one JSON object a line, with the shorthand for long and odd texts expanded."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Case:
    """One attack, or one benign call that a nervous gate would refuse."""

    id: str
    kind: str
    tool: str
    args: Mapping[str, Any]
    policy: Mapping[str, Any]
    expect: str
    why: str = ""
    setup: tuple[Mapping[str, Any], ...] = ()
    check: Mapping[str, Any] = field(default_factory=dict)
    accept: tuple[str, ...] = ()

    @property
    def family(self) -> str:
        return self.kind.partition(".")[0]

    @property
    def accepted(self) -> frozenset[str]:
        """Outcomes that pass; deny and error both mean that nothing happened and stand for each other."""
        wanted = {self.expect, *self.accept}
        return frozenset(wanted | {"deny", "error"} if wanted & {"deny", "error"} else wanted)


def load_cases(path: Path) -> Iterator[Case]:
    # Python's own decoder, because some cases hold lone surrogates; split at line feeds only, because texts
    # may hold other line separators.
    for line in path.read_text(encoding="utf-8").split("\n"):
        if line.strip():
            fields = json.loads(line)
            yield Case(
                id=fields["id"],
                kind=fields["class"],
                tool=fields["tool"],
                args=fields.get("args") or {},
                policy=fields.get("policy") or {},
                expect=fields["expect"],
                why=fields.get("why", ""),
                setup=tuple(fields.get("setup", ())),
                check=fields.get("check", {}),
                accept=tuple(fields.get("accept", ())),
            )


def expand(value: Any, root: Path) -> Any:
    """The value with `{root}` and the shorthand replaced; bytes where a text is given in base 64."""
    if isinstance(value, str):
        return value.replace("{root}", str(root))
    if isinstance(value, list):
        return [expand(item, root) for item in value]
    if not isinstance(value, dict):
        return value
    match list(value):
        case ["$repeat"]:
            part, times = value["$repeat"]
            return expand(part, root) * times
        case ["$concat"]:
            return _joined([expand(part, root) for part in value["$concat"]])
        case ["$b64"]:
            return base64.b64decode(value["$b64"])
        case _:
            return {expand(key, root): expand(item, root) for key, item in value.items()}


def _joined(parts: list[Any]) -> str | bytes:
    if any(isinstance(part, bytes) for part in parts):
        return b"".join(part if isinstance(part, bytes) else part.encode("utf-8", "surrogatepass") for part in parts)
    return "".join(parts)
