"""The registry: each name once, from any thread, and policies of other packages."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from agent_gate.chain import registry as module
from agent_gate.chain.context import RequestContext
from agent_gate.chain.policy import BOTH_PHASES, PASSED, Policy, PolicyInfo, PolicyResult
from agent_gate.chain.registry import Registry, installed
from agent_gate.model.errors import ConfigError
from agent_gate.model.tool import Json
from tests.unit.chain.scripted import Scripted, returns


def a_policy(name: str = "p") -> Scripted:
    return Scripted(name, returns(PASSED))


def test_a_registered_policy_is_found_initialized_and_listed() -> None:
    registry, policy = Registry(), a_policy()
    registry.register(policy, {"key": 1})
    found = registry.find("p")
    assert found is not None
    assert found.policy is policy
    assert policy.initialized_with == {"key": 1}
    assert registry.infos() == [PolicyInfo("p", "1.0.0", "", {"type": "object"}, BOTH_PHASES)]


def test_a_name_is_registered_once() -> None:
    registry = Registry()
    registry.register(a_policy())
    with pytest.raises(ConfigError, match="policy already registered: p"):
        registry.register(a_policy())


def test_a_policy_that_fails_to_initialize_is_not_registered() -> None:
    class Broken(Scripted):
        def initialize(self, config: Mapping[str, Json]) -> None:
            raise ConfigError("no")

    registry = Registry()
    with pytest.raises(ConfigError):
        registry.register(Broken("p", returns(PASSED)))
    assert registry.find("p") is None


def test_of_many_threads_that_register_a_name_one_wins() -> None:
    registry = Registry()

    def attempt(number: int) -> bool:
        try:
            registry.register(a_policy(f"p{number % 10}"))
        except ConfigError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(attempt, range(200)))
    assert won.count(True) == 10
    assert len(registry.infos()) == 10


def test_a_named_version_must_be_the_one() -> None:
    registry = Registry()
    registry.register(a_policy())
    assert registry.find("p", "1.0.0") is not None
    assert registry.find("p", "2.0.0") is None


def _with(**members: Any) -> Policy[Any]:
    policy = a_policy()
    for name, value in members.items():
        setattr(policy, name, value)
    return policy


def _plain(settings: Any, context: RequestContext) -> PolicyResult:
    return PASSED


@pytest.mark.parametrize(
    "policy",
    [
        _with(name=""),
        _with(name="a b"),
        _with(name="x" * 300),
        _with(phases=frozenset()),
        _with(blocking=True),
        _with(execute=_plain),
        _with(metadata_schema={"type": "no type"}),
        _with(metadata_schema={"$ref": "https://schemas.example/remote.json"}),
    ],
)
def test_what_is_no_policy_is_not_registered(policy: Policy[Any]) -> None:
    with pytest.raises(ConfigError) as failure:
        Registry().register(policy)
    assert "\n" not in str(failure.value)


def _point(name: str, made: Any) -> Any:
    return SimpleNamespace(name=name, value=f"package:{name}", load=lambda: made)


def test_policies_of_other_packages_come_by_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = a_policy("theirs")
    groups: list[str] = []

    def entry_points(group: str) -> list[Any]:
        groups.append(group)
        return [_point("theirs", lambda: policy)]

    monkeypatch.setattr(module, "entry_points", entry_points)
    assert installed() == [policy]
    assert groups == ["agent_gate.policies"]


def test_an_entry_point_that_cannot_be_loaded_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr(module, "entry_points", lambda group: [_point("theirs", broken)])
    with pytest.raises(ConfigError, match="the policy `theirs` of `package:theirs` cannot be loaded"):
        installed()
