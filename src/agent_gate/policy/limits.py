"""Limits that a policy sets, as charges that the ledger reserves; `model/limit.py` says what kinds there are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import timezone, tzinfo

from agent_gate.model.call import Usage
from agent_gate.model.charge import Charge
from agent_gate.model.errors import Problem
from agent_gate.model.limit import CountedCall, Limit
from agent_gate.model.policy import LIMITS, LimitSetting, Policy


def zone_of(name: str) -> tzinfo:
    if name == "UTC":
        return timezone.utc
    from zoneinfo import ZoneInfo  # noqa: PLC0415 -- most policies do not need it, and it is slow to load

    return ZoneInfo(name)


def outstanding(charges: tuple[Charge, ...], reserved: tuple[Charge, ...]) -> tuple[Charge, ...]:
    """Find what is still to be charged of `charges` where some of it was reserved earlier and still counts."""
    if not reserved:
        return charges
    owed = (replace(charge, amount=charge.amount - counted(charge, reserved)) for charge in charges)
    return tuple(charge for charge in owed if charge.amount > 0)


def counted(charge: Charge, others: Iterable[Charge]) -> float:
    """Sum up how much of `others` falls into the window of one charge."""
    oldest = charge.bucket - charge.window
    return sum(other.amount for other in others if other.scope == charge.scope and other.bucket > oldest)


def limits_set(policy: Policy) -> tuple[tuple[Limit, float], ...]:
    """Return the limits that a policy sets, with their values."""
    values = ((one.limit, one.value(policy)) for one in LIMITS.values())
    return tuple((limit, value) for limit, value in values if value is not None)


def charges_for(limits: Iterable[tuple[Limit, float]], call: CountedCall) -> tuple[Charge, ...]:
    """One charge for each limit that is set and that the call touches."""
    charges = (limit.charge(most, call) for limit, most in limits)
    return tuple(charge for charge in charges if charge is not None)


def usage_of(counts: Iterable[tuple[Charge, float]]) -> Usage:
    """Counts as the facts of a call have them."""
    found = ((_setting(charge).limit, count) for charge, count in counts)
    return {limit.recorded_as: limit.used(count) for limit, count in found if count}


def used_by(charge: Charge, usage: Usage) -> float:
    """Tell how much of a limit the facts say was used."""
    return usage.get(_setting(charge).limit.recorded_as, 0)


def no_room(charge: Charge, used: float) -> Problem:
    """The same words whether judgement saw it coming or the reservation found no room."""
    setting = _setting(charge)
    return setting.limit.no_room(charge, used, setting.key)


def rule_of(charge: Charge) -> str:
    """The name of its limit, as reasons have it."""
    return _setting(charge).limit.name


def _setting(charge: Charge) -> LimitSetting:
    return LIMITS[charge.scope.partition(":")[0]]
