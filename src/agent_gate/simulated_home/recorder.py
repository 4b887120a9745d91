"""Recorder of the past: rows of states by entity, and statistics by the hour."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent_gate.model.tool import Json
from agent_gate.simulated_home.states import State, iso

if TYPE_CHECKING:
    from agent_gate.simulated_home.household import Household

ROWS_MAX = 10_000
"""Of one entity."""
HOUR_S = 3_600.0
STATISTICS_HOURS = 48
_ALWAYS_SIGNIFICANT = {"climate", "device_tracker", "humidifier", "thermostat", "water_heater"}
PERIODS_S = {"5minute": 300.0, "hour": HOUR_S, "day": 86_400.0, "week": 604_800.0, "month": 2_592_000.0}
_OF_MEANS, _OF_SUMS = ("mean", "min", "max"), ("sum", "state", "change")
_MONDAY_S = 345_600.0
"""The first Monday of the epoch: weeks begin there."""


@dataclass(frozen=True, slots=True)
class Hour:
    """One row of statistics; a mean sensor has the first three values, a counter the last two."""

    begin: float
    mean: float | None = None
    min: float | None = None
    max: float | None = None
    sum: float | None = None
    state: float | None = None


class Recorder:
    def __init__(self, home: Household) -> None:
        self._home = home
        self.begun_at = home.now()
        self._rows: dict[str, deque[State]] = {}
        hour = home.now() // HOUR_S * HOUR_S
        hours = [hour - HOUR_S * ago for ago in range(STATISTICS_HOURS, 0, -1)]
        self.statistics: dict[str, Sequence[Hour]] = {
            "kitchen_sink:temperature_outdoor": [Hour(begin, 15.0, 14.0, 16.0) for begin in hours],
            "kitchen_sink:energy_consumption_kwh": [
                Hour(begin, sum=float(number), state=float(number)) for number, begin in enumerate(hours)
            ],
        }

    def keep(self, state: State) -> None:
        self._rows.setdefault(state.entity_id, deque(maxlen=ROWS_MAX)).append(state)

    def backdate(self, entity_id: str, rows: Iterable[tuple[float, str]]) -> None:
        """As if the entity had been in these states at these moments, the oldest first."""
        now = self._home.states[entity_id]
        older = [State(entity_id, state, now.attributes, at, at, now.context) for at, state in rows]
        self.begun_at = min([self.begun_at, *(state.updated_at for state in older)])
        self._rows[entity_id] = deque([*older, *self._rows[entity_id]], ROWS_MAX)

    def history(
        self, entity_ids: Sequence[str], begin: float, end: float, *, minimal: bool, significant: bool
    ) -> list[list[dict[str, Json]]]:
        """One list per entity that has rows; the others are left out."""
        if end < self.begun_at or end < begin:
            return []
        found = ([*self._between(entity_id, begin, end, significant=significant)] for entity_id in entity_ids)
        return [_rendered(rows, minimal=minimal) for rows in found if rows]

    def _between(self, entity_id: str, begin: float, end: float, *, significant: bool) -> Iterable[State]:
        rows = self._rows.get(entity_id, ())
        before = [row for row in rows if row.updated_at < begin]
        if before:  # what held at the beginning is made up for that moment
            last = before[-1]
            yield State(entity_id, last.state, last.attributes, begin, begin, last.context)
        for row in rows:
            shown = not significant or row.changed_at == row.updated_at or row.domain in _ALWAYS_SIGNIFICANT
            if begin <= row.updated_at < end and shown:
                yield row

    def listed(self) -> list[Json]:
        """List what there are statistics of, whether or not they have rows."""
        return [
            {
                "statistic_id": one,
                "has_mean": any(hour.mean is not None for hour in hours),
                "has_sum": any(hour.sum is not None for hour in hours),
                "name": None,
                "source": one.partition(":")[0] if ":" in one else "recorder",
                **dict.fromkeys(("display_unit_of_measurement", "statistics_unit_of_measurement", "unit_class")),
            }
            for one, hours in self.statistics.items()
        ]

    def statistics_of(
        self, ids: Sequence[str], begin: float, end: float | None, period: str, types: Sequence[str]
    ) -> dict[str, Json]:
        """Moments in milliseconds; an id without rows is left out, and without `types` all rows have the same keys."""
        wanted = {one: self._periods(one, begin, end or self._home.now(), period) for one in ids}
        kinds = [hours[-1].mean is None for one in ids for hours in [self.statistics.get(one)] if hours]
        own = [*(_OF_MEANS if False in kinds else ()), *(_OF_SUMS if True in kinds else ()), "last_reset"]
        return {one: [_row(row, types or own) for row in rows] for one, rows in wanted.items() if rows}

    def _periods(self, one: str, begin: float, end: float, period: str) -> list[tuple[float, float, list[Hour]]]:
        if period == "5minute":
            return []
        length = PERIODS_S[period]
        groups: dict[float, list[Hour]] = {}
        for hour in self.statistics.get(one, ()):
            if begin <= hour.begin < end:
                offset = _MONDAY_S if period == "week" else 0.0
                groups.setdefault((hour.begin - offset) // length * length + offset, []).append(hour)
        return [(start, start + length, hours) for start, hours in groups.items()]


def _rendered(rows: Sequence[State], *, minimal: bool) -> list[dict[str, Json]]:
    first, *others = rows
    if not minimal:
        return [row.as_json() for row in rows]
    shown: list[dict[str, Json]] = [first.as_json()]
    before = first.state
    for row in others:
        if row.state != before:
            shown.append({"state": row.state, "last_changed": iso(row.changed_at)})
        before = row.state
    return shown


def _row(period: tuple[float, float, list[Hour]], types: Sequence[str]) -> dict[str, Json]:
    begin, end, hours = period
    last, is_mean = hours[-1], hours[-1].mean is not None
    values: Mapping[str, Json] = {
        "mean": sum(hour.mean or 0.0 for hour in hours) / len(hours) if is_mean else None,
        "min": min((hour.min for hour in hours if hour.min is not None), default=None),
        "max": max((hour.max for hour in hours if hour.max is not None), default=None),
        "sum": last.sum,
        "state": last.state,
        "change": None if last.sum is None else last.sum - (hours[0].sum or 0.0),
        "last_reset": None,
    }
    return {"start": int(begin * 1000), "end": int(end * 1000), **{key: values[key] for key in types}}
