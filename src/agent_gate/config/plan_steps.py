"""Checks that the steps of a plan fit the tools that are here: all of them, before the first is made."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import islice

from agent_gate.config.places import field_name, shown
from agent_gate.model.errors import GateError, PlanValidationError, Problem
from agent_gate.model.nearest import did_you_mean
from agent_gate.model.plan import Plan, PlanStep
from agent_gate.model.references import Reference, references_in
from agent_gate.model.schema import arguments_named, misfit
from agent_gate.model.secrecy import without_secrets
from agent_gate.ports.tools import RegisteredTool, Tools
from agent_gate.tools.catalogue import CONFIGURED

UNKNOWN_TOOL, ARGUMENTS = 3003, 3004
_PROBLEMS_MAX = 20
_TOOLS_NAMED_MAX = 50


def check_steps(plan: Plan, tools: Tools) -> None:
    """PlanValidationError with every step that could not be made as it is written."""
    for problems in (_unknown_tools(plan, tools), _wrong_references(plan), _wrong_arguments(plan, tools)):
        found = list(islice(problems, _PROBLEMS_MAX + 1))
        if found:
            raise _refusal(found)


def wrong_reference(reference: Reference, earlier: Collection[str]) -> str:
    """Say what is wrong with it, where these are the ids of the steps before; else empty."""
    if not reference.step_id:
        return "a reference is written ${steps.<id>.data…}"
    return "" if reference.step_id in earlier else f"{shown(reference.text)} does not name an earlier step by its id"


def _unknown_tools(plan: Plan, tools: Tools) -> Iterator[Problem]:
    names: list[str] = []
    for number, step in enumerate(plan.steps):
        if tools.find(step.tool) is not None:
            continue
        names = names or sorted(registered.declaration.name for registered in tools.all())
        is_of_a_service = tools.missing(step.tool).code == 2006
        others = f"tools here are {', '.join(names[:_TOOLS_NAMED_MAX])}"
        yield Problem(
            UNKNOWN_TOOL,
            f"steps[{number}].tool: {shown(step.tool)} is not a tool here",
            _of_a_service(step.tool) if is_of_a_service else did_you_mean(step.tool, names, others),
        )


def _of_a_service(tool: str) -> str:
    section = f"services.{CONFIGURED[tool]} of the configuration"
    return f"it comes with {section}; name that with `-c config.yaml`"


def _wrong_references(plan: Plan) -> Iterator[Problem]:
    """A plan that was made in a program has been through no file's checks."""
    earlier: set[str] = set()
    for number, step in enumerate(plan.steps):
        for reference in references_in(dict(step.args)):
            if wrong := wrong_reference(reference, earlier):
                place = field_name(("steps", number, "args", *reference.place))
                yield Problem(ARGUMENTS, f"{place}: {wrong}", "let an earlier step have that id")
        earlier.add(step.id)


def _wrong_arguments(plan: Plan, tools: Tools) -> Iterator[Problem]:
    for number, step in enumerate(plan.steps):
        registered = tools.find(step.tool)
        if registered is not None and (wrong := _wrong(step, registered)):
            yield Problem(
                ARGUMENTS,
                f"steps[{number}].args: `{step.tool}`: {wrong}",
                arguments_named(registered.declaration.input_schema),
            )


def _wrong(step: PlanStep, registered: RegisteredTool) -> str:
    """Say what can be known of arguments before any step is made: all but what others will reach."""
    declaration, args = registered.declaration, dict(step.args)
    references = list(references_in(args))
    schema, hides = declaration.input_schema, bool(declaration.secret)
    wrong = misfit(schema, args, [reference.place for reference in references], hide_values=hides)
    if wrong or references or None in args.values():
        return wrong
    try:
        args = dict(registered.normalise(args)) if registered.normalise else args
        if registered.bind is None:
            registered.sign(args)
    except GateError as error:
        return without_secrets(error.problem.detail, args, declaration)
    return ""


def _refusal(problems: Sequence[Problem]) -> PlanValidationError:
    """One by itself keeps its remedy apart; of several each is told with its own."""
    first = problems[0]
    if len(problems) == 1:
        return PlanValidationError(first.detail, code=first.code, suggestion=first.suggestion)
    told = [f"{problem.detail}; {problem.suggestion}" for problem in problems[:_PROBLEMS_MAX]]
    more = ["and more; these first"] if len(problems) > _PROBLEMS_MAX else []
    return PlanValidationError("; ".join([*told, *more]), code=first.code)
