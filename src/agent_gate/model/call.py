"""An agent's wish, and the bound call that it becomes: judged, shown, performed and recorded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from agent_gate.model.codec import canonical, sha256_hex
from agent_gate.model.policy import LIMITS
from agent_gate.model.tool import Json, Mode

STDIO_DOOR = "stdio"
"""The door of a process that serves one agent: what it held waits for that agent to make the call again."""


@dataclass(frozen=True, slots=True)
class Agent:
    """An authenticated caller, as the configuration knows it."""

    id: str
    roles: tuple[str, ...] = ("operator",)
    projects: tuple[str, ...] = ("default",)
    """Projects it may name; `*` stands for all."""
    mode: Mode = Mode.ASSISTED
    """A ceiling: a request may only name a stricter one."""
    owner: str = ""
    requests_per_minute: int | None = None
    max_pending_approvals: int | None = None

    def may_use(self, project: str) -> bool:
        return project in self.projects or "*" in self.projects

    @property
    def first_project(self) -> str:
        """Of those that it may name; where it may name all, the one that is always there."""
        return next((name for name in self.projects if name != "*"), "default")


class Presence:
    """Presence of an agent at the door where it asked; shared by all that it asked for over one connection."""

    __slots__ = ("here",)

    def __init__(self) -> None:
        self.here = True


class CallRequest(Struct, frozen=True):
    """One wish, as it came in at a door."""

    agent: Agent
    tool: str
    args: Mapping[str, Json]
    project: str = "default"
    request_id: str | None = None
    confirmed: bool = False
    mode: Mode | None = None
    run_id: str | None = None
    step_index: int | None = None
    wait: bool = True
    """True where the caller waits while a person thinks; otherwise an ask answers `pending_approval`."""
    simulate: bool = False
    run_ends_at: float | None = None
    """The moment when the run's global timeout strikes, on the monotonic clock."""
    is_plain: bool = False
    """True where the arguments were read from JSON for this call alone, so that nobody else can change them."""
    door: str = ""
    """The server's door that it came in by: its agent may be away when the outcome is there. Empty for local calls."""
    presence: Presence | None = None
    """Of the agent, where the door does not cancel what it asks for when the agent goes, but says so here."""
    copies: object | None = None
    """Files that a simulation has written so far, carried from step to step: a `resolve.copies.Copies`."""

    @property
    def modes(self) -> tuple[Mode, Mode | None]:
        """The mode that the call is made in, and the agent's own where the request names a stricter one."""
        own = self.agent.mode
        named = self.mode.capped_by(own) if self.mode else own
        return named, None if named is own else own


class BoundCall(Struct, frozen=True):
    """The one object that is judged, shown, hashed, performed and recorded."""

    call_id: str
    request: CallRequest
    args: Mapping[str, Json]
    recorded_args: Mapping[str, Json]
    """The arguments as they are written down and shown: secret ones stand as their keyed hash."""
    signatures: tuple[str, ...]
    input_hash: str
    resources: Mapping[str, Json] = field(default_factory=dict)
    """Findings of binding: expanded targets, real path, device and inode."""
    recorded_json: bytes | None = None
    """The canonical bytes of what is written down, where they are at hand."""
    aliases: tuple[str, ...] = ()
    """Other names of what would be done, which deny and ask rules see, and allow rules and grants do not."""

    @property
    def bound_hash(self) -> str:
        """Of all that a person agrees to; reckoned when it is asked for, because most calls are never held."""
        request = self.request
        covered = [request.agent.id, request.project, request.tool, self.signatures, dict(self.resources)]
        if self.aliases:
            covered.append(self.aliases)
        return sha256_hex(canonical(covered) + canonical(self.recorded_args))


Usage: TypeAlias = Mapping[str, float]
"""Counts as they stood at bind, by the names of the limits' facts; the reservation at the first durable entry is the
truth. A count of zero is left out."""

NO_USAGE: Usage = MappingProxyType({})
_ORDINARY = Mode.ASSISTED
_COUNTED = tuple(one.limit.recorded_as for one in LIMITS.values())


class Facts(Struct, frozen=True):
    """Facts of the world that judging needs, frozen beside the bound call so that it can be judged again."""

    at: float
    mode: Mode
    roles: tuple[str, ...]
    confirmed: bool
    policy_hash: str
    state_version: int = 0
    state: Json = None
    usage: Usage = NO_USAGE
    can_ask: bool = True
    """True where somebody could answer a question; where nobody can, an ask is a deny."""
    refused_recently: bool = False
    """True where a person said no to one of the signatures or aliases within the cooldown."""
    found: Mapping[str, Json] = field(default_factory=dict)
    """Sights of things to be touched that may change without voiding an approval: a file's size."""
    ceiling: Mode | None = None
    """The agent's own mode, where the request named a stricter one."""

    @property
    def readings(self) -> tuple[Facts, ...]:
        """These facts, and those without what the request says of itself: none of it may make a verdict milder."""
        if self.ceiling is None and not self.confirmed:
            return (self,)
        return tuple(
            replace(self, mode=mode, confirmed=confirmed)
            for mode in dict.fromkeys((self.mode, self.ceiling or self.mode))
            for confirmed in dict.fromkeys((self.confirmed, False))
        )

    @classmethod
    def from_json(cls, fields: Mapping[str, Any], at: float) -> Facts:
        """The facts as they were recorded; the state has to be looked up by its version."""
        return cls(
            at=at,
            mode=Mode(fields["mode"]) if "mode" in fields else Mode.ASSISTED,
            roles=tuple(fields["roles"]) if "roles" in fields else ("operator",),
            confirmed=fields.get("confirmed", False),
            policy_hash=fields["policy"],
            state_version=fields.get("state_version", 0),
            usage=_usage_of(fields),
            can_ask=fields.get("can_ask", True),
            refused_recently=fields.get("refused_recently", False),
            found=fields.get("found", {}),
            ceiling=Mode(fields["ceiling"]) if "ceiling" in fields else None,
        )

    def to_json(self, *, asking_mattered: bool) -> dict[str, Any]:
        """The recorded form; what has its ordinary value is left out, and the state is named by its version.

        Whether anybody could be asked changes no verdict in which nothing asked.
        """
        fields: dict[str, Any] = {"policy": self.policy_hash[:16]}
        if self.state_version:
            fields["state_version"] = self.state_version
        if self.mode is not _ORDINARY:
            fields["mode"] = self.mode.value
        if self.ceiling is not None:
            fields["ceiling"] = self.ceiling.value
        if self.roles != ("operator",):
            fields["roles"] = list(self.roles)
        if self.confirmed:
            fields["confirmed"] = True
        if asking_mattered and not self.can_ask:
            fields["can_ask"] = False
        if self.refused_recently:
            fields["refused_recently"] = True
        if self.found:
            fields["found"] = dict(self.found)
        if self.usage:
            fields |= {name: value for name in _COUNTED if (value := self.usage.get(name))}
        return fields


def _usage_of(fields: Mapping[str, Any]) -> Usage:
    """Most policies count nothing."""
    if fields.keys().isdisjoint(_COUNTED):
        return NO_USAGE
    return {name: fields[name] for name in _COUNTED if name in fields}
