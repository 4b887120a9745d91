"""Ledgers of earlier schemas still verify, report and replay."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import pytest

from agent_gate.config import load_policy
from agent_gate.history.policy_try import try_policy
from agent_gate.history.replays import replay_run
from agent_gate.history.report import build_report
from agent_gate.history.verify import verify
from agent_gate.ledger.sqlite.ledger import SqliteLedger
from agent_gate.ledger.sqlite.reader import open_reader
from agent_gate.policy.judge import Judge
from agent_gate.services.contacts import ContactsService
from agent_gate.services.home_assistant.tables import entity_snapshot
from agent_gate.services.state import StateService
from agent_gate.system.clock import RandomIds, SystemClock
from tests.fixtures.record import ENTITY, POLICY, TOKEN

RECORDED = Path(__file__).parents[1] / "fixtures" / "recorded"


def copied(name: str, folder: Path) -> Path:
    for path in RECORDED.glob(f"{name}*"):
        copy = shutil.copytree if path.is_dir() else shutil.copy
        copy(path, folder / path.name)
    return folder / name


@pytest.mark.parametrize("name", sorted(path.name for path in RECORDED.glob("schema-*.db")))
async def test_a_recorded_ledger_verifies_reports_and_replays_as_it_was(name: str, tmp_path: Path) -> None:
    db, clock, ids = copied(name, tmp_path), SystemClock(), RandomIds()
    ledger = SqliteLedger(db, clock, ids)
    with closing(open_reader(db)) as reader:
        (run_id,) = reader.connection.execute("SELECT run_id FROM runs").fetchone()
        (calls,) = reader.connection.execute("SELECT count(*) FROM entries WHERE kind = 'settled'").fetchone()
        report = build_report(reader, run_id, 0.0)
        trial = try_policy(reader, Judge(load_policy(POLICY)))
    pure = {registered.declaration.name: registered.transition for registered in StateService().registered_tools()}
    replayed = await replay_run(ledger, run_id, clock=clock, ids=ids, find=pure.get)
    await ledger.close()
    assert report["summary"]["statuses"] == {"success": 4, "denied": 1}
    assert replayed.mismatches == []
    assert (trial.judged, trial.newly_allowed) == (calls, 0)
    assert verify(db).problems == ()


@pytest.mark.parametrize(
    "name", sorted(path.name for path in RECORDED.glob("schema-*.db") if path.name > "schema-0002.db")
)
async def test_what_services_kept_in_a_recorded_ledger_still_opens(name: str, tmp_path: Path) -> None:
    clock, ids = SystemClock(), RandomIds()
    ledger = SqliteLedger(copied(name, tmp_path), clock, ids)
    token = await ContactsService(ledger, ledger.storage.secret(), clock, ids).resolve_owner_contact_info("lamp_token")
    entities = await entity_snapshot(ledger)
    await ledger.close()
    assert (token, entities) == (TOKEN, [ENTITY])


JUDGED_BEFORE = {
    "rules": [{"pattern": "state.*", "action": "allow"}],
    "defaults": [{"pattern": "lamp.*", "action": "deny"}],
    "boundary": "deny_by_default",
    "approvals": [{"min_cost": 2, "approver_role": "admin"}],
    "declare": {"lamp.off": {"required_roles": ["admin"]}},
}
"""The policy of a run in which approvals by cost softened what a default and the boundary denied."""


async def test_a_run_is_replayed_as_was_judged_then_and_tried_as_is_judged_now(tmp_path: Path) -> None:
    db, clock, ids = copied("judging-1.db", tmp_path), SystemClock(), RandomIds()
    ledger = SqliteLedger(db, clock, ids)
    with closing(open_reader(db)) as reader:
        (run_id,) = reader.connection.execute("SELECT run_id FROM runs").fetchone()
        trial = try_policy(reader, Judge(load_policy(JUDGED_BEFORE)))
    pure = {registered.declaration.name: registered.transition for registered in StateService().registered_tools()}
    replayed = await replay_run(ledger, run_id, clock=clock, ids=ids, find=pure.get)
    tried = await replay_run(ledger, run_id, clock=clock, ids=ids, find=pure.get, other=load_policy(JUDGED_BEFORE))
    await ledger.close()
    assert replayed.mismatches == []
    assert [change.what for change in tried.changes] == [
        "lamp.on(hall): ask would be deny",
        "fan.on(hall): ask would be deny",
    ]
    assert [(flip.was, flip.would_be) for flip in trial.flips] == [("ask", "deny"), ("ask", "deny")]
    assert verify(db).problems == ()


def test_there_is_a_recorded_ledger_of_the_current_schema() -> None:
    from agent_gate.ledger.sqlite.migrate import HEAD  # noqa: PLC0415 -- beside what it is for

    assert (RECORDED / f"schema-{HEAD}.db").is_file()
