"""Looks at what a guarded tool would touch, for `check`: files and programs are found, and nothing is done."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from pathlib import Path

from agent_gate.model.ledger_names import DEFAULT_LEDGER, LEDGER_VARIABLE
from agent_gate.model.policy import Policy
from agent_gate.model.tool import Json
from agent_gate.policy.guards.commands import NO_SANDBOX
from agent_gate.policy.guards.fetches import found, read_fetch
from agent_gate.policy.judge import Judge
from agent_gate.resolve.names import SystemResolver, addresses_of
from agent_gate.resolve.own_watch import OwnWatch
from agent_gate.resolve.ownership import Start, find_own
from agent_gate.resolve.paths import PathResolver
from agent_gate.resolve.surroundings import look_around, real_directory
from agent_gate.sandbox.choice import Choice
from agent_gate.services.filesystem import bind_for_check
from agent_gate.services.shell.layering import writes_of
from agent_gate.services.shell.looking import look as look_at_command
from agent_gate.tools.check import Looked

DIRECTORIES_MAX = 64
"""Working directories whose own files are kept in mind."""


class Targets:
    """Finds files, names and programs as a run would that is started here under the policy of one file."""

    def __init__(self, policy: Path) -> None:
        self._policy = policy
        self._own: dict[str, OwnWatch] = {}

    def judge(self, policy: Policy, working_dir: str) -> Judge:
        """Return a judge that knows where its guards stand, and which files are the gate's own."""
        real = real_directory(working_dir or None)
        own = self._own_files(real).now()
        return Judge(policy, look_around(policy, real, protected=own.unwritten, secret=own.secret))

    def look(self, tool: str, judge: Judge, *, resolve: bool) -> Callable[[Mapping[str, Json]], Looked]:
        """Return what finds signatures, resources and facts of a call; names are looked up only on request."""
        working_dir = judge.surroundings.working_dir
        resolver = PathResolver(working_dir, self._own_files(working_dir))
        if tool == "http.get":
            return lambda args: _fetch(args, resolve=resolve)
        if tool == "shell.run":
            return lambda args: _command(args, judge, resolver, working_dir)
        return lambda args: _file(tool, args, resolver)

    def _own_files(self, working_dir: str) -> OwnWatch:
        """Watch those of a run with this policy and the ledger that it would write to."""
        own = self._own.get(working_dir)
        if own is None:
            if len(self._own) >= DIRECTORIES_MAX:
                self._own.clear()
            ledger = os.environ.get(LEDGER_VARIABLE) or DEFAULT_LEDGER
            start = Start.of(working_dir, [] if "://" in ledger else [ledger], protected=[self._policy])
            own = self._own[working_dir] = OwnWatch(partial(find_own, start), working_dir)
        return own


def _file(tool: str, args: Mapping[str, Json], resolver: PathResolver) -> Looked:
    binding = bind_for_check(tool, args, resolver)
    return Looked(binding.signatures, binding.resources, binding.found)


def _fetch(args: Mapping[str, Json], *, resolve: bool) -> Looked:
    fetch = read_fetch(args)
    if not resolve or fetch.url.is_address:
        return Looked(fetch.signatures, fetch.resources)

    def look_up() -> Mapping[str, Json]:
        return found(asyncio.run(addresses_of(fetch.url.host, SystemResolver())))

    return Looked(fetch.signatures, fetch.resources, look_further=look_up)


def _command(args: Mapping[str, Json], judge: Judge, resolver: PathResolver, working_dir: str) -> Looked:
    policy = judge.policy
    looked = look_at_command(args, policy, resolver, working_dir, judge.surroundings)
    looked.release()
    section = policy.guards.shell_run
    writes = writes_of(policy, looked.use)
    resources = {**looked.resources, "writes": writes, "sandbox": _sandbox(section.sandbox if section else "off")}
    return Looked((looked.signature,), resources, looked.found, looked.aliases)


@lru_cache
def _sandbox(setting: str) -> str:
    picked = asyncio.run(Choice().pick(setting))
    return picked.name if picked is not None else NO_SANDBOX
