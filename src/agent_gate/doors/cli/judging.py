"""Judges calls that nobody makes: wishes as text in, answers in the shape of an outcome out.

Files and programs that a guarded tool would touch are found, and nothing is done to them.
"""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from agent_gate.config.policy_file import load_policy, policy_from
from agent_gate.config.policy_warnings import warnings_of
from agent_gate.model.codec import CodecError, canonical, parse
from agent_gate.model.errors import ConfigError, GateError, Problem
from agent_gate.model.ledger_names import DEFAULT_LEDGER, LEDGER_VARIABLE
from agent_gate.model.limits import MESSAGE_BYTES_MAX
from agent_gate.model.outcome import Outcome, Status
from agent_gate.model.policy import Guards, Policy
from agent_gate.model.tool import Json, Mode
from agent_gate.model.verdict import Decision
from agent_gate.policy.check import Checked, Looked, Met, check_call
from agent_gate.policy.guards import GUARDED
from agent_gate.policy.judge import Judge

if TYPE_CHECKING:
    from agent_gate.resolve.own_watch import OwnWatch
    from agent_gate.resolve.paths import PathResolver

JUDGES_MAX = 64
"""How many policies are kept compiled."""


@dataclass(frozen=True, slots=True)
class Wish:
    """A call that somebody wants to know about, and who would make it."""

    tool: str = ""
    args: Mapping[str, Json] | None = None
    policy: Mapping[str, Json] | None = None
    working_dir: str = ""
    resolve: bool = False
    roles: tuple[str, ...] = ("operator",)
    mode: Mode = Mode.ASSISTED
    confirmed: bool = False
    agent: str = "local"
    project: str = "default"
    id: str = ""


class Judges:
    """One compiled judge for each policy that is named."""

    def __init__(self, path: Path, tell: Callable[[str], None] | None = None) -> None:
        """`tell` is given what the file says without effect."""
        self._path, self._tell = path, tell
        self._of_file: Policy | None = None
        self._judges: OrderedDict[tuple[bytes, str], Judge] = OrderedDict()
        self._own: dict[str, OwnWatch] = {}

    def judge(self, policy: Mapping[str, Json] | None, working_dir: str = "") -> Judge:
        """The judge for a policy, the file's if none is given, that stands in a working directory."""
        key = b"" if policy is None else canonical(dict(policy)), working_dir
        judge = self._judges.get(key)
        if judge is None:
            judge = self._judges[key] = self._standing(policy_from(policy) if policy else self._file(), working_dir)
            if len(self._judges) > JUDGES_MAX:
                self._judges.popitem(last=False)
        return judge

    def own_files(self, working_dir: str) -> OwnWatch:
        """Those of a run that would be started here: with this policy and the ledger that it would write to."""
        from agent_gate.resolve.own_watch import OwnWatch
        from agent_gate.resolve.ownership import Start, find_own

        own = self._own.get(working_dir)
        if own is None:
            if len(self._own) >= JUDGES_MAX:
                self._own.clear()
            ledger = os.environ.get(LEDGER_VARIABLE) or DEFAULT_LEDGER
            start = Start.of(working_dir, [] if "://" in ledger else [ledger], protected=[self._path])
            own = self._own[working_dir] = OwnWatch(partial(find_own, start), working_dir)
        return own

    def _standing(self, policy: Policy, working_dir: str) -> Judge:
        """Only guards need to know where they stand, and which files are the gate's own."""
        if policy.guards == Guards():
            return Judge(policy)
        from agent_gate.resolve.surroundings import look_around, real_directory

        real = real_directory(working_dir or None)
        own = self.own_files(real).now()
        return Judge(policy, look_around(policy, real, protected=own.unwritten, secret=own.secret))

    def _file(self) -> Policy:
        if self._of_file is None:
            self._of_file = load_policy(self._path)
            if self._tell is not None:
                for warning in warnings_of(self._of_file):
                    self._tell(warning)
        return self._of_file


