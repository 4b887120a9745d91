"""Tools of the project's state: those that look at it or change it, and those that show what it was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from agent_gate.model.bounds import INTEGER_MAX, PAGE_LIMIT, PAGE_MAX
from agent_gate.model.tool import Aliases, ArgumentKind, Effect, Json, PatternMistake, Risk, ToolDeclaration
from agent_gate.policy.state_aliases import (
    EVERY_STATE,
    aliases_of_delete,
    aliases_of_get,
    aliases_of_patch,
    aliases_of_set,
)
from agent_gate.tools.patterns import wrong_beginning
from agent_gate.tools.schemas import TEXT, object_schema

_PATH: Mapping[str, Json] = {
    "type": "string",
    "description": "JSON pointer such as /lights/kitchen, or dotted: lights.kitchen; empty: the whole state",
}


def _mistake_in(name: str, rest: str) -> PatternMistake | None:
    return wrong_beginning(name, rest, ("/", '"', ")"), "a path of the state begins with `/`", "/")


def _state(
    name: str, description: str, schema: Mapping[str, Json], aliases: Aliases, *, by_path: bool = True
) -> ToolDeclaration:
    mistake_in = partial(_mistake_in, name) if by_path else None
    return ToolDeclaration(
        name, description, schema, {}, Effect.NONE, Risk.LOW, 0, aliases=aliases, mistake_in=mistake_in
    )


STATE_GET = replace(
    _state("state.get", "Read a value of the project's state", object_schema(path=_PATH), aliases_of_get), looks=True
)
STATE_TOOLS = (
    STATE_GET,
    _state(
        "state.set",
        "Write a value into the project's state",
        object_schema("path value", path=_PATH, value={}),
        aliases_of_set,
    ),
    _state(
        "state.delete", "Remove a value from the project's state", object_schema("path", path=_PATH), aliases_of_delete
    ),
    _state(
        "state.patch",
        "Change the project's state by a JSON Patch (RFC 6902)",
        object_schema("patch", patch={"type": "array", "items": {"type": "object"}, "maxItems": 1000}),
        aliases_of_patch,
        by_path=False,
    ),
)

_VERSION: Mapping[str, Json] = {"type": "integer", "minimum": 0, "maximum": INTEGER_MAX}


def _past_state(
    name: str, description: str, aliases: tuple[str, ...], **properties: Mapping[str, Json]
) -> ToolDeclaration:
    """`aliases` are names of all that it shows, whatever its arguments."""
    schema = object_schema("", **properties)
    return ToolDeclaration(name, description, schema, {}, Effect.READ, Risk.LOW, 0, aliases=lambda _, __: aliases)


STATE_AT = _past_state(
    "state.at",
    "Read the project's whole state as it was at a version or in a snapshot",
    EVERY_STATE,
    version={**_VERSION, "description": "0 is the initial state"},
    snapshot_id={"type": "string", "description": "instead of a version"},
)
STATE_HISTORY = _past_state(
    "state.history",
    "List the versions of the project's state, the newest first",
    ("state.get()",),  # which there were, by whom and when; no value
    limit={"type": "integer", "minimum": 1, "maximum": PAGE_MAX, "description": f"{PAGE_LIMIT} if not said"},
)
STATE_DIFF = _past_state(
    "state.diff",
    "Compare two versions of the project's state, as RFC 6902",
    EVERY_STATE,
    **{
        "from": {**_VERSION, "description": "the earlier version; 0 if not said"},
        "to": {**_VERSION, "description": "the later one; the last if not said"},
    },
)
PAST_STATE_TOOLS = (STATE_AT, STATE_HISTORY, STATE_DIFF)
"""They show the whole state, so that rules against `state.get()` hold for them too."""

STATE_REVERT = ToolDeclaration(
    "state.revert",
    "Make an earlier snapshot the project's state again",
    object_schema("snapshot_id", snapshot_id=TEXT),
    {"snapshot_id": ArgumentKind.IDENTIFIER},
    Effect.NONE,
    Risk.MEDIUM,
    0,
)
