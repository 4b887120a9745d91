"""The built-in services have the shape of every service."""

from __future__ import annotations

from typing import cast

import pytest

from agent_gate.model.errors import ToolError
from agent_gate.ports import Ledger, Service
from agent_gate.services.revert import RevertService
from agent_gate.services.state import StateService

SERVICES: list[Service] = [StateService(), RevertService(cast(Ledger, None), lambda _: None)]


@pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.name)
async def test_a_built_in_service_starts_is_well_and_closes(service: Service) -> None:
    await service.start()
    assert await service.health_check()
    for declaration in service.tools():
        with pytest.raises(ToolError):
            await service.execute(declaration.name, {})
    await service.close()


def test_the_state_tools_are_those_of_the_interface() -> None:
    assert [tool.name for tool in StateService().tools()] == ["state.get", "state.set", "state.delete", "state.patch"]
