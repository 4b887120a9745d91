"""Replaces `${NAME}` in text by the environment, after parsing, so that a value can never change the structure."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, replace

from agent_gate.config.places import Field, field_name, shown, value_at
from agent_gate.config.yaml_file import Document
from agent_gate.model.errors import ConfigError
from agent_gate.model.tool import Json

_REFERENCE = re.compile(r"\$\{([^{}]*)\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def substitute_env_vars(value: Json) -> Json:
    """A copy of a value with each `${NAME}` in its texts replaced; ConfigError names what is not set."""
    substitution = _Substitution()
    replaced = substitution.of(value, ())
    if substitution.problems:
        raise ConfigError.of_all([_message(place, text) for place, text in substitution.problems])
    return replaced


def substitute(document: Document) -> tuple[Document, list[tuple[Field, str]]]:
    """The document with its variables replaced, and the fields where that was not possible."""
    substitution = _Substitution()
    value = substitution.of(document.value, ())
    whole = frozenset(
        place for place, reference in substitution.variables.items() if value_at(document.value, *place) == reference
    )
    return replace(document, value=value, variables=substitution.variables, whole=whole), substitution.problems


def _message(place: Field, text: str) -> str:
    name = field_name(place)
    return f"{name}: {text}" if name else text


@dataclass(slots=True)
class _Substitution:
    variables: dict[Field, str] = field(default_factory=dict)
    problems: list[tuple[Field, str]] = field(default_factory=list)

    def of(self, value: Json, place: Field) -> Json:
        if isinstance(value, str):
            return self._text(value, place) if "${" in value else value
        if isinstance(value, dict):
            return {key: self.of(item, (*place, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [self.of(item, (*place, index)) for index, item in enumerate(value)]
        return value

    def _text(self, text: str, place: Field) -> str:
        def value_of(reference: re.Match[str]) -> str:
            name = reference[1]
            self.variables[place] = reference[0]
            if not _NAME.match(name):
                self.problems.append((place, f"{shown(reference[0])} does not name an environment variable"))
            elif name not in os.environ:
                self.problems.append((place, f"environment variable {name} is not set; set it, or write a value"))
            else:
                return _without_surrogates(os.environ[name], name, place, self.problems)
            return reference[0]

        return _REFERENCE.sub(value_of, text)


def _without_surrogates(value: str, name: str, place: Field, problems: list[tuple[Field, str]]) -> str:
    """Bytes of the environment that are not UTF-8 come as lone surrogates, which nothing here can hash or store."""
    try:
        value.encode()
    except UnicodeEncodeError:
        problems.append((place, f"environment variable {name} is not UTF-8 text"))
        return ""
    return value
