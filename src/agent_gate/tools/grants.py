"""Calls that no grant covers: a person is asked each time, because nobody can know what they would reach."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from agent_gate.model.approval import Question
from agent_gate.model.tool import ToolDeclaration
from agent_gate.tools.catalogue import BUILTIN

Declared = Callable[[str], ToolDeclaration | None]
"""Finds the declaration of a tool that is here; those that come with the gate need not be."""


def why_ungranted(signatures: Iterable[str], declared: Declared = BUILTIN.get) -> str:
    """Say why a call cannot be agreed to beforehand; empty where it can.

    Each signature is judged by the tool that it names: an undoing has those of the calls that it makes.
    """
    for signature in signatures:
        name = signature.partition("(")[0]
        tool = declared(name) or BUILTIN.get(name)
        if tool is not None and tool.reach is not None and (why := tool.reach.why_ungranted(signature)):
            return why
    return ""


def why_once_only(question: Question, declared: Declared = BUILTIN.get) -> str:
    """Say why a yes to a question is a yes to this one call alone; empty where it may be given for later ones too."""
    return question.once_only or why_ungranted(question.signatures, declared)
