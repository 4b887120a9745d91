"""The past of entities, flattened to rows and bounded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agent_gate.model.bounds import HOME_HISTORY_DAYS_MAX, HOME_HISTORY_ROWS_MAX
from agent_gate.model.errors import ToolError
from agent_gate.model.tool import Json
from agent_gate.ports.surroundings import Clock
from agent_gate.services.home_assistant.client import HomeClient
from agent_gate.services.home_assistant.moments import window_of
from agent_gate.services.home_assistant.unknown import unknown_entity

_DAY_S = 86_400


class History:
    def __init__(self, client: HomeClient, clock: Clock) -> None:
        self._client, self._clock = client, clock

    async def answer(self, args: Mapping[str, Json]) -> Json:
        """Rows by entity in the order asked for, oldest first; who has more rows than its share is named."""
        wanted = list(dict.fromkeys(args["entity_ids"]))
        window = window_of(args, self._clock.now())
        if window.span_s > HOME_HISTORY_DAYS_MAX * _DAY_S:
            raise ToolError(
                f"from `start` to `end` are more than {HOME_HISTORY_DAYS_MAX} days",
                code=2002,
                suggestion="ask for one part after the other, or for `ha_get_statistics`",
            )
        changes = _by_entity(await self._client.history(wanted, window.start, window.end))
        self._refuse_unknown(wanted, changes)
        share = HOME_HISTORY_ROWS_MAX // len(wanted)
        rows = [row for entity_id in wanted for row in _rows(entity_id, changes.get(entity_id, ())[:share])]
        return {
            "rows": rows,
            "start": window.start,
            "end": window.end,
            "without_data": [entity_id for entity_id in wanted if not changes.get(entity_id)],
            "cut_off": [entity_id for entity_id in wanted if len(changes.get(entity_id, ())) > share],
        }

    def _refuse_unknown(self, wanted: Sequence[str], changes: Mapping[str, object]) -> None:
        """Refuse names that were never there: what is gone from the home may still have a past.

        A disabled entity stands in the registry alone: before that was read, nobody can say so.
        """
        home = self._client.home
        if not home.knows_places:
            return
        for entity_id in wanted:
            if entity_id not in changes and entity_id not in home.entities and entity_id not in home.registry:
                raise unknown_entity(home, entity_id)


def _by_entity(lists: Sequence[Sequence[Mapping[str, Json]]]) -> dict[str, Sequence[Mapping[str, Json]]]:
    """Only the first row of a list says whose it is; lists of entities without rows are left out by the server."""
    return {rows[0]["entity_id"]: rows for rows in lists if rows and "entity_id" in rows[0]}


def _rows(entity_id: str, changes: Sequence[Mapping[str, Json]]) -> list[dict[str, Json]]:
    return [
        {
            "entity_id": entity_id,
            "state": change.get("state"),
            "last_changed": change.get("last_changed") or change.get("last_updated"),
        }
        for change in changes
    ]
