"""Mistakes in rules about a home, for whoever loads a policy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from agent_gate.model.permission import PermissionRule
from agent_gate.model.policy import Policy
from agent_gate.model.tool import PatternMistake
from agent_gate.policy.patterns import literals, may_match
from agent_gate.policy.rules import RuleIndex
from agent_gate.policy.signature import shown

_TEMPLATE = "ha_render_template"
_READS = ("ha_get_state(", "ha_get_entity_state(", "ha_get_history(", "ha_get_statistics(")


def lower_case_ids(tool: str) -> Callable[[str], PatternMistake | None]:
    """For a tool whose signed arguments are ids of a home, and nothing else."""

    def mistake_in(rest: str) -> PatternMistake | None:
        if not rest:
            return PatternMistake("a call of it has arguments in its signature", f"{tool}(*)")
        if not any(run != run.lower() for run in literals(rest)):
            return None
        return PatternMistake("ids of a home are written in lower case", f"{tool}({rest.lower()}")

    return mistake_in


def bare_name(tool: str) -> Callable[[str], PatternMistake | None]:
    """For a tool whose only signature is its name."""
    mistake = PatternMistake("a call of it has no arguments in its signature", tool)
    return lambda rest: mistake if rest else None


def scene_by_service(rest: str) -> PatternMistake:
    """No signature has the name of the tool that activates scenes."""
    why = "a scene is activated by `ha_call_service(scene.turn_on, …)`"
    return PatternMistake(why, f"ha_call_service(scene.turn_on, {rest or '*)'}")


def read_by_templates(policy: Policy) -> Iterator[str]:
    """A denied entity that a template tells all the same; the first rule that denies one stands for all."""
    denied = next((placed for placed in policy.placed_rules() if _denies_reading(placed[1])), None)
    if denied is None:
        return
    allowed = _allowing_templates(RuleIndex(policy.rules, policy.defaults).met_by(_TEMPLATE))
    if allowed is not None:
        yield (
            f"{denied[0]} `{shown(denied[1].pattern)}` denies reading, but `{shown(allowed.pattern)}` allows"
            f" `{_TEMPLATE}`, and a template reads whatever there is: deny it, or ask about it"
        )


def _denies_reading(rule: PermissionRule) -> bool:
    is_of_home = rule.action == "deny" and rule.pattern.startswith("ha_")
    return is_of_home and any(may_match(rule.pattern, beginning) for beginning in _READS)


def _allowing_templates(met: Sequence[PermissionRule]) -> PermissionRule | None:
    """The rule by which a template may pass, if only under a condition; `met` stands in the order of speaking."""
    for rule in met:
        if rule.action == "allow":
            return rule
        if not rule.when:
            return None
    return None
