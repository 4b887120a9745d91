"""The format of one kind of file: its schema, and the value that is built by it, both made from one declaration."""

from __future__ import annotations

from functools import cached_property
from types import MappingProxyType
from typing import Annotated, Any, Generic, TypeVar

from agent_gate.config.build import Build, builder_for
from agent_gate.config.json_schema import SectionsByName, schema_for
from agent_gate.model.setting import Setting
from agent_gate.model.tool import Json

T = TypeVar("T")

_NONE: SectionsByName = MappingProxyType({})


class FileFormat(Generic[T]):
    """A kind of file, by the dataclass that declares what is in it; its schema is made when first asked for."""

    def __init__(self, title: str, kind: type[T], setting: Setting, sections: SectionsByName = _NONE) -> None:
        self._title = title
        self._declaration = Annotated[kind, setting]
        self._sections = sections

    @cached_property
    def schema(self) -> dict[str, Any]:
        return {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": self._title,
            **schema_for(self._declaration, self._sections),
        }

    @cached_property
    def validator(self) -> Any:
        import jsonschema_rs  # noqa: PLC0415  # 20 ms that callers without files need not pay

        return jsonschema_rs.Draft202012Validator(self.schema)

    @cached_property
    def _build(self) -> Build:
        return builder_for(self._declaration, self._sections)

    def value_of(self, fields: Json) -> T:
        """The value that a file with these fields says, once nothing is wrong with them."""
        value: T = self._build(fields)
        return value
