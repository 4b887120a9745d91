"""Judging recorded calls again: the bound call and its facts as they were, under whatever policy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import orjson
from msgspec.structs import replace

from agent_gate.history.replay import is_secret
from agent_gate.history.state import show
from agent_gate.model.call import Agent, BoundCall, CallRequest, Facts
from agent_gate.model.codec import restore
from agent_gate.model.entry import Kind
from agent_gate.model.moment import epoch, iso
from agent_gate.model.tool import Mode, ToolDeclaration
from agent_gate.model.verdict import Decision, Verdict
from agent_gate.policy.declared import unregistered
from agent_gate.policy.judge import Judge
from agent_gate.ports.reading import EntryFilter, JudgedRow, Reader
from agent_gate.toolkit.services import installed_tools
from agent_gate.tools.catalogue import BUILTIN

_DECISIONS = {decision.value: decision for decision in Decision}


class RecordedCall:
    """A call as its first entry tells it; what a judge needs of it is made when it is asked for."""

    __slots__ = ("_body", "agent_id", "at", "call_id", "decision", "project", "run_id", "seq", "tool")

    def __init__(self, row: JudgedRow, body: Mapping[str, Any]) -> None:
        self.project, self.seq, self.at, self.run_id, self.call_id, self.agent_id, self.tool, _ = row
        self.decision = _DECISIONS[body["decision"]]
        self._body = body

    @property
    def signatures(self) -> tuple[str, ...]:
        return tuple(self._body["signatures"])

    @property
    def aliases(self) -> tuple[str, ...]:
        """None where the call was recorded before there were any: it is judged as it was then."""
        return tuple(self._body.get("aliases", ()))

    @property
    def step_index(self) -> int | None:
        return self._body.get("step_index")

    @property
    def has_secrets(self) -> bool:
        """Tell whether a rule may have seen more of its arguments than was written down."""
        return any(is_secret(value) for value in self._body["args"].values())

    @property
    def rules(self) -> tuple[str, ...]:
        """The rules that spoke when it was decided."""
        return tuple(reason["rule"] for reason in self._body.get("reasons", ()) if reason.get("rule"))

    @property
    def policy_hash(self) -> str:
        """The beginning of it."""
        return str(self._body["facts"]["policy"])

    @property
    def facts(self) -> Facts:
        return Facts.from_json(self._body["facts"], epoch(self._body.get("started_at", self.at)))

    @property
    def bound(self) -> BoundCall:
        body, facts = self._body, self._body["facts"]
        args = body["args"]
        agent = _agent(self.agent_id, tuple(facts.get("roles", ("operator",))))
        request = CallRequest(
            agent, self.tool, args, self.project, None, facts.get("confirmed", False), None, self.run_id,
            body.get("step_index"),
        )  # fmt: skip
        return BoundCall(
            self.call_id, request, args, args, self.signatures, body["input_hash"], body.get("resources", {}),
            aliases=self.aliases,
        )  # fmt: skip

    @property
    def caller(self) -> tuple[tuple[str, ...], str | None, bool, str | None]:
        """Find who called, in which mode, confirmed or not, and what its own mode is, if a verdict can rest on it."""
        facts = self._body["facts"]
        return tuple(facts.get("roles", ())), facts.get("mode"), facts.get("confirmed", False), facts.get("ceiling")

    @property
    def question(self) -> bytes:
        """All that its verdict rests on where neither moment, nor state, nor a counter matters."""
        body = self._body
        found = body["facts"].get("found")
        names = body["signatures"], body.get("aliases")
        return orjson.dumps([self.caller, found, body["args"], names, body.get("resources")])


@lru_cache(maxsize=1_024)
def _request(agent_id: str, tool: str, project: str) -> CallRequest:
    return CallRequest(Agent(agent_id), tool, {}, project)


@lru_cache(maxsize=256)
def _facts(roles: tuple[str, ...], mode: str | None, confirmed: bool, ceiling: str | None) -> Facts:
    return Facts(
        0.0,
        Mode(mode) if mode else Mode.ASSISTED,
        roles or ("operator",),
        confirmed,
        "",
        ceiling=Mode(ceiling) if ceiling else None,
    )


@lru_cache(maxsize=256)
def _agent(agent_id: str, roles: tuple[str, ...]) -> Agent:
    return Agent(agent_id, roles)


class Rejudge:
    """Reads recorded calls and judges them; what tools said of themselves comes from the record too."""

    def __init__(self, reader: Reader, tools: Mapping[str, ToolDeclaration] | None = None) -> None:
        """`tools` bring how they are judged, which no record holds; without, those of installed packages do."""
        self._reader = reader
        self._tools = RecordedTools(reader, tools)

    def calls(self, since: float | None = None, run_id: str | None = None) -> Iterator[RecordedCall]:
        for row in self._reader.judged_calls(None if since is None else iso(since), run_id):
            body: Mapping[str, Any] = restore(row[-1].encode())
            if "facts" in body and "args" in body:
                yield RecordedCall(row, body)

    def tool_of(self, call: RecordedCall) -> ToolDeclaration:
        return self._tools.find(call.tool, call.at)

    def verdict(self, call: RecordedCall, judge: Judge, *, as_it_was: bool) -> Verdict:
        """`as_it_was` False: what the rules say, whoever could be asked or had just said no at the time."""
        tool, facts = self.tool_of(call), call.facts
        if not as_it_was and (facts.refused_recently or not facts.can_ask):
            facts = replace(facts, can_ask=True, refused_recently=False)
        if judge.needs_state(tool):
            facts = replace(facts, state=show(self._reader, call.project, facts.state_version).document)
        return judge.decide(call.bound, facts, tool)


def verdict_by_names(call: RecordedCall, tool: ToolDeclaration, judge: Judge) -> Verdict:
    """Judge where nothing but the call's signatures and its caller is looked at.

    Making the whole call again would take longer than judging it.
    """
    request = _request(call.agent_id, call.tool, call.project)
    bound = BoundCall("", request, {}, {}, call.signatures, "", aliases=call.aliases)
    return judge.decide(bound, _facts(*call.caller), tool)


class RecordedTools:
    """The declarations that gates recorded when they opened, newest first."""

    def __init__(self, reader: Reader, tools: Mapping[str, ToolDeclaration] | None = None) -> None:
        self._sets = list(_recorded_sets(reader, tools))
        self._unregistered: dict[str, ToolDeclaration] = {}

    def find(self, name: str, at: str) -> ToolDeclaration:
        """Find what the tool said of itself at that moment; failing that, ever; failing that, what must be assumed."""
        builtin = BUILTIN.get(name)
        if builtin is not None:
            return builtin
        for recorded_at, tools in self._sets:
            if recorded_at <= at and name in tools:
                return tools[name]
        for _, tools in self._sets:
            if name in tools:
                return tools[name]
        return self._unregistered.setdefault(name, unregistered(name))


def _recorded_sets(
    reader: Reader, tools: Mapping[str, ToolDeclaration] | None
) -> Iterator[tuple[str, dict[str, ToolDeclaration]]]:
    for entry in reader.entries(EntryFilter(kinds=(Kind.TOOLS,), with_body=True), newest_first=True):
        data = reader.blob(restore(entry.body or b"{}").get("tools_hash", ""))
        if data is not None:
            tools = installed_tools() if tools is None else tools
            recorded = restore(data).items()
            yield entry.at, {name: tools.get(name, ToolDeclaration(name)).as_recorded(told) for name, told in recorded}


def policy_source(reader: Reader, policy_hash: str) -> dict[str, Any] | None:
    """A policy by its hash, or by the beginning of it that facts hold."""
    data = reader.blob_beginning(policy_hash)
    return None if data is None else restore(data)
