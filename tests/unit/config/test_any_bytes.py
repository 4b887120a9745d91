"""Whatever is in a file, loading it gives a value or a refusal of ours, never another exception."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from agent_gate.config import load_config, load_plan, load_policy
from agent_gate.config.__main__ import FORMATS
from agent_gate.model.errors import ConfigError, GateError, PlanValidationError

LOADERS: dict[str, Callable[[Any], object]] = {"config": load_config, "policy": load_policy, "plan": load_plan}
WORDS = st.sampled_from(
    [
        "",
        "x",
        "no",
        "08:00",
        "24:00",
        "admin",
        "allow",
        "high",
        "*",
        "${PATH}",
        "${NOSUCH}",
        "${steps.a.data}",
        "\x00",
        "\ue000",
        "😀",
        "1.0",
    ]
)
SCALARS = WORDS | st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)


def like(name: str) -> st.SearchStrategy[Any]:
    """Values near a schema: its own field names around any values, so that the checks behind it are reached."""
    keys: set[str] = set()

    def collect(part: Any) -> None:
        if isinstance(part, dict):
            keys.update(part.get("properties", {}))
            for item in part.values():
                collect(item)
        elif isinstance(part, list):
            for item in part:
                collect(item)

    collect(FORMATS[name].schema)
    names = st.sampled_from(sorted(keys)) | WORDS
    return st.recursive(
        SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4), max_leaves=15
    )


def load(name: str, data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"{name}.yaml"
        file.write_bytes(data)
        try:
            LOADERS[name](file)
        except (ConfigError, PlanValidationError) as refused:
            assert "\n" not in str(refused)  # noqa: PT017  # either answer is right


@pytest.mark.parametrize("name", LOADERS)
@given(data=st.binary(max_size=100) | st.text(max_size=100).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_any_bytes(name: str, data: bytes) -> None:
    load(name, data)


@pytest.mark.parametrize("name", LOADERS)
@given(data=st.data())
def test_any_values_under_known_names(name: str, data: st.DataObject) -> None:
    value = data.draw(like(name))
    load(name, yaml.safe_dump(value, allow_unicode=True).encode("utf-8", "surrogatepass"))


@pytest.mark.parametrize("name", ["policy", "plan"])
@given(data=st.data())
def test_any_mapping(name: str, data: st.DataObject) -> None:
    value = data.draw(st.dictionaries(st.text(max_size=3) | st.integers() | WORDS, like(name), max_size=5))
    try:
        LOADERS[name](value)
    except GateError as refused:
        assert "\n" not in str(refused)  # noqa: PT017  # either answer is right
