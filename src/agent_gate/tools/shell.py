"""The tool that runs programs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from agent_gate.model.bounds import ARGV_WORDS_MAX, POLICY_TIMEOUT_S_MAX
from agent_gate.model.policy import CommandGuard, Policy
from agent_gate.model.tool import (
    ArgumentKind,
    Effect,
    GuardedBy,
    Json,
    PatternMistake,
    Risk,
    Section,
    ToolDeclaration,
)
from agent_gate.policy.guards import Guard, GuardContext
from agent_gate.policy.patterns import literals
from agent_gate.tools.schemas import TEXT, object_schema

_WORDS: Mapping[str, Json] = {"type": "array", "items": TEXT, "minItems": 1, "maxItems": ARGV_WORDS_MAX}


def _mistake_in(rest: str) -> PatternMistake | None:
    if not any("  " in run for run in literals(rest)):
        return None
    mended = re.sub(" {2,}", " ", rest)
    return PatternMistake("words of a command stand apart by one space", f"shell.run({mended}")


def _guard(section: CommandGuard, context: GuardContext) -> Guard:
    from agent_gate.policy.guards.commands import CommandRules  # noqa: PLC0415 -- 14 ms that few policies need

    return CommandRules(section, context.files("fs.read"))


def _warnings(policy: Policy) -> Iterator[str]:
    """Programs that are allowed by name, and of which no words are."""
    section = policy.guards.shell_run
    if section is None or not section.allow_executables:
        return
    from agent_gate.policy.guards import commands, programs  # noqa: PLC0415 -- as above

    for name in section.allow_executables:
        why = programs.why_refused(name.rpartition("/")[2])
        if why and not commands.is_named(name, section.unchecked_executables):
            asked = ", so that a person is asked" if section.otherwise == "ask" else ""
            yield (
                f"allow_executables of shell.run: `{name}` is refused all the same: {why}; name it in"
                f" unchecked_executables too, where only the sandbox holds it, or take it out{asked}"
            )


SHELL_RUN = ToolDeclaration(
    "shell.run",
    "Run one program, without a shell; give its words in argv, or as text in command",
    object_schema(
        argv={**_WORDS, "description": "the program's name and its arguments"},
        cmd={**_WORDS, "description": "another name of argv"},
        command={"type": "string", "minLength": 1, "description": "the words as text, split by POSIX quoting"},
        cwd={"type": "string", "minLength": 1, "description": "the directory to run it in"},
        env={"type": "object", "additionalProperties": TEXT, "description": "variables that the policy allows"},
        timeout={"type": "number", "exclusiveMinimum": 0, "description": "seconds; can only lower the policy's"},
        fail_on={
            "enum": ["nonzero", "never"],
            "description": "whether a return code other than 0 is a failure; not named: nonzero in a plan, else never",
        },
    ),
    dict.fromkeys(("cwd", "env", "timeout", "fail_on"), ArgumentKind.UNSIGNED),
    Effect.WRITE,
    Risk.MEDIUM,
    1,
    sensitive=frozenset({"argv", "cmd", "command", "cwd", "env"}),
    timeout_s=POLICY_TIMEOUT_S_MAX,
    guard=GuardedBy(_guard, Section(CommandGuard, "tools: {shell.run: {allow_executables: [git, ls]}}")),
    signed_when_bound=True,
    mistake_in=_mistake_in,
    warnings=_warnings,
)
"""Its own time limit is the policy's `timeout_seconds`, as for `http.get`."""
