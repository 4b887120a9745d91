"""Loads plan.yaml: an ordered list of calls, checked before the first of them runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from agent_gate.config.file_format import FileFormat
from agent_gate.config.places import shown
from agent_gate.config.plan_steps import wrong_reference
from agent_gate.config.problems import Problems, check_schema
from agent_gate.config.yaml_file import Document, EmptyFileError, PathLike, load_yaml
from agent_gate.model.codec import CodecError, normalise
from agent_gate.model.errors import ConfigError, PlanValidationError
from agent_gate.model.plan import Plan
from agent_gate.model.references import references_in
from agent_gate.model.setting import Setting
from agent_gate.model.tool import Json

MALFORMED, EMPTY, ARGUMENTS = 3001, 3002, 3004
PLAN_FORMAT = FileFormat("agent-gate plan.yaml", Plan, Setting("What to do: an ordered list of calls."))


def load_plan(source: PathLike | Mapping[str, Json] = "plan.yaml") -> Plan:
    """The plan in a file or a mapping; PlanValidationError names every problem at once."""
    try:
        document = _mapped(source) if isinstance(source, Mapping) else load_yaml(source)
    except EmptyFileError as error:
        _refuse(EMPTY, [error.problem.detail])
    except ConfigError as error:
        raise PlanValidationError(error.problem.detail, code=MALFORMED, suggestion=error.problem.suggestion) from None
    except CodecError as error:
        _refuse(MALFORMED, [f"plan: {error}"])
    return _plan_of(document)


def _mapped(mapping: Mapping[str, Json]) -> Document:
    return Document("plan", normalise(mapping)[0])


def _plan_of(document: Document) -> Plan:
    if isinstance(document.value, dict) and document.value.get("steps", True) in ([], None):
        _refuse(EMPTY, [f"{document.where(('steps',))}: a plan needs at least one step"])
    problems = Problems(document)
    check_schema(document, PLAN_FORMAT, problems)
    if not problems:
        _check_ids(document.value["steps"], problems)
    if problems:
        _refuse(MALFORMED, problems.texts())
    _check_references(document.value["steps"], problems)
    if problems:
        _refuse(ARGUMENTS, problems.texts())
    return PLAN_FORMAT.value_of(document.value)


def _refuse(code: int, texts: list[str]) -> NoReturn:
    raise PlanValidationError("; ".join(texts), code=code) from None


def _check_ids(steps: list[dict[str, Any]], problems: Problems) -> None:
    first: dict[str, int] = {}
    for number, step in enumerate(steps):
        name = step.get("id")
        if name in first:
            problems.add(("steps", number, "id"), f"{shown(name)} is already the id of steps[{first[name]}]")
        elif name is not None:
            first[name] = number


def _check_references(steps: list[dict[str, Any]], problems: Problems) -> None:
    earlier: set[str] = set()
    for number, step in enumerate(steps):
        for reference in references_in(step.get("args", {})):
            if wrong := wrong_reference(reference, earlier):
                problems.add(("steps", number, "args", *reference.place), wrong)
        if "id" in step:
            earlier.add(step["id"])
