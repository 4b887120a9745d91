"""Declarations of the tools that the gate knows by itself, so that they can be judged where nothing is connected."""

from __future__ import annotations

from collections.abc import Mapping

from agent_gate.model.home_assistant import HOME_ASSISTANT_TOOLS
from agent_gate.model.limits import (
    ARGV_WORDS_MAX,
    HEADERS_MAX,
    INTEGER_MAX,
    PAGE_LIMIT,
    PAGE_MAX,
    POLICY_TIMEOUT_S_MAX,
)
from agent_gate.model.tool import ArgumentKind, Effect, Json, Risk, ToolDeclaration

_TEXT: Mapping[str, Json] = {"type": "string"}
_PATH: Mapping[str, Json] = {
    "type": "string",
    "description": "JSON pointer such as /lights/kitchen, or dotted: lights.kitchen; empty: the whole state",
}


def _schema(required: str = "", **properties: Mapping[str, Json]) -> dict[str, Json]:
    return {
        "type": "object",
        "properties": properties,
        "required": required.split(),
        "additionalProperties": False,
    }


def _state(name: str, description: str, schema: Mapping[str, Json], risk: Risk = Risk.LOW) -> ToolDeclaration:
    return ToolDeclaration(name, description, schema, {}, Effect.NONE, risk, 0)


STATE_GET = _state("state.get", "Read a value of the project's state", _schema(path=_PATH))
STATE_TOOLS = (
    STATE_GET,
    _state("state.set", "Write a value into the project's state", _schema("path value", path=_PATH, value={})),
    _state("state.delete", "Remove a value from the project's state", _schema("path", path=_PATH)),
    _state(
        "state.patch",
        "Change the project's state by a JSON Patch (RFC 6902)",
        _schema("patch", patch={"type": "array", "items": {"type": "object"}, "maxItems": 1000}),
    ),
)

_VERSION: Mapping[str, Json] = {"type": "integer", "minimum": 0, "maximum": INTEGER_MAX}


def _past_state(name: str, description: str, **properties: Mapping[str, Json]) -> ToolDeclaration:
    return ToolDeclaration(name, description, _schema("", **properties), {}, Effect.READ, Risk.LOW, 0)


STATE_AT = _past_state(
    "state.at",
    "Read the project's whole state as it was at a version or in a snapshot",
    version={**_VERSION, "description": "0 is the initial state"},
    snapshot_id={"type": "string", "description": "instead of a version"},
)
STATE_HISTORY = _past_state(
    "state.history",
    "List the versions of the project's state, the newest first",
    limit={"type": "integer", "minimum": 1, "maximum": PAGE_MAX, "description": f"{PAGE_LIMIT} if not said"},
)
STATE_DIFF = _past_state(
    "state.diff",
    "Compare two versions of the project's state, as RFC 6902",
    **{
        "from": {**_VERSION, "description": "the earlier version; 0 if not said"},
        "to": {**_VERSION, "description": "the later one; the last if not said"},
    },
)
PAST_STATE_TOOLS = (STATE_AT, STATE_HISTORY, STATE_DIFF)
"""They show the whole state, so that rules against `state.get()` hold for them too."""

GATE_READ = ToolDeclaration(
    "gate.read",
    "Leave to read what the gate keeps of an agent's own calls; the door that asked for it shows it",
    _schema("path", path={**_TEXT, "description": "as below /api/v1"}, query={"type": "object"}),
    {"query": ArgumentKind.UNSIGNED},
    Effect.READ,
    Risk.LOW,
    0,
)

STATE_REVERT = ToolDeclaration(
    "state.revert",
    "Make an earlier snapshot the project's state again",
    _schema("snapshot_id", snapshot_id=_TEXT),
    {"snapshot_id": ArgumentKind.IDENTIFIER},
    Effect.NONE,
    Risk.MEDIUM,
    0,
)
GATE_REVERT = ToolDeclaration(
    "gate.revert",
    "Undo what one earlier call did, as far as that can be done",
    _schema("call_id", call_id=_TEXT),
    {"call_id": ArgumentKind.IDENTIFIER},
    Effect.WRITE,
    Risk.HIGH,
    1,
)

