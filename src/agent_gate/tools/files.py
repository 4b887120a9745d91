"""Tools that read and write files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any

from agent_gate.model.policy import PathGuard
from agent_gate.model.setting import Setting
from agent_gate.model.tool import (
    ArgumentKind,
    Effect,
    GuardedBy,
    Json,
    PatternMistake,
    Risk,
    Section,
    ToolDeclaration,
)
from agent_gate.policy.guards import Guard, GuardContext
from agent_gate.policy.guards.paths import FileGuard
from agent_gate.policy.patterns import literals
from agent_gate.tools.patterns import wrong_beginning
from agent_gate.tools.schemas import TEXT, object_schema

_FILE: Mapping[str, Json] = {
    "type": "string",
    "minLength": 1,
    "description": "a file, by its path from the working directory or from the root",
}
_IN_NO_PATH = re.compile(r"/(?=/)|/\.(?=/)|/[^/]+/\.\.(?=/)|/\.\.(?=/)|/(?=\)\Z)")


def _mistake_in(name: str, rest: str) -> PatternMistake | None:
    """Signatures hold real paths; relative ones are resolved when the policy is loaded."""
    why = "a path in it begins with `/`, `./` or `~/`"
    if mistake := wrong_beginning(name, rest, ("/", "./", "~/"), why, "./"):
        return mistake
    if rest[:1] != "/" or rest.rstrip("*") == "/)" or not any(_IN_NO_PATH.search(run) for run in literals(rest)):
        return None
    mended = _IN_NO_PATH.sub("", rest, count=1)
    return PatternMistake("a real path has no `//`, `.`, `..` or `/` at its end", f"{name}({mended}")


def _guarded(name: str, declared_by: Any, example: str) -> GuardedBy:
    def build(_: PathGuard, context: GuardContext) -> Guard:
        rules = context.files(name)
        assert rules is not None, "it has a section"
        return FileGuard(rules)

    return GuardedBy(build, Section(declared_by, example))


_WITHOUT_HARD_LINKS = Annotated[PathGuard, Setting(leaves_out=("allow_hardlinks",))]
_ENCODING: Mapping[str, Json] = {"type": "string", "description": "of the text in the file; utf-8 if not named"}
FS_READ = ToolDeclaration(
    "fs.read",
    "Read a file",
    object_schema(
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
    guard=_guarded("fs.read", PathGuard, 'tools: {fs.read: {allow_paths: ["./**"]}}'),
    signed_when_bound=True,
    closed_world=True,
    mistake_in=partial(_mistake_in, "fs.read"),
)
FS_WRITE = ToolDeclaration(
    "fs.write",
    "Write a file; what was there before is kept, so that `gate.revert` can bring it back",
    object_schema(
        "path content",
        path=_FILE,
        content=TEXT,
        encoding={**_ENCODING, "description": "of the text in the file; utf-8 if not named; base64 for bytes"},
        mode={"enum": ["overwrite", "append"], "description": "overwrite if not named"},
        create_dirs={"type": "boolean", "description": "make the directories that are missing"},
    ),
    dict.fromkeys(("content", "encoding", "mode", "create_dirs"), ArgumentKind.UNSIGNED),
    Effect.WRITE,
    Risk.MEDIUM,
    1,
    sensitive=frozenset({"path", "mode"}),
    guard=_guarded("fs.write", _WITHOUT_HARD_LINKS, 'tools: {fs.write: {allow_paths: ["./out/**"]}}'),
    signed_when_bound=True,
    closed_world=True,
    mistake_in=partial(_mistake_in, "fs.write"),
)
