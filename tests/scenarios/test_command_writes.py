"""A command is a transaction: what it wrote is judged path by path, and then all of it counts or nothing."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agent_gate import Agent, Gate, Outcome, load_policy
from agent_gate.history.rejudge import Rejudge
from agent_gate.history.verify import verify
from agent_gate.model.call import CallRequest
from agent_gate.model.outcome import Status
from agent_gate.sandbox.choice import Choice
from tests.gates import (
    a_gate,
    approve,
    code_of,
    deny,
    entries,
    kinds_of,
    outcome_of,
    pending,
    rows,
    run_elsewhere,
    soon,
    until,
)

_picked = asyncio.run(Choice().pick("auto"))
pytestmark = pytest.mark.skipif(
    _picked is None or not _picked.layers, reason="no sandbox of this machine keeps apart what a command writes"
)


def policy_of(*, rules: list[dict[str, Any]] | None = None, **shell: Any) -> dict[str, Any]:
    return {
        "version": 1,
        "rules": rules or [],
        "tools": {
            "fs.read": {"allow_paths": ["./**"]},
            "fs.write": {"allow_paths": ["./**"], "deny_paths": ["**/denied/**", "**/denied.txt"]},
            "shell.run": {
                "allow_executables": ["sh", "python3"],
                "unchecked_executables": ["sh", "python3"],
                "timeout_seconds": 30,
                **shell,
            },
        },
    }


@pytest.fixture
def work(tmp_path: Path) -> Path:
    work = tmp_path.resolve() / "work"
    work.mkdir()
    (work / "old").write_text("one\n")
    (work / "gone").write_text("bye\n")
    (work / "sub").mkdir()
    (work / "sub" / "x").write_text("x\n")
    return work


ADMIN = Agent("local", roles=("admin",))
REVERTING = [{"pattern": "gate.revert(*)", "action": "allow"}, {"pattern": "fs.write(*)", "action": "allow"}]


async def sh(gate: Gate, script: str) -> Outcome:
    return await gate.call("shell.run", argv=["sh", "-c", script])


def tree(folder: Path) -> dict[str, Any]:
    """All that lies below: kind, mode and content."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        content = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
        found[str(path.relative_to(folder))] = (oct(status.st_mode), content)
    return found


def changed(outcome: Outcome, work: Path) -> dict[str, str]:
    return {os.path.relpath(file["path"], work): file["change"] for file in outcome.files or ()}


async def test_what_a_command_wrote_is_committed_and_told(work: Path) -> None:
    async with a_gate(work.parent, policy_of(), working_dir=work) as gate:
        outcome = await sh(
            gate,
            "echo two >> old; rm gone; chmod 700 sub/x; mkdir -p new/deep; echo n > new/deep/n; ln -s old link; exit 3",
        )
    assert (outcome.status, outcome.data["return_code"]) == (Status.SUCCESS, 3), outcome
    assert changed(outcome, work) == {
        "gone": "removed",
        "link": "added",
        "new": "added",
        "new/deep": "added",
        "new/deep/n": "added",
        "old": "changed",
        "sub/x": "mode",
    }
    assert (work / "old").read_text() == "one\ntwo\n"
    assert not (work / "gone").exists()
    assert (work / "sub" / "x").stat().st_mode & 0o777 == 0o700
    assert os.readlink(work / "link") == "old"
    assert (work / "new" / "deep" / "n").read_text() == "n\n"
    assert not any(".agent-gate-" in name for name in tree(work))


async def test_what_discard_paths_name_is_left_out_of_what_counts(work: Path) -> None:
    async with a_gate(work.parent, policy_of(discard_paths=["**/*.tmp"]), working_dir=work) as gate:
        outcome = await sh(gate, "echo x > a.tmp; echo y > kept")
    assert (changed(outcome, work), (work / "a.tmp").exists()) == ({"kept": "added"}, False)


async def test_the_record_tells_the_intent_the_commit_and_the_files(work: Path) -> None:
    async with a_gate(work.parent, policy_of(), working_dir=work) as gate:
        outcome = await sh(gate, "echo two >> old")
        assert kinds_of(gate, outcome.call_id) == ["performing", "committing", "settled"]
        told = {row["kind"]: row["body"] for row in entries(gate) if row["call_id"] == outcome.call_id}
    files = [{"path": f"{work}/old", "change": "changed", "bytes": 8}]
    assert told["performing"]["resources"]["writes"] == "judge"
    assert (told["committing"]["files"], told["settled"]["files"]) == (files, files)
    assert {"manifest_hash", "kept_hash"} <= told["committing"].keys()


