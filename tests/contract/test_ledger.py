"""What every ledger promises to the stages: one suite for each implementation of the port."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol, cast

import orjson
import pytest
from msgspec import structs

from agent_gate.compat import Database
from agent_gate.model.approval import Question
from agent_gate.model.bounds import ANSWER_POLL_INTERVAL_S, STATUS_AGE_MAX_S
from agent_gate.model.charge import Charge
from agent_gate.model.codec import canonical
from agent_gate.model.committed import AlreadyClosed, Applied, NoRoom, NotOpen, NotPending, RequestTaken, StateMoved
from agent_gate.model.entry import GATE_PROJECT, Draft, Kind
from agent_gate.model.errors import StorageError
from agent_gate.model.moment import iso
from agent_gate.model.project import INITIAL_SNAPSHOT, ProjectHead, ProjectState, StateRef
from agent_gate.model.service_tables import DropOldRows
from agent_gate.model.tool import Json
from agent_gate.model.work import (
    Change,
    Claim,
    Close,
    CreateProject,
    DropContact,
    Hold,
    HoldBare,
    KeepBlob,
    Open,
    PutContact,
    QueueEffect,
    Release,
    Resolve,
    SetStatus,
    StateChange,
    TakeOver,
    Unhold,
    Work,
)
from agent_gate.ports.ledger import Ledger
from agent_gate.ports.surroundings import Clock
from agent_gate.services.home_assistant.tables import (
    EntityRow,
    drop_entities,
    entity_snapshot,
    entity_stamps,
    keep_entities,
)
from agent_gate.system.clock import RandomIds
from tests.contract.storages import STORAGES

NOW = 1_800_000_000.25
NEWS_S = 10.0


@dataclass
class SetClock:
    at: float = NOW

    def now(self) -> float:
        return self.at

    @property
    def boot(self) -> str:
        return "the-boot-of-a-test"

    def monotonic(self) -> float:
        return self.at


class DocumentLedger(Ledger, Database, Protocol):
    """A ledger that programs written by the core-engine document find their names on."""


@dataclass
class Storage:
    """One place that several ledgers share, as several processes would."""

    open_one: Callable[[Clock], DocumentLedger]
    clock: SetClock = field(default_factory=SetClock)
    opened: list[DocumentLedger] = field(default_factory=list)

    def open(self) -> DocumentLedger:
        ledger = self.open_one(self.clock)
        self.opened.append(ledger)
        return ledger


@pytest.fixture(params=STORAGES)
async def storage(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Storage]:
    place = STORAGES[request.param](tmp_path)

    def open_one(clock: Clock) -> DocumentLedger:
        # The names of the document are no part of the port, and yet on every ledger.
        return cast("DocumentLedger", place.open(clock, RandomIds()))

    storage = Storage(open_one)
    yield storage
    for ledger in storage.opened:
        await ledger.close()


@pytest.fixture
def ledger(storage: Storage) -> DocumentLedger:
    return storage.open()


def fact(call_id: str | None = None) -> Draft:
    return Draft(Kind.SETTLED, iso(NOW), b'{"salt":"s"}', call_id, agent_id="ann", tool="t", signature="t(1)")


def work(
    *changes: Change,
    project: str = "default",
    call_id: str | None = None,
    entries: tuple[Draft, ...] = (),
    must_be_open: bool = False,
    stands_on: StateRef | None = None,
) -> Work:
    """With the entries that tell of it, as those of every stage do."""
    wanted = Work(project, entries, changes, must_be_open, stands_on)
    return wanted if entries else structs.replace(wanted, entries=(told(wanted, call_id),))


def told(work: Work, call_id: str | None) -> Draft:
    for change in work.changes:
        match change:
            case CreateProject(initial_state, state_schema):
                made = {"initial_state": initial_state, "state_schema": state_schema}
                body = {name: orjson.loads(text) for name, text in made.items() if text} | {"salt": "s"}
                return Draft(Kind.PROJECT, iso(NOW), canonical(body), status="open")
            case SetStatus(status):
                return Draft(Kind.PROJECT, iso(NOW), b'{"salt":"s"}', status=status)
            case Resolve():
                body = {"nonce": change.nonce, "resolved_by": change.by, "salt": "s", "signatures": ["t(1)", "t(2)"]}
                return Draft(Kind.ANSWERED, iso(change.at), canonical(body), change.call_id, status=change.resolution)
            case Hold(asked):
                body = {"args": asked.args, "nonce": asked.nonce, "salt": "s", "instance": "x"}
                return Draft(Kind.HELD, iso(asked.created_at), canonical(body), asked.call_id)
            case Claim():
                draft = fact(call_id or change.call_id)
                return structs.replace(draft, agent_id=change.agent_id, request_id=change.request_id)
            case StateChange():
                body = {
                    "salt": "s", "snapshot_id": change.snapshot_id, "state_hash": change.document_hash,
                    "state_version": (work.stands_on.version if work.stands_on else 0) + 1,
                }  # fmt: skip
                return structs.replace(fact(call_id or change.snapshot_id), body=canonical(body))
            case _:
                pass
    return fact(call_id)


def new_project(name: str, **fields: bytes) -> Work:
    return work(CreateProject(**fields), project=name)


def change(
    project: str, on_top_of: StateRef, document: bytes = b'{"n":1}', name: str = "", *others: Change, **fields: Any
) -> Work:
    """A new state, on top of another."""
    value, hash = orjson.loads(document), sha256(document).hexdigest()
    new = StateChange(name or f"snapshot {on_top_of.version}", document, hash, value)
    return work(*others, new, project=project, stands_on=on_top_of, **fields)


def shown(state: ProjectState) -> tuple[int, Json, str | None]:
    return state.version, state.document, state.snapshot_id


def question(call_id: str, **fields: Any) -> Question:
    asked = Question(
        call_id=call_id,
        request_id=f"request of {call_id}",
        project="default",
        agent_id="ann",
        owner="olga",
        tool="t",
        args={"a": [1, None, "ü"]},
        signatures=("t(1)", "t(2)"),
        reasons=({"layer": "rules", "text": "why"},),
        bound_hash="bound",
        nonce=f"nonce of {call_id}",
        policy_hash="policy",
        approver_roles=("admin",),
        approvers_required=1,
        created_at=NOW,
        expires_at=NOW + 60,
        sensitive=("a",),
    )
    return replace(asked, **fields)


def answer(asked: Question, resolution: str = "approved", by: str = "bob", at: float = NOW + 1) -> Work:
    return work(Resolve(asked.call_id, asked.nonce, at, resolution, by))


class TestEntries:
    async def test_entries_of_a_call_come_back_as_they_were_written_and_in_order(self, ledger: Ledger) -> None:
        held = Draft(Kind.HELD, iso(NOW), '{"a":"ü😀"}'.encode(), "call", "run", "request", "ann", "t", "t(1)\nt(2)")
        settled = Draft(Kind.SETTLED, iso(NOW + 1), b"{}", "call", status="success")
        for draft in (held, fact("other"), settled):
            await ledger.commit(Work("default", (draft,)))
        entries = await ledger.entries_of("call")
        assert [
            Draft(
                Kind(each.kind),
                each.at,
                each.body or b"",
                each.call_id,
                each.run_id,
                each.request_id,
                each.agent_id,
                each.tool,
                each.signature,
                each.status,
            )
            for each in entries
        ] == [held, settled]
        assert [(each.project, each.seq, each.body_hash) for each in entries] == [
            ("default", 1, sha256(held.body).digest()),
            ("default", 3, sha256(settled.body).digest()),
        ]
        assert await ledger.entries_of("nobody") == []

    async def test_each_entry_follows_the_one_before_it_and_the_head_is_the_last(self, ledger: Ledger) -> None:
        results = [await ledger.commit(Work("default", (fact("c"), fact("c")))) for _ in range(3)]
        entries = await ledger.entries_of("c")
        assert [each.prev_hash for each in entries] == [bytes(32), *(each.hash for each in entries[:-1])]
        assert results == [Applied(each.seq, each.hash, 0) for each in entries[1::2]]
        assert await ledger.head("default") == ProjectHead("default", 6, entries[-1].hash, 0, None, "open")

    async def test_two_ledgers_on_one_storage_write_one_chain(self, storage: Storage) -> None:
        first, second = storage.open(), storage.open()
        await asyncio.gather(*(each.commit(work(call_id="c")) for _ in range(20) for each in (first, second)))
        entries = await first.entries_of("c")
        assert [each.seq for each in entries] == list(range(1, 41))
        assert [each.prev_hash for each in entries[1:]] == [each.hash for each in entries[:-1]]
        assert await second.entries_of("c") == entries

    async def test_work_without_entries_moves_no_chain(self, ledger: Ledger) -> None:
        before = await ledger.head("default")
        assert isinstance(await ledger.commit(Work("default", changes=(KeepBlob("name", b"data"),))), Applied)
        assert await ledger.head("default") == before
        assert await ledger.blob("name") == b"data"

    async def test_a_blob_is_kept_as_it_first_was(self, ledger: Ledger) -> None:
        await ledger.commit(Work("default", changes=(KeepBlob("name", b"first"),)))
        await ledger.commit(Work("default", changes=(KeepBlob("name", b"second"),)))
        assert (await ledger.blob("name"), await ledger.blob("other")) == (b"first", None)

    async def test_the_last_policy_is_known_by_its_hash(self, ledger: Ledger) -> None:
        found = [await ledger.last_policy_hash()]
        for body in (b'{"policy_hash":"one"}', b'{"policy_hash":"two"}'):
            await ledger.commit(Work("_gate", (Draft(Kind.POLICY, iso(NOW), body),)))
            found.append(await ledger.last_policy_hash())
        assert found == [None, "one", "two"]


class TestProjects:
    async def test_default_and_the_gates_own_exist_and_no_other(self, ledger: Ledger) -> None:
        assert [await ledger.head(name) for name in ("default", "_gate", "other")] == [
            ProjectHead("default", 0, bytes(32), 0, None, "open"),
            ProjectHead("_gate", 0, bytes(32), 0, None, "open"),
            None,
        ]
        assert await ledger.commit(work(project="other")) == NotOpen("missing")

    async def test_a_project_is_created_once_with_its_state_and_schema(self, ledger: Ledger) -> None:
        create = new_project("p", initial_state=b'{"a":1}', state_schema=b'{"type":"object"}')
        assert isinstance(await ledger.commit(create), Applied)
        assert await ledger.commit(create) == NotOpen("exists")
        assert await ledger.state("p") == ProjectState(0, {"a": 1})
        assert await ledger.state_schema("p") == {"type": "object"}
        assert (await ledger.state("default"), await ledger.state_schema("default")) == (ProjectState(0, {}), None)

    async def test_a_closed_project_takes_only_what_need_not_be_open(self, ledger: Ledger) -> None:
        await ledger.commit(work(SetStatus("locked")))
        assert await ledger.commit(work(must_be_open=True)) == NotOpen("locked")
        assert isinstance(await ledger.commit(work()), Applied)
        await ledger.commit(work(SetStatus("open")))
        assert isinstance(await ledger.commit(work(must_be_open=True)), Applied)

    async def test_the_state_of_no_project_is_a_coded_error(self, ledger: Ledger) -> None:
        with pytest.raises(StorageError, match="`nowhere` does not exist") as error:
            await ledger.state("nowhere")
        assert error.value.code == 5003

    async def test_one_at_a_time_holds_a_projects_lock(self, storage: Storage) -> None:
        first, second = storage.open(), storage.open()
        inside, most = 0, 0

        async def go_in(ledger: Ledger) -> None:
            nonlocal inside, most
            async with ledger.lock_project("default"):
                inside += 1
                most = max(most, inside)
                await asyncio.sleep(0)
                inside -= 1

        await asyncio.gather(*(go_in(each) for _ in range(10) for each in (first, second)))
        assert most == 1

    async def test_projects_do_not_wait_for_each_other(self, ledger: Ledger) -> None:
        async with asyncio.timeout(NEWS_S), ledger.lock_project("a"), ledger.lock_project("b"):
            pass


class TestState:
    async def test_a_state_follows_the_version_it_was_computed_from(self, ledger: Ledger) -> None:
        results = [
            await ledger.commit(change("default", StateRef(0), b'{"n":1}', "s1")),
            await ledger.commit(change("default", StateRef(0), b'{"n":9}', "s9")),
            await ledger.commit(change("default", StateRef(1, "s1"), b'{"n":2}', "s2")),
        ]
        versions = [each.state_version if isinstance(each, Applied) else each for each in results]
        assert versions == [1, StateMoved(1), 2]
        assert shown(await ledger.state("default")) == (2, {"n": 2}, "s2")
        assert [shown(await ledger.state_at("default", version)) for version in (0, 1, 2)] == [
            (0, {}, None),
            (1, {"n": 1}, "s1"),
            (2, {"n": 2}, "s2"),
        ]

    async def test_work_stands_on_one_state_and_on_no_other_of_the_same_number(self, ledger: Ledger) -> None:
        await ledger.commit(change("default", StateRef(0), b'{"n":1}', "s1"))
        results = [
            await ledger.commit(change("default", StateRef(1, "another first one"), b'{"n":9}', "s9")),
            await ledger.commit(work(call_id="judged elsewhere", stands_on=StateRef(1, "another first one"))),
            await ledger.commit(work(call_id="judged before", stands_on=StateRef(0))),
            await ledger.commit(work(call_id="judged here", stands_on=StateRef(1, "s1"))),
        ]
        assert [each if isinstance(each, StateMoved) else type(each) for each in results] == [StateMoved(1)] * 3 + [
            Applied
        ]
        assert shown(await ledger.state("default")) == (1, {"n": 1}, "s1")

    async def test_changes_on_top_of_each_other_are_one_group_and_fall_with_the_first(self, ledger: Ledger) -> None:
        full = Charge("x", 1, 1, 2, 1, 1012)
        group = [
            change("default", StateRef(0), b'{"n":1}', "s1"),
            change("default", StateRef(1, "s1"), b'{"n":2}', "s2", full),
            change("default", StateRef(2, "s2"), b'{"n":3}', "s3"),
            work(call_id="judged on the third", stands_on=StateRef(3, "s3")),
        ]
        results = await asyncio.gather(*map(ledger.commit, group))
        assert list(map(type, results)) == [Applied, NoRoom, StateMoved, StateMoved]
        assert shown(await ledger.state("default")) == (1, {"n": 1}, "s1")
        assert await ledger.entries_of("judged on the third") == []

    async def test_a_project_that_is_closed_says_first_that_its_state_is_another(self, ledger: Ledger) -> None:
        """Otherwise the refusal would be told with facts of a state that never was."""
        await ledger.commit(work(SetStatus("locked")))
        results = [
            await ledger.commit(work(stands_on=StateRef(1, "never was"), must_be_open=True)),
            await ledger.commit(work(stands_on=StateRef(0), must_be_open=True)),
        ]
        assert results == [StateMoved(0), NotOpen("locked")]

    async def test_a_snapshot_knows_its_project_and_keeps_its_state(self, ledger: Ledger) -> None:
        await ledger.commit(new_project("p"))
        await ledger.commit(change("p", StateRef(0), b'{"n":1}', "s1"))
        await ledger.commit(change("p", StateRef(1, "s1"), b'{"n":1}', "s2"))
        found = [await ledger.snapshot("p", name) for name in (INITIAL_SNAPSHOT, "s1", "s2")]
        assert [shown(state) for state in found if state] == [(0, {}, None), (1, {"n": 1}, "s1"), (2, {"n": 1}, "s2")]
        others = [("p", "s3"), ("default", "s1"), ("nowhere", INITIAL_SNAPSHOT)]
        assert [await ledger.snapshot(*each) for each in others] == [None, None, None]
        with pytest.raises(StorageError, match="no version 3"):
            await ledger.state_at("p", 3)

    async def test_what_one_ledger_changes_the_other_sees_although_it_had_read_before(self, storage: Storage) -> None:
        first, second = storage.open(), storage.open()
        seen, last = [], StateRef(0)
        for version in range(5):
            ledger = (first, second)[version % 2]
            await ledger.commit(change("default", last, b'{"n":%d}' % version))
            last = StateRef(version + 1, f"snapshot {version}")
            seen.append((shown(await first.state("default")), shown(await second.state("default"))))
        expected = [(version + 1, {"n": version}, f"snapshot {version}") for version in range(5)]
        assert seen == [(each, each) for each in expected]


class TestClaims:
    async def test_a_request_id_is_used_once_by_an_agent(self, ledger: Ledger) -> None:
        results = [
            await ledger.commit(work(claim))
            for claim in (
                Claim("ann", "r1", "call", "hash"),
                Claim("ann", "r1", "other", "other hash"),
                Claim("bob", "r1", "call 2", "hash"),
            )
        ]
        assert [each if isinstance(each, RequestTaken) else type(each) for each in results] == [
            Applied,
            RequestTaken("call", "hash"),
            Applied,
        ]
        assert [await ledger.claimed("ann", name) for name in ("r1", "r2")] == [("call", "hash"), None]

    async def test_of_many_claims_at_once_one_is_taken(self, storage: Storage) -> None:
        ledgers = storage.open(), storage.open()
        works = [work(Claim("ann", "r", f"call {number}", "h")) for number in range(20)]
        results = await asyncio.gather(*(ledgers[place % 2].commit(each) for place, each in enumerate(works)))
        (taken,) = [place for place, result in enumerate(results) if isinstance(result, Applied)]
        others = [each for each in results if not isinstance(each, Applied)]
        assert others == [RequestTaken(f"call {taken}", "h")] * 19
        assert len(await ledgers[0].entries_of(f"call {taken}")) == 1

    async def test_refused_work_claims_nothing(self, ledger: Ledger) -> None:
        await ledger.commit(change("default", StateRef(7), b"{}", "", Claim("ann", "r1", "call", "hash")))
        assert await ledger.claimed("ann", "r1") is None


class TestCharges:
    async def test_a_charge_without_room_is_refused_with_all_that_came_with_it(self, ledger: Ledger) -> None:
        budget = Charge("budget", 100, 1, 4, 10, 1013)
        rate = Charge("minute", 1_000, 60, 1, 5, 1012)
        results = [await ledger.commit(work(rate, budget)) for _ in range(3)]
        assert [each if isinstance(each, NoRoom) else type(each) for each in results] == [
            Applied,
            Applied,
            NoRoom(budget, 8),
        ]
        assert (await ledger.used("default", budget), await ledger.used("default", rate)) == (8, 2)

    async def test_a_limit_can_be_used_up_exactly(self, ledger: Ledger) -> None:
        tenth = Charge("budget", 1, 1, 0.1, 0.3, 1013)
        results = [isinstance(await ledger.commit(work(tenth)), Applied) for _ in range(4)]
        assert results == [True, True, True, False]

    async def test_a_charge_without_limit_only_counts(self, ledger: Ledger) -> None:
        charge = Charge("x", 1, 1, 1_000, None, 1013)
        results = [isinstance(await ledger.commit(work(charge)), Applied) for _ in range(3)]
        assert (results, await ledger.used("default", charge)) == ([True] * 3, 3_000)

    async def test_a_window_counts_its_own_buckets_and_no_older_ones(self, ledger: Ledger) -> None:
        buckets = (100, 130, 159, 160, 189, 190)
        charges = [Charge("minute", bucket, 60, 1, 2, 1012) for bucket in buckets]
        results = [isinstance(await ledger.commit(work(charge)), Applied) for charge in charges]
        assert dict(zip(buckets, results, strict=True)) == {
            100: True,
            130: True,
            159: False,
            160: True,
            189: False,
            190: True,
        }

    async def test_what_is_released_can_be_used_again(self, ledger: Ledger) -> None:
        charge = Charge("budget", 1, 1, 10, 10, 1013)
        await ledger.commit(work(charge))
        assert await ledger.commit(work(charge)) == NoRoom(charge, 10)
        await ledger.commit(work(Release(charge)))
        assert await ledger.used("default", charge) == 0
        assert isinstance(await ledger.commit(work(charge)), Applied)

    async def test_projects_and_scopes_are_counted_apart(self, ledger: Ledger) -> None:
        await ledger.commit(new_project("p"))
        charge = Charge("budget", 1, 1, 10, 10, 1013)
        works = work(charge), work(charge, project="p"), work(replace(charge, scope="x"))
        assert [isinstance(await ledger.commit(each), Applied) for each in works] == [True] * 3

    async def test_many_ledgers_together_never_exceed_a_limit(self, storage: Storage) -> None:
        ledgers = [storage.open() for _ in range(4)]
        charge = Charge("budget", 1, 1, 3, 50, 1013)
        results = await asyncio.gather(*(each.commit(work(charge)) for each in ledgers for _ in range(25)))
        assert sum(isinstance(each, Applied) for each in results) == 16
        assert await ledgers[0].used("default", charge) == 48


class TestOpenWork:
    async def test_what_was_opened_is_closed_once(self, ledger: Ledger) -> None:
        await ledger.commit(work(Open("call", "c"), call_id="c"))
        assert isinstance(await ledger.commit(work(Close("c"), call_id="c")), Applied)
        assert await ledger.commit(work(Close("c"), call_id="c")) == AlreadyClosed("c")
        assert len(await ledger.entries_of("c")) == 2

    async def test_a_ledger_that_opens_leaves_the_work_of_a_living_one_alone(self, storage: Storage) -> None:
        first = storage.open()
        await first.commit(work(Open("call", "c"), entries=(structs.replace(fact("c"), kind=Kind.PERFORMING),)))
        storage.open()
        assert isinstance(await first.commit(work(Close("c"), call_id="c")), Applied)

    async def test_what_a_ledger_left_open_when_it_closed_is_settled_as_unknown_once(self, storage: Storage) -> None:
        first = storage.open()
        performing = structs.replace(fact("c"), kind=Kind.PERFORMING)
        effect = QueueEffect("e", "c", "t", b"{}")
        await first.commit(work(Open("call", "c"), effect, entries=(performing,)))
        await first.commit(work(Open("run", "r"), entries=(Draft(Kind.RUN, iso(NOW), b"{}", run_id="r"),)))
        await first.close()
        second, third = storage.open(), storage.open()
        assert [(each.kind, each.status) for each in await third.entries_of("c")] == [
            ("performing", None),
            ("settled", "unknown"),
            ("effect", "unknown"),
        ]
        assert await second.commit(work(Close("r"))) == AlreadyClosed("r")


class TestGroups:
    async def test_one_unwritable_work_in_a_group_fails_alone(self, ledger: Ledger) -> None:
        twice = work(Open("call", "same id"), call_id="twice")
        others = [work(call_id=f"c{number}") for number in range(10)]
        await ledger.commit(twice)
        group = [*others[:5], twice, *others[5:]]
        results = await asyncio.gather(*map(ledger.commit, group), return_exceptions=True)
        assert list(map(type, results)) == [Applied] * 5 + [StorageError] + [Applied] * 5
        assert [len(await ledger.entries_of(f"c{number}")) for number in range(10)] == [1] * 10
        assert len(await ledger.entries_of("twice")) == 1

    @pytest.mark.parametrize(
        "bad",
        [
            work(HoldBare("r", "t", b"{}", "t", NOW, float("inf"))),
            work(entries=(structs.replace(fact(), body=b"\xff"),)),
            work(Charge("x", 2**70, 1, 1, 1, 1012)),
            work(entries=(structs.replace(fact(), agent_id=object()),)),
        ],
        ids=["a moment beyond time", "a body that is no text", "a number beyond 64 bits", "a value of no kind"],
    )
    async def test_whatever_a_work_holds_the_ledger_goes_on(self, ledger: Ledger, bad: Work) -> None:
        async with asyncio.timeout(NEWS_S):
            with pytest.raises(StorageError, match="cannot be written") as refused:
                await ledger.commit(bad)
            good = await ledger.commit(work(call_id="good"))
        assert refused.value.code == 5002
        assert [(each.seq, each.hash) for each in await ledger.entries_of("good")] == [
            (good.seq, good.hash) if isinstance(good, Applied) else good
        ]

    async def test_the_first_change_that_is_refused_refuses_the_work(self, ledger: Ledger) -> None:
        claim, full = Claim("ann", "r", "c", "hash"), Charge("x", 1, 1, 2, 1, 1012)
        await ledger.commit(work(claim))
        refusals = [
            await ledger.commit(work(claim, full, Close("never opened"))),
            await ledger.commit(work(full, Close("never opened"), claim)),
            await ledger.commit(work(Close("never opened"), claim, full)),
            await ledger.commit(work(claim, full, project="nowhere")),
        ]
        assert refusals == [
            RequestTaken("c", "hash"),
            NoRoom(full, 0),
            AlreadyClosed("never opened"),
            NotOpen("missing"),
        ]

    async def test_refused_work_in_a_group_leaves_no_trace(self, ledger: Ledger) -> None:
        refused = [
            work(project="nowhere", call_id="c"),
            change("default", StateRef(5), call_id="c"),
            work(Close("never opened"), call_id="c"),
            work(Charge("x", 1, 1, 2, 1, 1012), KeepBlob("b", b"x"), call_id="c"),
            work(Resolve("nobody", "n", NOW, "approved", "bob"), call_id="c"),
        ]
        results = await asyncio.gather(*map(ledger.commit, [*refused, work(call_id="good")]))
        assert list(map(type, results)) == [NotOpen, StateMoved, AlreadyClosed, NoRoom, NotPending, Applied]
        assert (await ledger.entries_of("c"), await ledger.blob("b")) == ([], None)

    async def test_a_caller_that_goes_away_takes_nobody_with_it(self, ledger: Ledger) -> None:
        tasks = [asyncio.ensure_future(ledger.commit(work(call_id=f"c{number}"))) for number in range(10)]
        await asyncio.sleep(0)
        tasks[3].cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert [isinstance(each, Applied) for each in results] == [True] * 3 + [False] + [True] * 6
        assert len(await ledger.entries_of("c3")) == 1, "it had been handed over"

    async def test_a_closed_ledger_refuses_with_a_code(self, ledger: Ledger) -> None:
        await ledger.close()
        with pytest.raises(StorageError, match="closed") as writing:
            await ledger.commit(work())
        with pytest.raises(StorageError, match="closed") as reading:
            await ledger.head("default")
        assert (writing.value.code, reading.value.code) == (5002, 5003)

    async def test_closing_lets_what_was_handed_over_be_written(self, storage: Storage) -> None:
        first = storage.open()
        tasks = [asyncio.ensure_future(first.commit(work(call_id="c"))) for _ in range(50)]
        await asyncio.sleep(0)
        await first.close()
        results = await asyncio.gather(*tasks)
        assert [isinstance(each, Applied) for each in results] == [True] * 50
        assert len(await storage.open().entries_of("c")) == 50


class TestQuestions:
    async def test_a_question_is_open_until_it_is_answered(self, storage: Storage) -> None:
        first, second = storage.open(), storage.open()
        asked, other = question("c1"), question("c2", created_at=NOW + 1)
        await first.commit(work(Hold(asked)))
        await first.commit(work(Hold(other)))
        assert await second.questions() == [asked, other]
        assert await second.question("c1") == (asked, None, ())
        await second.commit(answer(asked))
        assert await first.questions() == [other]
        assert await first.question("c1") == (asked, "approved", ("bob",))
        await first.commit(work(Unhold("c1")))
        assert await second.question("c1") is None

    async def test_a_question_is_found_by_what_it_is_about(self, ledger: Ledger) -> None:
        first, second = question("c1"), question("c2", created_at=NOW + 1)
        for asked in (second, first, question("c3", agent_id="ben"), question("c4", bound_hash="other")):
            await ledger.commit(work(Hold(asked)))
        assert await ledger.question_about("ann", "bound") == (first, None, ())
        await ledger.commit(answer(second))
        assert await ledger.question_about("ann", "bound") == (second, "approved", ("bob",))
        assert await ledger.question_about("ann", "nothing") is None

    async def test_what_a_question_led_to_is_taken_once(self, storage: Storage) -> None:
        first, second = storage.open(), storage.open()
        await first.commit(work(Hold(question("c"))))
        use = work(TakeOver("c", first.instance), Unhold("c"), call_id="c")
        results = await asyncio.gather(*(ledger.commit(use) for ledger in (first, second) * 3))
        assert sum(isinstance(each, Applied) for each in results) == 1
        assert [each for each in results if not isinstance(each, Applied)] == [NotPending("other")] * 5

    @pytest.mark.parametrize(
        ("late", "why"),
        [
            (Resolve("nobody", "nonce of c", NOW + 1, "approved", "bob"), "missing"),
            (Resolve("c", "another showing", NOW + 1, "approved", "bob"), "other"),
            (Resolve("c", "nonce of c", NOW + 60, "approved", "bob"), "late"),
            (Resolve("c", "nonce of c", NOW + 60, "denied", "bob"), "late"),
        ],
        ids=["to no question", "to another showing", "a yes after the deadline", "a no after the deadline"],
    )
    async def test_an_answer_that_does_not_count_is_refused(self, ledger: Ledger, late: Resolve, why: str) -> None:
        await ledger.commit(work(Hold(question("c"))))
        assert await ledger.commit(work(late)) == NotPending(why)
        assert await ledger.question("c") == (question("c"), None, ())

    async def test_of_several_answers_one_counts(self, storage: Storage) -> None:
        first, second = storage.open(), storage.open()
        asked = question("c")
        await first.commit(work(Hold(asked)))
        results = await asyncio.gather(
            first.commit(answer(asked)), second.commit(answer(asked, "denied", "eve")), first.commit(answer(asked))
        )
        assert sum(isinstance(each, Applied) for each in results) == 1
        assert [each for each in results if not isinstance(each, Applied)] == [NotPending("answered")] * 2

    async def test_as_many_different_people_must_agree_as_are_required(self, ledger: Ledger) -> None:
        asked = question("c", approvers_required=2)
        await ledger.commit(work(Hold(asked)))
        await ledger.commit(answer(asked, by="bob"))
        assert await ledger.question("c") == (asked, None, ("bob",))
        assert await ledger.commit(answer(asked, by="bob")) == NotPending("answered")
        await ledger.commit(answer(asked, by="eve"))
        assert await ledger.question("c") == (asked, "approved", ("bob", "eve"))

    async def test_a_question_put_anew_forgets_the_answers_to_the_old_one(self, ledger: Ledger) -> None:
        asked, anew = question("c"), question("c", nonce="new", approvers_required=2)
        await ledger.commit(work(Hold(asked)))
        await ledger.commit(answer(asked))
        await ledger.commit(work(Hold(anew)))
        assert await ledger.question("c") == (anew, None, ())
        assert await ledger.commit(answer(asked)) == NotPending("other")

    async def test_a_no_is_remembered_for_each_signature_of_its_project(self, ledger: Ledger) -> None:
        await ledger.commit(work(Hold(question("c"))))
        await ledger.commit(answer(question("c"), "denied", at=NOW + 5))
        assert [
            await ledger.denied_since("default", "t(1)", NOW),
            await ledger.denied_since("default", "t(2)", NOW + 4.9),
            await ledger.denied_since("default", "t(1)", NOW + 5),
            await ledger.denied_since("default", "t(3)", NOW),
            await ledger.denied_since("_gate", "t(1)", NOW),
        ] == [True, True, False, False, False]

    async def test_an_answer_by_the_same_ledger_is_news_at_once(self, ledger: Ledger) -> None:
        await ledger.commit(work(Hold(question("c"))))
        waiting = asyncio.ensure_future(ledger.wait_for_answer("c", NEWS_S))
        await asyncio.sleep(0)
        await ledger.commit(answer(question("c")))
        async with asyncio.timeout(NEWS_S / 2):
            await waiting

    async def test_an_answer_by_another_ledger_becomes_news(self, storage: Storage) -> None:
        first, second = storage.open(), storage.open()
        await first.commit(work(Hold(question("c"))))
        waiting = asyncio.ensure_future(first.wait_for_answer("c", NEWS_S))
        await asyncio.sleep(ANSWER_POLL_INTERVAL_S / 10)
        await second.commit(answer(question("c")))
        async with asyncio.timeout(NEWS_S / 2):
            await waiting
        assert await first.question("c") == (question("c"), "approved", ("bob",))

    async def test_without_news_the_wait_ends_when_its_time_is_up(self, ledger: Ledger) -> None:
        await ledger.commit(work(Hold(question("c"))))
        async with asyncio.timeout(NEWS_S):
            await ledger.wait_for_answer("c", 0.01)


class TestPendingRequests:
    """The core-engine document's test plan for its database."""

    async def test_a_pending_request_is_stored_and_found(self, ledger: DocumentLedger) -> None:
        await ledger.insert_pending("r1", "ha_get_state", {"entity_id": "light.a"}, "ha_get_state(light.a)", NOW + 900)
        assert await ledger.get_pending("r1") == {
            "request_id": "r1",
            "tool_name": "ha_get_state",
            "args": {"entity_id": "light.a"},
            "signature": "ha_get_state(light.a)",
            "created_at": NOW,
            "expires_at": NOW + 900,
        }

    async def test_a_missing_request_is_none(self, ledger: DocumentLedger) -> None:
        assert await ledger.get_pending("r1") is None

    async def test_a_request_id_is_stored_once(self, ledger: DocumentLedger) -> None:
        await ledger.insert_pending("r1", "t", {}, "t", NOW + 900)
        with pytest.raises(StorageError):
            await ledger.insert_pending("r1", "t", {}, "t", NOW + 900)

    async def test_a_deleted_request_is_gone_and_deleting_it_again_does_nothing(self, ledger: DocumentLedger) -> None:
        await ledger.insert_pending("r1", "t", {}, "t", NOW + 900)
        await ledger.delete_pending("r1")
        await ledger.delete_pending("r1")
        assert await ledger.get_pending("r1") is None

    async def test_stale_requests_are_deleted_and_returned(self, storage: Storage) -> None:
        ledger = storage.open()
        for number, expires_at in enumerate([NOW + 30, NOW + 10, NOW + 20]):
            await ledger.insert_pending(f"r{number}", "t", {"n": number}, "t", expires_at)
        storage.clock.at = NOW + 20
        stale = await ledger.cleanup_stale_requests()
        left = [await ledger.get_pending(f"r{number}") for number in range(3)]
        assert [(each["request_id"], each["args"], each["expires_at"]) for each in stale] == [
            ("r1", {"n": 1}, NOW + 10),
            ("r2", {"n": 2}, NOW + 20),
        ]
        assert [row and row["request_id"] for row in left] == ["r0", None, None]

    async def test_without_stale_requests_nothing_is_deleted(self, ledger: DocumentLedger) -> None:
        await ledger.insert_pending("r1", "t", {}, "t", NOW + 900)
        assert await ledger.cleanup_stale_requests() == []
        assert await ledger.get_pending("r1") is not None

    async def test_questions_about_calls_are_left_to_those_who_asked(self, storage: Storage) -> None:
        ledger = storage.open()
        await ledger.commit(work(Hold(question("c"))))
        storage.clock.at = NOW + 3_600
        assert await ledger.cleanup_stale_requests() == []
        assert await ledger.question("c") == (question("c"), None, ())


