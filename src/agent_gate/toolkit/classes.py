"""Tools as classes: the shape that the Capsule document gives them."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from agent_gate.model.call import BoundCall, CallRequest
from agent_gate.model.errors import ToolError
from agent_gate.model.policy import Policy
from agent_gate.model.tool import Effect, Json, Risk, ToolDeclaration
from agent_gate.policy.judge import Judge
from agent_gate.policy.signature import signatures_for
from agent_gate.ports.tools import Binding, RegisteredTool
from agent_gate.toolkit.registered import kinds_of, make_registered_tool
from agent_gate.toolkit.threads import POOL

_ANYTHING: Mapping[str, Json] = {}


@dataclass(frozen=True, slots=True)
class ToolContext:
    """The surroundings in which a tool is called."""

    run_id: str | None
    """None for a call that belongs to no run."""
    policy: Policy
    """The one that the call was judged by."""
    working_dir: Path
    """The directory that relative paths are relative to."""


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """The result: the data of a success, or the error in words."""

    success: bool
    data: Json = None
    error: str | None = None


class Tool(ABC):
    """One tool as a class; `execute` may block, and runs in a bounded thread pool.

    What a subclass does not say of itself has the cautious values of `@tool`: a write of medium risk.
    """

    name: str
    description: str = ""
    schema: Mapping[str, Json] = _ANYTHING
    """JSON Schema of the arguments; empty means any object."""
    effect: str = "write"
    risk: str = "medium"
    cost: float = 1
    required_roles: Sequence[str] = ()
    confirmation_required: bool = False
    preconditions: Sequence[str] = ()
    identifiers: Sequence[str] = ()
    unsigned: Sequence[str] = ()
    sensitive: Sequence[str] = ()
    secret: Sequence[str] = ()
    timeout_s: float | None = None

    @abstractmethod
    def execute(self, args: dict[str, Json], context: ToolContext) -> ToolOutput:
        """Execute the tool with given arguments."""


def registered_class(tool: Tool, working_dir: str) -> RegisteredTool:
    name = getattr(tool, "name", None)
    if not isinstance(name, str):
        raise TypeError(f"{type(tool).__name__} has no name: give the class a `name`")
    if inspect.iscoroutinefunction(tool.execute):
        raise TypeError(f"`execute` of tool `{name}` is async, and runs in a thread: write it plainly, or use @tool")
    if Effect(tool.effect) is Effect.NONE:
        raise ValueError(f"tool `{name}`: effect none is a pure state change: use @transition")
    declaration = ToolDeclaration(
        name,
        tool.description or (inspect.getdoc(type(tool)) or "").partition("\n")[0],
        dict(tool.schema),
        kinds_of(tool.identifiers, tool.unsigned),
        Effect(tool.effect),
        Risk(tool.risk),
        tool.cost,
        tuple(tool.required_roles),
        tool.confirmation_required,
        tuple(tool.preconditions),
        frozenset(tool.sensitive),
        frozenset(tool.secret),
        tool.timeout_s,
    )

    async def bind(request: CallRequest, args: Mapping[str, Json], judge: Judge) -> Binding:
        context = ToolContext(request.run_id, judge.policy, Path(working_dir))

        async def act(bound: BoundCall) -> Json:
            return _data(name, await POOL.run(partial(tool.execute, dict(bound.args), context), {}))

        return Binding(signatures_for(declaration, args), act=act)

    return make_registered_tool(declaration, "own", bind=bind)


def _data(name: str, output: object) -> Json:
    if not isinstance(output, ToolOutput):
        raise ToolError(f"`{name}` returned {type(output).__name__}, not a ToolOutput")
    if not output.success:
        raise ToolError(output.error or f"`{name}` failed without saying why")
    return output.data