async def test_a_command_that_changes_nothing_commits_nothing(work: Path) -> None:
    before = tree(work)
    async with a_gate(work.parent, policy_of(), working_dir=work) as gate:
        outcome = await sh(gate, "cat old; : >> old; exit 0")
        assert kinds_of(gate, outcome.call_id) == ["performing", "settled"]
    assert (outcome.status, outcome.data["stdout"], outcome.files) == (Status.SUCCESS, "one\n", None)
    assert tree(work) == before


REFUSED = {
    "a hidden name that did not exist": ("echo x > .envrc", 1002),
    "a hidden directory that did not exist": ("mkdir -p .github/workflows; echo x > .github/workflows/x", 1002),
    "a denied name that did not exist": ("echo x > denied.txt", 1002),
    "a denied directory that did not exist": ("mkdir denied; echo x > denied/y", 1002),
    "a hot journal of the ledger": ("echo x > gate.db-journal", 1021),
    "a set-uid file": ("cp /bin/true t; chmod u+s t", 1002),
    "a set-gid directory": ("mkdir d; chmod g+s d", 1002),
    "a named pipe": ("mkfifo pipe", 1002),
    "two names of one file": ("echo x > a; ln a b", 1002),
    "a link to what may not be written": ("ln -s /etc/passwd link", 1002),
    "a link to a hidden name": ("ln -s .env link", 1002),
    "a link to an own file": ("ln -s gate.db link", 1021),
    "a link on the way to an own file": ("mkdir x; ln -s x .claude", 1021),
    "a journal beside a ledger that is not in use": ("echo x > agent-gate.db-journal", 1021),
    "a link through a link of the disk": ("ln -s alias/denied.txt l", 1002),
    "a link that goes in and out": ("ln -s sub/../denied.txt l", 1002),
    "a name that is not UTF-8": ('python3 -c \'open(b"\\xff", "w")\'', 1002),
    "hooks of a repository": ("mkdir -p repo/.git/hooks; echo x > repo/.git/hooks/pre-commit", 1002),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_what_fs_write_would_refuse_keeps_all_from_being_written(work: Path, name: str) -> None:
    script, code = REFUSED[name]
    (work / "conf").mkdir()
    (work / "conf" / "policy.yaml").write_text("version: 1\n")
    (work / "alias").symlink_to("sub")
    before = tree(work)
    own = [work / "conf" / "policy.yaml"]
    async with a_gate(work, policy_of(), working_dir=work, protected_files=own) as gate:
        before = {**tree(work), **before}
        outcome = await sh(gate, f"echo fine > fine; echo said; {script}")
        assert kinds_of(gate, outcome.call_id) == ["performing", "settled"]
    assert (outcome.status, code_of(outcome)) == (Status.DENIED, code), outcome
    assert outcome.data["stdout"] == "said\n"
    assert "fine" in changed(outcome, work)
    left = {name: seen for name, seen in tree(work).items() if not name.startswith("gate.db")}
    assert left == {name: seen for name, seen in before.items() if not name.startswith("gate.db")}


async def test_a_file_that_leads_git_elsewhere_is_refused_though_its_name_is_allowed(work: Path) -> None:
    policy = policy_of()
    policy["tools"]["fs.write"]["allow_paths"] += ["./.git/**"]
    async with a_gate(work.parent, policy, working_dir=work) as gate:
        outcome = await sh(gate, "mkdir elsewhere; echo x > elsewhere/config; echo 'gitdir: elsewhere' > .git")
    assert (outcome.status, code_of(outcome), (work / ".git").exists()) == (Status.DENIED, 1002, False)


async def test_a_rule_may_deny_one_path_and_then_nothing_is_written(work: Path) -> None:
    rules = [{"pattern": f"fs.write({work}/sub/*)", "action": "deny", "description": "leave it"}]
    before = tree(work)
    async with a_gate(work.parent, policy_of(rules=rules), working_dir=work) as gate:
        outcome = await sh(gate, "echo y > sub/y; echo z > z")
    assert (outcome.status, code_of(outcome)) == (Status.DENIED, 1001)
    assert outcome.error is not None
    assert "leave it" in outcome.error.detail
    assert "2 files that the command changed, none was written" in outcome.error.detail
    assert tree(work) == before


async def test_caches_are_thrown_away_and_no_reason_to_deny(work: Path) -> None:
    async with a_gate(work.parent, policy_of(), working_dir=work) as gate:
        outcome = await sh(gate, "mkdir -p .pytest_cache/v __pycache__; echo x > .pytest_cache/v/x; echo y > kept")
        assert (outcome.status, changed(outcome, work)) == (Status.SUCCESS, {"kept": "added"})
        only = await sh(gate, "mkdir -p sub/__pycache__; echo x > sub/__pycache__/m.pyc; echo x > .coverage")
    assert (only.status, only.files) == (Status.SUCCESS, None)
    assert sorted(tree(work)) == ["gone", "kept", "old", "sub", "sub/x"]


@pytest.mark.parametrize(
    ("bound", "script"),
    [({"max_changes": 2}, "touch a b c"), ({"max_changed_bytes": 1000}, "head -c 2000 /dev/zero > big")],
)
async def test_bounds_on_changes_keep_all_from_being_written(work: Path, bound: dict[str, Any], script: str) -> None:
    before = tree(work)
    async with a_gate(work.parent, policy_of(**bound), working_dir=work) as gate:
        outcome = await sh(gate, script)
    assert (outcome.status, code_of(outcome)) == (Status.DENIED, 1006)
    assert outcome.error is not None
    assert next(iter(bound)) in outcome.error.detail
    assert (tree(work), outcome.data["return_code"]) == (before, 0)


@pytest.mark.parametrize(
    ("shell", "script", "code"),
    [
        ({"timeout_seconds": 0.5}, "echo x > x; sleep 30", 2004),
        ({"max_output_bytes": 100}, "echo x > x; yes", 2005),
    ],
)
async def test_what_is_cut_off_commits_nothing(work: Path, shell: dict[str, Any], script: str, code: int) -> None:
    before = tree(work)
    async with a_gate(work.parent, policy_of(**shell), working_dir=work) as gate:
        outcome = await sh(gate, script)
    assert (outcome.status, code_of(outcome), tree(work)) == (Status.ERROR, code, before)


MEANWHILE: dict[str, tuple[Callable[[Path], object], str]] = {
    "rewritten": (lambda work: (work / "old").write_text("somebody else\n"), "echo two >> old"),
    "rewritten while it is removed": (lambda work: (work / "old").write_text("somebody else\n"), "rm old"),
    "removed": (lambda work: (work / "old").unlink(), "echo two >> old"),
    "put where the command puts another": (lambda work: (work / "made").write_text("mine\n"), "echo x > made"),
    "removed with its directory": (lambda work: shutil.rmtree(work / "sub"), "echo y >> sub/x"),
    "added to a directory that goes": (lambda work: (work / "sub" / "mine").write_text("mine\n"), "rm -r sub"),
}


@pytest.mark.parametrize("name", MEANWHILE)
async def test_a_path_that_changed_on_the_disk_meanwhile_is_a_conflict(
    work: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    meanwhile, script = MEANWHILE[name]
    scratch = work.parent / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(scratch))
    async with a_gate(work.parent, policy_of(), working_dir=work) as gate:
        running = asyncio.create_task(sh(gate, f"{script}; echo begun > begun; sleep 3"))
        await until(lambda: list(scratch.glob("*/*/upper/begun")))
        meanwhile(work)
        before = tree(work)
        outcome = await soon(running)
    assert (outcome.status, code_of(outcome)) == (Status.ERROR, 2008), outcome
    assert (tree(work), list(scratch.iterdir())) == (before, [])


async def test_writes_none_gives_a_command_nothing_to_write(work: Path) -> None:
    before = tree(work)
    async with a_gate(work.parent, policy_of(writes="none"), working_dir=work) as gate:
        outcome = await sh(gate, "echo x > x || echo refused")
    assert (outcome.status, outcome.data["stdout"], tree(work)) == (Status.SUCCESS, "refused\n", before)


async def test_writes_direct_lets_a_command_reach_the_disk_and_the_record_says_so(work: Path) -> None:
    async with a_gate(work.parent, policy_of(writes="direct"), working_dir=work) as gate:
        outcome = await sh(gate, "echo x > .envrc")
        [told] = [row["body"] for row in entries(gate, "performing")]
    assert (outcome.status, outcome.files, told["resources"]["writes"]) == (Status.SUCCESS, None, "direct")
    assert (work / ".envrc").read_text() == "x\n"


async def test_writes_direct_is_simulated_as_what_nobody_judges_and_cannot_be_taken_back(work: Path) -> None:
    rules = [{"pattern": "gate.revert(*)", "action": "allow"}]
    async with a_gate(work.parent, policy_of(writes="direct", rules=rules), working_dir=work) as gate:
        request = CallRequest(ADMIN, "shell.run", {"argv": ["sh", "-c", "echo x > .envrc"]})
        simulated, _ = await gate.simulate(request, with_previews=True)
        outcome = await sh(gate, "echo x > new")
        back = await gate.submit(CallRequest(ADMIN, "gate.revert", {"call_id": outcome.call_id}))
    assert (simulated.status, simulated.message.endswith("judged by nobody")) == (Status.SUCCESS, True), simulated
    assert [change["change"] for change in simulated.data["changes"]] == ["added"]
    assert not (work / ".envrc").exists()
    assert back.error is not None
    assert back.error.detail.endswith("(writes: direct), and nothing was kept that could be brought back")


async def test_the_difference_tells_modes_and_where_links_lead(work: Path) -> None:
    link = "ln -s \"$(printf 'old\\n+mode 0644')\" link"
    script = f"echo two >> old; chmod 700 old; echo x > tool; chmod 755 tool; {link}"
    async with a_gate(work.parent, policy_of(), working_dir=work) as gate:
        request = CallRequest(ADMIN, "shell.run", {"argv": ["sh", "-c", script]})
        simulated, _ = await gate.simulate(request, with_previews=True)
    told = {Path(change["path"]).name: change["diff"] for change in simulated.data["changes"]}
    assert told["old"].endswith("+two\n-mode 0644\n+mode 0700")
    assert told["tool"].endswith("+x\n+mode 0755")
    assert "\n" not in told["link"]


@pytest.mark.parametrize(("writes", "status"), [("direct", Status.UNKNOWN), ("judge", Status.ERROR)])
async def test_a_command_that_is_broken_off_may_have_acted_only_where_it_writes_directly(
    work: Path, writes: str, status: Status, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = work.parent / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(scratch))
    async with a_gate(work.parent, policy_of(writes=writes), working_dir=work) as gate:
        argv = ["sh", "-c", "echo x > begun; sleep 20"]
        running = asyncio.create_task(gate.submit(CallRequest(ADMIN, "shell.run", {"argv": argv}, run_id="r")))
        await until(lambda: (work / "begun").exists() or list(scratch.glob("*/*/upper/begun")))
        outcome = await soon(gate.break_off("r"))
        await soon(running)
    assert outcome is not None
    assert outcome.status is status


async def test_a_person_is_shown_the_real_difference_before_it_is_committed(work: Path) -> None:
    async with a_gate(work.parent, policy_of(writes="ask"), working_dir=work) as gate:
        question = await pending(gate, "shell.run", {"argv": ["sh", "-c", "echo two >> old; echo n > n"]})
        assert (work / "old").read_text() == "one\n"
        assert [file["path"] for file in question.args["wrote"]] == [f"{work}/n", f"{work}/old"]
        assert "+two" in question.args["wrote"][1]["diff"]
        assert (question.args["return_code"], f"fs.write({work}/n)" in question.signatures) == (0, True)
        await approve(gate, question)
        outcome = await outcome_of(gate, question)
        assert kinds_of(gate, question.call_id) == ["performing", "held", "answered", "committing", "settled"]
        assert not rows(gate, "SELECT * FROM pending_requests")
    assert (outcome.status, (work / "old").read_text()) == (Status.SUCCESS, "one\ntwo\n")


@pytest.mark.parametrize(
    ("policy", "remedy"),
    [
        (policy_of(writes="ask"), "write `writes: judge` under shell.run, or "),
        (policy_of(rules=[{"pattern": "fs.write(*/old)", "action": "ask"}]), "allow it by a rule, or "),
    ],
    ids=["writes: ask", "a rule"],
)
async def test_where_nobody_can_be_asked_the_remedy_is_one(work: Path, policy: dict[str, Any], remedy: str) -> None:
    async with a_gate(work.parent, policy, working_dir=work, approvers=()) as gate:
        outcome = await sh(gate, "echo two >> old")
    assert outcome.error is not None
    assert outcome.error.suggestion.startswith(remedy)
    assert (work / "old").read_text() == "one\n"


async def test_a_no_to_what_was_written_commits_nothing(work: Path) -> None:
    before = tree(work)
    async with a_gate(work.parent, policy_of(writes="ask"), working_dir=work) as gate:
        question = await pending(gate, "shell.run", {"argv": ["sh", "-c", "echo two >> old"]})
        await deny(gate, question)
        outcome = await outcome_of(gate, question)
    assert (outcome.status, code_of(outcome), tree(work)) == (Status.DENIED, 1015, before)
    assert changed(outcome, work) == {"old": "changed"}


async def test_only_the_paths_that_a_rule_asks_about_put_a_question(work: Path) -> None:
    rules = [{"pattern": f"fs.write({work}/sub/*)", "action": "ask"}]
    async with a_gate(work.parent, policy_of(rules=rules), working_dir=work) as gate:
        assert (await sh(gate, "echo a > a")).status is Status.SUCCESS
        question = await pending(gate, "shell.run", {"argv": ["sh", "-c", "echo y > sub/y"]})
        await approve(gate, question)
        outcome = await outcome_of(gate, question)
    assert (outcome.status, (work / "sub" / "y").read_text()) == (Status.SUCCESS, "y\n")


async def test_a_policy_that_now_denies_wins_over_the_yes(work: Path) -> None:
    before = tree(work)
    async with a_gate(work.parent, policy_of(writes="ask"), working_dir=work) as gate:
        question = await pending(gate, "shell.run", {"argv": ["sh", "-c", "echo two >> old"]})
        stricter = policy_of(writes="ask", rules=[{"pattern": "fs.write(*/old)", "action": "deny"}])
        gate.judge = type(gate.judge)(load_policy(stricter), gate.judge.surroundings)
        await approve(gate, question)
        outcome = await outcome_of(gate, question)
    assert (outcome.status, code_of(outcome), tree(work)) == (Status.DENIED, 1001, before)


async def test_a_file_that_changed_while_the_person_thought_is_a_conflict(work: Path) -> None:
    async with a_gate(work.parent, policy_of(writes="ask"), working_dir=work) as gate:
        question = await pending(gate, "shell.run", {"argv": ["sh", "-c", "echo two >> old; echo n > n"]})
        (work / "old").write_text("else\n")
        await approve(gate, question)
        outcome = await outcome_of(gate, question)
    assert (outcome.status, code_of(outcome)) == (Status.ERROR, 2008)
    assert ((work / "old").read_text(), (work / "n").exists()) == ("else\n", False)


async def test_a_file_whose_mode_alone_would_change_is_no_exception(work: Path) -> None:
    async with a_gate(work.parent, policy_of(writes="ask"), working_dir=work) as gate:
        question = await pending(gate, "shell.run", {"argv": ["sh", "-c", "chmod 700 old; touch -d @1 old"]})
        (work / "old").write_text("else\n")
        await approve(gate, question)
        outcome = await outcome_of(gate, question)
    assert (outcome.status, code_of(outcome), (work / "old").stat().st_mtime > 1) == (Status.ERROR, 2008, True)


async def test_a_command_that_put_a_second_question_is_one_call_to_judge_again(work: Path) -> None:
    async with a_gate(work.parent, policy_of(writes="ask"), working_dir=work) as gate:
        question = await pending(gate, "shell.run", {"argv": ["sh", "-c", "echo two >> old"]})
        await approve(gate, question)
        await outcome_of(gate, question)
        with closing(gate.ledger.storage.reader()) as reader:
            first = list(Rejudge(reader).calls())
    assert [(call.call_id, "wrote" in call.bound.args) for call in first] == [(question.call_id, False)]


async def test_an_agent_may_let_only_so_many_commands_wait(work: Path) -> None:
    async with a_gate(work.parent, policy_of(writes="ask"), working_dir=work) as gate:
        questions = [await pending(gate, "shell.run", {"argv": ["sh", "-c", f"echo {n} > n{n}"]}) for n in range(4)]
        outcome = await sh(gate, "echo more > more")
        assert (outcome.status, code_of(outcome)) == (Status.DENIED, 1012)
        for question in questions:
            await deny(gate, question)
            await outcome_of(gate, question)


async def test_a_gate_that_closes_expires_the_question_and_leaves_nothing(work: Path) -> None:
    before = tree(work)
    async with a_gate(work.parent, policy_of(writes="ask"), working_dir=work) as gate:
        question = await pending(gate, "shell.run", {"argv": ["sh", "-c", "echo two >> old"]})
    async with a_gate(work.parent, policy_of(), working_dir=work) as gate:
        outcome = await gate.result(question.call_id)
    assert outcome is not None
    assert (outcome.status, code_of(outcome), tree(work)) == (Status.EXPIRED, 1016, before)


async def test_a_revert_brings_bytes_modes_and_times_back(work: Path) -> None:
    os.utime(work / "old", ns=(1, 1_000_000_000))
    (work / "sub" / "link").symlink_to("x")
    before = tree(work)
    script = "echo two >> old; chmod 600 old; rm gone; rm -r sub; echo now > sub; mkdir -p new/deep; touch new/deep/f"
    async with a_gate(work.parent, policy_of(rules=REVERTING), working_dir=work, agent=ADMIN) as gate:
        outcome = await sh(gate, script)
        assert outcome.status is Status.SUCCESS, outcome
        assert tree(work) != before
        undone = await gate.call("gate.revert", call_id=outcome.call_id)
        assert undone.status is Status.SUCCESS, undone
        assert kinds_of(gate, undone.call_id) == ["performing", "committing", "settled", "reverted"]
        assert verify(gate.ledger.files.db).ok  # type: ignore[attr-defined]
    assert tree(work) == before
    assert (work / "old").stat().st_mtime_ns == 1_000_000_000


async def test_a_revert_is_refused_where_a_file_has_changed_since(work: Path) -> None:
    rules = [{"pattern": "*", "action": "allow"}]
    async with a_gate(work.parent, policy_of(rules=rules), working_dir=work, agent=ADMIN) as gate:
        outcome = await sh(gate, "echo two >> old; mkdir new")
        (work / "new" / "mine").write_text("mine\n")
        undone = await gate.call("gate.revert", call_id=outcome.call_id)
    assert (undone.status, (work / "old").read_text()) == (Status.ERROR, "one\ntwo\n")
    assert undone.error is not None
    assert f"`{work}/new` has changed since" in undone.error.detail


async def test_user_attributes_are_kept_and_owners_too(work: Path) -> None:
    async with a_gate(work.parent, policy_of(), working_dir=work) as gate:
        (work / "old").chmod(0o640)
        outcome = await sh(gate, 'python3 -c \'import os; os.setxattr("old", "user.tag", b"v")\'; echo two >> old')
    assert outcome.status is Status.SUCCESS, outcome
    assert (os.getxattr(work / "old", "user.tag"), (work / "old").stat().st_mode & 0o777) == (b"v", 0o640)


async def test_a_file_of_another_owner_is_named_with_the_remedy(work: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    os.chown(work / "old", 12_345, 12_345)
    (work / "old").chmod(0o666)
    async with a_gate(work.parent, policy_of(), working_dir=work) as gate:
        outcome = await sh(gate, "echo two >> old")
    assert outcome.data["return_code"] != 0, outcome
    assert f"`{work}/old` belongs to another user" in outcome.data["hint"]


async def test_a_directory_can_be_moved_by_copying_and_a_rename_is_told_as_two(work: Path) -> None:
    async with a_gate(work.parent, policy_of(), working_dir=work) as gate:
        outcome = await sh(gate, "mv sub moved; mv old older")
        refused = await sh(gate, 'python3 -c \'import os; os.rename("moved", "again")\'')
    assert changed(outcome, work) == {
        "moved": "added",
        "moved/x": "added",
        "old": "removed",
        "older": "added",
        "sub": "removed",
        "sub/x": "removed",
    }
    assert ((work / "moved" / "x").read_text(), (work / "sub").exists()) == ("x\n", False)
    assert refused.data["hint"].startswith(f"`{work}/moved` was there before, and such a directory cannot be renamed")


async def test_two_commands_may_not_both_change_one_file(work: Path) -> None:
    """Each works on what it saw; who commits last finds that it is another file by now."""
    async with a_gate(work.parent, policy_of(), working_dir=work) as gate:
        ends = await asyncio.gather(*(sh(gate, f"sleep 0.3; echo {n} >> old") for n in range(3)))
    done = [outcome for outcome in ends if outcome.ok]
    assert len(done) >= 1
    assert {code_of(outcome) for outcome in ends if not outcome.ok} <= {2008}
    assert len((work / "old").read_text().splitlines()) == 1 + len(done)


async def test_the_parent_of_an_own_file_cannot_be_put_elsewhere(work: Path) -> None:
    own = work / "conf" / "policy.yaml"
    own.parent.mkdir()
    own.write_text("version: 1\n")
    async with a_gate(work, policy_of(), working_dir=work, protected_files=[own]) as gate:
        for script in ("mv conf conf2", "rm -rf conf; mkdir conf; echo x > conf/policy.yaml", "rm -rf conf"):
            outcome = await sh(gate, script)
            assert outcome.data["return_code"] != 0, outcome
            assert own.read_text() == "version: 1\n"


async def test_a_process_that_is_killed_while_a_person_thinks_has_written_nothing(work: Path) -> None:
    run_elsewhere(
        work,
        """
        from tests.scenarios.test_command_writes import policy_of
        async def main():
            async with a_gate(directory.parent, policy_of(writes="ask"), working_dir=directory) as gate:
                await pending(gate, "shell.run", {"argv": ["sh", "-c", "echo two >> old"]}, request_id="once")
                os._exit(0)
        """,
    )
    before = tree(work)
    async with a_gate(work.parent, policy_of(writes="ask"), working_dir=work) as gate:
        assert not await gate.ledger.questions()
        again = await gate.call("shell.run", {"argv": ["sh", "-c", "echo two >> old"]}, request_id="once", wait=False)
    assert (again.status, code_of(again), tree(work)) == (Status.EXPIRED, 1016, before)


async def test_what_was_written_and_refused_is_what_the_record_says_of_the_decision(work: Path) -> None:
    async with a_gate(work.parent, policy_of(), working_dir=work) as gate:
        outcome = await sh(gate, "echo x > denied.txt")
        again = await gate.result(outcome.call_id)
        [row] = rows(gate, "SELECT decision FROM audit_log")
    assert again is not None
    for told in (outcome, again):
        assert (told.to_json()["decision"], told.reasons[0].layer) == ("deny", "guard")
    assert row["decision"] == "deny"


@pytest.mark.parametrize(
    "script",
    [
        "mkdir -p a/b/c; ln -s ../../../sub a/b/c/near; ln -s near/../../../etc/passwd a/b/c/far",
        "ln -s . here; ln -s here/denied/x there",
        "ln -s . here; ln -s here/private/x there",
    ],
)
async def test_a_link_is_judged_by_where_it_really_leads(work: Path, script: str) -> None:
    policy = policy_of()
    policy["tools"]["fs.write"]["deny_paths"].append("./private/**")
    async with a_gate(work.parent, policy, working_dir=work) as gate:
        before = tree(work)
        outcome = await sh(gate, script)
    assert (outcome.status, code_of(outcome)) == (Status.DENIED, 1002), outcome
    assert tree(work) == before


async def test_a_link_through_a_link_that_was_there_before_is_judged_by_its_end(work: Path) -> None:
    (work / "here").symlink_to(".")
    policy = policy_of()
    policy["tools"]["fs.write"]["deny_paths"].append("./private/**")
    async with a_gate(work.parent, policy, working_dir=work) as gate:
        outcome = await sh(gate, "ln -s here/private/x there")
        allowed = await sh(gate, "ln -s here/old there")
    assert (outcome.status, code_of(outcome)) == (Status.DENIED, 1002), outcome
    assert allowed.status is Status.SUCCESS, allowed


@pytest.mark.parametrize("depth", [600, 6_000])
async def test_directories_too_deep_to_be_read_are_refused_and_leave_nothing(
    work: Path, monkeypatch: pytest.MonkeyPatch, depth: int
) -> None:
    scratch = work.parent / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(scratch))
    script = f"import os\nfor _ in range({depth}): os.mkdir('d'); os.chdir('d')"
    async with a_gate(work.parent, policy_of(), working_dir=work) as gate:
        outcome = await gate.call("shell.run", argv=["python3", "-c", script])
    assert (outcome.status, code_of(outcome)) == (Status.DENIED, 1006), outcome
    assert not (work / "d").exists()
    assert os.listdir(scratch) == []


async def test_a_command_leaves_no_layer_behind_whatever_modes_it_gave(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = work.parent / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(scratch))
    async with a_gate(work.parent, policy_of(), working_dir=work) as gate:
        outcome = await sh(gate, "mkdir -p a/b; touch a/b/c; chmod 500 a/b; mkdir z; chmod 0 z; rm -r sub")
    assert outcome.status is Status.SUCCESS, outcome
    assert os.listdir(scratch) == []


async def test_a_directory_is_closed_after_and_opened_before_what_is_done_in_it(work: Path) -> None:
    async with a_gate(work.parent, policy_of(rules=REVERTING), working_dir=work, agent=ADMIN) as gate:
        closed = await sh(gate, "echo y > sub/y; chmod 555 sub")
        assert closed.status is Status.SUCCESS, closed
        assert (work / "sub").stat().st_mode & 0o777 == 0o555
        back = await gate.call("gate.revert", call_id=closed.call_id)
    assert back.status is Status.SUCCESS, back
    assert os.listdir(work / "sub") == ["x"]


async def test_a_read_only_directory_that_a_command_removes_leaves_nothing(work: Path) -> None:
    (work / "sub").chmod(0o555)
    async with a_gate(work.parent, policy_of(), working_dir=work) as gate:
        outcome = await sh(gate, "chmod 755 sub; rm -r sub")
    assert outcome.status is Status.SUCCESS, outcome
    assert sorted(os.listdir(work)) == ["gone", "old"]


async def test_a_cache_that_goes_with_its_directory_is_judged_and_comes_back_with_it(work: Path) -> None:
    (work / "sub" / "__pycache__").mkdir()
    (work / "sub" / "__pycache__" / "kept").write_text("kept\n")
    before = tree(work)
    denying = [{"pattern": "fs.write(*/kept)", "action": "deny"}]
    async with a_gate(work.parent, policy_of(rules=denying), working_dir=work, name="one.db") as gate:
        denied = await sh(gate, "rm -r sub")
        assert code_of(denied) == 1001, denied
        assert tree(work) == before
    async with a_gate(work.parent, policy_of(rules=REVERTING), working_dir=work, name="two.db", agent=ADMIN) as gate:
        removed = await sh(gate, "rm -r sub")
        back = await gate.call("gate.revert", call_id=removed.call_id)
    assert back.status is Status.SUCCESS, back
    assert tree(work) == before


@pytest.mark.parametrize(
    "script",
    [
        "echo x > .git/config",
        "mkdir .git/hooks; echo x > .git/hooks/pre-commit",
        "mkdir .git/HOOKS; echo x > .git/HOOKS/pre-commit",
        "echo ../evil > .git/commondir",
        "mkdir -p .git/worktrees/one; echo ../../../evil > .git/worktrees/one/commondir",
    ],
)
async def test_no_wildcard_gives_leave_to_write_what_steers_git(work: Path, script: str) -> None:
    (work / ".git").mkdir()
    policy = policy_of()
    policy["tools"]["fs.write"]["allow_paths"].append("./.git/**")
    async with a_gate(work.parent, policy, working_dir=work) as gate:
        fine = await sh(gate, "echo x > .git/HEAD")
        outcome = await sh(gate, script)
    assert fine.status is Status.SUCCESS, fine
    assert (outcome.status, code_of(outcome)) == (Status.DENIED, 1002), outcome
    assert "steers what git runs" in str(outcome.error)
    assert os.listdir(work / ".git") == ["HEAD"]


async def test_a_pipe_in_what_a_command_may_read_is_no_way_out(work: Path) -> None:
    os.mkfifo(work / "pipe")
    policy = policy_of()
    policy["tools"]["fs.write"]["allow_paths"] = ["./out/**"]
    end = os.open(work / "pipe", os.O_RDWR | os.O_NONBLOCK)
    try:
        async with a_gate(work.parent, policy, working_dir=work) as gate:
            outcome = await sh(gate, "echo out > pipe")
        assert outcome.data["return_code"] != 0, outcome
        with pytest.raises(BlockingIOError):
            os.read(end, 10)
    finally:
        os.close(end)


async def test_a_million_empty_files_are_not_nothing(work: Path) -> None:
    script = "import itertools\nfor number in itertools.count(): open(str(number), 'w').close()"
    async with a_gate(work.parent, policy_of(max_changed_bytes=1_000_000), working_dir=work) as gate:
        outcome = await gate.call("shell.run", argv=["python3", "-c", script])
    assert (outcome.status, code_of(outcome)) == (Status.ERROR, 2005), outcome
    assert "max_changed_bytes" in str(outcome.error)


async def test_a_directory_keeps_the_set_gid_bit_that_it_had(work: Path) -> None:
    (work / "sub").chmod(0o2775)
    async with a_gate(work.parent, policy_of(), working_dir=work) as gate:
        kept = await sh(gate, "chmod 2755 sub")
        gained = await sh(gate, "chmod 6755 sub")
    assert kept.status is Status.SUCCESS, kept
    assert (gained.status, code_of(gained)) == (Status.DENIED, 1002), gained
    assert (work / "sub").stat().st_mode & 0o7777 == 0o2755


@pytest.mark.parametrize("name", ["config.yaml", "policy.yaml", "permissions.yaml"])
async def test_no_agent_leaves_a_policy_where_a_later_start_would_load_it(work: Path, name: str) -> None:
    ours = {"config.yaml": "gateway: {}", "policy.yaml": "version: 1\nrules: []", "permissions.yaml": "rules: []"}[name]
    async with a_gate(work.parent, policy_of(), working_dir=work) as gate:
        by_command = await sh(gate, f"printf '{ours}' > {name}")
        by_tool = await gate.call("fs.write", path=name, content=ours)
        renamed = await sh(gate, f"printf '{ours}' > other; mv other {name}")
        unrelated = await gate.call("fs.write", path=name, content="colour: blue\n")
        pieces = [
            await gate.call("fs.write", {"path": name, "content": text, "mode": "append"})
            for text in ("gate", "way: {}\n")
        ]
    assert [code_of(outcome) for outcome in (by_command, by_tool, renamed, unrelated)] == [1021, 1021, 1021, None]
    assert [code_of(outcome) for outcome in pieces] == [None, 1021]
    assert (work / name).read_text() == "colour: blue\ngate"
