"""Composition root: settings in, a wired gate out; the only file that knows every adapter."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from agent_gate.config import load_policy
from agent_gate.gate.assembly import assemble
from agent_gate.gate.bounds import DEFAULT_BOUNDS, GateBounds
from agent_gate.gate.gate import Gate
from agent_gate.gate.policy_watch import PolicyWatch, log_warnings, record_policy, record_tools
from agent_gate.history.past_states import PastStates
from agent_gate.history.readings import Readings
from agent_gate.ledger.storage import storage_at
from agent_gate.model.approval import Approver
from agent_gate.model.bounds import APPROVAL_TIMEOUT_S
from agent_gate.model.call import Agent
from agent_gate.model.errors import ConfigError
from agent_gate.model.ledger_names import DEFAULT_LEDGER
from agent_gate.model.policy import Policy
from agent_gate.model.secrecy import KeyedHashes
from agent_gate.model.tool import ToolDeclaration
from agent_gate.ports.ledger import Ledger
from agent_gate.ports.services import Service, ToolProvider
from agent_gate.ports.storage import Storage
from agent_gate.ports.surroundings import Clock, Ids
from agent_gate.ports.watching import Notifier
from agent_gate.resolve.commit.recovery import finisher
from agent_gate.resolve.commit.steps import file_list
from agent_gate.resolve.surroundings import real_directory
from agent_gate.resolve.workspace import PolicySource, Workspace
from agent_gate.sandbox.choice import Choice
from agent_gate.services.approvals import ApprovalsService
from agent_gate.services.contacts import ContactsService
from agent_gate.services.filesystem import FilesystemService
from agent_gate.services.http import HttpService
from agent_gate.services.record import RecordService
from agent_gate.services.registry import ToolRegistry
from agent_gate.services.revert import RevertService
from agent_gate.services.shell import ShellService
from agent_gate.services.state import StateService
from agent_gate.system.clock import RandomIds, SystemClock
from agent_gate.toolkit import Tool, registered_tool
from agent_gate.toolkit.services import completed, declarations, installed, registered_tools, started
from agent_gate.toolkit.tables import open_tables
from agent_gate.tools.catalogue import BUILTIN

if TYPE_CHECKING:
    from agent_gate.config import HomeAssistantConfig
    from agent_gate.configuration import Configuration
    from agent_gate.services.http.outbound import Outbound


@asynccontextmanager
async def open_gate(
    policy: PolicySource,
    db: str | Path = DEFAULT_LEDGER,
    *,
    tools: Iterable[Callable[..., Any] | Tool] = (),
    agent: Agent | None = None,
    approvers: Sequence[Approver] = (),
    notifier: Notifier | None = None,
    approval_timeout_s: float | None = None,
    config: Configuration | None = None,
    working_dir: str | Path | None = None,
    own_files: Sequence[str | Path] = (),
    protected_files: Sequence[str | Path] = (),
    services: Iterable[Service | ToolProvider] | None = None,
    outbound: Outbound | None = None,
    home_assistant: HomeAssistantConfig | None = None,
    hide: Callable[[str], None] = lambda _: None,
    clock: Clock | None = None,
    ids: Ids | None = None,
    only_simulates: bool = False,
    sandboxes: Choice | None = None,
    storage: Callable[[str | Path], Storage] = storage_at,
    bounds: GateBounds = DEFAULT_BOUNDS,
) -> AsyncIterator[Gate]:
    """A gate for as long as the block runs: `async with open_gate(policy=…, db=…) as gate: await gate.call(…)`.

    Relative paths begin at `working_dir`. No tool reaches the files of the ledger, nor `own_files`, such as a config;
    none writes the file that `policy` names, nor `protected_files`. Both hold for whatever else is the gate's own: see
    `resolve/ownership.py`.
    `tools` are functions decorated with @tool or @transition, or objects of a class of `Tool`.
    `services` beside our own are those that installed packages offer, unless others are given.
    `config` gives its own files, its services, the chain that requests of `http.get` go through, and how long people
    have to answer; `outbound` and `home_assistant` give one of these by itself. The tools of a home are there also
    while it cannot be reached. `hide` is told each secret that is found on the way.
    A gate that `only_simulates` makes no ledger where none is, and writes none of its own entries into one that is.
    `storage` is the backend of the ledger; `sandboxes` are those that commands may run in, by default all of this
    machine, tried when the first is needed.
    `bounds` are times that it keeps to where the defaults do not suit, as in tests.
    """
    clock = clock or SystemClock()
    ids = ids or RandomIds()
    if config is not None:
        own_files = [*config.own_files.secret, *own_files]
        protected_files = [*config.own_files.protected, *protected_files]
        outbound = outbound or config.outbound()
        home_assistant = home_assistant or config.config.services.homeassistant
    if approval_timeout_s is None:
        approval_timeout_s = config.config.approval_timeout if config else APPROVAL_TIMEOUT_S
    workspace = Workspace(real_directory(working_dir), db, policy, own_files, protected_files, bounds.own_files_fresh_s)
    registry = ToolRegistry(registered_tool(offered, workspace.working_dir) for offered in tools)
    theirs = [completed(service) for service in (installed() if services is None else services)]
    load = partial(load_policy, tools=_loaded(registry, theirs))
    watch = PolicyWatch(policy, workspace.judge, load, bounds.policy_poll_s) if isinstance(policy, str | Path) else None
    judge = workspace.judge(policy if isinstance(policy, Policy) else load(policy))
    can_ask = bool(approvers) or notifier is not None
    async with AsyncExitStack() as stack:
        if only_simulates and not os.path.exists(db):  # noqa: ASYNC240 -- nobody is served yet
            db = Path(stack.enter_context(TemporaryDirectory(prefix="agent-gate-")), Path(DEFAULT_LEDGER).name)
        stored = storage(db)
        notes = str(stored.directory)
        ledger = stored.open(clock, ids, finisher(partial(file_list, notes)))
        stack.push_async_callback(ledger.close)
        readings = Readings(stored)
        stack.callback(readings.close)
        if not only_simulates:
            workspace.note()
        sandboxes = sandboxes or Choice()
        contacts = ContactsService(ledger, stored.secret(), clock, ids)
        ours: list[ToolProvider] = [
            contacts,
            ApprovalsService(),
            StateService(),
            RevertService(ledger, registry.find),
            RecordService(PastStates(readings)),
            FilesystemService(workspace.resolver(), place_for_copies=sandboxes.place_for_copies),
            HttpService(ledger, clock, can_ask=can_ask, outbound=outbound),
            ShellService(
                workspace.working_dir, workspace.resolver(), workspace.look, sandboxes, notes, bounds.shell_place_wait_s
            ),
            *_home(home_assistant, contacts, ledger, clock, ids, hide, config),
        ]
        await open_tables(theirs, ledger, may_make=not only_simulates)
        running = await stack.enter_async_context(started([*ours, *theirs]))
        for service in running:
            for registered in registered_tools(service):
                registry.add(registered)
        gate = assemble(
            judge=judge,
            tools=registry,
            ledger=ledger,
            clock=clock,
            ids=ids,
            secrets=KeyedHashes(stored.secret()),
            agent=agent or Agent("local"),
            notifier=notifier,
            can_ask=can_ask,
            approval_timeout_s=approval_timeout_s,
            bounds=bounds,
        )
        gate.services = running
        stack.push_async_callback(gate.close)
        if only_simulates:
            log_warnings(gate, judge)
        else:
            await record_policy(gate, judge)
            await record_tools(gate)
        if watch:
            gate.reload_policy = partial(watch.reload, gate)
            watch.start(gate)
            stack.push_async_callback(watch.stop)
        yield gate


def _loaded(own: ToolRegistry, services: Iterable[ToolProvider]) -> Mapping[str, ToolDeclaration]:
    """Every tool whose section may stand in a policy, before its service is started."""
    functions = (registered.declaration for registered in own.all())
    brought = {tool.name: tool for service in services for tool in declarations(service)}
    # Also where the service that has it is not set up: rules and sections about it mean that one. Who brings it as
    # it is declared here has it judged as it is.
    taken = min((name for name, tool in brought.items() if BUILTIN.get(name, tool) is not tool), default="")
    if taken:
        raise ConfigError(f"a service brings a tool `{taken}`, which comes with the gate", suggestion="rename its tool")
    return {**BUILTIN, **{tool.name: tool for tool in functions}, **brought}


def _home(
    settings: HomeAssistantConfig | None,
    contacts: ContactsService,
    ledger: Ledger,
    clock: Clock,
    ids: Ids,
    hide: Callable[[str], None],
    config: Configuration | None,
) -> Sequence[ToolProvider]:
    if settings is None:
        return ()
    # Its libraries take a tenth of a second, which only those pay who have a home.
    from agent_gate.services.home_assistant.service import HomeAssistantService

    now = (lambda: config.read_again().services.homeassistant) if config else None
    return (HomeAssistantService(settings, contacts, ledger, clock, ids, hide=hide, settings_now=now),)