def answer(judges: Judges, wish: Wish) -> Checked:
    """What the gate would say; a policy that is not one, or a directory that is not there, denies."""
    try:
        if wish.working_dir and not Path(wish.working_dir).is_dir():
            return refused(Problem(2002, f"working_dir `{wish.working_dir}` is not a directory", stage="admit"))
        judge = judges.judge(wish.policy, wish.working_dir)
    except (ConfigError, CodecError, OSError) as error:
        return refused(error.problem if isinstance(error, ConfigError) else Problem(6001, str(error)))
    return check_call(
        judge,
        wish.tool,
        wish.args or {},
        at=time.time(),
        agent_id=wish.agent,
        roles=wish.roles,
        project=wish.project,
        mode=wish.mode,
        confirmed=wish.confirmed,
        look=_look(wish, judges, judge),
    )


def _look(wish: Wish, judges: Judges, judge: Judge) -> Callable[[Mapping[str, Json]], Looked] | None:
    """How to find what a guarded call would touch; where its section is missing, there is no need to."""
    if wish.tool not in GUARDED or getattr(judge.policy.guards, wish.tool.replace(".", "_")) is None:
        return None
    from agent_gate.resolve.paths import PathResolver

    working_dir = judge.surroundings.working_dir
    resolver = PathResolver(working_dir, judges.own_files(working_dir))
    return lambda args: _targets(wish.tool, args, judge, resolver, working_dir, resolve=wish.resolve)


def refused(problem: Problem) -> Checked:
    """Input that cannot be judged is denied."""
    return Checked(Outcome(call_id="", status=Status.ERROR, error=problem, decision=Decision.DENY, simulated=True))


def arguments_of(text: str) -> Mapping[str, Json]:
    """The arguments in a text; GateError 2002 where they are not an object."""
    try:
        value = parse(text)
    except CodecError as error:
        raise _bad(f"the arguments are {_of(error)}", 'write an object such as \'{"path": "/lights"}\'') from None
    if not isinstance(value, dict):
        raise _bad("the arguments are not an object", 'write an object such as \'{"path": "/lights"}\'')
    return value


def wish_of(line: bytes, defaults: Wish) -> Wish:
    """The wish in a line of a file; GateError 2002 says what is wrong with it."""
    try:
        fields = parse(line)
    except CodecError as error:
        raise _bad(f"the line is {_of(error)}", "write one object on each line") from None
    if not isinstance(fields, dict):
        raise _bad("the line is not an object", 'write one such as {"tool": "state.get", "args": {}}')
    unknown = sorted(fields.keys() - _FIELDS.keys())
    if unknown:
        raise _bad(f"unknown field `{unknown[0]}`", f"known are {', '.join(_FIELDS)}")
    for name, value in fields.items():
        _check_field(name, value)
    if not fields.get("tool"):
        raise _bad("the field `tool` is missing", "name the tool that would be called")
    if "roles" in fields:
        fields["roles"] = tuple(fields["roles"])
    if "mode" in fields:
        fields["mode"] = Mode(fields["mode"])
    return replace(defaults, **fields)


_FIELDS: Mapping[str, tuple[type, str]] = {
    "tool": (str, "a text"),
    "args": (dict, "an object"),
    "policy": (dict, "an object"),
    "working_dir": (str, "a text"),
    "roles": (list, "a list of texts"),
    "mode": (str, f"one of {', '.join(mode.value for mode in Mode)}"),
    "confirmed": (bool, "true or false"),
    "agent": (str, "a text"),
    "project": (str, "a text"),
    "id": (str, "a text"),
}


def _check_field(name: str, value: Json) -> None:
    kind, words = _FIELDS[name]
    fits = isinstance(value, kind)
    if name == "roles":
        fits = fits and all(isinstance(item, str) for item in value)
    elif name == "mode":
        fits = fits and value in {mode.value for mode in Mode}
    if not fits:
        raise _bad(f"the field `{name}` is not {words}", "correct the line")


