"""A setting is declared once: schema, default, message, value and reference follow from its field."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, is_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import pytest

from agent_gate.config import Config, ConfigError, load_policy
from agent_gate.config.__main__ import FORMATS
from agent_gate.config.coercion import coerce_texts
from agent_gate.config.declaration import declared, declared_fields
from agent_gate.config.file_format import FileFormat
from agent_gate.config.policy_file import policy_format
from agent_gate.config.problems import Problems, check_schema
from agent_gate.config.section import section
from agent_gate.config.tool_sections import sections_for
from agent_gate.config.yaml_file import parse_yaml
from agent_gate.model.plan import Plan
from agent_gate.model.policy import Policy
from agent_gate.model.setting import NOTHING, Setting

ROOT = Path(__file__).resolve().parents[3]


@section
class Pump:
    """Fields of every kind, postponed annotations and all."""

    speed: Annotated[int, Setting("turns in a second", minimum=1, maximum=50, from_text=True)]
    password: Annotated[str, Setting("what opens it", secret=True)] = ""
    side: Annotated[Literal["left", "right"], Setting("where it stands")] = "left"
    names: Annotated[tuple[str, ...], Setting("what it is called", min_items=1)] = ("pump",)
    depth_m: Annotated[float | None, Setting("how deep it stands", at=("place", "depth"))] = None


@dataclass(frozen=True)
class TodoGuard:
    """A section that a tool of somebody else brings, in plain Python."""

    allow_lists: tuple[str, ...] = ()
    max_items: Annotated[int, Setting("items in one list", minimum=1)] = 10


PUMP = FileFormat("pump.yaml", Pump, NOTHING)


def told_of(text: str, known: FileFormat[Any]) -> list[str]:
    problems = Problems(parse_yaml(text.encode(), "file"))
    check_schema(problems.document, known, problems)
    return problems.texts()


def test_a_field_is_in_the_schema_as_it_is_declared() -> None:
    assert PUMP.schema["properties"]["speed"] == {
        "type": "integer",
        "description": "turns in a second",
        "minimum": 1,
        "maximum": 50,
        "x-from-text": True,
    }
    assert PUMP.schema["properties"]["side"] == {
        "enum": ["left", "right"],
        "description": "where it stands",
        "default": "left",
    }
    assert PUMP.schema["required"] == ["speed"]


def test_a_field_is_built_as_it_is_declared() -> None:
    fields = {"speed": "7", "names": ["a", "b"], "place": {"depth": 1.5}}
    coerce_texts(fields, PUMP.schema)
    assert PUMP.value_of(fields) == Pump(7, names=("a", "b"), depth_m=1.5)
    assert PUMP.value_of({"speed": 7.0}) == Pump(7)


def test_what_is_wrong_is_told_in_the_words_of_the_declaration_and_all_at_once() -> None:
    assert told_of("password: [1]\nside: up\nnames: []\nplace: {deph: 1}\n", PUMP) == [
        "file:1: password: a list is not text",
        "file:1: speed: missing; write turns in a second",
        "file:2: side: `up` is not one of left, right",
        "file:3: names: needs at least 1 item",
        "file:4: place.deph: unknown field; did you mean `depth`?",
    ]


def test_a_secret_is_shown_neither_in_a_message_nor_in_a_repr() -> None:
    assert told_of("speed: 1\npassword: 12345\n", PUMP) == [
        "file:2: password: the value is not text; write it in quotes"
    ]
    assert "hunter2" not in repr(Pump(1, password="hunter2"))
    assert "speed=1" in repr(Pump(1, password="hunter2"))


def test_a_secret_with_a_default_that_is_made_anew_is_hidden_too() -> None:
    @section
    class Keys:
        by_name: Annotated[dict[str, str], Setting("keys", secret=True)] = field(default_factory=dict)

    assert repr(Keys({"a": "hunter2"})).endswith("Keys()")


def test_the_later_of_two_settings_counts() -> None:
    kind, setting, may_be_none = declared(
        Annotated[Annotated[int, Setting("a", minimum=1, maximum=2)] | None, Setting("b", maximum=3)]
    )
    assert (kind, vars(setting), may_be_none) == (int, {"about": "b", "minimum": 1, "maximum": 3}, True)


def test_a_setting_that_does_not_exist_is_a_mistake_of_the_program() -> None:
    with pytest.raises(AssertionError):
        Setting("x", minimun=1)  # type: ignore[call-arg]


BUILTIN = tuple(sections_for(()).declared)
SECTIONS = (*BUILTIN, ("todo.add", TodoGuard))


def test_a_tool_brings_its_section_under_tools() -> None:
    text = "tools:\n  todo.add: {max_items: 0}\n  todo.ad: {}\n  fs.read: {allow_path: [x]}\n"
    assert told_of(text, policy_format(SECTIONS)) == [
        "file:2: tools.todo.add.max_items: `0` is too small; it must be at least 1",
        "file:3: tools.todo.ad: unknown field; did you mean `todo.add`?",
        "file:4: tools.fs.read.allow_path: unknown field; did you mean `allow_paths`?",
    ]


def test_a_section_of_a_tool_that_is_not_here_is_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"tools\.todo\.add: `todo\.add` is not a tool here: the service `todo` is missing"
    ):
        load_policy({"tools": {"todo.add": {}}})


def test_a_format_is_made_once_for_the_same_sections() -> None:
    assert policy_format(SECTIONS) is policy_format(list(SECTIONS))
    assert policy_format(SECTIONS) is not policy_format(BUILTIN)


def sections_of(kind: Any) -> Iterator[Any]:
    """A section and all that stand below it."""
    if isinstance(kind, type) and is_dataclass(kind):
        yield kind
        for one in declared_fields(kind):
            yield from sections_of(one.kind)
            yield from sections_of(declared(one.setting.shape).kind)
    for inner in get_args(kind):
        yield from sections_of(declared(inner).kind)


ALL = list(
    dict.fromkeys(found for kind in (Config, Policy, Plan, *dict(BUILTIN).values()) for found in sections_of(kind))
)
INNER = {("Policy", "permissions"), ("Policy", "source"), ("Declare", "pattern")}
"""Fields that are not written in a file as they are."""


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_every_setting_says_what_it_is(kind: Any) -> None:
    silent = {(kind.__name__, one.name) for one in declared_fields(kind) if not one.setting.about}
    assert silent <= INNER | {(name, one) for name, one in silent if name in ("Guards", "Window")}


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_every_section_has_a_docstring_of_its_own(kind: Any) -> None:
    """One that `dataclass` writes by itself costs every start a millisecond."""
    assert not kind.__doc__.startswith(f"{kind.__name__}(")


@pytest.mark.parametrize("name", FORMATS)
def test_the_reference_says_what_is_declared(name: str) -> None:
    program = ROOT / "docs" / "reference" / "settings.py"
    page = subprocess.run([sys.executable, program, name], capture_output=True, text=True, check=True).stdout
    stored = (ROOT / "docs" / "reference" / f"{name}-file.md").read_text()
    assert page == stored, f"run: python docs/reference/settings.py {name} > docs/reference/{name}-file.md"
