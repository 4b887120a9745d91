"""Loads policy.yaml, or a bare permissions.yaml: nothing doubtful in it becomes a rule."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from agent_gate.config.file_format import FileFormat
from agent_gate.config.places import mapping_at
from agent_gate.config.policy_checks import check_meaning
from agent_gate.config.problems import check_schema, with_environment
from agent_gate.config.yaml_file import Document, PathLike, load_yaml
from agent_gate.model.bounds import POLICY_BYTES_MAX, YAML_DEPTH_MAX
from agent_gate.model.codec import CodecError, normalise
from agent_gate.model.errors import ConfigError
from agent_gate.model.permission import Permissions
from agent_gate.model.policy import Policy
from agent_gate.model.setting import Setting
from agent_gate.model.tool import Json, ToolDeclaration

if TYPE_CHECKING:
    from agent_gate.config.tool_sections import ToolSections

_ABOUT = Setting("What is allowed, and within which limits.", not_empty=True, leaves_out=("source",))


def load_permissions(path: PathLike = "permissions.yaml") -> Permissions:
    """The rules in a file; its other fields, if it has any, are validated all the same."""
    return load_policy(path).permissions


def load_policy(
    source: PathLike | Mapping[str, Json] = "policy.yaml", *, tools: Mapping[str, ToolDeclaration] | None = None
) -> Policy:
    """The policy in a file or a mapping; ConfigError holds every problem at once.

    `tools` are those that are loaded here, and whose sections may stand under `tools:`; where they are not given, the
    built-in ones, and those of installed packages.
    """
    if isinstance(source, Mapping):
        return policy_from(source, tools=tools)
    return _policy_of(load_yaml(source, POLICY_BYTES_MAX), tools)


def policy_from(mapping: Mapping[str, Json], *, tools: Mapping[str, ToolDeclaration] | None = None) -> Policy:
    """The policy that a mapping of the same fields says."""
    try:
        value, _ = normalise(mapping, bytes_max=POLICY_BYTES_MAX, depth_max=YAML_DEPTH_MAX)
    except CodecError as error:
        raise ConfigError(f"policy: {error}") from None
    return _policy_of(Document("policy", value), tools)


def policy_format(sections: Iterable[tuple[str, Any]]) -> FileFormat[Policy]:
    """The format of policies with these sections under `tools:`, each by what declares it.

    Made once, for `check` may meet a policy with every line.
    """
    return _policy_format(tuple(sections))


@lru_cache(maxsize=16)
def _policy_format(sections: tuple[tuple[str, Any], ...]) -> FileFormat[Policy]:
    return FileFormat("agent-gate policy.yaml", Policy, _ABOUT, dict(sections))


def _policy_of(document: Document, tools: Mapping[str, ToolDeclaration] | None) -> Policy:
    named = mapping_at(document.value, "tools")
    sections = _sections_for(named, tools) if named else None
    known = policy_format(sections.declared if sections is not None else ())
    document, problems = with_environment(document, known)
    if sections is not None:
        sections.check_names(named, problems)
    if check_schema(document, known, problems):
        check_meaning(document.value, problems)
    problems.raise_any()
    policy = replace(known.value_of(document.value), source=document.value)
    if sections is not None:
        sections.check_guards(policy, problems)
        problems.raise_any()
    return policy


def _sections_for(named: Iterable[str], tools: Mapping[str, ToolDeclaration] | None) -> ToolSections:
    from agent_gate.config.tool_sections import sections_for  # noqa: PLC0415 -- 20 ms, of which `check` has none to spare

    return sections_for(named, tools)
