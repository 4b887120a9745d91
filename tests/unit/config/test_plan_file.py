"""plan.yaml becomes a plan, or a PlanValidationError with code, line and field."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_gate.config import load_plan
from agent_gate.model.errors import PlanValidationError
from agent_gate.model.plan import Plan, PlanStep
from tests.unit.config.mistakes import mistakes


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path("plan.yaml")


def refusal_of(source: Any) -> tuple[int, str]:
    with pytest.raises(PlanValidationError) as refused:
        load_plan(source)
    return refused.value.code, refused.value.problem.detail


def test_every_field_of_a_plan_arrives(file: Path) -> None:
    file.write_text(
        'version: "1.0"\nname: n\ndescription: d\nsteps:\n'
        "  - {tool: fs.read, args: {path: a}, id: one, name: first, confirmed: true}\n"
        '  - {tool: fs.write, args: {path: b, content: "${steps.one.data.content} ${HOME}"}}\n'
        "  - {tool: ha_get_states}\n"
    )
    assert load_plan(file) == Plan(
        (
            PlanStep("fs.read", {"path": "a"}, "one", "first", True),
            PlanStep("fs.write", {"path": "b", "content": "${steps.one.data.content} ${HOME}"}),
            PlanStep("ha_get_states"),
        ),
        "n",
        "d",
        "1.0",
    )


def test_a_mapping_is_a_plan_and_is_copied() -> None:
    args = {"path": "a"}
    plan = load_plan({"steps": [{"tool": "fs.read", "args": args}]})
    args["path"] = "b"
    assert plan == Plan((PlanStep("fs.read", {"path": "a"}),))


def test_a_plan_can_be_written_out_and_loaded_again() -> None:
    plan = Plan(
        (PlanStep("t", {"a": [1, None]}, "x", "y", True), PlanStep("u", {"b": "${steps.x.data[0].k}"})), "n", "d"
    )
    assert load_plan(plan.to_json()) == plan


@pytest.mark.parametrize(("text", "answers"), mistakes("plan"))
def test_a_mistake_is_told_with_code_line_and_field(file: Path, text: str, answers: tuple[str, ...]) -> None:
    file.write_text(text)
    code, detail = refusal_of(file)
    assert (f"{code} {detail.replace('plan.yaml:', '')}",) == answers


@pytest.mark.parametrize(
    "reference",
    ["${steps.}", "${steps.a}", "${steps.a.result}", "${steps.a.data", "${steps.1.data}", "${steps.a.data{x}}"],
)
def test_a_reference_that_cannot_be_read_is_refused(reference: str) -> None:
    plan = {"steps": [{"tool": "x", "id": "a"}, {"tool": "y", "args": {"p": reference}}]}
    assert refusal_of(plan) == (3004, "plan: steps[1].args.p: a reference is written ${steps.<id>.data…}")


@pytest.mark.parametrize("text", ["${HOME}", "$steps", "${step.a.data}", "{steps.a.data}", "${STEPS.a}"])
def test_other_text_is_left_to_the_tool(text: str) -> None:
    assert load_plan({"steps": [{"tool": "x", "args": {"p": text}}]}).steps[0].args == {"p": text}


def test_the_environment_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATE_SECRET", "hunter2")
    assert load_plan({"steps": [{"tool": "x", "args": {"p": "${GATE_SECRET}"}}]}).steps[0].args == {
        "p": "${GATE_SECRET}"
    }


@pytest.mark.parametrize(
    "plan", [{}, {"steps": [{"tool": "x", "args": {"n": float("nan")}}]}, {"steps": {1: 2}}, {"steps": "x"}]
)
def test_a_mapping_that_is_no_plan_is_refused(plan: Any) -> None:
    assert refusal_of(plan)[0] == 3001


def test_more_steps_than_the_bound_are_refused() -> None:
    assert refusal_of({"steps": [{"tool": "x"}] * 10_001}) == (3001, "plan: steps: has more than 10000 items")


def test_a_missing_plan_file_is_named(file: Path) -> None:
    with pytest.raises(PlanValidationError, match=r"plan_format: plan\.yaml: no such file; check the path"):
        load_plan()