class TestContacts:
    async def test_what_the_owner_gave_is_kept_under_its_key_until_it_is_taken_away(self, storage: Storage) -> None:
        first, second = storage.open(), storage.open()
        for key, sealed, at in (("token", b"one", NOW), ("pin", b"\x00two", NOW + 1), ("token", b"three", NOW + 2)):
            await first.commit(Work("_gate", changes=(PutContact(key, sealed, iso(at)),)))
        found = [await second.contact(key) for key in ("token", "pin", "other")]
        assert found == [b"three", b"\x00two", None]
        assert await second.contacts() == [("pin", iso(NOW + 1)), ("token", iso(NOW + 2))]
        await second.commit(Work("_gate", changes=(DropContact("token"), DropContact("other"))))
        assert (await first.contact("token"), await first.contacts()) == (None, [("pin", iso(NOW + 1))])


class TestEntities:
    @staticmethod
    def entity(name: str, state: str = "on", at: float = NOW, attributes: str | None = "{}") -> EntityRow:
        return EntityRow(f"light.{name}", state, attributes, f"{state} since", iso(at))

    async def test_an_entity_is_kept_as_it_was_last_seen(self, storage: Storage) -> None:
        first, second = storage.open(), storage.open()
        before = (self.entity("b"), self.entity("a", attributes=None), self.entity("c"))
        await first.commit(Work("_gate", changes=(keep_entities(before),)))
        changed = self.entity("b", "off", NOW + 1, '{"brightness":7}')
        await first.commit(Work("_gate", changes=(drop_entities(("light.c", "light.d")), keep_entities((changed,)))))
        assert await entity_snapshot(second) == [before[1], changed]
        assert await entity_stamps(second) == {"light.a": "on since", "light.b": "off since"}

    async def test_what_was_captured_before_a_moment_can_be_forgotten(self, ledger: Ledger) -> None:
        rows = tuple(self.entity(name, at=NOW + number) for number, name in enumerate("abc"))
        await ledger.commit(Work("_gate", changes=(keep_entities(rows),)))
        await ledger.commit(Work("_gate", changes=(DropOldRows(iso(NOW + 1)),)))
        assert await entity_snapshot(ledger) == list(rows[1:])

    async def test_keeping_entities_moves_no_chain(self, ledger: Ledger) -> None:
        before = await ledger.head("_gate")
        await ledger.commit(Work("_gate", changes=(keep_entities((self.entity("a"),)),)))
        assert await ledger.head("_gate") == before


