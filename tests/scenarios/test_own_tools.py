"""Own tools as classes, in the shape of the Capsule document, and own tools that can be undone."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from agent_gate import (
    Tool,
    ToolContext,
    ToolError,
    ToolOutput,
    load_plan,
    load_policy,
    open_gate,
    run_plan,
    tool,
    transition,
)
from agent_gate.model.call import CallRequest
from agent_gate.model.outcome import Status
from agent_gate.model.tool import Json
from tests.gates import ALLOW_ALL, a_gate, agent, code_of, entries, kinds_of, projects, soon

BOSS = agent("boss", roles=("admin",))


@pytest.fixture
def work(tmp_path: Path) -> Path:
    return tmp_path.resolve()


class MyTool(Tool):
    """The document's own example."""

    name = "my.tool"

    def __init__(self) -> None:
        self.contexts: list[ToolContext] = []

    def execute(self, args: dict[str, Json], context: ToolContext) -> ToolOutput:
        self.contexts.append(context)
        return ToolOutput(success=True, data={"got": args})


class Ruled(MyTool):
    name = "lamp.set"
    schema = {"type": "object", "properties": {"room": {"type": "string"}, "key": {"type": "string"}}}  # noqa: RUF012
    risk, cost, secret = "low", 2.0, ("key",)


async def test_a_tool_of_the_document_is_registered_as_it_is_and_called_like_any_other(tmp_path: Path) -> None:
    mine = MyTool()
    async with a_gate(tmp_path, {"rules": [{"pattern": "my.tool(n=3)", "action": "allow"}]}, mine) as gate:
        outcome = await gate.call("my.tool", n=3)
        other = await gate.call("my.tool", n=4, wait=False)
        kinds = kinds_of(gate, outcome.call_id)
    assert (outcome.status, outcome.data, outcome.signatures) == (Status.SUCCESS, {"got": {"n": 3}}, ("my.tool(n=3)",))
    assert (other.status, len(mine.contexts)) == (Status.PENDING_APPROVAL, 1)
    assert kinds == ["performing", "settled"]


async def test_its_context_has_the_run_the_policy_and_the_working_directory(work: Path) -> None:
    mine, policy = MyTool(), load_policy(ALLOW_ALL)
    plan = load_plan({"version": "1.0", "name": "p", "steps": [{"tool": "my.tool"}]})
    async with a_gate(work, policy, mine, working_dir=work) as gate:
        await gate.call("my.tool")
        run = await run_plan(gate, plan)
    assert mine.contexts == [ToolContext(None, policy, work), ToolContext(run.run_id, policy, work)]


async def test_what_its_class_says_of_it_is_judged_and_its_secrets_are_kept(tmp_path: Path) -> None:
    async with a_gate(tmp_path, {**ALLOW_ALL, "limits": {"budget": {"daily": 3}}}, Ruled()) as gate:
        first = await gate.call("lamp.set", room="hall", key="hunter2")
        second = await gate.call("lamp.set", room="hall", key="hunter2")
        wrong = await gate.call("lamp.set", room=7)
        recorded = str(entries(gate))
    assert (first.ok, first.cost, first.signatures) == (True, 2, ("lamp.set(hall)",))
    assert (code_of(second), code_of(wrong)) == (1013, 2002)
    assert "hunter2" not in recorded


@pytest.mark.parametrize(
    ("output", "detail"),
    [
        (ToolOutput(success=False, error="the lamp is broken"), "the lamp is broken"),
        (ToolOutput(success=False), "`my.tool` failed without saying why"),
        ({"success": True}, "`my.tool` returned dict, not a ToolOutput"),
        (RuntimeError("fuse"), "`my.tool` failed: RuntimeError: fuse"),
        (ToolError("no power", code=2006), "no power"),
    ],
)
async def test_an_output_that_is_no_success_is_an_error_of_the_call(tmp_path: Path, output: Any, detail: str) -> None:
    class Broken(MyTool):
        def execute(self, args: dict[str, Json], context: ToolContext) -> ToolOutput:
            if isinstance(output, Exception):
                raise output
            return output  # type: ignore[no-any-return]  # what the document forbids is one of the cases

    async with a_gate(tmp_path, ALLOW_ALL, Broken()) as gate:
        outcome = await gate.call("my.tool")
    assert outcome.error is not None
    expected = 2006 if isinstance(output, ToolError) else 2003
    assert (outcome.status, code_of(outcome), outcome.error.detail) == (Status.ERROR, expected, detail)


