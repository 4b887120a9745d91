"""Paths into a project's state: every spelling of a place becomes one JSON pointer before rules see it."""

from __future__ import annotations

from collections.abc import Mapping

from agent_gate.model.bounds import JSON_DEPTH_MAX
from agent_gate.model.errors import ToolError
from agent_gate.model.tool import Json

TOOLS = frozenset({"state.get", "state.set", "state.delete"})


def with_pointer(args: Mapping[str, Json]) -> Mapping[str, Json]:
    """The arguments of a state tool with `path` as a JSON pointer; ToolError 2002 where it is none."""
    path = args.get("path")
    if not isinstance(path, str):
        return args
    pointer = pointer_of(path)
    return args if pointer == path else {**args, "path": pointer}


def pointer_of(path: str) -> str:
    """`/a/b` for `/a/b` and for `a.b`; the empty path is the whole state."""
    is_pointer = not path or path.startswith("/")
    if path.count("/" if is_pointer else ".") > JSON_DEPTH_MAX:  # before anything grows with its steps
        raise ToolError(
            f"a path has at most {JSON_DEPTH_MAX} steps, because no state is deeper",
            code=2002,
            suggestion="name a place nearer to the root",
        )
    if is_pointer and "~" not in path:  # as most are
        return path
    parts = path.split("/")[1:] if is_pointer else [_escaped(part) for part in path.split(".")]
    for part in parts:
        if "~" in part.replace("~0", "").replace("~1", ""):
            raise ToolError(f"`{path}` is not a JSON pointer", code=2002, suggestion="write ~0 for ~ and ~1 for /")
    return "".join(f"/{part}" for part in parts)


def _escaped(part: str) -> str:
    return part.replace("~", "~0").replace("/", "~1")
