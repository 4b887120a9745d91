"""What a policy says without effect: it loads, and whoever loads it is told."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from agent_gate.config.unmatched import Tools, Unmatched
from agent_gate.model.policy import CommandGuard, Policy
from agent_gate.model.visible import visible
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
    return (*unmatched, *refused)


def _unmatched_rules(policy: Policy, tools: Tools | None) -> Iterator[str]:
    unmatched = Unmatched(tools)
    for section, rules in (("rules", policy.rules), ("defaults", policy.defaults)):
        for number, rule in enumerate(rules):
            if why := unmatched.why(rule.pattern):
                yield visible(f"{section}[{number}] `{shown(rule.pattern)}` can never match: {why}")


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