async def test_it_may_block_while_other_calls_go_on(tmp_path: Path) -> None:
    let_go = threading.Event()

    class Slow(MyTool):
        def execute(self, args: dict[str, Json], context: ToolContext) -> ToolOutput:
            return ToolOutput(success=let_go.wait(20))

    async with a_gate(tmp_path, ALLOW_ALL, Slow()) as gate:
        slow = asyncio.create_task(gate.call("my.tool"))
        assert (await soon(gate.call("state.set", path="x", value=1))).ok
        assert not slow.done()
        let_go.set()
        assert (await soon(slow)).ok


class Nameless(Tool):
    def execute(self, args: dict[str, Json], context: ToolContext) -> ToolOutput:
        return ToolOutput(success=True)


class Asynchronous(Tool):
    name = "a.b"

    async def execute(self, args: dict[str, Json], context: ToolContext) -> ToolOutput:  # type: ignore[override]  # the mistake
        return ToolOutput(success=True)


class Pure(Nameless):
    name, effect = "a.b", "none"


class Misdeclared(Nameless):
    name, secret = "a.b", ("pasword",)
    schema = {"type": "object", "properties": {"password": {}}}  # noqa: RUF012


@pytest.mark.parametrize(
    ("offered", "words"),
    [
        (Nameless(), "has no name"),
        (MyTool, r"give one of them, `MyTool\(\)`"),
        (Asynchronous(), "is async"),
        (Pure(), "use @transition"),
        (Misdeclared(), "`pasword` is not an argument"),
        (lambda: None, "not decorated with @tool or @transition, and no Tool"),
    ],
)
async def test_what_cannot_be_a_tool_is_refused_when_the_gate_is_opened(
    tmp_path: Path, offered: Any, words: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=words):
        async with open_gate(ALLOW_ALL, tmp_path / "a.db", tools=[offered]):
            pass
    assert not (tmp_path / "a.db").exists()


def test_a_tool_without_execute_cannot_be_made() -> None:
    class Unfinished(Tool):
        name = "a.b"

    with pytest.raises(TypeError, match="execute"):
        Unfinished()  # type: ignore[abstract]  # the mistake is the test


def shelf(things: list[str], **declared: Any) -> Any:
    """A tool that puts a thing on a shelf, and knows how to take it away again."""

    def take(args: dict[str, Json], data: Json) -> Json:
        if things[data["place"]] != args["thing"]:
            raise ToolError(f"`{args['thing']}` is no longer there")
        return {"taken": things.pop(data["place"])}

    @tool("shelf.put", risk="low", **{"undo": take, **declared})
    async def put(thing: str, fails: bool = False) -> Json:
        things.append(thing)
        if fails:
            raise RuntimeError("the shelf broke")
        return {"place": len(things) - 1}

    return put


async def test_a_call_is_undone_by_its_tools_own_undo_and_judged_and_recorded_like_any_call(tmp_path: Path) -> None:
    things = ["cup"]
    async with a_gate(tmp_path, ALLOW_ALL, shelf(things), agent=BOSS) as gate:
        put = await gate.call("shelf.put", thing="book")
        undone = await gate.call("gate.revert", call_id=put.call_id)
        again = await gate.call("gate.revert", call_id=put.call_id)
        [reverted] = entries(gate, "reverted")
    assert (undone.data, things) == ({"taken": "book"}, ["cup"])
    assert undone.signatures == (f"gate.revert({put.call_id})", *put.signatures)
    assert reverted["call_id"] == undone.call_id
    assert (again.status, code_of(again)) == (Status.ERROR, 2002)
    assert undone.call_id in str(again.error)


async def test_an_async_undo_works_as_well(tmp_path: Path) -> None:
    seen: list[Any] = []

    async def undo(args: dict[str, Json], data: Json) -> None:
        seen.append((args, data))

    async with a_gate(tmp_path, ALLOW_ALL, shelf([], undo=undo), agent=BOSS) as gate:
        put = await gate.call("shelf.put", thing="book")
        assert (await gate.call("gate.revert", call_id=put.call_id)).ok
    assert seen == [({"thing": "book"}, {"place": 0})]


