"""A plan is checked whole before its first step: tools, arguments and references of every step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from agent_gate import load_plan, run_plan, tool
from agent_gate.doors.cli.program import run
from agent_gate.model.errors import PlanValidationError
from agent_gate.model.plan import Plan, PlanStep
from agent_gate.model.schema import misfit, validator
from agent_gate.model.tool import Json
from tests.gates import ALLOW_ALL, a_gate, entries, reader, sender

FIRST = PlanStep("mail.send", {"text": "first"}, id="first")


@tool("book", effect="write", cost=0, risk="low", secret=["pin"])
async def book(room: Literal["red", "blue", "green"], seats: int, pin: str = "", tags: list[str] | None = None) -> Json:
    return {"room": room}


def refused_with(*steps: PlanStep) -> Any:
    """Runs a plan that begins with a step that acts; what it is refused with, and that nothing was done."""

    async def refusal(directory: Path, **options: Any) -> PlanValidationError:
        acts: list[str] = []
        async with a_gate(directory, ALLOW_ALL, sender(acts), reader([]), book) as gate:
            before = len(entries(gate))
            with pytest.raises(PlanValidationError) as refused:
                await run_plan(gate, Plan((FIRST, *steps)), **options)
            assert (acts, len(entries(gate))) == ([], before)
        return refused.value

    return refusal


@pytest.mark.parametrize("options", [{}, {"simulate": True}, {"fail_fast": False}])
@pytest.mark.parametrize(
    ("step", "code", "detail"),
    [
        (PlanStep("mail.sent"), 3003, "steps[1].tool: `mail.sent` is not a tool here"),
        (
            PlanStep("mail.send", {"txt": "a"}),
            3004,
            "steps[1].args: `mail.send`: Additional properties are not allowed",
        ),
        (PlanStep("book", {"room": "red"}), 3004, 'steps[1].args: `book`: "seats" is a required property'),
        (
            PlanStep("book", {"room": "pink", "seats": 1}),
            3004,
            'steps[1].args: `book`: room: the value is not one of "red", "blue", "green"',
        ),
        (PlanStep("book", {"room": "red", "seats": "two"}), 3004, "steps[1].args: `book`: seats: the value is not"),
        (PlanStep("state.set", {"path": "//"}), 3004, 'steps[1].args: `state.set`: "value" is a required property'),
        (PlanStep("mail.send", {"text": "${steps.second.data}"}), 3004, "does not name an earlier step by its id"),
        (PlanStep("mail.send", {"text": "${steps.first}"}), 3004, "a reference is written ${steps.<id>.data…}"),
        (
            PlanStep("book", {"room": "pink", "seats": "${steps.first.data.n}"}),
            3004,
            "steps[1].args: `book`: room: the value is not one of",
        ),
        (PlanStep("book", {"seats": "${steps.first.data.n}"}), 3004, '"room" is a required property'),
        (
            PlanStep("book", {"room": "red", "seats": 1, "floor": "${steps.first.data.n}"}),
            3004,
            "steps[1].args: `book`: Additional properties",
        ),
    ],
)
async def test_what_a_later_step_has_wrong_is_found_before_the_first_is_made(
    tmp_path: Path, step: PlanStep, code: int, detail: str, options: dict[str, Any]
) -> None:
    refusal = await refused_with(step)(tmp_path, **options)
    assert (refusal.code, detail in refusal.problem.detail) == (code, True), refusal.problem


async def test_every_step_that_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    refusal = await refused_with(PlanStep("book", {"seats": 1}), FIRST, PlanStep("mail.send", {"x": 1}))(tmp_path)
    assert [part in refusal.problem.detail for part in ("steps[1].args", "steps[2]", "steps[3].args")] == [
        True, False, True,
    ]  # fmt: skip


async def test_a_secret_among_wrong_arguments_is_not_told(tmp_path: Path) -> None:
    refusal = await refused_with(PlanStep("book", {"room": "red", "seats": 1, "pin": ["hunter2"]}))(tmp_path)
    assert "hunter2" not in str(refusal)


async def test_what_other_steps_will_reach_is_left_to_them(tmp_path: Path) -> None:
    @tool("count", effect="read", cost=0, risk="low")
    async def count() -> Json:
        return {"n": 3, "color": "red", "tags": ["a"]}

    steps = (
        PlanStep("count", id="c"),
        PlanStep(
            "book", {"room": "${steps.c.data.color}", "seats": "${steps.c.data.n}", "tags": "${steps.c.data.tags}"}
        ),
        PlanStep("book", {"room": "red", "seats": 1, "tags": None}),
        PlanStep("book", {"room": "red", "seats": 1, "tags": ["${steps.c.data.color}!"]}),
    )
    async with a_gate(tmp_path, ALLOW_ALL, count, book) as gate:
        assert (await run_plan(gate, Plan(steps))).status == "completed"


def test_run_says_it_on_one_line_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("policy.yaml").write_text(yaml.safe_dump({"tools": {"fs.write": {"allow_paths": ["./**"]}}}))
    steps = [
        {"tool": "fs.write", "args": {"path": "a.txt", "content": "x"}},
        {"tool": "fs.write", "args": {"path": "b.txt", "contents": "x"}},
    ]
    Path("plan.yaml").write_text(yaml.safe_dump({"steps": steps}))
    for words in (["run", "plan.yaml"], ["run", "plan.yaml", "--simulate"], ["run", "plan.yaml", "--json"]):
        code = run(words)
        said = capsys.readouterr()
        told = json.loads(said.out)["error"]["detail"] if "--json" in words else said.err
        assert (code, "steps[1].args: `fs.write`" in told, Path("a.txt").exists()) == (3, True, False)


def test_references_by_index_are_filled_in_and_not_left_as_text() -> None:
    plan = load_plan({"steps": [{"tool": "x", "id": "a"}, {"tool": "y", "args": {"p": "${steps.a.data[0].k}"}}]})
    assert plan.steps[1].args == {"p": "${steps.a.data[0].k}"}
    for wrong in ("${steps.a.data[x]}", "${steps.a.data[0}", "${steps.a.data.}", "${steps.a.data[]}"):
        with pytest.raises(PlanValidationError, match="a reference is written"):
            load_plan({"steps": [{"tool": "x", "id": "a"}, {"tool": "y", "args": {"p": wrong}}]})


SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["a"],
    "properties": {
        "a": {"type": "integer", "minimum": 3},
        "b": {"type": "array", "items": {"enum": ["x", "y"]}, "maxItems": 2},
        "c": {"anyOf": [{"type": "string"}, {"type": "object", "properties": {"d": {"type": "boolean"}}}]},
    },
}
VALUES = st.sampled_from([0, 5, "x", "z", True, ["x"], ["z", "x"], ["x", "y", "x"], {"d": True}, {"d": 1}, {}])


@given(st.dictionaries(st.sampled_from("abcd"), VALUES, max_size=4), st.sets(st.sampled_from("abc")), st.data())
def test_nothing_is_told_that_a_value_to_come_could_mend(
    args: dict[str, Json], unknown: set[str], data: st.DataObject
) -> None:
    """Where some values for the unknown ones fit, arguments are not refused beforehand."""
    validate = validator(SCHEMA)
    filled = {name: data.draw(VALUES) if name in unknown else value for name, value in args.items()}
    if validate(filled) is None:
        assert (
            misfit(SCHEMA, {**args, **dict.fromkeys(unknown & args.keys(), "?")}, [(name,) for name in unknown]) == ""
        )


@given(st.dictionaries(st.sampled_from("abcd"), VALUES, max_size=4))
def test_without_values_to_come_all_that_is_wrong_is_told(args: dict[str, Json]) -> None:
    assert misfit(SCHEMA, args, []) == (validator(SCHEMA)(args) or "")
