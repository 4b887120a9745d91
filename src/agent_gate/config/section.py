"""Makes a section of a file from a class: a frozen dataclass that shows no secret."""

from __future__ import annotations

from dataclasses import MISSING, Field, dataclass, field
from typing import TypeVar, dataclass_transform

from agent_gate.config.declaration import declared

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def section(cls: type[T]) -> type[T]:
    """A frozen dataclass whose `repr` leaves out what is declared secret."""
    for name, annotation in cls.__annotations__.items():
        if declared(annotation).setting.secret:
            given = cls.__dict__.get(name, MISSING)
            hidden = given if isinstance(given, Field) else field(default=given)
            hidden.repr = False
            setattr(cls, name, hidden)
    return dataclass(frozen=True)(cls)