async def test_an_undo_is_refused_where_the_call_itself_would_be(tmp_path: Path) -> None:
    things: list[str] = []
    async with a_gate(tmp_path, ALLOW_ALL, shelf(things), agent=BOSS) as gate:
        put = await gate.call("shelf.put", thing="book")
    policy = {"rules": [{"pattern": "shelf.put(book*)", "action": "deny"}, {"pattern": "*", "action": "allow"}]}
    async with a_gate(tmp_path, policy, shelf(things), agent=BOSS) as gate:
        refused = await gate.call("gate.revert", call_id=put.call_id)
    assert (refused.status, code_of(refused), things) == (Status.DENIED, 1001, ["book"])


async def test_a_call_that_did_not_succeed_is_not_undone_blindly(tmp_path: Path) -> None:
    things: list[str] = []
    async with a_gate(tmp_path, ALLOW_ALL, shelf(things), agent=BOSS) as gate:
        put = await gate.call("shelf.put", thing="book", fails=True)
        refused = await gate.call("gate.revert", call_id=put.call_id)
    assert (put.status, code_of(refused), things) == (Status.ERROR, 2002, ["book"])
    assert "what it did is not known" in str(refused.error)


def test_a_read_has_nothing_to_undo() -> None:
    with pytest.raises(ValueError, match="changes nothing that could be undone"):
        shelf([], effect="read")


async def test_a_pure_function_that_takes_long_keeps_nobody_else_waiting(tmp_path: Path) -> None:
    go = threading.Event()

    @transition("think.long", timeout_s=60)
    def think(_: dict[str, Json], state: Json) -> tuple[Json, str]:
        go.wait(20)
        return {**state, "thought": True}, "done"

    async with a_gate(tmp_path, ALLOW_ALL, think, agent=agent("boss", projects=("*",))) as gate:
        await projects(gate).create("other")
        thinking = asyncio.create_task(gate.call("think.long"))
        assert (await soon(gate.call("state.set", path="/a", value=1, project="other"))).ok
        assert not thinking.done()
        go.set()
        assert (await soon(thinking)).state_diff == ({"op": "add", "path": "/thought", "value": True},)


@pytest.mark.parametrize("simulate", [False, True])
async def test_a_pure_function_that_does_not_end_in_time_changes_nothing(tmp_path: Path, simulate: bool) -> None:
    go = threading.Event()

    @transition("think.forever", timeout_s=0.05)
    def think(_: dict[str, Json], state: Json) -> tuple[Json, str]:
        go.wait(20)
        return {**state, "thought": True}, "done"

    async with a_gate(tmp_path, ALLOW_ALL, think) as gate:
        request = CallRequest(gate.agent, "think.forever", {})
        outcome = (await gate.simulate(request))[0] if simulate else await gate.submit(request)
        go.set()
        assert (outcome.status, code_of(outcome)) == (Status.ERROR, 2004)
        assert outcome.error is not None
        assert "it has not acted" in outcome.error.detail
        assert (await gate.ledger.state("default")).document == {}


@pytest.mark.parametrize("error", [StopIteration("end"), SystemExit(3), ValueError("bad"), RecursionError("deep")])
async def test_what_a_pure_function_raises_in_its_thread_is_its_failure(tmp_path: Path, error: BaseException) -> None:
    @transition("think.badly")
    def think(_: dict[str, Json], __: Json) -> tuple[Json, str]:
        raise error

    async with a_gate(tmp_path, ALLOW_ALL, think) as gate:
        assert code_of(await gate.call("think.badly")) == 2003


async def test_blocking_tools_of_one_agent_leave_threads_for_another(tmp_path: Path) -> None:
    go = threading.Event()

    @tool("wait.here", effect="read", cost=0)
    def wait_here() -> None:
        go.wait(20)

    @tool("say.hello", effect="read", cost=0)
    def hello() -> str:
        return "hello"

    async with a_gate(tmp_path, ALLOW_ALL, wait_here, hello) as gate:
        waiting = [asyncio.create_task(gate.call("wait.here", agent=agent("one"))) for _ in range(20)]
        await asyncio.sleep(0.05)
        assert (await soon(gate.call("say.hello", agent=agent("two")))).data == "hello"
        go.set()
        assert all([(await soon(task)).ok for task in waiting])
