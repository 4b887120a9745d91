"""Files through the whole gate: judged by their real names, recorded, approved, undone, and never out of bounds."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from agent_gate import Gate, Outcome, load_plan, load_policy, run_plan
from agent_gate.history.erase import erase_call
from agent_gate.history.rejudge import Rejudge
from agent_gate.ledger.sqlite.reader import open_reader
from agent_gate.model.call import CallRequest
from agent_gate.model.outcome import Status
from agent_gate.policy.judge import Judge
from agent_gate.resolve.surroundings import look_around
from tests.gates import (
    ANNA,
    HandClock,
    a_gate,
    agent,
    approve,
    code_of,
    entries,
    kinds_of,
    outcome_of,
    pending,
    rows,
    run_elsewhere,
    soon,
    stored_bytes,
    until,
)

FILES: dict[str, Any] = {
    "tools": {"fs.read": {"allow_paths": ["./**"], "deny_paths": ["**/*.pem"]}, "fs.write": {"allow_paths": ["./**"]}},
    "boundary": "deny_by_default",
}
UNDOING: dict[str, Any] = {
    **FILES,
    "rules": [{"pattern": "gate.revert(*)", "action": "allow"}, {"pattern": "fs.write(*)", "action": "allow"}],
}
BOSS = agent("boss", roles=("admin",))


@pytest.fixture
def work(tmp_path: Path) -> Path:
    root = tmp_path.resolve()
    (root / "work/sub").mkdir(parents=True)
    (root / "work/a.txt").write_text("one\ntwo\n")
    (root / "secret.txt").write_text("CANARY\n")
    return root / "work"


@asynccontextmanager
async def gate_at(work: Path, policy: Any = FILES, **options: Any) -> AsyncIterator[Gate]:
    """With its ledger in the working directory, as by default; what it opens for files, it closes."""
    async with a_gate(work, policy, working_dir=work, **{"agent": BOSS, **options}) as gate:
        yield gate
        await until(lambda: not open_files(work))


def open_files(work: Path) -> list[str]:
    """What is open below the working directory, beside the ledger."""
    links = (f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd"))
    names = [os.readlink(link) for link in links if os.path.lexists(link)]
    return [name for name in names if name.startswith(str(work)) and not name.startswith(f"{work}/gate.db")]


async def reverted(gate: Gate, outcome: Outcome) -> Outcome:
    return await gate.call("gate.revert", call_id=outcome.call_id)


async def test_a_file_is_read_and_one_entry_tells_which_and_why(work: Path) -> None:
    async with gate_at(work) as gate:
        outcome = await gate.call("fs.read", path="sub/../a.txt")
        assert outcome.data == {"path": f"{work}/a.txt", "content": "one\ntwo\n", "encoding": "utf-8", "size": 8}
        (entry,) = (row for row in entries(gate, "settled") if row["call_id"] == outcome.call_id)
    status = (work / "a.txt").stat()
    assert entry["signature"] == f"fs.read({work}/a.txt)"
    assert entry["body"]["resources"] == {
        "path": f"{work}/a.txt",
        "device": f"{os.major(status.st_dev)}:{os.minor(status.st_dev)}",
        "inode": str(status.st_ino),
    }
    assert entry["body"]["facts"]["found"] == {"type": "file", "size": 8}
    assert {"layer": "guard", "rule": "./**"} in entry["body"]["reasons"]


async def test_a_write_is_intended_with_the_undo_copy_before_it_happens(work: Path) -> None:
    async with gate_at(work) as gate:
        outcome = await gate.call("fs.write", path="a.txt", content="three\n")
        assert kinds_of(gate, outcome.call_id) == ["performing", "settled"]
        assert rows(gate, "SELECT data FROM blobs WHERE hash = ?", f"undo:{outcome.call_id}") == [
            {"data": b"one\ntwo\n"}
        ]
    assert (work / "a.txt").read_text() == "three\n"


@pytest.mark.parametrize(
    ("tool", "args", "code"),
    [
        ("fs.read", {"path": "../secret.txt"}, 1002),
        ("fs.read", {"path": "link"}, 1002),
        ("fs.write", {"path": "link", "content": "x"}, 1002),
        ("fs.write", {"path": "../new.txt", "content": "x"}, 1002),
        ("fs.read", {"path": "key.pem"}, 1002),
        ("fs.read", {"path": ".hidden"}, 1002),
        ("fs.read", {"path": "pipe"}, 1002),
        ("fs.read", {"path": "sub"}, 1002),
        ("fs.write", {"path": "linked.txt", "content": "x"}, 1002),
        ("fs.read", {"path": "big.bin"}, 1006),
        ("fs.read", {"path": "gate.db"}, 1021),
        ("fs.read", {"path": "gate.db.d/secret.key"}, 1021),
        ("fs.write", {"path": "gate.db-journal", "content": "x"}, 1021),
        ("fs.write", {"path": "gate.db.anchor", "content": "x"}, 1021),
        ("fs.read", {"path": "also-the-db"}, 1021),
        ("fs.read", {"path": "a\0b"}, 2002),
        ("fs.read", {"path": "nope"}, 2003),
    ],
)
async def test_what_is_out_of_bounds_is_refused_with_its_code_and_nothing_changes(
    work: Path, tool: str, args: dict[str, Any], code: int
) -> None:
    (work / "link").symlink_to("../secret.txt")
    for name in ("key.pem", ".hidden", "other"):
        (work / name).write_text("CANARY")
    os.mkfifo(work / "pipe")
    os.link(work / "other", work / "linked.txt")
    with (work / "big.bin").open("wb") as big:
        big.truncate(8 << 30)
    policy = {**FILES, "tools": {**FILES["tools"], "fs.write": {"allow_paths": ["./**"], "allow_hidden": True}}}
    async with gate_at(work, policy) as gate:
        os.link(work / "gate.db", work / "also-the-db")
        outcome = await soon(gate.call(tool, args))
    assert (code_of(outcome), outcome.data) == (code, None)
    assert "CANARY" not in str(outcome.to_json())
    assert (work.parent / "secret.txt").read_text() == "CANARY\n"
    assert sorted(path.name for path in work.parent.iterdir()) == ["secret.txt", "work"]


async def test_without_a_section_a_file_tool_is_denied_whatever_the_rules_say(work: Path) -> None:
    async with gate_at(work, {"rules": [{"pattern": "*", "action": "allow"}]}) as gate:
        for tool, args in (("fs.read", {"path": "a.txt"}), ("fs.write", {"path": "a.txt", "content": ""})):
            assert code_of(await gate.call(tool, args)) == 1001
    assert (work / "a.txt").read_text() == "one\ntwo\n"


async def test_a_rule_can_deny_and_cannot_widen_what_the_guard_allows(work: Path) -> None:
    rules = [{"pattern": f"fs.read({work}/a.txt)", "action": "deny"}, {"pattern": "fs.read(*)", "action": "allow"}]
    (work / "b.txt").write_text("b")
    async with gate_at(work, {**FILES, "rules": rules}) as gate:
        assert code_of(await gate.call("fs.read", path="a.txt")) == 1001
        assert (await gate.call("fs.read", path="b.txt")).ok
        assert code_of(await gate.call("fs.read", path="../secret.txt")) == 1002


async def test_a_new_policy_file_moves_the_bounds_and_is_itself_out_of_reach(work: Path) -> None:
    policy = work / "policy.yaml"
    policy.write_text("tools: {fs.write: {allow_paths: ['./**']}, fs.read: {allow_paths: ['./**']}}\n")
    async with gate_at(work, policy) as gate:
        refused = await gate.call("fs.write", path="policy.yaml", content="rules: []")
        assert (code_of(refused), refused.error and refused.error.name) == (1021, "protected_file")
        assert (await gate.call("fs.read", path="policy.yaml")).ok
        assert (await gate.call("fs.read", path="a.txt")).ok
        policy.write_text("tools: {fs.read: {allow_paths: ['./sub/**']}}\n")
        await until(lambda: gate.judge.policy.guards.fs_write is None)
        assert code_of(await gate.call("fs.read", path="a.txt")) == 1002


async def test_a_linked_working_directory_and_a_linked_pattern_mean_what_they_lead_to(work: Path) -> None:
    (work.parent / "alias").symlink_to("work")
    policy = {"tools": {"fs.read": {"allow_paths": [f"{work.parent}/alias/*.txt"]}}}
    async with a_gate(work.parent, policy, working_dir=work.parent / "alias") as gate:
        outcome = await gate.call("fs.read", path="a.txt")
        assert outcome.data["path"] == f"{work}/a.txt"
        assert (await gate.call("fs.read", path=f"{work.parent}/alias/a.txt")).ok
        assert code_of(await gate.call("fs.read", path="sub/x.txt")) == 1002


async def test_a_denied_link_target_stays_denied_by_whatever_name_the_deny_pattern_has(work: Path) -> None:
    (work / "private").mkdir()
    (work / "private/k").write_text("CANARY")
    (work / "alias").symlink_to("private")
    policy = {"tools": {"fs.read": {"allow_paths": ["./**"], "deny_paths": ["./alias/**"]}}}
    async with gate_at(work, policy) as gate:
        for path in ("alias/k", "private/k"):
            assert code_of(await gate.call("fs.read", path=path)) == 1002


async def test_an_approval_is_bound_to_the_file_that_was_shown(work: Path) -> None:
    policy = {**FILES, "rules": [{"pattern": "fs.*", "action": "ask"}]}
    async with gate_at(work, policy) as gate:
        question = await pending(gate, "fs.read", {"path": "a.txt"})
        (work / "new").write_text("other file\n")
        (work / "new").rename(work / "a.txt")
        await approve(gate, question)
        outcome = await outcome_of(gate, question)
    assert (code_of(outcome), outcome.data) == (1015, None)


async def test_an_approval_stays_valid_when_the_file_only_grows(work: Path) -> None:
    policy = {**FILES, "rules": [{"pattern": "fs.*", "action": "ask"}]}
    async with gate_at(work, policy) as gate:
        question = await pending(gate, "fs.read", {"path": "a.txt"})
        with (work / "a.txt").open("a") as file:
            file.write("three\n")
        await approve(gate, question)
        outcome = await outcome_of(gate, question)
    assert outcome.data["content"] == "one\ntwo\nthree\n"


async def test_nothing_is_open_while_a_person_thinks(work: Path) -> None:
    async with gate_at(work, {**FILES, "rules": [{"pattern": "fs.*", "action": "ask"}]}) as gate:
        questions = [await pending(gate, "fs.write", {"path": "a.txt", "content": f"{n}"}) for n in range(20)]
        assert open_files(work) == []
        await approve(gate, questions[0], ANNA)
        assert (await outcome_of(gate, questions[0])).ok
    assert (work / "a.txt").read_text() == "0"


async def test_a_file_that_was_rewritten_in_place_since_it_was_shown_is_not_overwritten(work: Path) -> None:
    policy = {**FILES, "rules": [{"pattern": "fs.*", "action": "ask"}]}
    async with gate_at(work, policy) as gate:
        over = await pending(gate, "fs.write", {"path": "a.txt", "content": "agent's\n"})
        behind = await pending(gate, "fs.write", {"path": "a.txt", "content": "more\n", "mode": "append"})
        (work / "a.txt").write_text("somebody's\n")
        for question in (over, behind):
            await approve(gate, question)
        outcomes = [await outcome_of(gate, question) for question in (over, behind)]
    assert [code_of(outcome) for outcome in outcomes] == [1015, None]
    assert (work / "a.txt").read_text() == "somebody's\nmore\n"


@pytest.mark.parametrize(
    ("args", "left", "back"),
    [
        ({"path": "a.txt", "content": "new"}, "new", "one\ntwo\n"),
        ({"path": "a.txt", "content": "new", "mode": "append"}, "one\ntwo\nnew", "one\ntwo\n"),
        ({"path": "a.txt", "content": "", "encoding": "utf-16-le"}, "", "one\ntwo\n"),
        ({"path": "n/new.txt", "content": "new", "create_dirs": True}, "new", None),
    ],
)
async def test_a_write_can_be_undone_and_the_undoing_is_a_call_like_any_other(
    work: Path, args: dict[str, Any], left: str, back: str | None
) -> None:
    file = work / args["path"]
    async with gate_at(work, UNDOING) as gate:
        wrote = await gate.call("fs.write", args)
        assert file.read_text() == left
        undone = await reverted(gate, wrote)
        assert undone.signatures == (f"gate.revert({wrote.call_id})", f"fs.write({file})")
        assert kinds_of(gate, undone.call_id) == ["performing", "settled", "reverted"]
    assert undone.ok
    assert (file.read_text() if file.exists() else None) == back


async def test_an_undo_is_refused_with_a_diff_when_the_file_has_changed_since(work: Path) -> None:
    async with gate_at(work, UNDOING) as gate:
        wrote = await gate.call("fs.write", path="a.txt", content="agent's\n")
        (work / "a.txt").write_text("a person's\n")
        refused = await reverted(gate, wrote)
        assert kinds_of(gate, refused.call_id) == ["settled"]
    assert refused.error is not None
    assert refused.error.detail.endswith("@@ -1 +1 @@\n-agent's\n+a person's")
    assert (code_of(refused), (work / "a.txt").read_text()) == (2003, "a person's\n")


async def test_an_undo_without_a_rule_asks_a_person(work: Path) -> None:
    policy = {"tools": FILES["tools"]}
    async with gate_at(work, policy) as gate:
        wrote = await gate.call("fs.write", path="a.txt", content="new")
        question = await pending(gate, "gate.revert", {"call_id": wrote.call_id})
        assert (work / "a.txt").read_text() == "new"
        await approve(gate, question)
        assert (await outcome_of(gate, question)).ok
    assert (work / "a.txt").read_text() == "one\ntwo\n"


async def test_an_undo_is_refused_where_fs_write_would_be(work: Path) -> None:
    async with gate_at(work, UNDOING) as gate:
        wrote = await gate.call("fs.write", path="a.txt", content="new")
    narrower = {**UNDOING, "tools": {"fs.write": {"allow_paths": ["./**"], "deny_paths": ["a.txt"]}}}
    async with gate_at(work, narrower) as gate:
        assert code_of(await reverted(gate, wrote)) == 1002
    async with gate_at(work, {**UNDOING, "tools": {}}) as gate:
        assert code_of(await reverted(gate, wrote)) == 1001
    assert (work / "a.txt").read_text() == "new"


async def test_reads_denials_and_erased_writes_have_nothing_to_undo(work: Path) -> None:
    clock = HandClock()
    async with gate_at(work, UNDOING, clock=clock) as gate:
        read = await gate.call("fs.read", path="a.txt")
        denied = await gate.call("fs.write", path="../x", content="")
        wrote = await gate.call("fs.write", path="a.txt", content="CANARY-NEW")
        clock.advance(1)
        ledger: Any = gate.ledger
        await erase_call(ledger, wrote.call_id, by="test", clock=clock, ids=gate.ids)
        for outcome in (read, denied, wrote):
            assert code_of(await reverted(gate, outcome)) == 2002
        assert b"one\ntwo\n" not in stored_bytes(gate)


async def test_an_undo_copy_that_somebody_changed_is_not_written(work: Path) -> None:
    async with gate_at(work, UNDOING) as gate:
        wrote = await gate.call("fs.write", path="a.txt", content="new")
    with sqlite3.connect(work / "gate.db") as intruder:
        intruder.execute("UPDATE blobs SET data = ? WHERE hash = ?", (b"evil", f"undo:{wrote.call_id}"))
    intruder.close()
    async with gate_at(work, UNDOING) as gate:
        assert code_of(await reverted(gate, wrote)) == 5004
    assert (work / "a.txt").read_text() == "new"


async def test_a_write_of_a_process_that_died_in_the_act_can_be_undone(work: Path) -> None:
    run_elsewhere(
        work,
        """
        from agent_gate.resolve.files import OpenFile
        overwrite = OpenFile.overwrite

        def die_after(self, data, previous):
            overwrite(self, data, previous)
            os._exit(1)

        OpenFile.overwrite = die_after

        async def main():
            policy = {"tools": {"fs.write": {"allow_paths": ["./**"]}}}
            async with open_gate(policy, directory / "gate.db", working_dir=directory) as gate:
                await gate.call("fs.write", path="a.txt", content="half-way")
        """,
    )
    assert (work / "a.txt").read_text() == "half-way"
    async with gate_at(work, UNDOING) as gate:
        (unknown,) = (row for row in entries(gate, "settled") if row["status"] == "unknown")
        assert (await gate.call("gate.revert", call_id=unknown["call_id"])).ok
    assert (work / "a.txt").read_text() == "one\ntwo\n"


async def test_a_simulation_reads_only_when_told_to_and_never_writes(work: Path) -> None:
    plan = work / "plan.yaml"
    plan.write_text(
        "version: '1.0'\nname: n\nsteps:\n"
        "  - {tool: fs.write, args: {path: a.txt, content: new}}\n"
        "  - {tool: fs.read, args: {path: a.txt}}\n"
        "  - {tool: fs.read, args: {path: ../secret.txt}}\n"
    )
    async with gate_at(work) as gate:
        loaded = load_plan(plan)
        without = await run_plan(gate, loaded, simulate=True)
        with_reads = await run_plan(gate, loaded, simulate=True, with_reads=True)
    assert [o.status for o in without.outcomes] == [Status.SUCCESS, Status.SUCCESS, Status.DENIED]
    assert "-one" in without.outcomes[0].data["changes"][0]["diff"]
    assert [o.data for o in without.outcomes[1:]] == [None, None]
    assert with_reads.outcomes[1].data["content"] == "new", "what an earlier step would have written"
    assert (work / "a.txt").read_text() == "one\ntwo\n"


async def test_a_later_step_uses_what_an_earlier_one_read(work: Path) -> None:
    plan = work / "plan.yaml"
    plan.write_text(
        "version: '1.0'\nname: copy\nsteps:\n"
        "  - {id: source, tool: fs.read, args: {path: a.txt}}\n"
        "  - {tool: fs.write, args: {path: out/b.txt, content: '${steps.source.data.content}', create_dirs: true}}\n"
    )
    async with gate_at(work) as gate:
        assert (await run_plan(gate, load_plan(plan))).status == "completed"
    assert (work / "out/b.txt").read_text() == "one\ntwo\n"


async def test_many_calls_at_once_each_get_their_answer(work: Path) -> None:
    def call(number: int) -> tuple[str, dict[str, Any]]:
        if number % 3:
            return "fs.read", {"path": "a.txt"}
        return "fs.write", {"path": f"out-{number}.txt", "content": str(number)}

    async with gate_at(work) as gate:
        outcomes = await soon(asyncio.gather(*(gate.call(*call(number)) for number in range(150))))
    assert [outcome.ok for outcome in outcomes] == [True] * 150
    assert {(work / f"out-{n}.txt").read_text() for n in range(0, 150, 3)} == {str(n) for n in range(0, 150, 3)}


async def test_recorded_calls_are_judged_again_from_what_was_found_then(work: Path) -> None:
    async with gate_at(work) as gate:
        await gate.call("fs.read", path="a.txt")
        await gate.call("fs.read", path="../secret.txt")
        await gate.call("fs.write", path="new.txt", content="x")
        await gate.call("fs.read", path="sub")
    (work / "a.txt").unlink()
    policy = load_policy(FILES)
    with closing(open_reader(work / "gate.db")) as reader:
        again, judge = Rejudge(reader), Judge(policy, look_around(policy, str(work)))
        calls = [call for call in again.calls() if call.bound.request.tool.startswith("fs.")]
        verdicts = [again.verdict(call, judge, as_it_was=True).decision for call in calls]
    assert verdicts == [call.decision for call in calls]
    assert [verdict.value for verdict in verdicts] == ["allow", "deny", "allow", "deny"]


def test_the_message_of_a_denial_is_enough_to_mend_the_policy(work: Path) -> None:
    async def refusal(policy: dict[str, Any]) -> str:
        async with gate_at(work, policy) as gate:
            return str((await gate.call("fs.read", path="a.txt")).error)

    tries: list[Callable[[dict[str, Any]], None]] = [
        lambda policy: policy.update(tools={"fs.read": {}}),
        lambda policy: policy["tools"]["fs.read"].update(allow_paths=["a.txt"]),
    ]
    policy: dict[str, Any] = {"version": 1}
    said = []
    for mend in tries:
        said.append(asyncio.run(refusal(policy)))
        mend(policy)
    assert "tools: {fs.read: {allow_paths:" in said[0]
    assert "allow_paths of fs.read is empty; add it there" in said[1]
    assert asyncio.run(refusal(policy)) == "None"


@pytest.mark.parametrize(
    ("before", "mode", "change", "shown"),
    [
        ("old\n", "overwrite", "changed", ["-old", "+new"]),
        ("old\n", "append", "changed", ["+new"]),
        (None, "overwrite", "added", ["+new"]),
        ("new\n", "overwrite", None, []),
    ],
)
async def test_a_preview_of_a_write_shows_the_change_and_makes_none(
    tmp_path: Path, before: str | None, mode: str, change: str | None, shown: list[str]
) -> None:
    file = tmp_path / "note.txt"
    if before is not None:
        file.write_text(before)
    policy = {"tools": {"fs.write": {"allow_paths": [f"{tmp_path}/**"]}}}
    async with a_gate(tmp_path, policy) as gate:
        wish = CallRequest(gate.agent, "fs.write", {"path": str(file), "content": "new\n", "mode": mode})
        outcome, _ = await gate.simulate(wish, with_previews=True)
    assert outcome.status is Status.SUCCESS, outcome
    told = outcome.data["changes"]
    assert [one["change"] for one in told] == ([change] if change else [])
    for line in shown:
        assert line in told[0]["diff"].splitlines()
    assert (file.read_text() if file.exists() else None) == before
