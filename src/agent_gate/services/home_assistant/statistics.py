"""Long-term statistics of sensors, flattened to rows and bounded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agent_gate.model.bounds import HOME_STATISTIC_ROWS_ASKED_MAX, HOME_STATISTIC_ROWS_MAX
from agent_gate.model.errors import ToolError
from agent_gate.model.moment import iso
from agent_gate.model.tool import Json
from agent_gate.ports.surroundings import Clock
from agent_gate.services.home_assistant.client import HomeClient
from agent_gate.services.home_assistant.faults import Refused
from agent_gate.services.home_assistant.moments import window_of
from agent_gate.services.home_assistant.unknown import unknown_statistic
from agent_gate.tools.home_assistant.declarations import PERIODS

_PERIODS_S: Mapping[str, float] = dict(zip(PERIODS, (300, 3_600, 86_400, 604_800, 2_592_000), strict=True))
FIGURES = ("mean", "min", "max", "sum", "state")


class Statistics:
    def __init__(self, client: HomeClient, clock: Clock) -> None:
        self._client, self._clock = client, clock

    async def answer(self, args: Mapping[str, Json]) -> Json:
        """Rows by id in the order asked for, oldest first; figures that an id does not have are null."""
        wanted = list(dict.fromkeys(args["statistic_ids"]))
        window = window_of(args, self._clock.now())
        if len(wanted) * window.span_s / _PERIODS_S[args["period"]] > HOME_STATISTIC_ROWS_ASKED_MAX:
            raise ToolError(
                f"these are more than {HOME_STATISTIC_ROWS_ASKED_MAX:,} periods",
                code=2002,
                suggestion="choose a longer period, a shorter time, or fewer ids",
            )
        found = await self._client.statistics(wanted, window.start, window.end, args["period"])
        without = [statistic_id for statistic_id in wanted if not found.get(statistic_id)]
        if without:
            await self._refuse_unknown(without)
        share = HOME_STATISTIC_ROWS_MAX // len(wanted)
        rows = [row for statistic_id in wanted for row in _rows(statistic_id, found.get(statistic_id, ())[:share])]
        return {
            "rows": rows,
            "period": args["period"],
            "start": window.start,
            "end": window.end,
            "without_data": without,
            "cut_off": [statistic_id for statistic_id in wanted if len(found.get(statistic_id, ())) > share],
        }

    async def _refuse_unknown(self, without: Sequence[str]) -> None:
        """The server says nothing of ids that it does not know; its list does."""
        try:
            listed = await self._client.command("recorder/list_statistic_ids")
        except Refused:  # by a server that has no such list: better no figures than a wrong no
            return
        known = [each["statistic_id"] for each in listed if isinstance(each, Mapping) and "statistic_id" in each]
        for statistic_id in without:
            if statistic_id not in known:
                raise unknown_statistic(statistic_id, known)


def _rows(statistic_id: str, periods: Sequence[Mapping[str, Json]]) -> list[dict[str, Json]]:
    return [
        {
            "statistic_id": statistic_id,
            "start": _moment(period.get("start")),
            "end": _moment(period.get("end")),
            **{figure: period.get(figure) for figure in FIGURES},
        }
        for period in periods
    ]


def _moment(milliseconds: Json) -> str | None:
    return iso(milliseconds / 1_000) if isinstance(milliseconds, int | float) else None
