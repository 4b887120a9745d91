"""Admit: who asks, is the message well-formed, is the project open, is there room, is the request new."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from msgspec import Struct

from agent_gate.model.bounds import ARGS_BYTES_MAX, IDENTIFIER_CHARS_MAX
from agent_gate.model.call import Agent, CallRequest
from agent_gate.model.codec import CodecError, canonical, compact, normalise
from agent_gate.model.entry import GATE_PROJECT
from agent_gate.model.errors import Problem
from agent_gate.model.tool import Json
from agent_gate.model.work import Claim
from agent_gate.ports.ledger import Ledger
from agent_gate.ports.surroundings import Clock, Secrets


class Admitted(Struct, frozen=True):
    request: CallRequest
    args: dict[str, Json]
    args_json: bytes
    """Their canonical bytes."""
    claim: Claim | None = None


@dataclass(frozen=True, slots=True)
class Repeated:
    """The same request once more: its outcome is that of the call that had it first."""

    call_id: str
    args: dict[str, Json]


@dataclass(frozen=True, slots=True)
class Rejected:
    """Not admitted. `recorded` False: only counted, because writing each one down would be the flood's success."""

    problem: Problem
    recorded: bool = True
    args: Mapping[str, Json] | None = None


class Admission:
    """Lets requests in, one by one, or says why not."""

    def __init__(self, ledger: Ledger, clock: Clock, secrets: Secrets) -> None:
        self._ledger, self._clock, self._secrets = ledger, clock, secrets
        self._pace = Pace()

    async def admit(self, request: CallRequest, call_id: str) -> Admitted | Repeated | Rejected:
        malformed = _malformed(request)
        if malformed:
            return Rejected(Problem(2002, malformed, stage="admit"), recorded=False)
        if not self._pace.has_room(request.agent, self._clock.monotonic()):
            return Rejected(
                Problem(1012, f"agent `{request.agent.id}` sends too many requests", "slow down", "admit"),
                recorded=False,
            )
        try:
            args, args_json = _taken_as_read(request.args) if request.is_plain else normalise(dict(request.args))
        except CodecError as error:
            return Rejected(Problem(2002, f"the arguments are not JSON: {error}", stage="admit"))
        agent, project = request.agent, request.project
        if project == GATE_PROJECT or not agent.may_use(project):
            return Rejected(_not_its_project(agent, project), args=args)
        status = await self._ledger.effective_status(project)
        if status != "open":
            return Rejected(closed_problem(project, status), args=args)
        if request.request_id is None:
            return Admitted(request, args, args_json)
        claim = self._claim(request, request.request_id, call_id, args_json)
        return await self._new_or_repeated(Admitted(request, args, args_json, claim), claim)

    def _claim(self, request: CallRequest, request_id: str, call_id: str, args_json: bytes) -> Claim:
        """The mark by which a repeated request id is recognised; keyed, because arguments may hold secrets."""
        wish = canonical([request.project, request.tool]) + args_json
        return Claim(request.agent.id, request_id, call_id, self._secrets.keyed_hash(wish))

    async def _new_or_repeated(self, admitted: Admitted, claim: Claim) -> Admitted | Repeated | Rejected:
        taken = await self._ledger.claimed(claim.agent_id, claim.request_id)
        if taken is None:
            return admitted
        if taken[1] == claim.input_hash:
            return Repeated(taken[0], admitted.args)
        return Rejected(other_arguments(claim.request_id))


def other_arguments(request_id: str) -> Problem:
    return Problem(
        2002,
        f"request id `{request_id}` was used for another call",
        "use a new id for each call, and the same one only to repeat it",
        "admit",
    )


def _not_its_project(agent: Agent, project: str) -> Problem:
    detail = f"agent `{agent.id}` may not use project `{project}`"
    return Problem(6003, detail, "add it to the agent's projects", "admit")


def closed_problem(project: str, status: str | None) -> Problem:
    """The problem with a project that is not open; without a status there is none of that name."""
    if status is None:
        suggestion = f"run `agent-gate project create {project}`"
        return Problem(1017, f"project `{project}` does not exist", suggestion, "admit")
    if status == "paused":
        return Problem(1017, "the gate is paused", "an approver can run `agent-gate resume`", "admit")
    return Problem(1017, f"project `{project}` is {status}", f"run `agent-gate project unlock {project}`", "admit")


def _taken_as_read(args: Mapping[str, Json]) -> tuple[dict[str, Json], bytes]:
    """Arguments that a door has read from JSON itself: for speed they are not copied (decision 0013)."""
    assert type(args) is dict, "a door says so only of what it has read itself"
    args_json = compact(canonical(args))
    if len(args_json) > ARGS_BYTES_MAX:
        raise CodecError(f"larger than {ARGS_BYTES_MAX} bytes")
    return args, args_json


def _malformed(request: CallRequest) -> str | None:
    if not (isinstance(request.tool, str) and _is_name(request.tool)):
        return _MALFORMED.format("tool")
    if not (isinstance(request.project, str) and _is_name(request.project)):
        return _MALFORMED.format("project")
    if request.request_id is not None and not (isinstance(request.request_id, str) and _fits(request.request_id)):
        return _MALFORMED.format("request id")
    if not isinstance(request.args, Mapping):
        return "the arguments must be an object"
    return None


_MALFORMED = f"the {{}} must be a text of 1 to {IDENTIFIER_CHARS_MAX} printable characters"


def _fits(text: str) -> bool:
    return 0 < len(text) <= IDENTIFIER_CHARS_MAX and text.isprintable()


_is_name = lru_cache(maxsize=256)(_fits)
"""Kept, because the same few tools and projects are named again and again."""


_ROUNDING = 0.999
"""A share of the interval that the sum of many of them may be off by."""


class Pace:
    """GCRA for each agent: a minute's worth may come at once, then they are spread evenly."""

    def __init__(self) -> None:
        self._due: dict[str, float] = {}

    def has_room(self, agent: Agent, now: float) -> bool:
        if agent.requests_per_minute is None:
            return True
        interval = 60 / agent.requests_per_minute
        due = max(self._due.get(agent.id, 0.0), now)
        if due - now > 60 - interval * _ROUNDING:
            return False
        self._due[agent.id] = due + interval
        return True
