"""Words for what a replay found of one step, the same in every report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

AS_RECORDED, BROKEN, NOT_RECOMPUTED = "as_recorded", "broken", "not_recomputed"


def in_words(replayed: Mapping[str, Any]) -> str:
    """Put what a replay found of one step into words, as reports show it."""
    mismatches = [f"{one['what']} ({one['code']})" for one in replayed.get("mismatches", ())]
    reasons = replayed.get("not_recomputed", ())
    words = {
        AS_RECORDED: "as recorded",
        BROKEN: f"broken: {'; '.join(mismatches)}",
        NOT_RECOMPUTED: f"not recomputed: {'; '.join(reasons)}",
    }.get(replayed["finding"], "erased")
    return "; ".join([words, *(f"under the other policy {change}" for change in replayed.get("changes", ()))])
