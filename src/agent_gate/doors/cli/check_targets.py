"""Looks at what a guarded tool would touch, for `check`: files and programs are found, and nothing is done."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import lru_cache

from agent_gate.model.tool import Json
from agent_gate.policy.guards.commands import NO_SANDBOX
from agent_gate.policy.guards.fetches import found, read_fetch
from agent_gate.policy.judge import Judge
from agent_gate.resolve.names import SystemResolver, addresses_of
from agent_gate.resolve.own_watch import OwnWatch
from agent_gate.resolve.paths import PathResolver
from agent_gate.sandbox.choice import Choice
from agent_gate.services.filesystem import bind_for_check
from agent_gate.services.shell.layering import writes_of
from agent_gate.services.shell.looking import look as look_at_command
from agent_gate.tools.check import Looked


def look(tool: str, args: Mapping[str, Json], judge: Judge, own: OwnWatch, *, resolve: bool) -> Looked:
    """Find signatures, resources and facts of a call that is judged and not made; names only on request."""
    working_dir = judge.surroundings.working_dir
    if tool == "http.get":
        return _fetch(args, resolve=resolve)
    if tool == "shell.run":
        return _command(args, judge, PathResolver(working_dir, own), working_dir)
    return _file(tool, args, PathResolver(working_dir, own))


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
