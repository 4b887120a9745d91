"""Tools of others that are wrong or hostile: their calls are refused by a code, and nothing else is harmed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest

from agent_gate import open_gate
from agent_gate.history.verify import verify
from agent_gate.ledger.sqlite.schema import SHIPPED
from agent_gate.model.entry import GATE_PROJECT
from agent_gate.model.errors import ConfigError
from agent_gate.model.outcome import Status
from agent_gate.model.service_tables import (
    LEDGERS_OWN,
    AddColumn,
    Column,
    DropOldRows,
    PutRows,
    ServiceTables,
    SetColumn,
    Table,
)
from agent_gate.model.setting import Setting
from agent_gate.model.tool import Effect, Json, Risk, Section, ToolDeclaration
from agent_gate.model.work import Work
from agent_gate.ports.tools import WithRows
from agent_gate.toolkit import GuardedBy, Reach, tool
from tests.gates import ALLOW_ALL, a_gate, kinds_of, rows


def act(acts: list[str], **brought: Any) -> Any:
    @tool("sky.paint", effect="write", risk="low", cost=0, **brought)
    async def paint(colour: str) -> str:
        acts.append(colour)
        return colour

    return paint


def raising(_: Any) -> Any:
    raise KeyError("colour")


@pytest.mark.parametrize(
    "sign",
    [
        raising,
        lambda _: None,
        lambda _: (),
        lambda _: "sky.paint(blue)",
        lambda _: b"sky.paint(blue)",
        lambda _: [None],
        lambda _: [7],
        lambda _: [b"sky.paint(blue)"],
        lambda _: [["sky.paint(blue)"]],
        lambda _: {"sky.paint(blue)": 1, 2: 3},
        lambda _: (one for one in ("sky.paint(blue)",)),
        lambda _: ["sky.paint(blue)", ""],
        lambda _: ["sky.paint(blue)\n"],
        lambda _: ["sky.paint(\ud800)"],
        lambda _: [f"sky.paint({n})" for n in range(10_000)],
        lambda _: ["fs.read(/etc/motd)"],
        lambda _: ["skyline.paint(blue)"],
        lambda _: ["*"],
        lambda _: ["sky.paint(" + "x" * 10_000_000 + ")"],
    ],
    ids=lambda one: None,
)
async def test_a_signer_that_gives_no_signatures_has_its_calls_refused(
    tmp_path: Path, sign: Callable[[Any], Any]
) -> None:
    acts: list[str] = []
    async with a_gate(tmp_path, ALLOW_ALL, act(acts, sign=sign)) as gate:
        refused = await gate.call("sky.paint", colour="blue")
        assert refused.error is not None
        assert (refused.status, refused.error.code) in [(Status.ERROR, 2002), (Status.ERROR, 2003)]
        assert len(refused.error.detail) <= 1_000
        assert kinds_of(gate, refused.call_id) == ["settled"]
        assert (await gate.call("state.set", path="/a", value=1)).status is Status.SUCCESS
    assert acts == []


async def test_a_text_in_place_of_signatures_does_not_slip_by_a_rule_that_denies(tmp_path: Path) -> None:
    """Letter by letter it would have matched none."""
    acts: list[str] = []
    policy = {"rules": [{"pattern": "sky.paint(*)", "action": "deny"}, {"pattern": "?", "action": "allow"}]}
    async with a_gate(tmp_path, policy, act(acts, sign=lambda args: f"sky.paint({args['colour']})")) as gate:
        assert not (await gate.call("sky.paint", colour="blue")).ok
    assert acts == []


async def test_a_signer_cannot_change_what_is_done(tmp_path: Path) -> None:
    acts: list[str] = []

    def sign(args: dict[str, Json]) -> tuple[str, ...]:
        args["colour"] = "black"
        return ("sky.paint(blue)",)

    async with a_gate(tmp_path, ALLOW_ALL, act(acts, sign=sign)) as gate:
        await gate.call("sky.paint", colour="blue")
    assert "black" not in acts


def build_raising(*_: Any) -> Any:
    raise RuntimeError("out of paint")


@pytest.mark.parametrize(
    "guard",
    [
        lambda *_: None,
        lambda *_: True,
        lambda *_: (None, None),
        lambda *_: ("allow", None),
        lambda *_: (_ for _ in ()).throw(KeyError("x")),
        lambda: None,
        7,
    ],
    ids=lambda one: None,
)
async def test_a_guard_that_fails_denies(tmp_path: Path, guard: Any) -> None:
    acts: list[str] = []
    async with a_gate(tmp_path, ALLOW_ALL, act(acts, guard=GuardedBy(lambda _, __: guard))) as gate:
        refused = await gate.call("sky.paint", colour="blue")
        assert refused.error is not None
        assert (refused.status, refused.error.code) == (Status.DENIED, 1001)
        assert (await gate.call("state.set", path="/a", value=1)).status is Status.SUCCESS
    assert acts == []


@pytest.mark.parametrize("build", [build_raising, lambda: None, 7, lambda *_: None], ids=lambda one: None)
async def test_a_guard_that_cannot_be_built_denies(tmp_path: Path, build: Any) -> None:
    acts: list[str] = []
    async with a_gate(tmp_path, ALLOW_ALL, act(acts, guard=GuardedBy(build))) as gate:
        refused = await gate.call("sky.paint", colour="blue")
        assert refused.error is not None
        assert (refused.status, refused.error.code) == (Status.DENIED, 1001)
        assert (await gate.call("state.set", path="/a", value=1)).ok
    assert acts == []


@pytest.mark.parametrize("beyond", [raising, lambda: None, 7], ids=lambda one: None)
async def test_a_reach_that_fails_denies(tmp_path: Path, beyond: Any) -> None:
    acts: list[str] = []
    async with a_gate(tmp_path, ALLOW_ALL, act(acts, reach=Reach(goes_beyond=beyond))) as gate:
        refused = await gate.call("sky.paint", colour="blue")
        assert refused.error is not None
        assert (refused.status, refused.error.code) == (Status.DENIED, 1001)
    assert acts == []


@dataclass(frozen=True)
class Nothing:
    pass


def guard_all(section: Any, _: Any) -> Any:
    return lambda *_: (None, None)


class Other:
    """A service that offers one tool."""

    name = "other"

    def __init__(self, declaration: ToolDeclaration) -> None:
        self.declaration = declaration

    def tools(self) -> Sequence[Any]:
        return [self.declaration]

    async def execute(self, tool_name: str, args: Mapping[str, Json]) -> Json:
        return "done"


async def opened(tmp_path: Path, service: Any, policy: Any = ALLOW_ALL) -> None:
    async with open_gate(policy, tmp_path / "gate.db", services=[service]):
        pass


@pytest.mark.parametrize(
    "name", ["ha_call_service", "fs.read", "gate.revert", "state.set", "http.get", "shell.run", "gate.read"]
)
async def test_no_tool_takes_the_name_of_one_that_comes_with_the_gate(tmp_path: Path, name: str) -> None:
    shadow = ToolDeclaration(name, effect=Effect.READ, guard=GuardedBy(guard_all, Section(Nothing, is_needed=False)))
    with pytest.raises(ConfigError, match=name):
        await opened(tmp_path, Other(shadow))


@pytest.mark.parametrize(
    "declared_by",
    [
        dict,
        7,
        None,
        "Nothing",
        [],
        type("Open", (), {"__annotations__": {"x": object}}),
        dataclass(type("Odd", (), {"__annotations__": {"x": Callable}})),
        dataclass(type("Text", (), {"__annotations__": {"x": "NoSuchType"}})),
        dataclass(type("Default", (), {"__annotations__": {"x": str}, "x": object()})),
        dataclass(type("Pattern", (), {"__annotations__": {"x": Annotated[str, Setting("x", pattern="(")]}})),
    ],
    ids=lambda one: None,
)
async def test_a_section_that_declares_nothing_is_told_in_one_line(tmp_path: Path, declared_by: Any) -> None:
    odd = ToolDeclaration("other.do", risk=Risk.LOW, guard=GuardedBy(guard_all, Section(declared_by)))
    with pytest.raises(ConfigError, match=r"other\.do"):
        await opened(tmp_path, Other(odd), {"tools": {"other.do": {}}})
    await opened(tmp_path, Other(odd))
    await opened(tmp_path, Other(odd), {"tools": {"fs.read": {"allow_paths": ["/tmp/**"]}}})


async def test_a_guard_that_cannot_be_built_of_its_section_is_told_in_one_line(tmp_path: Path) -> None:
    odd = ToolDeclaration("other.do", guard=GuardedBy(build_raising, Section(Nothing)))
    with pytest.raises(ConfigError, match=r"tools\.other\.do"):
        await opened(tmp_path, Other(odd), {"tools": {"other.do": {}}})


@pytest.mark.parametrize("place", range(900, 1_010, 7))
async def test_no_part_of_a_secret_is_left_where_what_a_tool_says_is_cut(tmp_path: Path, place: int) -> None:
    secret = "SESAME-0123456789-abcdefghijklmnopqrstuvwxyz"

    @tool("safe.open", effect="write", risk="low", cost=0, secret=["key"])
    async def unlock(key: str) -> str:
        raise RuntimeError("." * (place - 40) + key)

    async with a_gate(tmp_path, ALLOW_ALL, unlock) as gate:
        failed = await gate.call("safe.open", key=secret)
        assert failed.error is not None
        assert "SES" not in failed.error.detail
        assert len(failed.error.detail) <= 1_000


class Keeping(Other):
    """A service with tables, whose tool writes whatever it is told to."""

    def __init__(self, tables: Any, rows: tuple[Any, ...] = (), name: str = "other") -> None:
        super().__init__(ToolDeclaration("other.do", effect=Effect.WRITE, risk=Risk.LOW))
        self.name, self.tables, self._rows = name, tables, rows

    def use_tables(self, _: Any) -> None: ...

    async def execute(self, tool_name: str, args: Mapping[str, Json]) -> Json:
        return WithRows("done", self._rows)


ID = Column("id", is_key=True)
THINGS = Table("other_things", (ID, Column("order"), Column("at")), moment="at")


@pytest.mark.parametrize("kind", ["text); DROP TABLE entries; --", "TEXT", "", None, "text DEFAULT (1)"])
def test_a_column_is_of_one_of_four_kinds(kind: Any) -> None:
    with pytest.raises(ValueError, match="kind"):
        Column("a", kind=kind)


async def test_words_of_a_database_are_names_like_any_other(tmp_path: Path) -> None:
    columns = tuple(Column(name) for name in ("order", "group", "select", "primary", "check", "constraint", "values"))
    table = Table("other_table", (Column("index", is_key=True), *columns), moment="order", call="select")
    later = AddColumn("other_table", Column("default", may_be_null=True))
    tables = ServiceTables("other", (table, later))
    row = ("k", *map(str, range(len(columns))), None)
    service = Keeping(tables, (PutRows(tables.tables["other_table"], (row,)),))
    async with a_gate(tmp_path, ALLOW_ALL, services=[service]) as gate:
        assert (await gate.call("other.do")).ok
        assert [tuple(one.values()) for one in rows(gate, "SELECT * FROM other_table")] == [row]
        await gate.ledger.commit(Work(GATE_PROJECT, changes=(DropOldRows("0"),)))
        assert await gate.ledger.rows_of(tables.tables["other_table"], {"order": "0"}, ("group",)) == [("1",)]


@pytest.mark.parametrize("service", ["another", "x_other", "other_other", "oth"])
async def test_a_service_brings_tables_under_its_own_name_only(tmp_path: Path, service: str) -> None:
    tables = ServiceTables(service, (Table(f"{service}_things", (ID,)),))
    with pytest.raises(ConfigError, match=f"the service `other` brings tables of `{service}`"):
        await opened(tmp_path, Keeping(tables))


def test_no_service_brings_a_table_of_the_ledgers_own() -> None:
    made = set(re.findall(r"CREATE (?:TABLE|VIEW) (\w+)", SHIPPED.read_text()))
    assert made | {"service_tables"} == LEDGERS_OWN
    for table in (*(one for one in LEDGERS_OWN if "_" in one), "sqlite_things"):
        with pytest.raises(ValueError, match=f"table `{table}` has a name of the ledger's own"):
            ServiceTables(table.partition("_")[0], (Table(table, (ID,)),))


async def test_two_services_do_not_share_a_table(tmp_path: Path) -> None:
    long, short = (ServiceTables(name, (Table("a_b_c", (ID,)),)) for name in ("a_b", "a"))
    other = Keeping(long, name="a_b")
    other.declaration = ToolDeclaration("another.do")
    with pytest.raises(ConfigError, match="both bring a table `a_b_c`"):
        async with open_gate(ALLOW_ALL, tmp_path / "gate.db", services=[Keeping(short, name="a"), other]):
            pass


@pytest.mark.parametrize(
    "change",
    [
        PutRows(Table("entries", (Column("seq", "integer", is_key=True), Column("project"))), ((1, "x"),)),
        PutRows(Table("service_tables", (Column("name", is_key=True), Column("service"))), (("x", "y"),)),
        PutRows(Table("another_things", (ID,)), (("x",),)),
        PutRows(THINGS, (("a",),)),
        PutRows(THINGS, (("a", {"b": 1}, "c"),)),  # type: ignore[arg-type]
        PutRows(THINGS, (("a", None, "c"),)),
        PutRows(THINGS, (("a", "\ud800", "c"),)),
        PutRows(THINGS, (("a", 2**70, "c"),)),
        PutRows(THINGS, "abc"),  # type: ignore[arg-type]
        SetColumn(THINGS, "at = 1, id", "x"),
        SetColumn(THINGS, "nothing", "x"),
        "DROP TABLE entries",
        None,
    ],
    ids=lambda one: str(one)[:60],
)
async def test_rows_that_cannot_be_written_end_the_call_and_nothing_else(tmp_path: Path, change: Any) -> None:
    service = Keeping(ServiceTables("other", (THINGS,)), (change,))
    async with a_gate(tmp_path, ALLOW_ALL, services=[service]) as gate:
        failed = await gate.call("other.do")
        assert failed.error is not None
        assert (failed.status, failed.error.code) == (Status.ERROR, 2003)
        assert kinds_of(gate, failed.call_id) == ["performing", "settled"]
        assert rows(gate, "SELECT * FROM other_things") == []
        assert (await gate.call("state.set", path="/a", value=1)).ok
    assert verify(tmp_path / "gate.db").problems == ()