_FILE: Mapping[str, Json] = {
    "type": "string",
    "minLength": 1,
    "description": "a file, by its path from the working directory or from the root",
}
_ENCODING: Mapping[str, Json] = {"type": "string", "description": "of the text in the file; utf-8 if not named"}
FS_READ = ToolDeclaration(
    "fs.read",
    "Read a file",
    _schema(
        "path",
        path=_FILE,
        encoding=_ENCODING,
        binary={"type": "boolean", "description": "give the bytes in base64 instead of a text"},
    ),
    {"encoding": ArgumentKind.UNSIGNED, "binary": ArgumentKind.UNSIGNED},
    Effect.READ,
    Risk.LOW,
    0,
    sensitive=frozenset({"path"}),
)
FS_WRITE = ToolDeclaration(
    "fs.write",
    "Write a file; what was there before is kept, so that `gate.revert` can bring it back",
    _schema(
        "path content",
        path=_FILE,
        content=_TEXT,
        encoding={**_ENCODING, "description": "of the text in the file; utf-8 if not named; base64 for bytes"},
        mode={"enum": ["overwrite", "append"], "description": "overwrite if not named"},
        create_dirs={"type": "boolean", "description": "make the directories that are missing"},
    ),
    dict.fromkeys(("content", "encoding", "mode", "create_dirs"), ArgumentKind.UNSIGNED),
    Effect.WRITE,
    Risk.MEDIUM,
    1,
    sensitive=frozenset({"path", "mode"}),
)
HTTP_GET = ToolDeclaration(
    "http.get",
    "Fetch a URL by GET; redirects are followed where they are allowed too",
    _schema(
        "url",
        url={"type": "string", "minLength": 1, "description": "http or https, without user name"},
        headers={"type": "object", "additionalProperties": _TEXT, "maxProperties": HEADERS_MAX},
        timeout={"type": "number", "exclusiveMinimum": 0, "description": "seconds; can only lower the policy's"},
    ),
    {"headers": ArgumentKind.UNSIGNED, "timeout": ArgumentKind.UNSIGNED},
    Effect.READ,
    Risk.MEDIUM,
    1,
    sensitive=frozenset({"url", "headers"}),
    timeout_s=POLICY_TIMEOUT_S_MAX,
)
"""Its own time limit is the policy's `timeout_seconds`; the one here is only the largest that a policy can set."""

_WORDS: Mapping[str, Json] = {"type": "array", "items": _TEXT, "minItems": 1, "maxItems": ARGV_WORDS_MAX}

SHELL_RUN = ToolDeclaration(
    "shell.run",
    "Run one program, without a shell; give its words in argv, or as text in command",
    _schema(
        argv={**_WORDS, "description": "the program's name and its arguments"},
        cmd={**_WORDS, "description": "another name of argv"},
        command={"type": "string", "minLength": 1, "description": "the words as text, split by POSIX quoting"},
        cwd={"type": "string", "minLength": 1, "description": "the directory to run it in"},
        env={"type": "object", "additionalProperties": _TEXT, "description": "variables that the policy allows"},
        timeout={"type": "number", "exclusiveMinimum": 0, "description": "seconds; can only lower the policy's"},
        fail_on={
            "enum": ["nonzero", "never"],
            "description": "whether a return code other than 0 is a failure; not named: nonzero in a plan, else never",
        },
    ),
    dict.fromkeys(("cwd", "env", "timeout", "fail_on"), ArgumentKind.UNSIGNED),
    Effect.WRITE,
    Risk.MEDIUM,
    1,
    sensitive=frozenset({"argv", "cmd", "command", "cwd", "env"}),
    timeout_s=POLICY_TIMEOUT_S_MAX,
)
"""Its own time limit is the policy's `timeout_seconds`, as for `http.get`."""

BUILTIN: Mapping[str, ToolDeclaration] = {
    tool.name: tool
    for tool in (
        *STATE_TOOLS,
        *PAST_STATE_TOOLS,
        STATE_REVERT,
        GATE_READ,
        GATE_REVERT,
        FS_READ,
        FS_WRITE,
        HTTP_GET,
        SHELL_RUN,
        *HOME_ASSISTANT_TOOLS,
    )
}
