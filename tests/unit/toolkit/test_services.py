"""Services are started after what they depend on, closed in reverse, and their tools become calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agent_gate import open_gate
from agent_gate.config import HomeApproverConfig, HomeAssistantConfig
from agent_gate.model.errors import ConfigError
from agent_gate.model.tool import Effect, Json, Risk, ToolDeclaration
from agent_gate.toolkit import services as plugins
from agent_gate.toolkit.services import in_order, started


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


class Least:
    """As little as a service can be."""

    def tools(self) -> Sequence[ToolDeclaration]:
        return [ToolDeclaration("least.do", effect=Effect.READ, risk=Risk.LOW)]

    async def execute(self, tool_name: str, args: Mapping[str, Json]) -> Json:
        return tool_name


async def test_a_service_with_tools_and_execute_alone_is_started_called_asked_how_it_is_and_closed(
    tmp_path: Path,
) -> None:
    policy = {"rules": [{"pattern": "least.do", "action": "allow"}]}
    async with open_gate(policy, tmp_path / "a.db", services=[Least()]) as gate:
        assert (await gate.call("least.do")).data == "least.do"
        [service] = [one for one in gate.services if one.name == "least"]
        assert (await service.health_check(), service.dependencies) == (True, ())


@pytest.mark.parametrize("left_out", ["start", "health_check", "close", "dependencies", "name"])
async def test_whatever_else_a_service_leaves_out_has_a_default(tmp_path: Path, left_out: str) -> None:
    class Lacking:
        def __getattr__(self, name: str) -> object:
            if name == left_out or name not in (
                "start",
                "health_check",
                "close",
                "dependencies",
                "name",
                "tools",
                "execute",
            ):
                raise AttributeError(name)
            return getattr(whole, name)

    log: list[str] = []
    whole = Lamp("lacking", log)
    async with started([Lacking()]) as [service]:  # type: ignore[list-item]  # what mypy would have told
        assert (service.name, await service.health_check()) == ("lacking", True)
    wanted = ["start lacking", "close lacking"]
    assert log == [line for line in wanted if not line.startswith(left_out)]


async def test_what_a_service_has_besides_is_still_found(tmp_path: Path) -> None:
    class Troubled(Least):
        trouble = "no power"

        async def health_check(self) -> bool:
            return False

    async with started([Troubled()]) as [service]:
        assert (service.name, await service.health_check(), getattr(service, "trouble", "")) == (
            "troubled", False, "no power",
        )  # fmt: skip


class NoTools:
    name = "mute"

    async def execute(self, tool_name: str, args: Mapping[str, Json]) -> Json:
        return None


class NoExecute:
    def tools(self) -> Sequence[ToolDeclaration]:
        return []


@pytest.mark.parametrize(
    ("service", "told"),
    [
        (NoTools(), "the service `mute` has no `tools`; a service says its tools"),
        (NoExecute(), "the service `NoExecute` has no `execute`"),
        (object(), "the service `object` has no `tools` and no `execute`"),
    ],
)
async def test_a_service_without_tools_or_execute_is_told_at_start(tmp_path: Path, service: object, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        async with open_gate({"rules": []}, tmp_path / "a.db", services=[service]):  # type: ignore[list-item]
            pass


def test_a_package_whose_service_has_no_tools_is_told_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    point = SimpleNamespace(name="mute", value="mute:NoTools", load=lambda: NoTools)
    monkeypatch.setattr(plugins, "offers", lambda group: [point])
    with pytest.raises(ConfigError, match="the service `mute` has no `tools`"):
        plugins.installed()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"url": ""}, "services.homeassistant.url: "),
        ({"url": "ftp://home"}, "a URL that starts with https:// or http://"),
        ({"poll_interval_seconds": 0}, "poll_interval_seconds: `0` is too small; it must be at least 1"),
        ({"snapshot_interval_seconds": -1}, "snapshot_interval_seconds: `-1` is too small"),
        ({"websocket_ping_interval": 0}, "websocket_ping_interval: `0` is too small"),
        ({"websocket_ping_interval": 100_000}, "websocket_ping_interval: `100000` is too large"),
        ({"verify_ssl": "yes"}, "verify_ssl: `yes` is not true or false"),
        ({"approvals": (HomeApproverConfig("anna", "notify.all"),)}, "approvals[0].notify: `notify.all` is not"),
        ({"approvals": (HomeApproverConfig("", "notify.mobile_app_a"),)}, "approvals[0].approver: "),
    ],
)
def test_settings_of_a_home_that_a_program_makes_are_validated_like_those_of_a_file(
    arguments: dict[str, Any], told: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        HomeAssistantConfig(**{"url": "http://home", "token": "hunter2", **arguments})
    assert told in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_every_setting_of_a_home_that_is_wrong_is_told_at_once() -> None:
    with pytest.raises(ConfigError) as refused:
        HomeAssistantConfig("", poll_interval_seconds=0, snapshot_interval_seconds=0)
    assert len(refused.value.problems) == 3
