"""Decorators that turn a function into something the gate can hold."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeVar

from agent_gate.model.call import BoundCall
from agent_gate.model.errors import ToolError
from agent_gate.model.tool import Aliases, Effect, GuardedBy, Json, Reach, Risk, Signer, ToolDeclaration
from agent_gate.policy.judge import Judge
from agent_gate.policy.signature import places_of, signatures_for, signed_arguments
from agent_gate.ports.tools import Binding, NewState, Recorded, RegisteredTool
from agent_gate.toolkit.registered import kinds_of, make_registered_tool
from agent_gate.toolkit.schemas import schema_of
from agent_gate.toolkit.threads import POOL

Function = TypeVar("Function", bound=Callable[..., Any])
Undo = Callable[[dict[str, Json], Json], Any]
"""Takes the recorded arguments and the result of the call that is to be undone."""

CURRENT_CALL: ContextVar[BoundCall] = ContextVar("CURRENT_CALL")


def current_call() -> BoundCall:
    """The call that a tool's function was called for; LookupError anywhere else."""
    return CURRENT_CALL.get()


REGISTERED: Final = "__agent_gate_tool__"
"""The attribute in which a decorated function carries its registered tool."""


def tool(
    name: str,
    *,
    effect: str = "write",
    risk: str = "medium",
    cost: float = 1,
    description: str = "",
    schema: Mapping[str, Json] | None = None,
    required_roles: Sequence[str] = (),
    confirmation_required: bool = False,
    preconditions: Sequence[str] = (),
    identifiers: Sequence[str] = (),
    unsigned: Sequence[str] = (),
    sensitive: Sequence[str] = (),
    secret: Sequence[str] = (),
    timeout_s: float | None = None,
    post_execution: Callable[[dict[str, Json]], Any] | None = None,
    undo: Undo | None = None,
    sign: Signer | None = None,
    reach: Reach | None = None,
    guard: GuardedBy | None = None,
    intent: bool = False,
) -> Callable[[Function], Function]:
    """Make an effectful tool of a function: `async def`, or a plain one that then runs in a bounded thread pool.

    `undo` takes back what a call of it did when that call is reverted. `sign` gives signatures of a form of its own,
    `reach` says what they cannot say, `guard` judges calls by a section of its own under `tools:`, and `intent` has
    even a read told before it happens: see `ToolDeclaration`.
    """
    if Effect(effect) is Effect.NONE:
        raise ValueError("effect none is a pure state change: use @transition")
    if undo is not None and Effect(effect) is Effect.READ:
        raise ValueError("effect read changes nothing that could be undone")

    def decorate(function: Function) -> Function:
        declaration = _declaration(
            function, name, effect, risk, cost, description, schema, required_roles, confirmation_required,
            preconditions, identifiers, unsigned, sensitive, secret, timeout_s, sign, reach, guard, intent,
        )  # fmt: skip

        call = _caller(function)

        def act(bound: BoundCall) -> Awaitable[Json]:
            CURRENT_CALL.set(bound)
            return call(**bound.args)

        registered = make_registered_tool(
            declaration,
            "own",
            act=act,
            post_execution=_effect(post_execution),
            undo=_undoing(declaration, undo, call) if undo else None,
        )
        setattr(function, REGISTERED, registered)
        return function

    return decorate


def transition(
    name: str,
    *,
    risk: str = "low",
    cost: float = 0,
    description: str = "",
    schema: Mapping[str, Json] | None = None,
    required_roles: Sequence[str] = (),
    confirmation_required: bool = False,
    preconditions: Sequence[str] = (),
    identifiers: Sequence[str] = (),
    unsigned: Sequence[str] = (),
    timeout_s: float | None = None,
    post_execution: Callable[[dict[str, Json]], Any] | None = None,
) -> Callable[[Function], Function]:
    """Make a pure tool of `(inputs, state) -> (new_state, message)`; it works on copies and touches nothing else.

    It runs in a bounded thread pool, for 30 s unless `timeout_s` says otherwise; its project waits meanwhile.
    """

    def decorate(function: Function) -> Function:
        if inspect.iscoroutinefunction(function):
            raise TypeError(f"transition `{name}` is async, and a pure function has nothing to wait for: use @tool")
        declaration = ToolDeclaration(
            name,
            description or _first_line(function),
            dict(schema or {}),
            kinds_of(identifiers, unsigned),
            Effect.NONE,
            Risk(risk),
            cost,
            tuple(required_roles),
            confirmation_required,
            tuple(preconditions),
            timeout_s=timeout_s,
        )
        registered = make_registered_tool(
            declaration, "own", transition=_pure(function), post_execution=_effect(post_execution)
        )
        setattr(function, REGISTERED, registered)
        return function

    return decorate