def _bad(detail: str, suggestion: str) -> GateError:
    return GateError(detail, code=2002, suggestion=suggestion, stage="admit")


def _of(error: CodecError) -> str:
    return str(error)


def lines_of(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Each line that is not blank, with its number; of one that is too long, enough to be refused."""
    number = 0
    while line := file.readline(MESSAGE_BYTES_MAX + 2):
        number += 1
        rest = line
        while not rest.endswith(b"\n") and (rest := file.readline(MESSAGE_BYTES_MAX)):
            pass
        if line.strip():
            yield number, line.rstrip(b"\r\n")


def to_json(checked: Checked, wish: Wish, line: int | None = None) -> dict[str, Any]:
    """The outcome without the act: no call id, because there is no call."""
    fields = checked.outcome.to_json()
    head: dict[str, Any] = {"request_id": wish.id} if wish.id else {}
    if line is not None:
        head["line"] = line
    if wish.tool:
        head["tool"] = wish.tool
    trace = [reason.to_trace() for reason in checked.verdict.trace] if checked.verdict else []
    aliases = [met.name for met in checked.met if met.is_alias]
    seen = {"aliases": aliases} if aliases else {}
    return {**head, **fields, **seen, "trace": trace, "rules_met": [_met(met) for met in checked.met if met.rules]}


def _met(met: Met) -> dict[str, Any]:
    name = "alias" if met.is_alias else "signature"
    return {name: met.name, "rules": [{"pattern": rule.pattern, "action": rule.action} for rule in met.rules]}


def _targets(
    tool: str, args: Mapping[str, Json], judge: Judge, resolver: PathResolver, working_dir: str, *, resolve: bool
) -> Looked:
    """Signatures, resources and facts of a call that is judged and not made; names are looked up only on request."""
    if tool == "http.get":
        return _fetch(args, resolve=resolve)
    if tool == "shell.run":
        return _command(args, judge, resolver, working_dir)
    return _file(tool, args, resolver)


def _file(tool: str, args: Mapping[str, Json], resolver: PathResolver) -> Looked:
    from agent_gate.services.filesystem import bind_for_check

    binding = bind_for_check(tool, args, resolver)
    return Looked(binding.signatures, binding.resources, binding.found)


def _fetch(args: Mapping[str, Json], *, resolve: bool) -> Looked:
    from agent_gate.policy.guards.fetches import found, read_fetch

    fetch = read_fetch(args)
    if not resolve or fetch.url.is_address:
        return Looked(fetch.signatures, fetch.resources)
    import asyncio

    from agent_gate.resolve.names import SystemResolver, addresses_of

    def look_up() -> Mapping[str, Json]:
        return found(asyncio.run(addresses_of(fetch.url.host, SystemResolver())))

    return Looked(fetch.signatures, fetch.resources, look_further=look_up)


def _command(args: Mapping[str, Json], judge: Judge, resolver: PathResolver, working_dir: str) -> Looked:
    from agent_gate.services.shell.layering import writes_of
    from agent_gate.services.shell.looking import look as look_at_command

    policy = judge.policy
    looked = look_at_command(args, policy, resolver, working_dir, judge.surroundings)
    looked.release()
    section = policy.guards.shell_run
    writes = writes_of(policy, looked.use)
    resources = {**looked.resources, "writes": writes, "sandbox": _sandbox(section.sandbox if section else "off")}
    return Looked((looked.signature,), resources, looked.found, looked.aliases)


@lru_cache
def _sandbox(setting: str) -> str:
    import asyncio

    from agent_gate.policy.guards.commands import NO_SANDBOX
    from agent_gate.sandbox.choice import Choice

    picked = asyncio.run(Choice().pick(setting))
    return picked.name if picked is not None else NO_SANDBOX
