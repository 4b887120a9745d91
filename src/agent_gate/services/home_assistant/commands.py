"""Calls of services that are no calls of agents: each is written down before it is sent, and then how it went."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Protocol

from agent_gate.model.codec import canonical
from agent_gate.model.committed import Applied
from agent_gate.model.entry import GATE_PROJECT, Draft, Kind
from agent_gate.model.errors import StorageError, ToolError
from agent_gate.model.moment import iso
from agent_gate.model.tool import Json
from agent_gate.model.work import Work
from agent_gate.ports.ledger import Ledger
from agent_gate.ports.surroundings import Clock, Ids
from agent_gate.services.home_assistant.client import Called, HomeClient
from agent_gate.services.home_assistant.faults import OutcomeUnknown

_log = logging.getLogger(__name__)


class SendCommand(Protocol):
    async def __call__(
        self,
        call_id: str,
        domain: str,
        service: str,
        *,
        target: Mapping[str, Json] | None,
        data: Mapping[str, Json],
        timeout_s: float,
        only_live: bool = False,
        told: Mapping[str, Json] | None = None,
        must_be_recorded: bool = True,
    ) -> Called: ...


class Commands:
    """The calls of `ha_call_service` and `ha_activate_scene` have entries of their own, and are not sent from here."""

    def __init__(self, client: HomeClient, ledger: Ledger, clock: Clock, ids: Ids) -> None:
        self._client, self._ledger, self._clock, self._ids = client, ledger, clock, ids

    async def send(
        self,
        call_id: str,
        domain: str,
        service: str,
        *,
        target: Mapping[str, Json] | None,
        data: Mapping[str, Json],
        timeout_s: float,
        only_live: bool = False,
        told: Mapping[str, Json] | None = None,
        must_be_recorded: bool = True,
    ) -> Called:
        """On behalf of a call, in whose project it is recorded and with which it is erased.

        `told` is recorded in place of the data, where that holds what opens something. Raises StorageError, and sends
        nothing, where it must be recorded and cannot be; otherwise what the client raises.
        """
        recorded: dict[str, Json] = {"domain": domain, "service": service, "data": dict(data if told is None else told)}
        if target:
            recorded["target"] = dict(target)
        note = _Note(self._ledger, self._clock, self._ids, call_id)
        try:
            await note.begin(recorded)
        except StorageError as error:
            if must_be_recorded:
                raise
            _log.error("a command to home assistant is not recorded: %s", error)
        try:
            called = await self._client.call_service(
                domain,
                service,
                target=target,
                data=data,
                wants_response=False,
                timeout_s=timeout_s,
                only_live=only_live,
            )
        except ToolError as error:
            status = "unknown" if isinstance(error, OutcomeUnknown) else "error"
            await note.end(status, {"error": error.problem.to_json()})
            raise
        changed = [{"entity_id": entity.entity_id, "state": entity.state} for entity in called.changed]
        await note.end("success", {"data": {"context_id": called.context_id, "changed": changed}})
        return called


class _Note:
    """The two entries of one command."""

    def __init__(self, ledger: Ledger, clock: Clock, ids: Ids, call_id: str) -> None:
        self._ledger, self._clock, self._ids, self._call_id = ledger, clock, ids, call_id
        self._id = ids.new()
        self._project: str | None = None
        """Known once its beginning is written down."""

    async def begin(self, command: Mapping[str, Json]) -> None:
        entries = await self._ledger.entries_of(self._call_id)
        project = entries[0].project if entries else GATE_PROJECT
        await self._write(project, "sent", {"command": command})
        self._project = project

    async def end(self, status: str, fields: Mapping[str, Json]) -> None:
        """It has happened: that nobody can write down how it went does not make it undone."""
        if self._project is None:
            return
        try:
            await self._write(self._project, status, fields)
        except StorageError as error:
            _log.error("how a command to home assistant ended is not recorded: %s", error)

    async def _write(self, project: str, status: str, fields: Mapping[str, Json]) -> None:
        body = canonical({**fields, "command_id": self._id, "salt": self._ids.salt()})
        draft = Draft(Kind.COMMAND, iso(self._clock.now()), body, self._call_id, status=status)
        committed = await self._ledger.commit(Work(project, (draft,)))
        assert isinstance(committed, Applied), "the project of a call takes entries about it whatever its status"
