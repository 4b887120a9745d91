"""The simulated home as a server has it: with people, services and phones, and with whatever may befall it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from agent_gate.model.tool import Json
from agent_gate.simulated_home import furniture, making, messaging, moving, programs, switching
from agent_gate.simulated_home.household import Household
from agent_gate.simulated_home.life import Life
from agent_gate.simulated_home.notifications import Notification, Phone
from agent_gate.simulated_home.registry import Area, Device, RegistryEntry
from agent_gate.simulated_home.services import Call, Service
from agent_gate.simulated_home.states import Context, ulid
from agent_gate.simulated_home.users import User, Users

VERSION = "2024.3.3"
CALLS_KEPT_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Made:
    """A call as it was made, for tests to look at."""

    domain: str
    service: str
    data: Mapping[str, Json]
    context: Context


class SimulatedHome(Household):
    """Without arguments a small furnished home; what is given replaces that part of it."""

    def __init__(
        self,
        *,
        entities: Mapping[str, tuple[str, Mapping[str, Json]]] | None = None,
        areas: Iterable[Area] | None = None,
        devices: Iterable[Device] | None = None,
        entries: Iterable[RegistryEntry] | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(
            furniture.ENTITIES if entities is None else entities,
            furniture.AREAS if areas is None else areas,
            furniture.DEVICES if devices is None else devices,
            furniture.ENTRIES if entries is None else entries,
            now,
        )
        self.monotonic, self.version = time.monotonic, VERSION
        self.leaves_words_to_translations = False
        """As servers from 2026 do: services are listed without names and descriptions."""
        self.owner, self.limited = User("owner", "admin"), User("limited", "user")
        self.readonly = User("readonly", "read-only")
        self.users = Users((self.owner, self.limited, self.readonly))
        self.life = Life(self)
        self.scenes: dict[str, Mapping[str, Mapping[str, Json]]] = dict(furniture.SCENES)
        """States that each scene sets, by entity."""
        self.scripts: dict[str, Callable[[Call], Awaitable[Json]]] = dict(furniture.SCRIPTS)
        self.phones = {name: Phone(name, user.id) for name, user in self._phone_users().items()}
        self.services: dict[tuple[str, str], Service] = {}
        for service in self._all_services():
            self.services[service.domain, service.name] = service
        self.notifications: list[Notification] = []
        self.calls: list[Made] = []
        """Every call that was carried out, the newest last."""
        self.memory: dict[str, dict[str, Json]] = {}
        """Attributes that a device remembers while it is off."""
        self.auth_s = 10.0
        """Seconds that one who connects has to say who they are."""
        self.lock_s, self.cover_s, self.slow_script_s = 0.0, 0.02, 12.0
        """Seconds that a lock turns, a cover moves, and `script.slow` takes."""
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def token(self) -> str:
        return self.owner.token

    def register(self, service: Service) -> None:
        self.services[service.domain, service.name] = service
        self.bus.fire("service_registered", {"domain": service.domain, "service": service.name}, self.context())

    def unregister(self, domain: str, name: str) -> None:
        del self.services[domain, name]
        self.bus.fire("service_removed", {"domain": domain, "service": name}, self.context())

    def act_on_notification(
        self, action: str, *, phone: str = "mobile_app_pixel", reply_text: str | None = None, user_id: str = ""
    ) -> None:
        """Somebody presses a button of the last notification that this phone shows."""
        shown = next((one for one in reversed(self.notifications) if one.service == phone), None)
        data = self.phones[phone].event_of(shown, action, reply_text)
        context = Context(ulid(self.now()), user_id or self.phones[phone].user_id)
        self.bus.fire("mobile_app_notification_action", data, context, "REMOTE")

    def revoke_token(self, token: str = "") -> None:
        """Whoever is connected with it is dropped at once."""
        revoked = token or self.token
        self.users.revoke(revoked)
        self.life.drop(lambda user: user.token == revoked)

    def drop_connections(self) -> None:
        """Every WebSocket connection breaks without a word."""
        self.life.drop(lambda _: True)

    def stop(self) -> None:
        """As `homeassistant.stop`: it does not come back."""
        self.life.stop()

    def restart(self, *, down_s: float = 0.05, hold: bool = False) -> None:
        """As `homeassistant.restart`; with `hold` it stays half started until `finish_start`."""
        self.life.restart(down_s=down_s, hold=hold)

    def finish_start(self) -> None:
        self.life.may_finish.set()

    def hold_answers(self) -> None:
        """Calls are carried out, but their answers do not come until `release_answers`."""
        self.life.answering.clear()

    def release_answers(self) -> None:
        self.life.answering.set()

    def fall_silent(self) -> None:
        """Connections stay open, and nothing is read or said on them until `speak_again`."""
        self.life.speaking.clear()

    def speak_again(self) -> None:
        self.life.speaking.set()

    def remember(self, call: Call, data: Mapping[str, Json]) -> None:
        self.calls.append(Made(call.domain, call.service, dict(data), call.context))
        del self.calls[:-CALLS_KEPT_MAX]

    def later(self, seconds: float, act: Callable[[], None]) -> None:
        async def work() -> None:
            await asyncio.sleep(seconds)
            act()

        self.background(work())

    def background(self, work: Coroutine[Any, Any, Json]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Whatever is under way is broken off."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _phone_users(self) -> dict[str, User]:
        return {"mobile_app_pixel": self.owner, "mobile_app_guest_phone": self.limited}

    def _all_services(self) -> Iterable[Service]:
        yield from (*switching.SERVICES, *moving.SERVICES, *programs.SERVICES, *making.SERVICES, *messaging.SERVICES)
        there = [entity_id for entity_id in self.scripts if entity_id in self.states]
        yield from (programs.script(entity_id.partition(".")[2]) for entity_id in there)
        yield from (messaging.notify(name) for name in self.phones)