async def test_a_turn_passes_on_as_soon_as_its_work_has_its_place(ledger: Ledger) -> None:
    async with ledger.turn("default") as first:
        committing = first.commit(Work("default", stands_on=first.state.ref))
        async with asyncio.timeout(20), ledger.turn("default") as second:
            assert second.state.ref == first.state.ref
        assert isinstance(await committing, Applied)


@pytest.mark.parametrize(("project", "status"), [("default", "locked"), (GATE_PROJECT, "paused")])
async def test_a_status_is_remembered_only_for_a_moment_and_another_process_may_change_it(
    storage: Storage, project: str, status: str
) -> None:
    ours, other = storage.open(), storage.open()
    assert await ours.effective_status("default") == "open"
    assert await other.effective_status("default") == "open"
    await other.commit(work(SetStatus(status), project=project))
    assert await other.effective_status("default") == status
    async with asyncio.timeout(20):
        while await ours.effective_status("default") != status:  # noqa: ASYNC110 -- another process changed it
            await asyncio.sleep(0.002)
    assert await ours.effective_status("nowhere") == ("paused" if status == "paused" else None)


async def test_the_age_of_a_status_is_that_of_the_older_of_the_two_that_it_rests_on(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, other, passed_s = storage.open(), storage.open(), [1_000.0]
    monkeypatch.setattr("time.monotonic", lambda: passed_s[0])
    assert await ledger.status(GATE_PROJECT) is not None
    passed_s[0] += STATUS_AGE_MAX_S * 0.6
    assert await ledger.effective_status("default") == "open"
    await other.commit(work(SetStatus("paused"), project=GATE_PROJECT))
    passed_s[0] += STATUS_AGE_MAX_S * 0.3
    assert await ledger.effective_status("default") == "open"
    passed_s[0] += STATUS_AGE_MAX_S * 0.2
    assert await ledger.effective_status("default") == "paused"


async def test_entries_of_a_call_can_be_had_by_their_kind(ledger: Ledger) -> None:
    drafts = tuple(
        Draft(kind, iso(NOW), b"{}", "c", agent_id="ann") for kind in (Kind.HELD, Kind.ANSWERED, Kind.SETTLED)
    )
    await ledger.commit(Work("default", drafts))
    assert [entry.kind for entry in await ledger.entries_of("c")] == ["held", "answered", "settled"]
    assert [entry.kind for entry in await ledger.entries_of("c", "answered")] == ["answered"]
    assert await ledger.entries_of("d", "answered") == []
