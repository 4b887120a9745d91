"""What authors of tools use: decorators that turn a function into something the gate can hold."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import math
import threading
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from agent_gate.model.call import BoundCall
from agent_gate.model.errors import ToolError
from agent_gate.model.limits import BLOCKING_THREADS_MAX
from agent_gate.model.schema import validator
from agent_gate.model.tool import ArgumentKind, Effect, Json, Risk, ToolDeclaration
from agent_gate.policy.expression import ExpressionError, compile_expression
from agent_gate.policy.signature import validate_args
from agent_gate.ports import Hand, NewState

Function = TypeVar("Function", bound=Callable[..., Any])

HANDS: typing.Final = "__agent_gate_hand__"
"""Where a decorated function carries its hand."""


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
) -> Callable[[Function], Function]:
    """Make an effectful tool of a function: `async def`, or a plain one that then runs in a bounded thread pool."""
    if Effect(effect) is Effect.NONE:
        raise ValueError("effect none is a pure state change: use @transition")

    def decorate(function: Function) -> Function:
        declaration = _declaration(
            function, name, effect, risk, cost, description, schema, required_roles, confirmation_required,
            preconditions, identifiers, unsigned, sensitive, secret, timeout_s,
        )  # fmt: skip
        act = _async_act(function) if inspect.iscoroutinefunction(function) else _blocking_act(function)
        setattr(function, HANDS, make_hand(declaration, "own", act=act, post_execution=_effect(post_execution)))
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
    post_execution: Callable[[dict[str, Json]], Any] | None = None,
) -> Callable[[Function], Function]:
    """Make a pure tool of `(inputs, state) -> (new_state, message)`; it works on copies and touches nothing else."""

    def decorate(function: Function) -> Function:
        if inspect.iscoroutinefunction(function):
            raise TypeError(f"transition `{name}` is async, and a pure function has nothing to wait for: use @tool")
        declaration = ToolDeclaration(
            name,
            description or _first_line(function),
            dict(schema or {}),
            _kinds(identifiers, unsigned),
            Effect.NONE,
            Risk(risk),
            cost,
            tuple(required_roles),
            confirmation_required,
            tuple(preconditions),
        )
        hand = make_hand(declaration, "own", transition=_pure(function), post_execution=_effect(post_execution))
        setattr(function, HANDS, hand)
        return function

    return decorate


def hand_of(function: object) -> Hand:
    hand = getattr(function, HANDS, None)
    if not isinstance(hand, Hand):
        raise TypeError(f"{function!r} is not decorated with @tool or @transition")
    return hand


def make_hand(declaration: ToolDeclaration, service: str, **ways: Any) -> Hand:
    """The hand of a declared tool; ValueError where the declaration cannot mean what it says."""
    for mistake in _mistakes(declaration):
        raise ValueError(f"tool `{declaration.name}`: {mistake}")
    validate = validator(declaration.input_schema, hide_values=bool(declaration.secret))
    return Hand(declaration, service, validate, **ways)


def _mistakes(tool: ToolDeclaration) -> Iterator[str]:
    try:
        validate_args(tool.name, {})
    except ValueError as error:
        yield str(error)
    if not (math.isfinite(tool.cost) and tool.cost >= 0):
        yield f"a cost of {tool.cost} cannot be charged"
    if tool.timeout_s is not None and not tool.timeout_s > 0:
        yield f"a timeout of {tool.timeout_s} s leaves no time to act"
    known = tool.input_schema.get("properties")
    for name in sorted({*tool.arguments, *tool.sensitive, *tool.secret}):
        if known is not None and name not in known:
            yield f"`{name}` is not an argument of its schema"
    for condition in tool.preconditions:
        try:
            compile_expression(condition)
        except ExpressionError as error:
            yield f"precondition `{condition}`: {error}"


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
) -> ToolDeclaration:
    return ToolDeclaration(
        name,
        description or _first_line(function),
        schema if schema is not None else schema_of(function),
        _kinds(identifiers, unsigned),
        Effect(effect),
        Risk(risk),
        cost,
        tuple(required_roles),
        confirmation_required,
        tuple(preconditions),
        frozenset(sensitive),
        frozenset(secret),
        timeout_s,
    )


def _kinds(identifiers: Sequence[str], unsigned: Sequence[str]) -> dict[str, ArgumentKind]:
    kinds = dict.fromkeys(identifiers, ArgumentKind.IDENTIFIER)
    return kinds | dict.fromkeys(unsigned, ArgumentKind.UNSIGNED)


def _first_line(function: Callable[..., Any]) -> str:
    return (inspect.getdoc(function) or "").partition("\n")[0]


_JSON_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", list: "array", dict: "object"}


def schema_of(function: Callable[..., Any]) -> dict[str, Json]:
    """The JSON Schema that a function's parameters and annotations amount to."""
    properties: dict[str, Json] = {}
    required: list[str] = []
    hints = typing.get_type_hints(function)
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise TypeError(f"tool `{function.__name__}` takes *args or **kwargs: give it a schema")
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise TypeError(f"argument `{parameter.name}` of tool `{function.__name__}` has no name to be given by")
        properties[parameter.name] = _type_schema(hints.get(parameter.name, Any))
        if parameter.default is parameter.empty:
            required.append(parameter.name)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _type_schema(hint: Any) -> dict[str, Json]:
    origin = typing.get_origin(hint)
    if origin in (types.UnionType, typing.Union):
        return {"anyOf": [_type_schema(part) for part in typing.get_args(hint)]}
    if origin is typing.Literal:
        return {"enum": list(typing.get_args(hint))}
    if hint is type(None):
        return {"type": "null"}
    name = _JSON_TYPES.get(origin or hint)
    return {"type": name} if name else {}


