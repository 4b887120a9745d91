"""The policies that a chain can name: ours and those of other packages, each registered once."""

from __future__ import annotations

import inspect
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any

import jsonschema_rs

from agent_gate.chain.policy import Policy, PolicyInfo
from agent_gate.model.bounds import IDENTIFIER_CHARS_MAX
from agent_gate.model.errors import ConfigError, GateError
from agent_gate.model.schema import validator
from agent_gate.model.tool import Json

GROUP = "agent_gate.policies"

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*").fullmatch


@dataclass(frozen=True, slots=True)
class Registered:
    policy: Policy[Any]
    complaint: Callable[[Json], str | None]
    """Say what is wrong with metadata, or None; without quoting a value."""


class Registry:
    """One thread registers at a time; looking up needs no lock, because the table is never changed in place."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._registered: Mapping[str, Registered] = {}

    def register(self, policy: Policy[Any], config: Mapping[str, Json] | None = None) -> None:
        """ConfigError where the name is taken, the policy is none, or it cannot begin with this configuration."""
        with self._lock:
            if policy.name in self._registered:
                raise ConfigError(f"policy already registered: {policy.name}", suggestion="give it another name")
            registered = Registered(policy, _complaint(policy))
            _initialize(policy, config)
            self._registered = {**self._registered, policy.name: registered}

    def find(self, name: str, version: str = "") -> Registered | None:
        """The policy of this name; where a version is named, of this version only."""
        found = self._registered.get(name)
        return found if found is not None and version in ("", found.policy.version) else None

    def policies(self) -> list[Policy[Any]]:
        return [registered.policy for registered in self._registered.values()]

    def infos(self) -> list[PolicyInfo]:
        return [
            PolicyInfo(policy.name, policy.version, policy.description, policy.metadata_schema, policy.phases)
            for policy in self.policies()
        ]


def installed() -> list[Policy[Any]]:
    """Load what other packages offer under the entry-point group; each names a class or function without arguments."""
    policies: list[Policy[Any]] = []
    for point in entry_points(group=GROUP):
        try:
            policies.append(point.load()())
        except Exception as error:
            raise ConfigError(
                f"the policy `{point.name}` of `{point.value}` cannot be loaded: {type(error).__name__}: {error}",
                suggestion="mend or uninstall the package that offers it",
            ) from error
    return policies


def _initialize(policy: Policy[Any], config: Mapping[str, Json] | None) -> None:
    if config is not None and type(policy).initialize is Policy.initialize:
        raise ConfigError(f"policy `{policy.name}` takes no configuration", suggestion="remove it from `policies`")
    try:
        policy.initialize(config or {})
    except Exception as error:
        words = error.problem.detail if isinstance(error, GateError) else str(error)
        # Any other text was not written to be read, and may quote what it was given.
        why = words if isinstance(error, GateError | ValueError) else type(error).__name__
        raise ConfigError(
            f"policy `{policy.name}` cannot begin: {why}", suggestion=f"mend policies.{policy.name}"
        ) from error


def _complaint(policy: Policy[Any]) -> Callable[[Json], str | None]:
    if not _NAME(policy.name) or len(policy.name) > IDENTIFIER_CHARS_MAX:
        raise ConfigError(f"{policy.name!a} is not the name of a policy", suggestion="use letters, digits, _ . and -")
    if not policy.phases:
        raise ConfigError(f"policy `{policy.name}` supports no phase", suggestion="name one in `phases`")
    if inspect.iscoroutinefunction(policy.execute) is policy.blocking:
        raise ConfigError(
            f"policy `{policy.name}`: `execute` must be async, or `blocking` set and `execute` a plain function",
            suggestion="make it one of the two",
        )
    try:
        return validator(policy.metadata_schema, hide_values=True)
    except (ValueError, jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError) as error:
        raise ConfigError(
            f"the metadata schema of policy `{policy.name}` is none: {str(error).splitlines()[0]}",
            suggestion="write JSON Schema without remote references",
        ) from None
