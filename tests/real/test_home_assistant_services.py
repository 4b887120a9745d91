"""Every service of a real Home Assistant, field by field: what names an entity is followed, all else was looked at."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent_gate import Gate
from agent_gate.model.outcome import Status
from agent_gate.services.home_assistant.selectors import fields_of
from agent_gate.services.home_assistant.things import ServiceInfo
from agent_gate.tools.home_assistant.fields import UNDESCRIBED
from tests.real.gates_at_home import a_real_gate, call, client_of, done, house_of
from tests.real.homes import RealHome, venv

NAMES = frozenset(("area", "config_entry", "device", "entity", "floor", "label", "target"))
"""Selectors by which something is chosen that entities belong to, or that is one."""
NAMES_NOTHING = "boolean color_rgb color_temp constant date datetime duration icon number select theme time"
"""Selectors whose values cannot be a name."""
LOOKED_AT = (
    # words for people, and for who listens to them
    "message title text language description summary location logger name filename"
    # values and modes of entities that are named elsewhere
    " code value option options duration date datetime preset_mode fan_mode swing_mode mode source sound_mode tone"
    " version fan_speed command params operation_mode profile effect rgbw_color rgbww_color hs_color xy_color"
    " gps host_name location_name in"
    # names of what is no entity
    " notification_id conversation_id media_content_type domain"
    # ids of entities, if at all, as values or keys: those are found wherever they stand
    " agent_id entities media_content_id data target"
)
"""Fields that are mere text or objects to the server, by name; one that is not here has to be looked at first."""


@pytest.fixture
async def gate(tmp_path: Path, real_home: RealHome) -> AsyncIterator[Gate]:
    async with a_real_gate(tmp_path, real_home) as gate:
        yield gate


def _selector(told: Any) -> str:
    return next(iter(told.get("selector") or {}), "")


async def test_of_every_service_each_field_is_followed_or_was_looked_at(gate: Gate) -> None:
    services = client_of(gate).home.services
    assert len(services) > 200
    unknown = [
        f"{domain}.{service}: {name}"
        for (domain, service), info in services.items()
        for name, told in info.fields.items()
        if not _is_known(info, name, _selector(told))
    ]
    assert unknown == []


def _is_known(info: ServiceInfo, name: str, selector: str) -> bool:
    if name in fields_of(info) or name in UNDESCRIBED.get(f"{info.domain}.{info.service}", {}):
        return True
    return selector not in NAMES and (selector in NAMES_NOTHING.split() or name in LOOKED_AT.split())


def _shipped() -> Iterator[ServiceInfo]:
    """Every service that any integration of the release describes, most of which no test server has."""
    [components] = (venv() / "lib").glob("python3*/site-packages/homeassistant/components")
    for path in sorted(components.glob("*/services.yaml")):
        for service, told in (yaml.load(path.read_text(), _Loader) or {}).items():
            fields = (told or {}).get("fields") or {}
            yield ServiceInfo(path.parent.name, service, "", "", fields, (told or {}).get("target"))


class _Loader(yaml.SafeLoader):
    """Takes words of Home Assistant's own for nothing."""


_Loader.add_multi_constructor("!", lambda *_: None)


@pytest.mark.usefixtures("real_server")
def test_every_field_of_every_integration_that_chooses_something_is_followed() -> None:
    services = list(_shipped())
    assert len(services) > 700
    chosen = {
        f"{info.domain}.{info.service}: {name}": name in fields_of(info)
        for info in services
        for name, told in info.fields.items()
        if _selector(told or {}) in NAMES
    }
    assert len(chosen) > 100
    assert [name for name, is_followed in chosen.items() if not is_followed] == []


NAMED = ("group.downstairs", "device_tracker.demo_paulus", "scene.movie_night", "script.movie_time")


@pytest.mark.parametrize(
    ("service", "data", "denied"),
    [
        ("group.set", {"object_id": "downstairs", "entities": ["light.bed_light"]}, "*, group.downstairs"),
        ("group.remove", {"object_id": "downstairs"}, "*, group.downstairs"),
        ("group.remove", {"object_id": "downstairs"}, "lock.*"),
        ("device_tracker.see", {"dev_id": "demo_paulus", "location_name": "home"}, "*, device_tracker.demo_paulus"),
        ("device_tracker.see", {"mac": "00:11", "location_name": "home"}, "*, device_tracker.demo_paulus"),
        ("scene.create", {"scene_id": "movie_night", "entities": {"light.bed_light": "on"}}, "*, scene.movie_night"),
        ("recorder.purge_entities", {"domains": ["lock"], "keep_days": 100}, "lock.*"),
        ("demo.randomize_device_tracker_data", {}, "light.*"),
        ("script.movie_time", {}, "script.turn_on, script.movie_time"),
    ],
)
async def test_a_deny_of_an_entity_holds_by_whichever_key_it_is_named(
    tmp_path: Path, real_home: RealHome, service: str, data: dict[str, Any], denied: str
) -> None:
    rules = [{"pattern": f"ha_call_service({denied})", "action": "deny"}, {"pattern": "*", "action": "allow"}]
    async with a_real_gate(tmp_path, real_home, {"rules": rules}) as gate:
        before = [await done(gate, "ha_get_state", entity_id=one) for one in NAMED]
        outcome = await call(gate, service, data=data)
        assert (outcome.status, outcome.error and outcome.error.code) == (Status.DENIED, 1001)
        assert [await done(gate, "ha_get_state", entity_id=one) for one in NAMED] == before


async def test_what_is_not_denied_is_made_changed_and_removed(gate: Gate, real_home: RealHome) -> None:
    made = await call(gate, "group.set", data={"object_id": "lamps", "entities": ["light.bed_light"]})
    assert made.ok, made.error
    assert "ha_call_service(group.set, group.lamps)" in made.signatures
    seen = await call(gate, "device_tracker.see", data={"dev_id": "phone", "location_name": "home"})
    assert seen.signatures == ("ha_call_service(device_tracker.see, device_tracker.phone)",)
    gone = await call(gate, "group.remove", data={"object_id": "lamps"})
    assert gone.ok, gone.error
    assert (await house_of(real_home).rest("GET", "/api/states/group.lamps")).status_code == 404
