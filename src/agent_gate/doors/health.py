"""Health of everything that a server rests on: messengers and services, each asked, none waited for long."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Mapping

from agent_gate.doors.context import ServerContext
from agent_gate.model.errors import GateError
from agent_gate.ports.services import Service

OK = "ok"
_log = logging.getLogger("agent_gate.health")


async def health_of(
    context: ServerContext, besides: Mapping[str, Awaitable[bool | str]] | None = None
) -> dict[str, str]:
    """By name: `ok`, `silent`, or `failing` and why where that is known."""
    asked: dict[str, Awaitable[bool | str]] = {
        **(besides or {}),
        **{name: ask() for name, ask in context.checks.items()},
    }
    asked |= {f"service:{service.name}": _is_well(service) for service in context.gate.services}
    states = await asyncio.gather(
        *(_state(name, answer, context.bounds.health_check_s) for name, answer in asked.items())
    )
    return dict(zip(asked, states, strict=True))


async def connections(context: ServerContext) -> dict[str, str]:
    """Only what leads out of this machine, or is not well."""
    far = {f"service:{service.name}" for service in context.gate.services if hasattr(service, "trouble")}
    far |= context.checks.keys()
    return {name: state for name, state in (await health_of(context)).items() if name in far or state != OK}


async def _is_well(service: Service) -> bool | str:
    """A service may know its trouble in words."""
    return await service.health_check() or str(getattr(service, "trouble", "")) or False


async def _state(name: str, answer: Awaitable[bool | str], within_s: float) -> str:
    try:
        async with asyncio.timeout(within_s):
            said = await answer
            return f"failing: {said}" if isinstance(said, str) else OK if said else "failing"
    except TimeoutError:
        return "silent"
    except Exception as error:
        if not isinstance(error, GateError | OSError):
            _log.exception("the health check of %s failed", name)
        return "failing"
