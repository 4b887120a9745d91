"""The rule language as data: every case under tests/cases is one sentence of the specification."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent_gate.model.errors import ToolError
from agent_gate.model.permission import PermissionRule, Permissions
from agent_gate.model.tool import ArgumentKind, ToolDeclaration
from agent_gate.model.verdict import Decision
from agent_gate.policy.expression import ExpressionError, compile_expression
from agent_gate.policy.rules import Match, RuleIndex
from agent_gate.policy.signature import signatures_for
from agent_gate.tools.by_name import build_signatures
from agent_gate.tools.catalogue import BUILTIN
from agent_gate.tools.engine import PermissionEngine
from tests.unit.policy import oracle

_CASES = Path(__file__).parents[2] / "cases"

ENV: Mapping[str, object] = {
    "inputs": {"path": "/work/a.txt", "data": {"temperature": 21}, "list": [1, 2, 3], "null": None},
    "state": None,
    "tool": "fs.read",
    "agent_id": "kitchen-bot",
    "roles": ("operator", "admin"),
    "project": "home",
    "mode": "assisted",
    "confirmed": False,
    "risk": "medium",
    "cost": 1,
    "hour": 9,
}
"""What the cases of expressions see; `weekday` is left out to show what happens then."""


def _cases(name: str) -> list[Any]:
    """Each case with what its group shares, named by file and reason."""
    cases = []
    files = sorted(_CASES.glob(f"{name}.yaml"))
    assert files, name
    for file in files:
        for entry in yaml.safe_load(file.read_text()):
            group = dict(entry)
            for case in group.pop("cases", [{}]):
                whole = {**group, **case}
                cases.append(pytest.param(whole, id=f"{file.stem}: {whole['why']}"))
    return cases


def _rules(listed: Sequence[str | dict[str, str]]) -> list[PermissionRule]:
    rules = []
    for each in listed:
        if isinstance(each, str):
            action, _, pattern = each.partition(" ")
            rules.append(PermissionRule(pattern, action))
        else:
            rules.append(PermissionRule(each["pattern"], each["action"], when=each["when"]))
    return rules


def _strongest(matches: Sequence[Match]) -> Match:
    """Deny if any signature is denied, ask if any asks, allow only if all are allowed."""
    order = (Decision.ALLOW, None, Decision.ASK, Decision.DENY)
    return max(matches, key=lambda match: order.index(match.decision))


def _place(match: Match, rules: Sequence[PermissionRule], defaults: Sequence[PermissionRule]) -> str:
    for name, listed in (("rule", rules), ("default", defaults)):
        for number, rule in enumerate(listed):
            if match.origin == name and match.rule is rule:
                return f"{name}s[{number}]"
    return ""


@pytest.mark.parametrize("case", _cases("rules/*"))
def test_rules_answer_as_the_case_says(case: dict[str, Any]) -> None:
    rules, defaults = _rules(case.get("rules", [])), _rules(case.get("defaults", []))
    signatures = build_signatures(case["tool"], case["args"]) if "tool" in case else (case["signature"],)
    env: Mapping[str, Any] | None = case.get("env")
    index = RuleIndex(rules, defaults)

    match = _strongest([index.lookup(signature, None if env is None else lambda: env) for signature in signatures])

    decision = match.decision.value if match.decision else "nothing"
    assert (decision, _place(match, rules, defaults)) == (case["expect"], case.get("by", ""))
    assert case["error"] in match.error if "error" in case else match.error == ""
    if len(signatures) == 1:
        expected = oracle.Answer(case["expect"], case.get("by", ""), "error" in case)
        assert oracle.answer(rules, defaults, signatures[0], env) == expected
    if "tool" in case:
        expected_of_engine = Decision.ASK if case["expect"] == "nothing" else Decision(case["expect"])
        assert PermissionEngine(Permissions(defaults, rules)).evaluate(case["tool"], case["args"]) is expected_of_engine


@pytest.mark.parametrize("case", _cases("signatures/by_name"))
def test_a_name_and_arguments_give_these_signatures(case: dict[str, Any]) -> None:
    if "refused" not in case:
        assert list(build_signatures(case["tool"], case["args"])) == case["signatures"]
        return
    with pytest.raises(ValueError, match=r"^.+$") as refused:
        build_signatures(case["tool"], case["args"])
    assert case["refused"] in str(refused.value)


def _declaration(fields: str | dict[str, Any]) -> ToolDeclaration:
    if isinstance(fields, str):
        return BUILTIN.get(fields) or ToolDeclaration(fields)
    return ToolDeclaration(
        fields["name"],
        input_schema={"type": "object", "properties": fields["properties"]} if "properties" in fields else {},
        arguments={name: ArgumentKind(kind) for name, kind in fields.get("kinds", {}).items()},
        secret=frozenset(fields.get("secret", ())),
        registered=fields.get("registered", True),
    )


@pytest.mark.parametrize("case", [*_cases("signatures/declared"), *_cases("signatures/home_assistant")])
def test_a_declared_tool_and_arguments_give_these_signatures(case: dict[str, Any]) -> None:
    declaration = _declaration(case["tool"])
    args = {name: "\ud800" if value == {"$surrogate": True} else value for name, value in case["args"].items()}
    if "code" not in case:
        assert list(signatures_for(declaration, args)) == case["signatures"]
        return
    with pytest.raises(ToolError) as refused:
        signatures_for(declaration, args)
    assert refused.value.code == case["code"]
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("case", _cases("expressions/values"))
def test_an_expression_comes_to_this_value(case: dict[str, Any]) -> None:
    value = compile_expression(case["expression"]).evaluate(ENV)
    assert value == case["value"]
    assert type(value) is type(case["value"])


@pytest.mark.parametrize("case", _cases("expressions/refused_at_load"))
def test_an_expression_is_refused_at_load(case: dict[str, Any]) -> None:
    with pytest.raises(ExpressionError, match=r"^.+$") as refused:
        compile_expression(case["expression"])
    assert case["refused"] in str(refused.value)


@pytest.mark.parametrize("case", _cases("expressions/refused_at_run"))
def test_an_expression_is_refused_at_run(case: dict[str, Any]) -> None:
    expression = compile_expression(case["expression"])
    with pytest.raises(ExpressionError, match=r"^.+$") as refused:
        expression.evaluate(ENV)
    assert case["refused"] in str(refused.value)


def test_every_case_has_a_reason_of_its_own() -> None:
    folders = [folder.name for folder in _CASES.iterdir() if folder.name in ("rules", "signatures", "expressions")]
    reasons = [(param.values[0]["why"], str(param.values[0])) for folder in folders for param in _cases(f"{folder}/*")]
    assert len(reasons) >= 450
    assert len(set(reasons)) == len(reasons)
