"""Collects what is wrong with a file, each with its line, its field and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from agent_gate.config.coercion import coerce
from agent_gate.config.environment import substitute
from agent_gate.config.places import Field, field_name, shown
from agent_gate.config.wording import wording
from agent_gate.config.yaml_file import Document
from agent_gate.model.errors import ConfigError
from agent_gate.model.nearest import did_you_mean
from agent_gate.model.tool import Json

_PROBLEMS_MAX = 50


class Problems:
    """What is wrong with one document; fields that are already blamed are not blamed again."""

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


def with_environment(document: Document, schema_name: str) -> tuple[Document, Problems]:
    """The document with its variables replaced; what could not be replaced is the first of its problems."""
    replaced, unset = substitute(document)
    coerce(replaced.value, replaced.whole, schema_of(schema_name))
    problems = Problems(replaced)
    for place, text in unset:
        problems.add(place, text)
    return replaced, problems


def check_schema(document: Document, schema_name: str, problems: Problems) -> bool:
    """Adds everything in which the document differs from one of the schemas shipped here; False if that is too much."""
    schema, validator = _schema(schema_name)
    errors = list(islice(validator.iter_errors(document.value), _PROBLEMS_MAX + 1))
    for error in errors:
        for place, text in _readable(error, schema, problems):
            if not problems.blames(place):
                problems.add(place, text)
    return len(errors) <= _PROBLEMS_MAX


def check_section(schema_name: str, place: Field, value: Json) -> None:
    """ConfigError with every problem of one section, which was made in a program and not read from a file."""
    around: Json = value
    for step in reversed(place):
        around = {step: around}
    problems = Problems(Document("", around))
    check_schema(problems.document, schema_name, problems)
    found = [f"{field_name(at)}: {text}" for at, text in problems.found() if at[: len(place)] == place]
    if found:
        raise ConfigError.of_all(found)


def schema_of(name: str) -> Mapping[str, Any]:
    """One of the schemas shipped here, to be read."""
    return _schema(name)[0]


@cache
def _schema(name: str) -> tuple[dict[str, Any], Any]:
    import jsonschema_rs  # noqa: PLC0415  # 20 ms that callers without files need not pay
    import orjson  # noqa: PLC0415

    schema = orjson.loads((Path(__file__).parent / "schemas" / f"{name}.json").read_bytes())
    return schema, jsonschema_rs.Draft202012Validator(schema)


def _readable(error: Any, schema: dict[str, Any], problems: Problems) -> Iterator[tuple[Field, str]]:
    place: Field = tuple(error.instance_path)
    part = _part(schema, error.schema_path[:-1])
    value = error.instance
    words = "the value" if part.get("writeOnly") and value not in ("", None) else problems.shown(place, value)
    name, limit = error.kind.name, error.kind.value
    if name == "required":
        yield (*place, limit), f"missing; {_description(schema, part['properties'][limit])}"
    elif name == "additionalProperties":
        yield from (((*place, key), _unknown(key, part)) for key in limit)
    else:
        yield place, wording(name, limit, value, words, part)


def _part(schema: dict[str, Any], steps: Iterable[str | int]) -> dict[str, Any]:
    part: Any = schema
    for step in steps:
        part = part[step]
    return part if isinstance(part, dict) else {}


def _description(schema: dict[str, Any], part: dict[str, Any]) -> str:
    named = part if "description" in part else _part(schema, part.get("$ref", "#").split("/")[1:])
    return str(named.get("description", "this field is required"))


def _unknown(key: str, part: dict[str, Any]) -> str:
    if "patternProperties" in part:
        return f"not a name for this: {part['description']}"
    known = part.get("properties", {})
    # Less alike than elsewhere: the fields of one section are few, and share their words.
    return "unknown field; " + did_you_mean(key, known, f"known are {', '.join(known)}", likeness=0.6)
