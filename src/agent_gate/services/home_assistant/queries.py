"""Tools that look: at once from the copy of the home, or by asking its server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from agent_gate.model.call import BoundCall
from agent_gate.model.errors import ToolError
from agent_gate.model.tool import Json, ToolDeclaration
from agent_gate.ports.surroundings import Clock
from agent_gate.ports.tools import ListAct, RegisteredTool, Withheld
from agent_gate.services.home_assistant.client import HomeClient
from agent_gate.services.home_assistant.faults import Refused
from agent_gate.services.home_assistant.history import History
from agent_gate.services.home_assistant.listing import READ_ALIAS, IsWithheld, Listing, read_alias
from agent_gate.services.home_assistant.statistics import Statistics
from agent_gate.services.home_assistant.unknown import Unknown
from agent_gate.toolkit import make_registered_tool
from agent_gate.tools.home_assistant import declarations as declared

SERVICE = "home_assistant"
Answer = Callable[[Mapping[str, Json]], Awaitable[Json]]


def query_tools(client: HomeClient, clock: Clock) -> list[RegisteredTool]:
    listing = Listing(client.home)
    lists = {declared.HA_GET_STATES.name: listing.states, declared.HA_LIST_ENTITIES.name: listing.entities}
    return [
        make_registered_tool(tool, SERVICE, list_act=_listing(lists[tool.name]))
        if tool.name in lists
        else make_registered_tool(tool, SERVICE, list_act=_acting(answer))
        for tool, answer in answers(client, clock)
    ]


def answers(client: HomeClient, clock: Clock) -> list[tuple[ToolDeclaration, Answer]]:
    """Each tool that looks, with what answers it."""
    listing = Listing(client.home)
    return [
        (declared.HA_GET_STATE, _at_once(listing.state)),
        (declared.HA_GET_STATES, _at_once(listing.states)),
        (declared.HA_GET_ENTITY_STATE, _at_once(listing.state)),
        (declared.HA_LIST_ENTITIES, _at_once(listing.entities)),
        (declared.HA_LIST_AREAS, _at_once(listing.areas)),
        (declared.HA_LIST_SERVICES, _at_once(listing.services)),
        (declared.HA_GET_HISTORY, History(client, clock).answer),
        (declared.HA_GET_STATISTICS, Statistics(client, clock).answer),
        (declared.HA_RENDER_TEMPLATE, _rendering(client)),
    ]


def _acting(answer: Answer) -> ListAct:
    async def act(bound: BoundCall, withheld: Withheld) -> Json:
        try:
            return await answer(bound.args)
        except Unknown as unknown:
            is_withheld = withheld(READ_ALIAS)
            if is_withheld is None:
                raise
            raise unknown.without(lambda name: is_withheld(read_alias(name))) from None

    return act


def _listing(look: Callable[[Mapping[str, Json], IsWithheld | None], Json]) -> ListAct:
    async def act(bound: BoundCall, withheld: Withheld) -> Json:
        return look(bound.args, withheld(READ_ALIAS))

    return act


def _at_once(look: Callable[[Mapping[str, Json]], Json]) -> Answer:
    async def answer(args: Mapping[str, Json]) -> Json:
        return look(args)

    return answer


def _rendering(client: HomeClient) -> Answer:
    async def answer(args: Mapping[str, Json]) -> Json:
        try:
            return await client.render(args["template"])
        except Refused as error:
            if error.reason != "unauthorized":
                raise
            raise ToolError(
                "templates are rendered for administrators only, and the gate's token is another user's",
                suggestion="give the gate an administrator's token, or use `ha_get_state` and `ha_list_entities`",
            ) from None

    return answer
