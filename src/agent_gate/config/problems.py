"""Collects what is wrong with a file, each with its line, its field and what to do about it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from functools import cache
from itertools import islice
from typing import Any

from agent_gate.config.coercion import coerce
from agent_gate.config.declaration import written
from agent_gate.config.environment import substitute
from agent_gate.config.file_format import FileFormat
from agent_gate.config.places import Field, field_name, shown
from agent_gate.config.wording import remedy, wording
from agent_gate.config.yaml_file import Document
from agent_gate.model.errors import ConfigError
from agent_gate.model.nearest import did_you_mean
from agent_gate.model.setting import NOTHING
from agent_gate.model.tool import Json

_PROBLEMS_MAX = 50


class Problems:
    """Problems of one document; fields that are already blamed are not blamed again."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self._found: list[tuple[Field, str]] = []
        self._blamed: set[Field] = set()

    def add(self, place: Field, text: str) -> None:
        self._found.append((place, text))
        self._blamed.add(place)

    def shown(self, place: Field, value: Json) -> str:
        """The value in the words of the file; one that came from the environment only by its variable."""
        return f"the value of {self.document.variables[place]}" if place in self.document.variables else shown(value)

    def found(self) -> list[tuple[Field, str]]:
        return list(self._found)

    def blames(self, place: Field) -> bool:
        return place in self._blamed

    def __bool__(self) -> bool:
        return bool(self._found)

    def texts(self) -> list[str]:
        ordered = sorted(self._found, key=lambda found: (self.document.line_of(found[0]) or 0, field_name(found[0])))
        texts = [f"{self.document.where(place)}: {text}" for place, text in ordered[:_PROBLEMS_MAX]]
        if len(ordered) > _PROBLEMS_MAX:
            texts.append(f"{self.document.name}: and more; these first")
        return texts

    def raise_any(self) -> None:
        if self._found:
            raise ConfigError.of_all(self.texts())


def with_environment(document: Document, known: FileFormat[Any]) -> tuple[Document, Problems]:
    """The document with its variables replaced; what could not be replaced is the first of its problems."""
    replaced, unset = substitute(document)
    coerce(replaced.value, replaced.whole, known.schema)
    problems = Problems(replaced)
    for place, text in unset:
        problems.add(place, text)
    return replaced, problems


def check_schema(document: Document, known: FileFormat[Any], problems: Problems) -> bool:
    """Adds everything in which the document differs from its format; False if that is too much."""
    errors = list(islice(known.validator.iter_errors(document.value), _PROBLEMS_MAX + 1))
    for error in errors:
        for place, text in _readable(error, known.schema, problems):
            if not problems.blames(place):
                problems.add(place, text)
    return len(errors) <= _PROBLEMS_MAX


def check_section(section: Any, place: Field) -> None:
    """ConfigError with every problem of a section that was made in a program; `place` is where a file would have it."""
    known = _section_format(section.__class__)
    problems = Problems(Document("", written(section)))
    check_schema(problems.document, known, problems)
    if problems:
        raise ConfigError.of_all([f"{field_name((*place, *at))}: {text}" for at, text in problems.found()])


@cache
def _section_format(section: Hashable) -> FileFormat[Any]:
    assert isinstance(section, type)
    return FileFormat(section.__name__, section, NOTHING)


def _readable(error: Any, schema: Mapping[str, Any], problems: Problems) -> Iterator[tuple[Field, str]]:
    place: Field = tuple(error.instance_path)
    part = _part(schema, error.schema_path[:-1])
    value = error.instance
    hides = part.get("writeOnly") and value not in ("", None) and not isinstance(value, dict | list)
    words = "the value" if hides else problems.shown(place, value)
    name, limit = error.kind.name, error.kind.value
    if name == "required":
        yield (*place, limit), f"missing; {remedy(part['properties'][limit])}"
    elif name == "additionalProperties":
        yield from (((*place, key), _unknown(key, part)) for key in limit)
    else:
        yield place, wording(name, limit, value, words, part)


def _part(schema: Mapping[str, Any], steps: Iterable[str | int]) -> dict[str, Any]:
    part: Any = schema
    for step in steps:
        part = part[step]
    return part if isinstance(part, dict) else {}


def _unknown(key: str, part: dict[str, Any]) -> str:
    if "patternProperties" in part:
        return f"not a name for this: {part['x-form']}"
    known = part.get("properties", {})
    # Less alike than elsewhere: the fields of one section are few, and share their words.
    return "unknown field; " + did_you_mean(key, known, f"known are {', '.join(known)}", likeness=0.6)
