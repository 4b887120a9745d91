"""After settle: `post_execution` effects, run from the outbox with their own timeout, each result an entry."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from agent_gate.model.bounds import EFFECT_TIMEOUT_S, OUTPUT_BYTES_MAX
from agent_gate.model.codec import canonical
from agent_gate.model.entry import Draft, Kind
from agent_gate.model.errors import GateError, Problem, StorageError
from agent_gate.model.moment import iso
from agent_gate.model.outcome import Outcome
from agent_gate.model.work import EndEffect, Work
from agent_gate.ports.ledger import Append
from agent_gate.ports.surroundings import Clock, Ids
from agent_gate.ports.tools import Prepared

_log = logging.getLogger(__name__)


class Effects:
    """Runs the effect of a settled call and records how it ended."""

    def __init__(self, ledger: Append, clock: Clock, ids: Ids, timeout_s: float = EFFECT_TIMEOUT_S) -> None:
        self._ledger, self._clock, self._ids, self._timeout_s = ledger, clock, ids, timeout_s

    async def run(self, prepared: Prepared, outcome: Outcome, effect_id: str) -> None:
        """Once; an effect that a crash leaves open is reported as unknown and not run again."""
        call = prepared.call
        body: dict[str, Any] = {"effect_id": effect_id, "salt": self._ids.salt(), "started_at": iso(self._clock.now())}
        problem, data = await self._act(prepared, outcome)
        if problem is not None:
            body["error"] = problem.to_json()
        elif data is not None:
            body["data"] = data
        draft = Draft(
            Kind.EFFECT,
            iso(self._clock.now()),
            canonical(body),
            call_id=call.call_id,
            run_id=call.request.run_id,
            request_id=call.request.request_id,
            agent_id=call.request.agent.id,
            tool=call.request.tool,
            status="error" if problem else "success",
        )
        try:
            await self._ledger.commit(Work(call.request.project, (draft,), (EndEffect(effect_id),)))
        except StorageError as error:
            _log.warning("how the effect of call %s ended could not be recorded: %s", call.call_id, error)

    async def _act(self, prepared: Prepared, outcome: Outcome) -> tuple[Problem | None, Any]:
        effect = prepared.registered.post_execution
        assert effect is not None
        scope = asyncio.timeout(self._timeout_s)
        try:
            async with scope:
                data = await effect(outcome.to_json())
            size = len(canonical(data))
        except GateError as error:
            return error.problem, None
        except (Exception, SystemExit, asyncio.CancelledError) as error:
            if scope.expired():
                return Problem(2004, f"the effect did not end within {self._timeout_s:g} s"), None
            if _is_being_cancelled():
                raise
            return Problem(2003, f"the effect failed: {type(error).__name__}: {error}"[:1000]), None
        if size > OUTPUT_BYTES_MAX:
            return Problem(2005, f"the effect's result has {size} bytes, more than {OUTPUT_BYTES_MAX}"), None
        return None, data


def _is_being_cancelled() -> bool:
    """By the gate itself, not by what the effect awaited."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
