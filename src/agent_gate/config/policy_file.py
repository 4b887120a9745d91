"""Loads policy.yaml, or a bare permissions.yaml: nothing doubtful in it becomes a rule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from agent_gate.config.file_format import FileFormat
from agent_gate.config.json_schema import SectionsByName
from agent_gate.config.policy_checks import check_meaning
from agent_gate.config.problems import check_schema, with_environment
from agent_gate.config.yaml_file import Document, PathLike, load_yaml
from agent_gate.model.codec import CodecError, normalise
from agent_gate.model.errors import ConfigError
from agent_gate.model.limits import POLICY_BYTES_MAX, YAML_DEPTH_MAX
from agent_gate.model.permission import Permissions
from agent_gate.model.policy import GUARD_SECTIONS, Policy
from agent_gate.model.setting import Setting
from agent_gate.model.tool import Json

_ABOUT = Setting("what is allowed, and within which limits", not_empty=True, leaves_out=("source",))


def load_permissions(path: PathLike = "permissions.yaml") -> Permissions:
    """The rules in a file; its other fields, if it has any, are validated all the same."""
    return load_policy(path).permissions


def load_policy(
    source: PathLike | Mapping[str, Json] = "policy.yaml", *, sections: SectionsByName = GUARD_SECTIONS
) -> Policy:
    """The policy in a file or a mapping; ConfigError holds every problem at once.

    `sections` are those that may stand under `tools:`: the name of each tool with the dataclass that declares them.
    """
    if isinstance(source, Mapping):
        return policy_from(source, sections=sections)
    return _policy_of(load_yaml(source, POLICY_BYTES_MAX), sections)


def policy_from(mapping: Mapping[str, Json], *, sections: SectionsByName = GUARD_SECTIONS) -> Policy:
    """The policy that a mapping of the same fields says."""
    try:
        value, _ = normalise(mapping, bytes_max=POLICY_BYTES_MAX, depth_max=YAML_DEPTH_MAX)
    except CodecError as error:
        raise ConfigError(f"policy: {error}") from None
    return _policy_of(Document("policy", value), sections)


def policy_format(sections: SectionsByName = GUARD_SECTIONS) -> FileFormat[Policy]:
    """The format of policies where these tools are; made once, for `check` may meet a policy with every line."""
    return _policy_format(tuple(sections.items()))


@lru_cache(maxsize=16)
def _policy_format(sections: tuple[tuple[str, Any], ...]) -> FileFormat[Policy]:
    return FileFormat("agent-gate policy.yaml", Policy, _ABOUT, dict(sections))


def _policy_of(document: Document, sections: SectionsByName) -> Policy:
    known = policy_format(sections)
    document, problems = with_environment(document, known)
    if check_schema(document, known, problems):
        check_meaning(document.value, problems)
    problems.raise_any()
    return replace(known.value_of(document.value), source=document.value)
