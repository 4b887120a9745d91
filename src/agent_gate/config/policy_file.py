"""Loads policy.yaml, or a bare permissions.yaml: nothing doubtful in it becomes a rule."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from agent_gate.config.file_format import FileFormat
from agent_gate.config.places import mapping_at
from agent_gate.config.policy_checks import check_meaning
from agent_gate.config.problems import check_schema, with_environment
from agent_gate.config.tool_sections import check_guards, check_sections
from agent_gate.config.yaml_file import Document, PathLike, load_yaml
from agent_gate.model.codec import CodecError, normalise
from agent_gate.model.errors import ConfigError
from agent_gate.model.limits import POLICY_BYTES_MAX, YAML_DEPTH_MAX
from agent_gate.model.permission import Permissions
from agent_gate.model.policy import Policy
from agent_gate.model.setting import Setting
from agent_gate.model.tool import Json, ToolDeclaration
from agent_gate.tools.catalogue import BUILTIN

_ABOUT = Setting("what is allowed, and within which limits", not_empty=True, leaves_out=("source",))


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


def policy_format(tools: Mapping[str, ToolDeclaration] = BUILTIN) -> FileFormat[Policy]:
    """The format of policies where these tools are; made once, for `check` may meet a policy with every line."""
    sections = ((tool.name, tool.section) for tool in tools.values())
    return _policy_format(tuple((name, section.declared_by) for name, section in sections if section is not None))


@lru_cache(maxsize=16)
def _policy_format(sections: tuple[tuple[str, Any], ...]) -> FileFormat[Policy]:
    return FileFormat("agent-gate policy.yaml", Policy, _ABOUT, dict(sections))


def _policy_of(document: Document, tools: Mapping[str, ToolDeclaration] | None) -> Policy:
    named = mapping_at(document.value, "tools")
    loaded = _with_installed(named) if tools is None else tools
    known = policy_format(loaded)
    document, problems = with_environment(document, known)
    check_sections(named, loaded, problems)
    if check_schema(document, known, problems):
        check_meaning(document.value, problems)
    problems.raise_any()
    policy = replace(known.value_of(document.value), source=document.value)
    check_guards(policy, loaded, problems)
    problems.raise_any()
    return policy


def _with_installed(named: Iterable[str]) -> Mapping[str, ToolDeclaration]:
    """The built-in tools, and where a section is of none of them, those of installed packages."""
    if all(name in BUILTIN for name in named):
        return BUILTIN
    from agent_gate.toolkit.services import installed_tools  # noqa: PLC0415 -- 10 ms that most policies need not pay

    return {**installed_tools(), **BUILTIN}
