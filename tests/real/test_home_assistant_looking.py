"""Tools that look, through the whole gate, at a real Home Assistant."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path

import pytest

from agent_gate import Gate
from agent_gate.services.home_assistant.home import Home
from tests.contract.houses import a_raw, eventually
from tests.real.gates_at_home import a_real_gate, call, client_of, done, house_of, in_time
from tests.real.homes import RealHome

BED, GUEST = "light.bed_light", "input_boolean.guest_mode"
TEMPERATURE, ENERGY = "kitchen_sink:temperature_outdoor", "kitchen_sink:energy_consumption_kwh"


@pytest.fixture
async def gate(tmp_path: Path, real_home: RealHome) -> AsyncIterator[Gate]:
    async with a_real_gate(tmp_path, real_home) as gate:
        yield gate


async def test_b6_a_state_comes_with_the_area_of_its_device_and_its_freshness(gate: Gate) -> None:
    for tool in ("ha_get_state", "ha_get_entity_state"):
        found = await done(gate, tool, entity_id="light.ceiling_lights")
        assert found["area_name"] == "Kitchen"
        assert (found["live"], found["age_s"]) == (True, 0)
        assert {"entity_id", "state", "attributes", "last_changed", "last_updated"} <= set(found)
        assert found["attributes"]["friendly_name"] == "Ceiling Lights"


async def test_an_entity_that_is_not_there_is_an_error_that_names_others(gate: Gate) -> None:
    outcome = await gate.call("ha_get_entity_state", entity_id="light.bed_lights")
    assert outcome.error is not None
    assert "light.bed_lights" in outcome.error.detail
    assert "light.bed_light" in outcome.error.suggestion


async def test_all_states_are_those_of_the_server(gate: Gate, real_home: RealHome) -> None:
    async with a_raw(house_of(real_home)) as raw:
        there = await raw.states()
    found = await done(gate, "ha_get_states")
    assert [one["entity_id"] for one in found["entities"]] == sorted(there)
    assert found["count"] == len(there) > 100


async def test_b7_entities_are_listed_in_short_by_domain_and_by_area_in_any_case(gate: Gate) -> None:
    every = await done(gate, "ha_list_entities")
    ids = [one["entity_id"] for one in every["entities"]]
    assert ids == sorted(ids)
    assert {"entity_id", "state", "friendly_name", "area_name", "domain"} <= set(every["entities"][0])
    lights = await done(gate, "ha_list_entities", domain="light")
    assert {one["domain"] for one in lights["entities"]} == {"light"}
    for area in ("kitchen", "KITCHEN", "Kitchen"):
        there = await done(gate, "ha_list_entities", area=area)
        found = [one["entity_id"] for one in there["entities"]]
        assert {"light.ceiling_lights", "light.kitchen_lights", "sensor.kitchen_temperature"} <= set(found)
    both = await done(gate, "ha_list_entities", area="kitchen", domain="light")
    assert [one["entity_id"] for one in both["entities"]] == ["light.ceiling_lights", "light.kitchen_lights"]


async def test_b7_a_renamed_area_is_found_by_its_new_name_its_id_and_its_alias(gate: Gate, real_home: RealHome) -> None:
    home = client_of(gate).home
    async with a_raw(house_of(real_home)) as raw:
        await raw.ask("config/area_registry/update", area_id="bedroom", name="Sleeping Room", aliases=["Nest"])
        try:
            await in_time(lambda: home.areas["bedroom"].name == "Sleeping Room")
            for name in ("sleeping room", "bedroom", "nest"):
                found = await done(gate, "ha_list_entities", area=name, domain="light")
                assert [one["entity_id"] for one in found["entities"]] == [BED]
        finally:
            await raw.ask("config/area_registry/update", area_id="bedroom", name="Bedroom", aliases=[])
        await in_time(lambda: home.areas["bedroom"].name == "Bedroom")


async def test_b7_an_entity_in_an_area_that_does_not_exist_has_none(gate: Gate, real_home: RealHome) -> None:
    home = client_of(gate).home
    async with a_raw(house_of(real_home)) as raw:
        await raw.ask("config/entity_registry/update", entity_id=BED, area_id="nowhere")
        try:
            await in_time(lambda: home.area_of(BED) is None)
            assert (await done(gate, "ha_get_state", entity_id=BED))["area_name"] is None
        finally:
            await raw.ask("config/entity_registry/update", entity_id=BED, area_id="bedroom")
        await in_time(lambda: home.area_of(BED) is not None)


async def test_b6_a_device_that_moves_takes_its_entities_along(gate: Gate, real_home: RealHome) -> None:
    home = client_of(gate).home
    async with a_raw(house_of(real_home)) as raw:
        devices = {one["name"]: one["id"] for one in await raw.ask("config/device_registry/list")}
        for area_id in ("living_room", "bedroom"):
            await raw.ask("config/device_registry/update", device_id=devices["HeatPump"], area_id=area_id)
            await in_time(partial(_is_in, home, "climate.heatpump", area_id))


def _is_in(home: Home, entity_id: str, area_id: str) -> bool:
    area = home.area_of(entity_id)
    return area is not None and area.area_id == area_id


async def test_areas_are_listed_by_name(gate: Gate) -> None:
    found = await done(gate, "ha_list_areas")
    assert [(one["area_id"], one["name"]) for one in found["areas"]] == [
        ("bedroom", "Bedroom"),
        ("kitchen", "Kitchen"),
        ("living_room", "Living Room"),
    ]


async def test_a7_every_service_is_listed_with_what_it_does(gate: Gate) -> None:
    every = await done(gate, "ha_list_services")
    named = {(one["domain"], one["service"]): one for one in every["services"]}
    assert named["light", "turn_on"]["description"].startswith("Turn on one or more lights")
    assert named["script", "movie_time"]["name"] == "Movie time"
    lights = await done(gate, "ha_list_services", domain="light")
    assert {one["domain"] for one in lights["services"]} == {"light"}
    turn_on = next(one for one in lights["services"] if one["service"] == "turn_on")
    assert "brightness_pct" in turn_on["fields"]
    weather = await done(gate, "ha_list_services", domain="weather")
    assert {one["service"]: one["response"] for one in weather["services"]}["get_forecasts"] == "only"


async def test_b10_history_is_rows_with_their_entity_and_the_state_at_the_beginning(gate: Gate) -> None:
    for state in ("off", "on", "off"):
        await call(gate, f"input_boolean.turn_{state}", entity_id=GUEST)
    begin = datetime.now(timezone.utc)
    for state in ("on", "off"):
        await call(gate, f"input_boolean.turn_{state}", entity_id=GUEST)
    end = datetime.now(timezone.utc) + timedelta(minutes=1)
    asked = {"entity_ids": [GUEST, "sun.sun"], "start": begin.isoformat(), "end": end.isoformat()}

    async def rows() -> list[dict[str, str]] | None:
        found = await done(gate, "ha_get_history", **asked)
        mine = [row for row in found["rows"] if row["entity_id"] == GUEST]
        return mine if len(mine) >= 3 else None

    mine = await eventually(rows)
    assert [row["state"] for row in mine] == ["off", "on", "off"]
    assert datetime.fromisoformat(mine[0]["last_changed"]) == begin
    assert all(set(row) == {"entity_id", "state", "last_changed"} for row in mine)


async def test_b10_a_period_without_rows_and_one_that_ends_before_it_begins(gate: Gate) -> None:
    asked = {"entity_ids": [GUEST], "start": "2020-01-01T00:00:00+00:00", "end": "2020-01-02T00:00:00+02:00"}
    found = await done(gate, "ha_get_history", **asked)
    assert (found["rows"], found["without_data"]) == ([], [GUEST])
    backwards = await gate.call("ha_get_history", {**asked, "end": "2019-01-01T00:00:00Z"})
    assert backwards.error is not None
    unknown = await gate.call("ha_get_history", {**asked, "entity_ids": ["sensor.nope"]})
    assert unknown.error is not None
    assert "sensor.nope" in unknown.error.detail
    missing = await gate.call("ha_get_history", start=asked["start"], end=asked["end"])
    assert missing.error is not None
    assert missing.error.code == 2002


async def test_a1_b11_statistics_are_rows_with_every_figure_and_moments_that_people_read(gate: Gate) -> None:
    # The home keeps figures of one whole day, the one before it was started; whatever the hour is now, it lies in here.
    begin = datetime.now(timezone.utc) - timedelta(days=3)
    asked = {"statistic_ids": [TEMPERATURE, ENERGY], "start": begin.isoformat(), "period": "hour"}
    found = await done(gate, "ha_get_statistics", **asked)
    by_id = {one: [row for row in found["rows"] if row["statistic_id"] == one] for one in (TEMPERATURE, ENERGY)}
    mean, total = by_id[TEMPERATURE][0], by_id[ENERGY][0]
    figures = {"mean", "min", "max", "sum", "state"}
    assert {"statistic_id", "start", "end"} | figures == set(mean) == set(total)
    assert (mean["sum"], total["mean"]) == (None, None)
    assert isinstance(mean["mean"], float)
    length = datetime.fromisoformat(mean["end"]) - datetime.fromisoformat(mean["start"])
    assert length == timedelta(hours=1)
    days = await done(gate, "ha_get_statistics", **{**asked, "period": "day"})
    assert len(days["rows"]) < len(found["rows"])


async def test_b11_an_unknown_statistic_and_another_period_are_errors(gate: Gate) -> None:
    asked = {"statistic_ids": ["sensor.nope"], "start": "2026-01-01T00:00:00Z", "period": "hour"}
    unknown = await gate.call("ha_get_statistics", asked)
    assert unknown.error is not None
    assert "sensor.nope" in unknown.error.detail
    yearly = await gate.call("ha_get_statistics", {**asked, "statistic_ids": [TEMPERATURE], "period": "year"})
    assert yearly.error is not None
    assert yearly.error.code == 2002


async def test_b12_a_template_is_rendered_or_its_mistake_is_told(gate: Gate) -> None:
    text = await done(gate, "ha_render_template", template="{{ states('zone.home') is string }} °C")
    assert text == "True °C"
    wrong = await gate.call("ha_render_template", template="{{ nope( }}")
    assert wrong.error is not None
    assert "unexpected '}', expected ')'" in wrong.error.detail
