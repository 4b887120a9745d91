"""The pages on the chain: what they show runs, and every policy and field of metadata is on them."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent_gate.chain.builtin import builtin_policies
from agent_gate.chain.context import Phase
from agent_gate.chain.prepared import PolicyRef, in_phase, prepare
from agent_gate.chain.registry import Registry
from agent_gate.ports.judging import HttpRequest, RequestAllowed
from tests.gates import HandClock

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs/guides/chain.md").read_text()
REFERENCE = (ROOT / "docs/reference/policies.md").read_text()
SECTIONS: dict[str, str] = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", REFERENCE, re.M | re.S))


class Allowing:
    async def judge_request(self, _: HttpRequest) -> RequestAllowed:
        return RequestAllowed()

    async def health_check(self) -> None:
        """It always can."""


def policies() -> dict[str, Any]:
    return {policy.name: policy for policy in builtin_policies(HandClock(), Allowing())}


def examples() -> Iterator[tuple[str, dict[str, Any]]]:
    for name, text in SECTIONS.items():
        for block in re.findall(r"^```yaml\n(.*?)^```$", text, re.M | re.S):
            yield name, yaml.safe_load(re.sub(r"\$\{\w+\}", "from-the-environment", block))


def test_every_program_of_the_guide_runs(tmp_path: Path) -> None:
    programs = re.findall(r"^```python\n(.*?)^```$", GUIDE, re.M | re.S)
    assert programs
    for program in programs:
        file = tmp_path / "program.py"
        file.write_text(program)
        done = subprocess.run([sys.executable, file], capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (0, "")


def test_every_built_in_policy_has_its_section_and_example() -> None:
    assert set(SECTIONS) == set(policies())
    assert {name for name, _ in examples()} == set(SECTIONS)


@pytest.mark.parametrize("name", list(policies()))
def test_every_field_of_metadata_is_described(name: str) -> None:
    fields = policies()[name].metadata_schema["properties"]
    table = [line for line in SECTIONS[name].splitlines() if line.startswith("| `")]
    described = {word for line in table for word in re.findall(r"`(\w+)`", line.split("|")[1])}
    assert described == set(fields)


@pytest.mark.parametrize(("name", "example"), list(examples()), ids=[name for name, _ in examples()])
def test_every_example_can_be_used(name: str, example: dict[str, Any]) -> None:
    registry = Registry()
    for policy in policies().values():
        registry.register(policy)
    assert example["name"] == name
    refs = [PolicyRef(example["name"], example["metadata"])]
    phases = [phase for phase in Phase if in_phase(refs, phase, registry)]
    assert phases
    for phase in phases:
        assert prepare(refs, phase, registry).steps[0].policy is registry.policies()[list(policies()).index(name)]


def test_every_shape_of_a_credential_is_named() -> None:
    shapes = policies()["secret_scrub"].metadata_schema["properties"]["patterns"]["items"]["enum"]
    assert [shape for shape in shapes if f"`{shape}`" not in SECTIONS["secret_scrub"]] == []
