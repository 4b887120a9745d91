"""The two moments between which the past of a home is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import NamedTuple

from agent_gate.model.errors import ToolError
from agent_gate.model.tool import Json
from agent_gate.services.home_assistant.unknown import shown

_EXAMPLE = "write it as `2026-02-01T00:00:00Z`, or with an offset such as `+01:00`"


class Window(NamedTuple):
    """ISO 8601 in UTC, as the server takes it."""

    start: str
    end: str

    @property
    def span_s(self) -> float:
        return (datetime.fromisoformat(self.end) - datetime.fromisoformat(self.start)).total_seconds()


def window_of(args: Mapping[str, Json], now: float) -> Window:
    """From `start` to `end`, at the latest now; ToolError 2002 where that is no stretch of the past."""
    present = datetime.fromtimestamp(now, timezone.utc)
    start = _moment("start", args["start"])
    end = min(_moment("end", args["end"]), present) if "end" in args else present
    if start >= present:
        raise ToolError(
            f"`start` is in the future: `{shown(args['start'])}`",
            code=2002,
            suggestion=f"it is {_text(present)} now",
        )
    if start >= end:
        raise ToolError("`start` is not before `end`", code=2002, suggestion="exchange them, or choose a later `end`")
    return Window(_text(start), _text(end))


def _moment(name: str, text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text.strip())
        if moment.tzinfo is not None:
            return moment.astimezone(timezone.utc)
    except (ValueError, OverflowError):
        raise ToolError(f"`{name}` is no moment: `{shown(text[:100])}`", code=2002, suggestion=_EXAMPLE) from None
    raise ToolError(f"`{name}` names no zone: `{shown(text[:100])}`", code=2002, suggestion=_EXAMPLE)


def _text(moment: datetime) -> str:
    return moment.isoformat()
