"""The permission engine keeps the core-engine document's promises."""

from __future__ import annotations

from typing import Any

import pytest

from agent_gate.model.errors import ConfigError, ToolError
from agent_gate.model.permission import PermissionRule, Permissions
from agent_gate.model.verdict import Decision
from agent_gate.tools.engine import PermissionEngine

LIGHT = {"domain": "light", "service": "turn_on", "entity_id": "light.bedroom"}


def _engine(*rules: str, defaults: tuple[str, ...] = ()) -> PermissionEngine:
    return PermissionEngine(Permissions([_rule(text) for text in defaults], [_rule(text) for text in rules]))


def _rule(text: str) -> PermissionRule:
    action, _, rest = text.partition(" ")
    pattern, _, when = rest.partition(" when ")
    return PermissionRule(pattern, action, when=when)


def test_a_deny_rule_denies_even_if_an_allow_rule_matches_too() -> None:
    engine = _engine("allow ha_call_service(light.*)", "deny ha_call_service(*)")
    assert engine.evaluate("ha_call_service", LIGHT) is Decision.DENY


def test_an_allow_rule_allows_where_no_deny_rule_matches() -> None:
    engine = _engine("deny ha_call_service(lock.*)", "allow ha_call_service(light.*)")
    assert engine.evaluate("ha_call_service", LIGHT) is Decision.ALLOW


def test_an_ask_rule_asks_where_no_deny_or_allow_rule_matches() -> None:
    engine = _engine("deny ha_call_service(lock.*)", "allow ha_get_*", "ask ha_call_service(*)")
    assert engine.evaluate("ha_call_service", LIGHT) is Decision.ASK


def test_defaults_speak_where_no_rule_matches() -> None:
    engine = _engine("deny ha_call_service(lock.*)", defaults=("allow ha_call_service(*)",))
    assert engine.evaluate("ha_call_service", LIGHT) is Decision.ALLOW


def test_the_first_default_that_matches_wins() -> None:
    engine = _engine(defaults=("allow ha_get_*", "deny ha_*", "allow ha_call_service(*)"))
    assert engine.evaluate("ha_call_service", LIGHT) is Decision.DENY
    assert engine.evaluate("ha_get_states", {}) is Decision.ALLOW


def test_where_nothing_matches_a_person_is_asked() -> None:
    assert _engine().evaluate("ha_get_states", {}) is Decision.ASK


def test_a_deny_rule_beats_a_more_specific_allow_rule() -> None:
    engine = _engine("deny ha_call_service(lock.*)", "allow ha_call_service(lock.unlock, lock.front_door)")
    call = {"domain": "lock", "service": "unlock", "entity_id": "lock.front_door"}
    assert engine.evaluate("ha_call_service", call) is Decision.DENY


def test_an_event_that_a_default_denies_is_denied() -> None:
    engine = _engine(defaults=("deny ha_fire_event(*)",))
    assert engine.evaluate("ha_fire_event", {"event_type": "custom_event"}) is Decision.DENY


@pytest.mark.parametrize("args", [{"entity_id": "light.*"}, {"entity_id": "Light.Bedroom"}, {"entity_id": [5]}])
def test_malformed_arguments_are_not_judged(args: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="argument `entity_id`"):
        _engine("allow *").evaluate("ha_get_state", args)


def test_a_target_that_only_a_home_could_resolve_is_not_judged() -> None:
    with pytest.raises(ToolError) as refused:
        _engine("allow *").evaluate(
            "ha_call_service", {"domain": "light", "service": "turn_on", "target": {"area_id": "kitchen"}}
        )
    assert refused.value.code == 2006


@pytest.mark.parametrize(
    ("entities", "decision"),
    [
        (["light.a"], Decision.ALLOW),
        (["light.a", "light.b"], Decision.ALLOW),
        (["light.a", "switch.b"], Decision.ASK),
        (["light.a", "cover.c"], Decision.ASK),
        (["cover.c", "light.a", "lock.d"], Decision.DENY),
    ],
)
def test_several_entities_are_judged_by_the_strictest_answer(entities: list[str], decision: Decision) -> None:
    engine = _engine("allow *, light.*)", "ask *, switch.*)", "deny *, lock.*)")
    call = {"domain": "homeassistant", "service": "toggle", "entity_id": entities}
    assert engine.evaluate("ha_call_service", call) is decision


def test_a_condition_sees_the_arguments_and_the_tool() -> None:
    engine = _engine("allow pay(*) when inputs['amount'] <= 50 and tool == 'pay'")
    assert engine.evaluate("pay", {"amount": 50}) is Decision.ALLOW
    assert engine.evaluate("pay", {"amount": 51}) is Decision.ASK
    assert engine.evaluate("pay", {"amount": "a lot"}) is Decision.DENY


def test_a_condition_sees_the_ordinary_value_of_everything_else() -> None:
    ordinary = (
        "state == {} and agent_id == 'default' and roles == ['operator'] and project == 'default'"
        " and mode == 'assisted' and confirmed is False and risk == 'medium' and cost == 1"
    )
    assert _engine(f"allow t when {ordinary}").evaluate("t", {}) is Decision.ALLOW


@pytest.mark.parametrize("name", ["hour", "weekday"])
def test_a_condition_on_the_time_denies_because_there_is_no_clock(name: str) -> None:
    assert _engine(f"allow t when {name} >= 0").evaluate("t", {}) is Decision.DENY


def test_an_action_that_is_not_one_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match="action `permit` is unknown"):
        _engine("permit t")


def test_judging_does_not_change_the_arguments() -> None:
    args = {"domain": "light", "service": "turn_on", "entity_id": ["light.b", "light.a"], "data": {"z": 1, "a": [2]}}
    before = repr(args)
    _engine("allow *").evaluate("ha_call_service", args)
    assert repr(args) == before
