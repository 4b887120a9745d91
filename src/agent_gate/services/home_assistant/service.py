"""The service `home_assistant`: from the start of the connection to its end, with the twelve tools of a home."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack

from agent_gate.config import HomeAssistantConfig
from agent_gate.model.errors import ToolError
from agent_gate.model.tool import Json, ToolDeclaration
from agent_gate.ports.ledger import Ledger
from agent_gate.ports.services import Introduction
from agent_gate.ports.surroundings import Clock, Ids
from agent_gate.ports.tools import RegisteredTool
from agent_gate.services.home_assistant.client import HomeClient
from agent_gate.services.home_assistant.commands import Commands
from agent_gate.services.home_assistant.control import control_tools
from agent_gate.services.home_assistant.credentials import HOW_TO_SET, Contacts, TokenRefused, resolve_token
from agent_gate.services.home_assistant.faults import AuthRefused
from agent_gate.services.home_assistant.health import HomeHealth
from agent_gate.services.home_assistant.queries import SERVICE, answers, query_tools
from agent_gate.services.home_assistant.snapshots import Snapshots, remembered
from agent_gate.tools.home_assistant.declarations import HA_CALL_SERVICE, HOME_ASSISTANT_TOOLS, ToolMeta


class HomeAssistantService:
    name = SERVICE
    dependencies: Sequence[str] = ("contacts", "approvals")
    config_schema = HomeAssistantConfig
    client: HomeClient
    """From `start` on."""

    def __init__(
        self,
        settings: HomeAssistantConfig,
        contacts: Contacts,
        ledger: Ledger,
        clock: Clock,
        ids: Ids,
        *,
        hide: Callable[[str], None] = lambda _: None,
        environment: Mapping[str, str] = os.environ,
        settings_now: Callable[[], HomeAssistantConfig | None] | None = None,
    ) -> None:
        """`hide` is told each token before it is used, so that no log shows it.

        `settings_now` reads the settings again, where a token may be replaced in them.
        """
        self._settings, self._contacts, self._ledger, self._clock, self._ids = settings, contacts, ledger, clock, ids
        self._hide, self._environment = hide, environment
        self._settings_now = settings_now
        self._hidden: set[bytes] = set()
        """Digests of the tokens that `hide` was told."""
        self._running = AsyncExitStack()

    def tools(self) -> Sequence[ToolDeclaration]:
        return HOME_ASSISTANT_TOOLS

    def tool_metadata(self) -> Mapping[str, ToolMeta]:
        """Of those tools alone that have arguments a person must look at."""
        return {HA_CALL_SERVICE.name: ToolMeta(dict.fromkeys(sorted(HA_CALL_SERVICE.sensitive), True))}

    def migration_revisions(self) -> str:
        """The label of the ledger's branch with the tables of this service."""
        return SERVICE

    def registered_tools(self) -> Sequence[RegisteredTool]:
        send = Commands(self.client, self._ledger, self._clock, self._ids).send
        made = [*query_tools(self.client, self._clock), *control_tools(self.client, self._clock, send)]
        registered_tools = {registered.declaration.name: registered for registered in made}
        return [registered_tools[tool.name] for tool in HOME_ASSISTANT_TOOLS]

    async def start(self) -> None:
        """RuntimeError where there is no token, or the server refuses it; one that cannot be reached is tried again."""
        token = await self._token_in(self._settings)
        self.client = HomeClient(self._settings, token, self._clock, look_up=self._token_now)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self.client.close)
            try:
                await self.client.start()
            except AuthRefused as error:
                raise TokenRefused(str(error), suggestion=HOW_TO_SET) from None
            home = self.client.home
            if not home.is_ready and (known := await remembered(self._ledger)):
                home.remember(known)
            snapshots = Snapshots(home, self._ledger, self._settings.snapshot_interval_seconds)
            snapshots.start()
            stack.push_async_callback(snapshots.close)
            self._running = stack.pop_all()

    async def _token_now(self) -> str:
        read = self._settings_now() if self._settings_now else None
        return await self._token_in(read or self._settings)

    async def _token_in(self, settings: HomeAssistantConfig) -> str:
        token = await resolve_token(settings, self._contacts, self._environment)
        digest = hashlib.sha256(token.encode()).digest()
        if digest not in self._hidden:
            self._hidden.add(digest)
            self._hide(token)
        return token

    async def execute(self, tool_name: str, args: Mapping[str, Json]) -> Json:
        """Execute what only looks; what acts is judged, recorded and undone by the gate, and by nobody else."""
        for tool, answer in answers(self.client, self._clock):
            if tool.name == tool_name:
                return await answer(args)
        raise ToolError(f"`{tool_name}` acts on what was judged: call it through the gate")

    @property
    def trouble(self) -> str:
        """Say what is wrong with the connection, in one line; empty where nothing is."""
        return self.client.trouble

    @property
    def health(self) -> HomeHealth:
        """Tell how it is with the home, for whoever starts the gate."""
        return HomeHealth(self.client.url, self.client.home.version, self.client.user, self.trouble)

    @property
    def introduction(self) -> Introduction:
        return Introduction("home", self.health.told, self.health.to_json())

    async def health_check(self) -> bool:
        return not self.trouble

    async def close(self) -> None:
        """The last snapshot first, then the connection."""
        await self._running.aclose()
