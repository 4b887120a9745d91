"""`agent-gate verify` checks that the ledger still is what was written; `agent-gate replay` computes a run again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from agent_gate.config import load_policy
from agent_gate.doors.cli import screen
from agent_gate.doors.cli.ledgers import database_path, existing_database, reading, writing
from agent_gate.doors.cli.options import DEFAULT_DB, AsJson, Db, commands, examples
from agent_gate.doors.codes import Exit
from agent_gate.history.findings import Report
from agent_gate.history.replays import Replayed, replay_run
from agent_gate.history.report import run_of
from agent_gate.history.verify import verify as verify_ledger
from agent_gate.model.visible import visible
from agent_gate.ports.ledger import Ledger
from agent_gate.ports.surroundings import Clock, Ids
from agent_gate.services.state import StateService
from agent_gate.toolkit.services import installed, transitions_of

app = commands()

ANCHOR_ADVICE = {
    "missing": "its anchor is missing: a cut at the end cannot be seen",
    "empty": "its anchor is empty: a cut at the end cannot be seen",
    "no_key": "the key of its anchor is missing: the anchor cannot be trusted",
}


@app.command(
    epilog=examples(
        "agent-gate verify", "agent-gate verify 01JCZ4…", "agent-gate verify --anchor /mnt/backup/agent-gate.db.anchor"
    )
)
def verify(
    run: Annotated[str | None, typer.Argument(metavar="RUN", help="One run; without it, the whole ledger.")] = None,
    anchor: Annotated[
        Path | None, typer.Option("--anchor", metavar="FILE", help="A copy of the anchor that was kept elsewhere.")
    ] = None,
    db: Db = DEFAULT_DB,
    as_json: AsJson = False,
) -> int:
    """Check that the ledger still is what was written.

    Every hash, chain and table, the schema and the anchor are checked. The exit code is 6 where something is not.
    """
    path = database_path(db)
    with screen.working("verifying the ledger"):
        report = verify_ledger(path, run_id=run, anchor=anchor)
    if as_json:
        screen.print_json(report.to_json())
    else:
        _print(report, db)
    return Exit.SUCCESS if report.ok else Exit.MISMATCH


def _print(report: Report, db: str) -> None:
    word = screen.paint("verified" if report.ok else "broken")
    entries, projects = _entries(report.entries), screen.count(report.projects, "project")
    screen.say(f"{word}  {db}: {entries} in {projects}")
    for finding in report.problems:
        screen.say(f"  {screen.paint('✗', 'red')} {visible(finding)}")
    if report.more_problems:
        screen.say(f"  and {report.more_problems} more")
    notes = [
        f"{screen.count(report.erased, 'body', 'bodies')} erased, as the ledger says itself" if report.erased else "",
        ANCHOR_ADVICE.get(report.anchor, "") if report.ok and report.entries else "",
        *(
            f"the last {_entries(count)} of project `{visible(project)}` not anchored yet"
            for project, count in report.unanchored.items()
        ),
        *(f"{jump}, entry {jump.seq} of `_gate`, {jump.at}" for jump in report.clock_jumps),
        f"and {screen.count(report.more_clock_jumps, 'time')} before" if report.more_clock_jumps else "",
    ]
    for note in filter(None, notes):
        screen.say(screen.paint(f"  {note}", "dim"))


def _entries(number: int) -> str:
    return screen.count(number, "entry", "entries")


@app.command(
    epilog=examples(
        "agent-gate replay 01JCZ4…",
        "agent-gate replay 01JCZ4… --verify",
        "agent-gate replay 01JCZ4… -p stricter.yaml",
    )
)
def replay(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run, or the beginning of its id.")],
    verify: Annotated[bool, typer.Option("--verify", help="Verify the run's entries and the anchor first.")] = False,
    policy: Annotated[
        Path | None, typer.Option("-p", "--policy", metavar="FILE", help="List the verdicts that it would change.")
    ] = None,
    db: Db = DEFAULT_DB,
    as_json: AsJson = False,
) -> int:
    """Replay a run without doing anything, and compare it with the record.

    Recorded results come back; every verdict and every pure step is computed again.
    """
    findings: list[str] = []
    if verify:
        with screen.working("verifying the run"):
            report = verify_ledger(existing_database(db), run_id=_whole_id(db, run))
        findings = [str(problem) for problem in report.problems]
    other = load_policy(policy) if policy else None
    pure = transitions_of([StateService(), *installed()])

    async def work(ledger: Ledger, clock: Clock, ids: Ids) -> Replayed:
        return await replay_run(ledger, run, clock=clock, ids=ids, find=pure.get, other=other)

    with screen.working("replaying the run"):
        replayed = writing(db, work)
    if as_json:
        screen.print_json({**replayed.to_json(), "findings": findings})
    else:
        _print_replayed(replayed, findings)
        if verify and not findings and not replayed.mismatches:
            screen.say("its entries and the anchor are intact")
        if policy:
            changes = screen.count(len(replayed.changes), "verdict")
            screen.say(f"{changes} would change under {visible(policy)}")
    return Exit.MISMATCH if replayed.mismatches or findings else Exit.SUCCESS


def _whole_id(db: str, run: str) -> str:
    with reading(db) as reader:
        return str(run_of(reader, run)["run_id"])


def _print_replayed(replayed: Replayed, findings: list[str]) -> None:
    for finding in findings:
        screen.say(f"{screen.paint('broken')}  {visible(finding)}")
    mismatches = [mismatch for mismatch in replayed.mismatches if mismatch.what not in findings]
    for mismatch in mismatches:
        place = "" if mismatch.step_index is None else f"step {mismatch.step_index + 1}: "
        screen.say(f"{screen.paint('broken')}  {place}{visible(mismatch.what)} ({mismatch.code})")
    for change in replayed.changes:
        place = "" if change.step_index is None else f"step {change.step_index + 1}: "
        screen.say(f"{screen.paint('changed', 'yellow')}  {place}{visible(change.what)}")
    for one in replayed.not_recomputed:
        place = "" if one.step_index is None else f"step {one.step_index + 1}: "
        screen.say(f"{screen.paint('not recomputed', 'yellow')}  {place}{visible(one.why)}")
    steps = screen.count(len(replayed.steps), "step")
    broken = len(findings) + len(mismatches)
    said = f"broken in {screen.count(broken, 'place')}" if broken else "as recorded"
    screen.say(f"{steps} of run {replayed.original_run_id} replayed, {said}")
    left_out = len({one.call_id for one in replayed.not_recomputed})
    if left_out:
        screen.say(f"{screen.count(left_out, 'step')} cannot be recomputed here, which says nothing against the record")
    screen.say(screen.paint(f"nothing was executed; the replay itself is run {replayed.run_id}", "dim"))
