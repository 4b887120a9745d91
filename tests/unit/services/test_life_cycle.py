"""The built-in services have the shape of every service."""

from __future__ import annotations

from typing import cast

import pytest

from agent_gate.model.errors import ToolError
from agent_gate.ports.ledger import Ledger
from agent_gate.ports.services import Service
from agent_gate.services.approvals import ApprovalsService
from agent_gate.services.contacts import ContactsService
from agent_gate.services.revert import RevertService
from agent_gate.services.state import StateService
from agent_gate.toolkit.services import completed, declarations
from tests.gates import CountedIds, HandClock

SERVICES: list[Service] = [
    completed(service)
    for service in (
        StateService(),
        RevertService(cast(Ledger, None), lambda _: None),
        ContactsService(cast(Ledger, None), bytes(32), HandClock(), CountedIds()),
        ApprovalsService(),
    )
]


@pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.name)
async def test_a_built_in_service_starts_is_well_and_closes(service: Service) -> None:
    await service.start()
    assert await service.health_check()
    for declaration in declarations(service):
        with pytest.raises(ToolError):
            await service.execute(declaration.name, {})
    await service.close()


def test_the_state_tools_are_those_of_the_interface() -> None:
    assert [tool.name for tool in StateService().tools()] == ["state.get", "state.set", "state.delete", "state.patch"]


@pytest.mark.parametrize("service", SERVICES[2:], ids=lambda service: service.name)
async def test_a_service_for_others_has_no_tools_and_takes_no_calls(service: Service) -> None:
    assert (list(service.tools()), list(service.dependencies)) == ([], [])
    with pytest.raises(ToolError, match="has no tool `show`"):
        await service.execute("show", {})
