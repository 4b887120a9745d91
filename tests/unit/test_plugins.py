"""Services are started after what they depend on, closed in reverse, and their tools become calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from agent_gate import open_gate
from agent_gate.model.errors import ConfigError
from agent_gate.model.tool import Effect, Json, Risk, ToolDeclaration
from agent_gate.plugins import in_order, started


class Lamp:
    """A service as somebody else would write it."""

    def __init__(self, name: str, log: list[str], dependencies: Sequence[str] = (), fails: bool = False) -> None:
        self.name, self.dependencies = name, dependencies
        self._log, self._fails = log, fails

    def tools(self) -> Sequence[ToolDeclaration]:
        return [ToolDeclaration(f"{self.name}.on", effect=Effect.WRITE, risk=Risk.LOW)]

    async def start(self) -> None:
        if self._fails:
            raise RuntimeError("no power")
        self._log.append(f"start {self.name}")

    async def execute(self, tool_name: str, args: Mapping[str, Json]) -> Json:
        return {"did": tool_name, "with": dict(args)}

    async def health_check(self) -> bool:
        return True

    async def close(self) -> None:
        self._log.append(f"close {self.name}")


async def test_services_start_after_what_they_depend_on_and_close_in_reverse() -> None:
    log: list[str] = []
    async with started([Lamp("b", log, ["a"]), Lamp("a", log), Lamp("c", log, ["b"])]):
        pass
    assert log == ["start a", "start b", "start c", "close c", "close b", "close a"]


async def test_what_was_started_is_closed_where_a_later_service_fails() -> None:
    log: list[str] = []
    with pytest.raises(RuntimeError, match="no power"):
        async with started([Lamp("a", log), Lamp("b", log, ["a"], fails=True)]):
            pass
    assert log == ["start a", "close a"]


@pytest.mark.parametrize(
    ("services", "problem"),
    [
        ([("a", ["b"]), ("b", ["a"])], "depend on each other in a circle: a → b → a"),
        ([("a", ["b"])], "service `a` depends on `b`, which is not here"),
        ([("a", []), ("a", [])], "two services are called `a`"),
    ],
)
def test_services_that_cannot_be_ordered_are_refused(services: list[tuple[str, list[str]]], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        in_order([Lamp(name, [], dependencies) for name, dependencies in services])


async def test_a_service_of_another_package_is_called_through_the_gate(tmp_path: Path) -> None:
    log: list[str] = []
    policy = {"rules": [{"pattern": "lamp.on(*)", "action": "allow"}]}
    async with open_gate(policy, tmp_path / "a.db", services=[Lamp("lamp", log)]) as gate:
        outcome = await gate.call("lamp.on", room="hall")
    assert (outcome.data, log) == ({"did": "lamp.on", "with": {"room": "hall"}}, ["start lamp", "close lamp"])
