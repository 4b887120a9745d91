"""What is asked of the server itself: the past, statistics and templates."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from agent_gate.config import HomeAssistantConfig
from agent_gate.model.bounds import HOME_HISTORY_ROWS_MAX, HOME_STATISTIC_ROWS_MAX
from agent_gate.model.errors import ToolError
from agent_gate.model.moment import iso
from agent_gate.services.home_assistant.client import HomeClient
from agent_gate.services.home_assistant.queries import answers
from agent_gate.simulated_home import Running, SimulatedHome, simulated_home
from agent_gate.simulated_home.recorder import HOUR_S, Hour
from agent_gate.tools.home_assistant.declarations import PERIODS
from tests.gates import NOON, HandClock, until

SENSOR, LIGHT = "sensor.kitchen_temperature", "light.kitchen_lights"
OUTDOORS, ENERGY = "kitchen_sink:temperature_outdoor", "kitchen_sink:energy_consumption_kwh"
YESTERDAY = {"start": "2026-03-03T12:00:00Z", "end": "2026-03-04T12:00:00Z"}


class Asking:
    """One tool by its name, without a gate around it."""

    def __init__(self, client: HomeClient, running: Running, clock: HandClock) -> None:
        self.client, self.home = client, running.home
        self._answers = {tool.name: answer for tool, answer in answers(client, clock)}

    async def ask(self, tool: str, **args: Any) -> Any:
        return await self._answers[tool](args)

    async def refused(self, tool: str, **args: Any) -> ToolError:
        with pytest.raises(ToolError) as raised:
            await self.ask(tool, **args)
        return raised.value


@asynccontextmanager
async def asking(token: str = "") -> AsyncIterator[Asking]:
    clock = HandClock()
    async with simulated_home(SimulatedHome(now=clock.now)) as running:
        chosen = {"": running.token, "limited": running.limited_token}[token]
        client = HomeClient(HomeAssistantConfig(running.url, chosen), chosen, clock)
        await client.start()
        try:
            clock.advance(1)
            yield Asking(client, running, clock)
        finally:
            await client.close()


@pytest.fixture
async def home() -> AsyncIterator[Asking]:
    async with asking() as found:
        yield found


def at(seconds: float) -> str:
    return iso(NOON + seconds).replace("Z", "+00:00")


async def test_history_is_rows_that_all_say_whose_they_are(home: Asking) -> None:
    home.home.recorder.backdate(SENSOR, [(NOON - 7_200.5, "19.0"), (NOON - 3_600.5, "19.5")])
    home.home.recorder.backdate(LIGHT, [(NOON - 1_800.5, "off")])
    answer = await home.ask("ha_get_history", entity_ids=[LIGHT, SENSOR], **YESTERDAY)
    assert answer["rows"] == [
        {"entity_id": LIGHT, "state": "off", "last_changed": at(-1_800.5)},
        {"entity_id": SENSOR, "state": "19.0", "last_changed": at(-7_200.5)},
        {"entity_id": SENSOR, "state": "19.5", "last_changed": at(-3_600.5)},
    ]
    assert (answer["without_data"], answer["cut_off"]) == ([], [])
    assert (answer["start"], answer["end"]) == ("2026-03-03T12:00:00+00:00", "2026-03-04T12:00:00+00:00")


async def test_an_entity_without_a_past_in_that_time_is_named(home: Asking) -> None:
    home.home.recorder.backdate(SENSOR, [(NOON - 60, "19.0")])
    answer = await home.ask("ha_get_history", entity_ids=[SENSOR, LIGHT, SENSOR], **YESTERDAY)
    assert [row["entity_id"] for row in answer["rows"]] == [SENSOR]
    assert answer["without_data"] == [LIGHT]


async def test_a_history_that_is_too_long_is_cut_fairly_and_says_whose(home: Asking) -> None:
    share = HOME_HISTORY_ROWS_MAX // 2
    home.home.recorder.backdate(SENSOR, [(NOON - 80_000 + number, str(number)) for number in range(share + 1)])
    home.home.recorder.backdate(LIGHT, [(NOON - 60, "off")])
    answer = await home.ask("ha_get_history", entity_ids=[SENSOR, LIGHT], **YESTERDAY)
    assert (len(answer["rows"]), answer["cut_off"], answer["rows"][-1]["entity_id"]) == (share + 1, [SENSOR], LIGHT)


async def test_the_history_of_an_unknown_entity_is_an_error_and_of_one_that_is_gone_is_not(home: Asking) -> None:
    error = await home.refused("ha_get_history", entity_ids=[SENSOR, "sensor.kitchen_temprature"], **YESTERDAY)
    assert error.code == 2002
    assert error.problem.suggestion.startswith(f"did you mean `{SENSOR}`")
    home.home.recorder.backdate(SENSOR, [(NOON - 60, "19.0")])
    home.client.home.drop(SENSOR)
    home.client.home.learn(registry=[])
    answer = await home.ask("ha_get_history", entity_ids=[SENSOR], **YESTERDAY)
    assert len(answer["rows"]) == 1


async def test_more_time_than_a_server_can_tell_of_at_once_is_refused(home: Asking) -> None:
    years = {"start": "2020-01-01T00:00:00Z", "end": "2026-03-01T00:00:00Z"}
    error = await home.refused("ha_get_history", entity_ids=[SENSOR], **years)
    assert (error.code, error.problem.detail) == (2002, "from `start` to `end` are more than 31 days")
    many = [f"sensor.s{number}" for number in range(50)]
    error = await home.refused("ha_get_statistics", statistic_ids=many, period="hour", **years)
    assert (error.code, error.problem.detail) == (2002, "these are more than 100,000 periods")


async def test_times_are_looked_at_before_the_server_is_asked(home: Asking) -> None:
    for tool, ids in (("ha_get_history", {"entity_ids": [SENSOR]}), ("ha_get_statistics", {"statistic_ids": [ENERGY]})):
        error = await home.refused(tool, **ids, start="2026-03-04T12:00:00Z", end="2026-03-03T12:00:00Z", period="day")
        assert (error.code, error.problem.detail) == (2002, "`start` is not before `end`")


async def test_statistics_are_rows_with_iso_times_and_null_where_a_figure_does_not_apply(home: Asking) -> None:
    answer = await home.ask("ha_get_statistics", statistic_ids=[OUTDOORS, ENERGY], period="hour", **YESTERDAY)
    rows = {row["statistic_id"]: row for row in answer["rows"]}
    assert rows[OUTDOORS] == {
        "statistic_id": OUTDOORS,
        "start": "2026-03-04T11:00:00.000000Z",
        "end": "2026-03-04T12:00:00.000000Z",
        "mean": 15.0,
        "min": 14.0,
        "max": 16.0,
        "sum": None,
        "state": None,
    }
    assert (rows[ENERGY]["mean"], rows[ENERGY]["sum"], rows[ENERGY]["state"]) == (None, 47.0, 47.0)
    assert len(answer["rows"]) == 48
    assert (answer["without_data"], answer["cut_off"], answer["period"]) == ([], [], "hour")


@pytest.mark.parametrize("period", PERIODS)
async def test_every_period_is_taken_by_the_server(home: Asking, period: str) -> None:
    answer = await home.ask("ha_get_statistics", statistic_ids=[OUTDOORS], start=YESTERDAY["start"], period=period)
    assert set(answer) == {"rows", "period", "start", "end", "without_data", "cut_off"}


async def test_an_id_without_data_is_named_and_one_without_statistics_is_an_error(home: Asking) -> None:
    long_ago = {"start": "2020-01-01T00:00:00Z", "end": "2020-01-02T00:00:00Z", "period": "day"}
    answer = await home.ask("ha_get_statistics", statistic_ids=[OUTDOORS], **long_ago)
    assert (answer["rows"], answer["without_data"]) == ([], [OUTDOORS])
    error = await home.refused("ha_get_statistics", statistic_ids=["kitchen_sink:temperature_outdor"], **long_ago)
    assert error.code == 2002
    assert error.problem.suggestion.startswith(f"did you mean `{OUTDOORS}`")


async def test_statistics_that_are_too_many_are_cut_and_say_whose(home: Asking) -> None:
    hours = [Hour(NOON - HOUR_S * ago, 1.0, 1.0, 1.0) for ago in range(HOME_STATISTIC_ROWS_MAX + 1, 0, -1)]
    home.home.recorder.statistics[OUTDOORS] = hours
    answer = await home.ask("ha_get_statistics", statistic_ids=[OUTDOORS], start="2020-01-01T00:00:00Z", period="hour")
    assert (len(answer["rows"]), answer["cut_off"]) == (HOME_STATISTIC_ROWS_MAX, [OUTDOORS])


async def test_a_template_comes_back_as_text(home: Asking) -> None:
    text = await home.ask("ha_render_template", template="{{ states('sensor.kitchen_temperature') }} °C")
    assert text == "20.0 °C"


async def test_a_template_that_cannot_be_rendered_says_why(home: Asking) -> None:
    error = await home.refused("ha_render_template", template="{{ states(")
    assert error.code == 2003
    assert "TemplateSyntaxError" in error.problem.detail


async def test_a_template_without_an_administrator_s_token_says_what_is_needed() -> None:
    async with asking("limited") as home:
        error = await home.refused("ha_render_template", template="{{ 1 }}")
        assert error.code == 2003
        assert "administrator's token" in error.problem.suggestion
        assert (await home.ask("ha_get_state", entity_id=SENSOR))["state"] == "20.0"


async def test_while_the_server_is_away_memory_answers_and_says_its_age_and_the_rest_is_unreachable() -> None:
    clock = HandClock()
    async with simulated_home(SimulatedHome(now=clock.now)) as running:
        client = HomeClient(HomeAssistantConfig(running.url), running.token, clock)
        await client.start()
        home = Asking(client, running, clock)
    try:
        await until(lambda: not client.home.is_live)
        clock.advance(30)
        known = await home.ask("ha_get_entity_state", entity_id=SENSOR)
        assert (known["state"], known["live"], known["age_s"]) == ("20.0", False, 30)
        for tool, args in (
            ("ha_get_history", {"entity_ids": [SENSOR], **YESTERDAY}),
            ("ha_get_statistics", {"statistic_ids": [ENERGY], "period": "day", **YESTERDAY}),
            ("ha_render_template", {"template": "{{ 1 }}"}),
        ):
            error = await home.refused(tool, **args)
            assert error.code == 2006
            assert error.problem.suggestion
    finally:
        await client.close()
