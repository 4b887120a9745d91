"""A home that answers by REST alone, which does not tell its areas, devices, labels and integrations."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from agent_gate.model.errors import ToolError
from agent_gate.services.home_assistant.client import HomeClient
from agent_gate.services.home_assistant.control import reach_now
from agent_gate.services.home_assistant.history import History
from agent_gate.services.home_assistant.listing import Listing
from agent_gate.system.clock import SystemClock
from tests.gates import until
from tests.scripted_home import Pauses, ScriptedHome, a_client, registered, state

FIRST_TRY = 0.8
SERVICES: dict[str, dict[str, Any]] = {"light": {"turn_on": {}}, "mqtt": {"publish": {}}}


@pytest.fixture
def pauses() -> Pauses:
    return Pauses()


@pytest.fixture
async def home() -> AsyncIterator[ScriptedHome]:
    home = ScriptedHome()
    home.is_down = True
    home.states = [state("light.sink", "on"), state("lock.door", "locked")]
    home.rest["/api/services"] = lambda: [{"domain": name, "services": told} for name, told in SERVICES.items()]
    home.answers["get_services"] = lambda _: SERVICES
    home.answers["config/area_registry/list"] = lambda _: [{"area_id": "kitchen", "name": "Kitchen"}]
    home.answers["config/entity_registry/list"] = lambda _: [
        registered("light.sink", area_id="kitchen"),
        registered("lock.door", platform="mqtt"),
    ]
    async with home.serving():
        yield home


@pytest.fixture
async def client(home: ScriptedHome, pauses: Pauses) -> AsyncIterator[HomeClient]:
    async with a_client(home.url, pause=pauses) as client:
        assert (client.home.is_ready, client.home.is_live) == (True, False)
        yield client


def code_of(action: Any, *args: Any) -> int:
    with pytest.raises(ToolError) as raised:
        action(*args)
    return raised.value.problem.code


def calling(name: str, **args: Any) -> dict[str, Any]:
    domain, _, service = name.partition(".")
    return {"domain": domain, "service": service, **args}


BY_PLACE = [
    calling("light.turn_on", target={kind: "kitchen"}) for kind in ("area_id", "device_id", "floor_id", "label_id")
]


async def test_areas_are_out_of_reach_until_the_registries_were_read_and_not_missing(client: HomeClient) -> None:
    listing = Listing(client.home)
    assert code_of(listing.areas, {}) == 2006
    assert code_of(listing.entities, {"area": "Kitchen"}) == 2006
    assert [row["entity_id"] for row in listing.entities({})["entities"]] == ["light.sink", "lock.door"]


async def test_an_entity_is_not_told_to_be_in_no_area_where_nobody_knows(client: HomeClient) -> None:
    listing = Listing(client.home)
    answers = [listing.state({"entity_id": "light.sink"}), *listing.states({})["entities"]]
    assert all("area_name" not in row for row in [*answers, *listing.entities({})["entities"]])


@pytest.mark.parametrize("args", BY_PLACE, ids=lambda args: next(iter(args["target"])))
async def test_a_call_by_place_is_refused_for_now_and_not_as_a_mistake(
    client: HomeClient, args: dict[str, Any]
) -> None:
    assert code_of(reach_now, client.home, args) == 2006


async def test_a_service_that_may_reach_whatever_its_integration_brought_is_refused_for_now(client: HomeClient) -> None:
    assert code_of(reach_now, client.home, calling("mqtt.publish", data={"topic": "door"})) == 2006


async def test_an_entity_by_name_can_be_acted_on_all_the_same(client: HomeClient) -> None:
    reach = reach_now(client.home, calling("light.turn_on", entity_id="light.sink"))
    assert reach.signatures == ("ha_call_service(light.turn_on, light.sink)",)


async def test_a_history_without_rows_is_no_proof_that_there_is_no_such_entity(
    client: HomeClient, home: ScriptedHome
) -> None:
    start = "2026-01-01T00:00:00+00:00"
    home.rest["/api/history/period/2026-01-01T00%3A00%3A00%2B00%3A00"] = list
    args = {"entity_ids": ["sensor.disabled"], "start": start, "end": "2026-01-02T00:00:00Z"}
    answer = await History(client, SystemClock()).answer(args)
    assert answer["without_data"] == ["sensor.disabled"]


async def test_once_they_were_read_everything_is_answered_also_while_the_connection_is_lost_again(
    client: HomeClient, home: ScriptedHome, pauses: Pauses
) -> None:
    listing = Listing(client.home)
    assert "area_name" not in listing.state({"entity_id": "light.sink"})
    home.is_down = False
    await pauses.end(FIRST_TRY)
    await until(lambda: client.home.is_live)
    home.is_down = True
    await home.drop()
    await until(lambda: not client.home.is_live)
    assert [area["name"] for area in listing.areas({})["areas"]] == ["Kitchen"]
    assert listing.state({"entity_id": "light.sink"})["area_name"] == "Kitchen"
    assert listing.entities({"area": "Kitchen"})["count"] == 1
