"""Tests of what tools are called by MCP clients, and how a list describes them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_gate.doors.mcp.listing import GATE_RESULT, RESULT_TOOL, listed
from agent_gate.doors.mcp.names import by_client_name, client_name
from agent_gate.model.errors import ConfigError
from agent_gate.model.tool import Effect, Risk, ToolDeclaration
from agent_gate.tools.catalogue import BUILTIN


@pytest.mark.parametrize(
    ("tool", "name"),
    [
        ("fs.read", "fs_read"),
        ("ha_call_service", "ha_call_service"),
        ("mail.send-all", "mail_send-all"),
        ("a" * 64, "a" * 64),
        ("a" * 65, "a" * 55 + "_635361c4"),
        ("post: now", "post__now_0c5d221f"),
    ],
)
def test_a_tool_keeps_its_name_as_far_as_clients_take_it(tool: str, name: str) -> None:
    assert client_name(tool) == name


@given(st.text(min_size=1))
def test_every_name_is_one_that_clients_take(tool: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", client_name(tool))


def test_long_names_that_begin_alike_stay_apart() -> None:
    long = "very." * 40
    assert len(by_client_name([long, long + "x"], GATE_RESULT)) == 2


@pytest.mark.parametrize(
    ("tools", "words"),
    [
        (["fs.read", "fs_read"], "the tools `fs.read` and `fs_read` would both be `fs_read` to an MCP client"),
        (["gate.result"], "the tools `gate_result` and `gate.result` would both be `gate_result`"),
    ],
)
def test_two_tools_of_one_name_are_a_mistake_of_the_configuration(tools: list[str], words: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(words)):
        by_client_name(tools, GATE_RESULT)


def test_the_tools_of_the_gate_itself_are_apart() -> None:
    assert len(by_client_name(BUILTIN, GATE_RESULT)) == len(BUILTIN)


@pytest.mark.parametrize(
    ("tool", "hints"),
    [
        (BUILTIN["fs.read"], (True, False, True, False)),
        (BUILTIN["http.get"], (True, False, True, True)),
        (BUILTIN["state.set"], (False, False, False, False)),
        (ToolDeclaration("mail.draft", effect=Effect.WRITE, risk=Risk.LOW), (False, False, False, True)),
        (BUILTIN["shell.run"], (False, True, False, True)),
    ],
)
def test_hints_follow_effect_and_risk(tool: ToolDeclaration, hints: tuple[bool, bool, bool, bool]) -> None:
    told = listed(tool).annotations
    assert told is not None
    assert (told.read_only_hint, told.destructive_hint, told.idempotent_hint, told.open_world_hint) == hints


def test_a_tool_is_listed_with_its_own_name_description_and_schema() -> None:
    schema = {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}
    tool = listed(ToolDeclaration("mail.send", "Send a mail", schema))
    assert (tool.name, tool.title, tool.description) == ("mail_send", "mail.send", "Send a mail")
    assert tool.input_schema == schema


def test_a_tool_that_says_nothing_of_itself_takes_any_object() -> None:
    tool = listed(ToolDeclaration("mail.send"))
    assert (tool.description, tool.input_schema) == ("mail.send", {"type": "object"})


def test_the_doors_own_tool_has_its_own_name() -> None:
    assert RESULT_TOOL.name == GATE_RESULT
