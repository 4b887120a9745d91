"""Judges calls that nobody makes: wishes as text in, answers in the shape of an outcome out."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from agent_gate.config.installed_tools import installed_tools
from agent_gate.config.policy_file import load_policy, policy_from
from agent_gate.config.policy_warnings import warnings_of
from agent_gate.model.bounds import MESSAGE_BYTES_MAX
from agent_gate.model.codec import CodecError, canonical, parse
from agent_gate.model.errors import ConfigError, GateError, Problem
from agent_gate.model.outcome import Outcome, Status
from agent_gate.model.policy import Guards, Policy
from agent_gate.model.tool import Json, Mode, ToolDeclaration
from agent_gate.model.verdict import Decision
from agent_gate.policy.judge import Judge
from agent_gate.tools.catalogue import BUILTIN
from agent_gate.tools.check import Checked, Looked, Met, check_call

if TYPE_CHECKING:
    from agent_gate.doors.cli.check_places import Places

JUDGES_MAX = 64
"""Policies that are kept compiled."""


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

    @cached_property
    def installed_tools(self) -> Mapping[str, ToolDeclaration]:
        """Tools of other packages, whose own signatures and guards count here as well."""
        return installed_tools()

    def judge(self, policy: Mapping[str, Json] | None, working_dir: str = "") -> Judge:
        """Return the judge for a policy, the file's if none is given, that stands in a working directory."""
        key = b"" if policy is None else canonical(dict(policy)), working_dir
        judge = self._judges.get(key)
        if judge is None:
            judge = self._judges[key] = self._compiled(policy_from(policy) if policy else self._file(), working_dir)
            if len(self._judges) > JUDGES_MAX:
                self._judges.popitem(last=False)
        return judge

    def _compiled(self, policy: Policy, working_dir: str) -> Judge:
        return Judge(policy) if policy.guards == Guards() else self.places.judge(policy, working_dir)

    @cached_property
    def places(self) -> Places:
        # 6 ms, and a look at the world, without which a policy without guards is judged.
        from agent_gate.doors.cli.check_places import Places  # noqa: PLC0415

        return Places(self._path)

    def _file(self) -> Policy:
        if self._of_file is None:
            self._of_file = load_policy(self._path)
            if self._tell is not None:
                for warning in warnings_of(self._of_file):
                    self._tell(warning)
        return self._of_file


def answer(judges: Judges, wish: Wish) -> Checked:
    """Say what the gate would; a policy that is not one, or a directory that is not there, denies."""
    try:
        if wish.working_dir and not Path(wish.working_dir).is_dir():
            return refused(Problem(2002, f"working_dir `{wish.working_dir}` is not a directory", stage="admit"))
        judge = judges.judge(wish.policy, wish.working_dir)
        offered = None if wish.tool in BUILTIN else judges.installed_tools.get(wish.tool)
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
        offered=offered,
    )


def _look(wish: Wish, judges: Judges, judge: Judge) -> Callable[[Mapping[str, Json]], Looked] | None:
    """Return what finds the targets of a guarded call; where its section is missing, there is no need to."""
    known = BUILTIN.get(wish.tool)
    if known is None or not known.signed_when_bound or judge.policy.guards.of(wish.tool) is None:
        return None
    return judges.places.look(wish.tool, judge, resolve=wish.resolve)


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
