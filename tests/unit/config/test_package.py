"""The package offers its names lazily, and the schemas of its files are sound."""

from __future__ import annotations

import json
import subprocess
import sys

import jsonschema_rs
import pytest

import agent_gate.config
from agent_gate.config.__main__ import FORMATS, main


@pytest.mark.parametrize("name", agent_gate.config.__all__)
def test_every_promised_name_is_there(name: str) -> None:
    assert getattr(agent_gate.config, name).__name__ == name


def test_other_names_are_not() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nosuch'"):
        agent_gate.config.nosuch  # noqa: B018  # the access is the test


def test_a_policy_is_loaded_without_what_only_a_server_needs() -> None:
    heavy = {"asyncio", "msgspec", "pydantic", "sqlalchemy", "yaml", "zoneinfo", "agent_gate.config.settings"}
    program = (
        "import sys; from agent_gate.config import load_policy; load_policy({'version': 1}); "
        f"print(sorted({heavy} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("name", FORMATS)
def test_the_schema_of_a_file_is_one_and_refuses_unknown_fields_everywhere(name: str) -> None:
    schema = FORMATS[name].schema
    assert jsonschema_rs.meta.is_valid(schema)
    assert open_objects(schema, name) == OPEN[name]


def test_the_schema_can_be_printed_for_an_editor(capsys: pytest.CaptureFixture[str]) -> None:
    main(["plan"])
    assert json.loads(capsys.readouterr().out) == FORMATS["plan"].schema
    with pytest.raises(SystemExit, match=r"usage: .* config\|policy\|plan"):
        main(["nosuch"])


OPEN = {
    "config": [
        "config.chains.*[].metadata",
        "config.policies.*",
        "config.projects.*.initial_state",
        "config.projects.*.state_schema",
    ],
    "plan": ["plan.steps[].args"],
    "policy": [],
}
"""Where any field is meant."""


def open_objects(part: object, name: str) -> list[str]:
    """Objects of a schema that let any field pass."""
    if not isinstance(part, dict):
        return []
    found = [name] if part.get("type") == "object" and "additionalProperties" not in part else []
    below = [(f"{name}.{key}", item) for key, item in part.get("properties", {}).items()]
    below += [(f"{name}.*", item) for item in part.get("patternProperties", {}).values()]
    below += [(f"{name}.*", part.get("additionalProperties")), (f"{name}[]", part.get("items"))]
    below += [(f"{name}#{key}", item) for key, item in part.get("$defs", {}).items()]
    return sorted(found + [place for path, item in below for place in open_objects(item, path)])
