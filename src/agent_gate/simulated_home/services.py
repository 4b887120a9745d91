"""Services: what each is called, takes, acts on and answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from agent_gate.model.tool import Json
from agent_gate.simulated_home.fields import Field
from agent_gate.simulated_home.states import Context, State
from agent_gate.simulated_home.users import User

if TYPE_CHECKING:
    from agent_gate.simulated_home.home import SimulatedHome

Response: TypeAlias = Literal["none", "optional", "only"]


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a service, its data checked and its target found."""

    home: SimulatedHome
    domain: str
    service: str
    data: Mapping[str, Json]
    context: Context
    user: User | None = None
    entities: tuple[State, ...] = ()
    wants_response: bool = False


Work: TypeAlias = Callable[[Call], Awaitable[Json]]


@dataclass(frozen=True, slots=True)
class Service:
    domain: str
    name: str
    work: Work
    title: str = ""
    description: str = ""
    fields: Mapping[str, Field] = field(default_factory=dict)
    acts_on: tuple[str, ...] | None = None
    """Domains of entities; empty for those of any domain, None where it takes no target."""
    response: Response = "none"
    takes_anything: bool = False
    feature: int = 0
    """Features that an entity must support, else it refuses."""
    is_for_admins: bool = False
    needs_control: bool = True

    def as_json(self) -> dict[str, Json]:
        described: dict[str, Json] = {
            "name": self.title,
            "description": self.description,
            "fields": {name: field.as_json() for name, field in self.fields.items()},
        }
        if self.acts_on is not None:
            described["target"] = {"entity": [{"domain": list(self.acts_on)} if self.acts_on else {}]}
        if self.response != "none":
            described["response"] = {"optional": self.response == "optional"}
        return described
