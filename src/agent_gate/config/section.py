"""Makes a section of a file from a class: a frozen dataclass that shows no secret."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeVar, dataclass_transform

from agent_gate.config.declaration import declared_fields

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def section(cls: type[T]) -> type[T]:
    """A frozen dataclass whose `repr` leaves out what is declared secret."""
    made = dataclass(frozen=True, repr=False)(cls)
    made.__repr__ = _without_secrets  # type: ignore[method-assign]  # for every object
    return made


def _without_secrets(section: Any) -> str:
    known = [one.name for one in declared_fields(section.__class__) if not one.setting.secret]
    return f"{type(section).__qualname__}({', '.join(f'{name}={getattr(section, name)!r}' for name in known)})"
