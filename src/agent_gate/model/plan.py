"""A plan: an ordered list of calls; annotations are not postponed, see `model/setting.py`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from agent_gate.model.setting import Setting
from agent_gate.model.tool import Json

Name = Annotated[str, Setting(max_length=200)]


@dataclass(frozen=True, slots=True)
class PlanStep:
    """One call of a plan."""

    tool: Annotated[Name, Setting("the tool to call", remedy="name the tool to call", min_length=1)]
    args: Annotated[Mapping[str, Json], Setting("its arguments; `${steps.ID.data…}` is a value of an earlier step")] = (
        field(default_factory=dict)
    )
    id: Annotated[
        Name,
        Setting(
            "the name by which later steps refer to this one",
            pattern="^[A-Za-z_][A-Za-z0-9_-]*$",
            form="an id: letters, digits, `_` and `-`, not starting with a digit or `-`",
        ),
    ] = ""
    name: Annotated[Name, Setting("what people are shown")] = ""
    confirmed: Annotated[bool, Setting("true: for tools that require a confirmation")] = False

    def to_json(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"tool": self.tool, "args": dict(self.args)}
        if self.id:
            fields["id"] = self.id
        if self.name:
            fields["name"] = self.name
        if self.confirmed:
            fields["confirmed"] = True
        return fields


@dataclass(frozen=True, slots=True)
class Plan:
    """An ordered list of calls."""

    steps: Annotated[
        tuple[PlanStep, ...],
        Setting("the calls, made one after the other", remedy="list at least one step", max_items=10_000, order=1),
    ]
    name: Annotated[Name, Setting("what the run is called")] = ""
    description: Annotated[str, Setting("what it is for")] = ""
    version: Annotated[str, Setting("the version of this format", only="1.0", order=-1)] = "1.0"

    def to_json(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"version": self.version}
        if self.name:
            fields["name"] = self.name
        if self.description:
            fields["description"] = self.description
        fields["steps"] = [step.to_json() for step in self.steps]
        return fields
