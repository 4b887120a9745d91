"""Warnings about what a policy says without effect: it loads, and whoever loads it is told."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from agent_gate.config.unmatched import Tools, Unmatched
from agent_gate.model.permission import PermissionRule
from agent_gate.model.policy import CommandGuard, Policy
from agent_gate.model.visible import visible
from agent_gate.policy.patterns import may_match
from agent_gate.policy.rules import RuleIndex
from agent_gate.policy.signature import shown

UNMATCHED_MAX = 20
"""Rules that are told one by one; whoever has more of them has another mistake."""


def warnings_of(policy: Policy, tools: Tools | None = None) -> tuple[str, ...]:
    """One line each. `tools` are those that are here beside the built-in ones."""
    section = policy.guards.shell_run
    refused = _refused_programs(section) if section is not None and section.allow_executables else ()
    unmatched = list(islice(_unmatched_rules(policy, tools), UNMATCHED_MAX + 1))
    if len(unmatched) > UNMATCHED_MAX:
        unmatched[-1] = "further rules can never match; mend these first"
    return (*unmatched, *refused, *_read_by_templates(policy))


def _unmatched_rules(policy: Policy, tools: Tools | None) -> Iterator[str]:
    unmatched = Unmatched(tools)
    for place, rule in _placed(policy):
        if why := unmatched.why(rule.pattern):
            yield visible(f"{place} `{shown(rule.pattern)}` can never match: {why}")


def _placed(policy: Policy) -> Iterator[tuple[str, PermissionRule]]:
    for section, rules in (("rules", policy.rules), ("defaults", policy.defaults)):
        for number, rule in enumerate(rules):
            yield f"{section}[{number}]", rule


def _read_by_templates(policy: Policy) -> Iterator[str]:
    """A denied entity that a template tells all the same; the first rule that denies one stands for all."""
    denied = next((placed for placed in _placed(policy) if _denies_reading(placed[1])), None)
    if denied is None:
        return
    allowed = _allowing_templates(RuleIndex(policy.rules, policy.defaults).met_by(_TEMPLATE))
    if allowed is not None:
        yield (
            f"{denied[0]} `{shown(denied[1].pattern)}` denies reading, but `{shown(allowed.pattern)}` allows"
            f" `{_TEMPLATE}`, and a template reads whatever there is: deny it, or ask about it"
        )


_TEMPLATE = "ha_render_template"
_READS = ("ha_get_state(", "ha_get_entity_state(", "ha_get_history(", "ha_get_statistics(")


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


def _refused_programs(section: CommandGuard) -> Iterator[str]:
    """Programs that are allowed by name, and of which no words are."""
    from agent_gate.policy.guards.commands import is_named  # noqa: PLC0415  # only where a policy lists programs
    from agent_gate.policy.guards.programs import why_refused  # noqa: PLC0415

    for name in section.allow_executables:
        why = why_refused(name.rpartition("/")[2])
        if why and not is_named(name, section.unchecked_executables):
            asked = ", so that a person is asked" if section.otherwise == "ask" else ""
            yield (
                f"allow_executables of shell.run: `{name}` is refused all the same: {why}; name it in"
                f" unchecked_executables too, where only the sandbox holds it, or take it out{asked}"
            )
