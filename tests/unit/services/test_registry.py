"""The way from a tool's name to the service that provides it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from agent_gate.compat import TOOL_SERVICE_MAP, Executor
from agent_gate.model.errors import ConfigError, ExecutionError, GateError
from agent_gate.model.tool import Json, ToolDeclaration
from agent_gate.ports.tools import RegisteredTool
from agent_gate.services.registry import ToolRegistry
from agent_gate.toolkit import make_registered_tool, registered_tool
from tests.gates import reader, sender


class Handler:
    """A service with the three methods that the core-engine document asks for."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Mapping[str, Json]]] = []

    async def execute(self, tool_name: str, args: Mapping[str, Json]) -> Json:
        self.calls.append((tool_name, args))
        return {"done": tool_name}

    async def health_check(self) -> bool:
        return True

    async def close(self) -> None: ...


class Provider(Handler):
    """One that says which tools it has."""

    def tools(self) -> Sequence[ToolDeclaration]:
        return (ToolDeclaration("wiki_search"),)


@pytest.mark.parametrize("name", sorted(TOOL_SERVICE_MAP))
async def test_the_home_assistant_tools_go_to_the_home_assistant_handler(name: str) -> None:
    home, other = Handler(), Handler()
    executor = Executor({"other": other, "homeassistant": home})
    args = {"entity_id": "light.kitchen"}
    assert await executor.execute(name, args) == {"done": name}
    assert (home.calls, other.calls) == ([(name, args)], [])


async def test_a_service_that_names_its_tools_gets_them() -> None:
    wiki = Provider()
    executor = Executor({"homeassistant": Handler(), "wiki": wiki})
    assert await executor.execute("wiki_search", {}) == {"done": "wiki_search"}
    assert wiki.calls == [("wiki_search", {})]


async def test_an_unknown_tool_and_a_missing_service_have_the_document_s_words() -> None:
    with pytest.raises(ExecutionError) as unknown:
        await Executor({"homeassistant": Handler()}).execute("nobody_knows", {})
    assert (str(unknown.value), unknown.value.code) == ("Unknown tool: nobody_knows", 2001)
    with pytest.raises(ExecutionError) as missing:
        await Executor({}).execute("ha_get_state", {})
    assert (str(missing.value), missing.value.code) == ("Service not configured: homeassistant", 2006)
    assert isinstance(missing.value, GateError)


def test_the_map_names_the_tools_of_both_documents() -> None:
    of_the_core = ("ha_get_state", "ha_get_states", "ha_call_service", "ha_fire_event")
    of_the_module = (
        "ha_get_entity_state", "ha_list_entities", "ha_list_areas", "ha_list_services", "ha_get_history",
        "ha_get_statistics", "ha_render_template", "ha_call_service", "ha_activate_scene",
    )  # fmt: skip
    assert dict.fromkeys((*of_the_core, *of_the_module), "homeassistant") == TOOL_SERVICE_MAP


def test_a_registry_finds_tools_by_name_and_says_why_it_finds_none() -> None:
    send = registered_tool(sender([]))
    registry = ToolRegistry([send])
    assert registry.find("mail.send") is send
    assert registry.find("mail") is None
    assert registry.all() == [send]
    assert (registry.missing("mail").code, registry.missing("mail").detail) == (2001, "Unknown tool: mail")
    assert (registry.missing("ha_get_states").code, registry.missing("mail").stage) == (2006, "bind")


def test_a_name_is_taken_once() -> None:
    registry = ToolRegistry([registered_tool(sender([]))])
    with pytest.raises(ConfigError, match=r"two tools are called `mail.send`"):
        registry.add(registered_tool(reader([], "mail.send")))


def test_tools_of_a_service_may_come_and_go_all_or_none() -> None:
    def made(name: str, service: str) -> RegisteredTool:
        return make_registered_tool(ToolDeclaration(name), service)

    registry = ToolRegistry([made("wiki_read", "wiki"), made("own", "own")])
    registry.offer("wiki", [made("wiki_write", "wiki"), made("wiki_list", "wiki")])
    assert [each.declaration.name for each in registry.all()] == ["own", "wiki_write", "wiki_list"]
    with pytest.raises(ConfigError, match="two tools are called `own`"):
        registry.offer("wiki", [made("own", "wiki")])
    assert registry.find("wiki_list") is not None
