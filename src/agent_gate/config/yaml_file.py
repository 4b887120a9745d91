"""Reads YAML that people write: plain values only, no surprises, every value with its line."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from agent_gate.config.places import Field, field_name
from agent_gate.config.yaml_build import Bounds, Builder, Lines, YamlProblem
from agent_gate.model.bounds import YAML_BYTES_MAX
from agent_gate.model.errors import ConfigError
from agent_gate.model.tool import Json

PathLike: TypeAlias = str | os.PathLike[str]

_BARE_VARIABLE = re.compile(r"[\[{:,]\s*(\$\{[^{}\s]*\})")


class EmptyFileError(ConfigError):
    """Nothing is in the file, or only comments."""


@dataclass(frozen=True, slots=True)
class Document:
    """The content of a file, under the name by which messages call it."""

    name: str
    value: Json
    lines: Lines | None = None
    variables: Mapping[Field, str] = field(default_factory=dict)
    """Fields whose text holds values of the environment, which messages must not show, by variable."""
    whole: frozenset[Field] = frozenset()
    """Those of them that are one variable and nothing else."""

    def line_of(self, place: Field) -> int | None:
        """The line of a field, or of the nearest thing around it that is there."""
        if self.lines is None:
            return None
        line, below = self.lines
        for step in place:
            try:
                line, below = below[step]
            except (KeyError, IndexError, TypeError):
                break
        return line

    def where(self, place: Field) -> str:
        """`policy.yaml:7: rules[2].action`"""
        line = self.line_of(place)
        return ": ".join(filter(None, (f"{self.name}:{line}" if line else self.name, field_name(place))))


def load_yaml(path: PathLike, bytes_max: int = YAML_BYTES_MAX) -> Document:
    """The document in a file; ConfigError names the file and what to do."""
    name = str(path)
    try:
        with Path(path).open("rb") as file:
            data = file.read(bytes_max + 1)
    except FileNotFoundError:
        hint = "check the path, or write one with `agent-gate init`"
        raise ConfigError(f"{name}: no such file", suggestion=hint) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ConfigError(f"{name}: cannot be read: {reason}", suggestion="check its permissions") from None
    return parse_yaml(data, name, Bounds(bytes_max=bytes_max))


def parse_yaml(text: bytes | str, name: str, bounds: Bounds | None = None) -> Document:
    """The document in a text, within the bounds of a file unless others are given."""
    bounds = bounds or Bounds()
    try:
        # Through bytes in both cases, so that a lone surrogate in a str is refused like any other bad byte.
        data = text.encode() if isinstance(text, str) else text
        if len(data) > bounds.bytes_max:
            raise ConfigError(f"{name}: larger than {bounds.bytes_max} bytes")
        decoded = data.decode().removeprefix("\ufeff")
    except UnicodeError as error:
        raise ConfigError(f"{name}: not UTF-8 text: {error.reason}", suggestion="save it as UTF-8") from None  # type: ignore[attr-defined]
    builder = Builder(bounds)
    try:
        _feed(builder, decoded)
    except YamlProblem as problem:
        builder.problems.append(problem)
    if builder.problems:
        raise ConfigError.of_all([f"{name}:{problem}" for problem in builder.problems])
    if builder.root is None:
        raise EmptyFileError(f"{name}: the file is empty", suggestion="write at least one field")
    value, lines = builder.root
    return Document(name, value, lines)


def _feed(builder: Builder, text: str) -> None:
    import yaml  # noqa: PLC0415  # 15 ms that a door without files need not pay

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    events: Iterable[yaml.Event] = yaml.parse(text, Loader=loader)
    try:
        for event in events:
            builder.take(event)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line if mark else 0
        hint = _hint(text, line)
        raise YamlProblem(line + 1, f"not valid YAML: {error.problem or error.context}{hint}") from None
    except yaml.YAMLError as error:
        raise YamlProblem(1, f"not valid YAML: {' '.join(str(error).split())}") from None


def _hint(text: str, line: int) -> str:
    """Tell what YAML's own words do not: the brace of `${NAME}` opens a mapping inside `{…}` and `[…]`."""
    at_fault = text.split("\n")[line : line + 1]
    found = _BARE_VARIABLE.search(at_fault[0]) if at_fault else None
    return f'; inside {{…}} and […] write it in quotes: "{found[1]}"' if found else ""
