"""What authors of tools use: decorators, schemas from annotations, and threads for blocking tools."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from typing import Any, Literal

import pytest

from agent_gate.model.call import Agent, BoundCall, CallRequest
from agent_gate.model.errors import ToolError
from agent_gate.model.tool import ArgumentKind, Effect, Json, Risk
from agent_gate.ports.tools import NewState
from agent_gate.toolkit import BlockingPool, registered_tool, schema_of, tool, transition
from tests.gates import PATIENCE_S, soon


def bound(**args: Json) -> BoundCall:
    return BoundCall("id", CallRequest(Agent("bot"), "t", args), args, args, ("t",), "")


def test_a_decorated_function_stays_a_function_and_carries_its_declaration() -> None:
    @tool(
        "mail.send",
        effect="write",
        risk="high",
        cost=5,
        required_roles=["admin"],
        confirmation_required=True,
        preconditions=["cost < 9"],
        identifiers=["to"],
        unsigned=["text"],
        sensitive=["to"],
        secret=["key"],
        timeout_s=3,
    )
    async def send(to: str, text: str = "", key: str = "") -> str:
        """Send a mail.

        More words.
        """
        return f"{to}: {text}"

    registered = registered_tool(send)
    declaration = registered.declaration
    assert (declaration.name, declaration.description, registered.service) == ("mail.send", "Send a mail.", "own")
    assert (declaration.effect, declaration.risk, declaration.cost) == (Effect.WRITE, Risk.HIGH, 5)
    assert (declaration.required_roles, declaration.confirmation_required) == (("admin",), True)
    assert declaration.arguments == {"to": ArgumentKind.IDENTIFIER, "text": ArgumentKind.UNSIGNED}
    assert (declaration.sensitive, declaration.secret) == (frozenset({"to"}), frozenset({"key"}))
    assert declaration.kind_of("key") is ArgumentKind.UNSIGNED
    assert asyncio.run(send("anna", "hi")) == "anna: hi"


def test_a_tool_that_says_nothing_is_a_write_of_medium_risk_that_costs_1_and_a_transition_is_free() -> None:
    @tool("t")
    async def act() -> None: ...

    @transition("p")
    def pure(inputs: dict[str, Json], state: Json) -> tuple[Json, str]:
        return state, ""

    declared, free = registered_tool(act).declaration, registered_tool(pure).declaration
    assert (declared.effect, declared.risk, declared.cost) == (Effect.WRITE, Risk.MEDIUM, 1)
    assert (free.effect, free.risk, free.cost) == (Effect.NONE, Risk.LOW, 0)


def test_the_schema_follows_from_the_annotations() -> None:
    def function(
        a: str,
        b: int,
        c: float = 0.5,
        d: bool = False,
        e: list[int] | None = None,
        f: dict[str, Any] | str = "",
        g: Literal["x", "y"] = "x",
        h: Any = None,
    ) -> None: ...

    assert schema_of(function) == {
        "type": "object",
        "properties": {
            "a": {"type": "string"},
            "b": {"type": "integer"},
            "c": {"type": "number"},
            "d": {"type": "boolean"},
            "e": {"anyOf": [{"type": "array"}, {"type": "null"}]},
            "f": {"anyOf": [{"type": "object"}, {"type": "string"}]},
            "g": {"enum": ["x", "y"]},
            "h": {},
        },
        "required": ["a", "b"],
        "additionalProperties": False,
    }


def test_a_function_whose_arguments_have_no_names_needs_a_schema() -> None:
    def anything(**values: Json) -> None: ...

    def nameless(value: str, /) -> None: ...

    for function in (anything, nameless):
        with pytest.raises(TypeError, match=function.__name__):
            tool("t")(function)
    registered = registered_tool(tool("t", schema={"type": "object"})(anything))
    assert registered.validate({"x": 1}) is None


def test_what_is_wrong_with_arguments_is_said_on_one_line_and_without_values_where_there_are_secrets() -> None:
    @tool("t")
    async def plain(n: int) -> None: ...

    @tool("s", secret=["key"])
    async def secretive(n: int, key: str) -> None: ...

    complaint = registered_tool(plain).validate({"n": "three"})
    assert complaint is not None
    assert "three" in complaint
    hidden = registered_tool(secretive).validate({"n": "three", "key": 7})
    assert hidden is not None
    assert ("three" in hidden, "7" in hidden, "\n" in hidden) == (False, False, False)
    assert registered_tool(secretive).validate({"n": 3, "key": "k"}) is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"effect": "none"}, "use @transition"),
        ({"effect": "wild"}, "wild"),
        ({"risk": "none"}, "none"),
        ({"cost": -1}, "cost of -1"),
        ({"cost": float("nan")}, "cost of nan"),
        ({"timeout_s": 0}, "no time to act"),
        ({"secret": ["pasword"]}, "`pasword` is not an argument"),
        ({"sensitive": ["nothing"]}, "`nothing` is not an argument"),
        ({"unsigned": ["nothing"]}, "`nothing` is not an argument"),
        ({"identifiers": ["nothing"]}, "`nothing` is not an argument"),
        ({"preconditions": ["cost <"]}, "precondition `cost <`"),
        ({"preconditions": ["__import__('os')"]}, "precondition"),
    ],
)
def test_a_declaration_that_cannot_mean_what_it_says_is_refused_when_it_is_made(
    options: dict[str, Any], words: str
) -> None:
    async def act(password: str = "") -> None: ...

    with pytest.raises(ValueError, match=words.replace("(", r"\(")):
        tool("t", **options)(act)


@pytest.mark.parametrize("name", ["", "a(b", "a,b", "a*", "x" * 201, "a\nb"])
def test_a_name_that_could_be_mistaken_for_a_signature_is_refused(name: str) -> None:
    async def act() -> None: ...

    with pytest.raises(ValueError, match="name of a tool"):
        tool(name)(act)


def test_a_transition_has_nothing_to_wait_for() -> None:
    async def wait(inputs: dict[str, Json], state: Json) -> tuple[Json, str]:
        return state, ""

    with pytest.raises(TypeError, match="is async"):
        transition("t")(wait)


def test_a_function_without_a_decorator_is_no_tool() -> None:
    with pytest.raises(TypeError, match="not decorated"):
        registered_tool(lambda: None)


def test_a_transition_returns_state_and_message_or_a_new_state_with_data() -> None:
    def run(result: Any) -> NewState:
        @transition("t")
        def function(inputs: dict[str, Json], state: Json) -> Any:
            return result

        way = registered_tool(function).transition
        assert way is not None
        return way({}, {})

    assert run(({"x": 1}, "done")) == NewState({"x": 1}, "done")
    assert run(NewState({"x": 1}, "done", [1])) == NewState({"x": 1}, "done", [1])
    others: list[Any] = [None, {"x": 1}, ({"x": 1},), ({"x": 1}, 3), ({"x": 1}, "done", [])]
    for wrong in others:
        with pytest.raises(TypeError, match="returns"):
            run(wrong)


async def test_a_plain_function_runs_beside_the_loop_in_the_caller_s_context() -> None:
    language = contextvars.ContextVar("language", default="en")
    language.set("de")

    @tool("t")
    def block(n: int) -> Json:
        return n + 1, threading.current_thread() is threading.main_thread(), language.get()

    act = registered_tool(block).act
    assert act is not None
    assert await act(bound(n=1)) == (2, False, "de")


async def test_a_blocking_tool_s_error_reaches_the_caller() -> None:
    @tool("t")
    def block() -> None:
        raise KeyError("no")

    act = registered_tool(block).act
    assert act is not None
    with pytest.raises(KeyError):
        await act(bound())


async def test_a_full_pool_is_an_error_and_a_slot_is_free_again_when_its_thread_ends() -> None:
    pool, go = BlockingPool(2), threading.Event()
    busy = [asyncio.create_task(pool.run(go.wait, {"timeout": PATIENCE_S})) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(ToolError) as full:
        await pool.run(go.wait, {})
    assert full.value.code == 2006
    go.set()
    assert await soon(asyncio.gather(*busy)) == [True, True]
    assert await pool.run(lambda: 1, {}) == 1


async def test_a_slot_stays_taken_while_a_thread_runs_that_nobody_waits_for() -> None:
    pool, go, ended = BlockingPool(1), threading.Event(), threading.Event()

    def block() -> None:
        go.wait(PATIENCE_S)
        ended.set()

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await pool.run(block, {})
    with pytest.raises(ToolError):
        await pool.run(lambda: None, {})
    go.set()
    assert ended.wait(PATIENCE_S)
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                assert await pool.run(lambda: "free", {}) == "free"
                break
            except ToolError:
                await asyncio.sleep(0.001)


def test_a_thread_that_outlives_its_loop_gives_its_slot_back() -> None:
    pool, go = BlockingPool(1), threading.Event()

    async def leave() -> None:
        async with asyncio.timeout(0.01):
            await pool.run(lambda: go.wait(PATIENCE_S), {})

    with pytest.raises(TimeoutError):
        asyncio.run(leave())
    go.set()
    for thread in threading.enumerate():
        if thread.name == "agent-gate-tool":
            thread.join(PATIENCE_S)
    assert asyncio.run(pool.run(lambda: "free", {})) == "free"


def test_no_thread_of_a_tool_keeps_the_process_from_ending() -> None:
    pool, go = BlockingPool(1), threading.Event()

    async def begin() -> bool:
        job = asyncio.create_task(pool.run(lambda: go.wait(PATIENCE_S), {}))
        await asyncio.sleep(0)
        daemons = [thread.daemon for thread in threading.enumerate() if thread.name == "agent-gate-tool"]
        go.set()
        await job
        return all(daemons) and bool(daemons)

    assert asyncio.run(begin())


async def test_a_plain_effect_is_awaited_like_an_async_one() -> None:
    async def later(outcome: dict[str, Json]) -> Json:
        return outcome["status"]

    for effect in (later, lambda outcome: outcome["status"]):
        registered = registered_tool(tool("t", post_execution=effect)(_nothing()))
        assert registered.post_execution is not None
        assert await registered.post_execution({"status": "success"}) == "success"


def _nothing() -> Any:
    async def nothing() -> None: ...

    return nothing
