"""What a call counts against: rate, budget and quota, as charges that the ledger reserves."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timezone, tzinfo

from agent_gate.model.charge import Charge
from agent_gate.model.policy import Policy

RATE, BUDGET, QUOTA = 1012, 1013, 1007


def zone_of(name: str) -> tzinfo:
    if name == "UTC":
        return timezone.utc
    from zoneinfo import ZoneInfo  # noqa: PLC0415 -- most policies do not need it, and it is slow to load

    return ZoneInfo(name)


def outstanding(charges: tuple[Charge, ...], reserved: tuple[Charge, ...]) -> tuple[Charge, ...]:
    """What is still to be charged of `charges` where some of it was reserved earlier and still counts."""
    if not reserved:
        return charges
    owed = (replace(charge, amount=charge.amount - counted(charge, reserved)) for charge in charges)
    return tuple(charge for charge in owed if charge.amount > 0)


def counted(charge: Charge, others: Iterable[Charge]) -> float:
    """How much of `others` falls into the window of one charge."""
    oldest = charge.bucket - charge.window
    return sum(other.amount for other in others if other.scope == charge.scope and other.bucket > oldest)


def counts(policy: Policy) -> bool:
    """Whether there is anything that a call could be charged for."""
    limits = (policy.limits.rate_per_minute, policy.limits.rate_per_hour, policy.limits.budget_daily)
    return policy.max_calls_per_tool is not None or any(limit is not None for limit in limits)


def charges_for(
    policy: Policy, zone: tzinfo, at: float, cost: float, tool: str, run_id: str | None
) -> tuple[Charge, ...]:
    """One charge for each limit that the policy sets and the call touches.

    The windows of rates slide by buckets, a second of a minute and a minute of an hour, and are exact to within one.
    """
    limits = policy.limits
    charges: list[Charge] = []
    if limits.rate_per_minute is not None:
        charges.append(Charge("minute", int(at), 60, 1, limits.rate_per_minute, RATE))
    if limits.rate_per_hour is not None:
        charges.append(Charge("hour", int(at // 60), 60, 1, limits.rate_per_hour, RATE))
    if limits.budget_daily is not None and cost:
        day = datetime.fromtimestamp(at, zone).toordinal()
        charges.append(Charge("budget", day, 1, cost, limits.budget_daily, BUDGET))
    if policy.max_calls_per_tool is not None and run_id is not None:
        charges.append(Charge(f"run:{run_id}:{tool}", 0, 1, 1, policy.max_calls_per_tool, QUOTA))
    return tuple(charges)