def registered_function(function: object) -> RegisteredTool | None:
    registered = getattr(function, REGISTERED, None)
    return registered if isinstance(registered, RegisteredTool) else None


def _declaration(
    function: Callable[..., Any],
    name: str,
    effect: str,
    risk: str,
    cost: float,
    description: str,
    schema: Mapping[str, Json] | None,
    required_roles: Sequence[str],
    confirmation_required: bool,
    preconditions: Sequence[str],
    identifiers: Sequence[str],
    unsigned: Sequence[str],
    sensitive: Sequence[str],
    secret: Sequence[str],
    timeout_s: float | None,
    sign: Signer | None,
    reach: Reach | None,
    guard: GuardedBy | None,
    intent: bool,
) -> ToolDeclaration:
    declaration = ToolDeclaration(
        name,
        description or _first_line(function),
        schema if schema is not None else schema_of(function),
        kinds_of(identifiers, unsigned),
        Effect(effect),
        Risk(risk),
        cost,
        tuple(required_roles),
        confirmation_required,
        tuple(preconditions),
        frozenset(sensitive),
        frozenset(secret),
        timeout_s,
        order=tuple(inspect.signature(function).parameters),
        sign=sign,
        reach=reach,
        guard=guard,
        intent=intent,
    )
    return replace(declaration, aliases=_by_key(declaration))


def _by_key(tool: ToolDeclaration) -> Aliases | None:
    """The name that a call had while arguments stood by name: rules that deny or ask about it go on doing so.

    None where it is the same. No rule that allows sees it.
    """
    if tool.sign is not None or signed_arguments(tool) == signed_arguments(tool, by_key=True):
        return None
    sign = places_of(replace(tool, order=()))
    return lambda args, _: (sign(args),)


def _first_line(function: Callable[..., Any]) -> str:
    return (inspect.getdoc(function) or "").partition("\n")[0]


def _caller(function: Callable[..., Any]) -> Callable[..., Awaitable[Json]]:
    """Choose where it runs: async in the event loop; what is plain may block, and runs in the thread pool."""
    if inspect.iscoroutinefunction(function):
        return function

    def call(*given: Json, **named: Json) -> Awaitable[Json]:
        return POOL.run(partial(function, *given, **named), {})

    return call


def _effect(function: Callable[[dict[str, Json]], Any] | None) -> Callable[[dict[str, Json]], Any] | None:
    """A `post_execution` function as the gate awaits it."""
    return _caller(function) if function else None


def _undoing(
    tool: ToolDeclaration, function: Undo, do: Callable[..., Awaitable[Json]]
) -> Callable[[Recorded, Judge], Any]:
    """Undoing is judged by the signatures of the call that it undoes, beside those of the revert itself.

    To undo an undoing is to do what was done, once more.
    """

    undo = _caller(function)

    async def bind(call: Recorded, _: Judge) -> Binding:
        if not call.outcome.ok:
            raise ToolError(
                f"call `{call.call_id}` ended as {call.outcome.status.value}: what it did is not known",
                code=2002,
                suggestion="look at what it should have changed",
            )

        args = dict(call.origin.args)
        if not call.is_in_effect and tool.secret & args.keys():
            raise ToolError(
                f"call `{call.origin.call_id}` had secret arguments, which are not recorded: it cannot be made again",
                code=2002,
                suggestion=f"call `{tool.name}` anew",
            )

        async def act(bound: BoundCall) -> Json:
            CURRENT_CALL.set(bound)
            return await (undo(args, call.outcome.data) if call.is_in_effect else do(**args))

        return Binding(signatures_for(tool, args), act=act)

    return bind


def _pure(function: Callable[..., Any]) -> Callable[[dict[str, Json], Json], NewState]:
    def run(inputs: dict[str, Json], state: Json) -> NewState:
        result = function(inputs, state)
        if isinstance(result, NewState):
            return result
        if isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], str):
            return NewState(*result)
        raise TypeError("a transition returns (new_state, message)")

    return run