def _async_act(function: Callable[..., Any]) -> Callable[[BoundCall], Any]:
    async def act(bound: BoundCall) -> Json:
        return await function(**bound.args)

    return act


def _blocking_act(function: Callable[..., Any]) -> Callable[[BoundCall], Any]:
    async def act(bound: BoundCall) -> Json:
        return await POOL.run(function, dict(bound.args))

    return act


def _effect(function: Callable[[dict[str, Json]], Any] | None) -> Callable[[dict[str, Json]], Any] | None:
    """A `post_execution` function as the gate awaits it; a plain one runs in the thread pool."""
    if function is None or inspect.iscoroutinefunction(function):
        return function

    async def effect(outcome: dict[str, Json]) -> Json:
        return await POOL.run(lambda: function(outcome), {})

    return effect


class BlockingPool:
    """Bounded threads for blocking tools: a slot stays taken until its thread ends, and a full pool is an error.

    The threads are daemons: one whose tool never returns must not keep the process from ending.
    """

    def __init__(self, threads_max: int) -> None:
        self._slots = threading.BoundedSemaphore(threads_max)

    async def run(self, function: Callable[..., Any], arguments: dict[str, Json]) -> Json:
        if not self._slots.acquire(blocking=False):
            raise ToolError("all threads for blocking tools are busy", code=2006, suggestion="try again later")
        job: Future[Json] = Future()
        job.set_running_or_notify_cancel()
        context = contextvars.copy_context()
        work = functools.partial(context.run, self._do, job, function, arguments)
        threading.Thread(target=work, name="agent-gate-tool", daemon=True).start()
        return await asyncio.wrap_future(job)

    def _do(self, job: Future[Json], function: Callable[..., Any], arguments: dict[str, Json]) -> None:
        try:
            result = function(**arguments)
        except BaseException as error:
            self._slots.release()
            # A future cannot carry StopIteration: whoever awaits it would never hear of it.
            job.set_exception(RuntimeError(repr(error)) if isinstance(error, StopIteration) else error)
        else:
            self._slots.release()
            job.set_result(result)


POOL = BlockingPool(BLOCKING_THREADS_MAX)


def _pure(function: Callable[..., Any]) -> Callable[[dict[str, Json], Json], NewState]:
    def run(inputs: dict[str, Json], state: Json) -> NewState:
        result = function(inputs, state)
        if isinstance(result, NewState):
            return result
        if isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], str):
            return NewState(*result)
        raise TypeError("a transition returns (new_state, message)")

    return run
