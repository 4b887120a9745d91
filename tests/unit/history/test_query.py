"""Questions about the past find what was recorded, newest first, and nothing else."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agent_gate import run_plan
from agent_gate.compat import AuditEntry, get_audit_log
from agent_gate.history.query import audit, call, moment_since, pending, runs
from agent_gate.ledger.sqlite.reader import open_reader
from agent_gate.model.errors import GateError
from agent_gate.model.moment import epoch, iso
from agent_gate.model.plan import Plan, PlanStep
from agent_gate.ports.reading import Reader
from tests.unit.history.made import START, Made, SteppingClock, gate_at

NOW = START + 10


def tools(reader: Reader, **wanted: Any) -> list[str | None]:
    return [line.tool for line in audit(reader, now=NOW, **wanted)]


def test_the_last_calls_come_newest_first(made: Made, reader: Reader) -> None:
    lines = audit(reader, now=NOW)
    assert [line.at for line in lines] == sorted((line.at for line in lines), reverse=True)
    assert len(lines) == len(made.calls) + 3
    assert [line.tool for line in lines[:4]] == ["door.open", "count.up", "echo", "state.revert"]
    assert audit(reader, now=NOW, limit=4) == lines[:4]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({"tool": "mail.send"}, ["mail.send", "mail.send"]),
        ({"tool": "mail.*"}, ["mail.send", "mail.send"]),
        ({"tool": "[!a-mo-z]*.write"}, ["note.write", "note.write"]),
        ({"tool": "state.???"}, ["state.set"]),
        ({"tool": "no.such"}, []),
        ({"status": "denied", "project": "home"}, ["mail.send"]),
        ({"status": "expired"}, []),
        ({"agent": "rob*", "tool": "broken"}, ["broken"]),
        ({"agent": "nobody"}, []),
        ({"project": "_gate"}, ["echo"]),
    ],
)
def test_calls_are_found_by_what_is_known_of_them(reader: Reader, wanted: dict[str, str], found: list[str]) -> None:
    assert tools(reader, **wanted) == found


def test_calls_are_found_by_when_they_ended(reader: Reader) -> None:
    lines = audit(reader, now=NOW)
    middle = lines[len(lines) // 2]
    assert audit(reader, now=NOW, since=middle.at) == lines[: len(lines) // 2 + 1]
    assert audit(reader, now=NOW, since="1h") == lines
    assert audit(reader, now=NOW, since="1s") == []


def test_a_line_tells_how_the_call_ended(made: Made, reader: Reader) -> None:
    lines = {line.call_id: line.to_json() for line in audit(reader, now=NOW)}
    refused, read, erased = (lines[made.calls[name]] for name in ("refused", "read", "erased"))
    assert refused | {"at": "", "seq": 0} == {
        "at": "",
        "project": "home",
        "seq": 0,
        "call_id": made.calls["refused"],
        "request_id": "mail-eve",
        "agent_id": "robot",
        "tool": "mail.send",
        "signatures": ["mail.send(eve)"],
        "status": "denied",
        "decision": "ask",
        "resolution": "denied",
        "resolved_by": "anna",
        "error": refused["error"],
    }
    assert refused["error"]["code"] == 1015
    assert read["request_id"] == made.calls["read"]
    assert (erased["erased"], erased["status"], erased["signatures"], "decision" in erased) == (
        True,
        "success",
        [],
        False,
    )


@pytest.mark.parametrize(
    "wanted", [{"limit": 0}, {"limit": -1}, {"status": "fine"}, {"since": "soon"}, {"since": ""}, {"since": "5y"}]
)
def test_a_question_that_makes_no_sense_gets_a_coded_error(reader: Reader, wanted: dict[str, Any]) -> None:
    with pytest.raises(GateError) as refused:
        audit(reader, now=NOW, **wanted)
    assert refused.value.code == 2002


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("90s", NOW - 90),
        ("30m", NOW - 1800),
        ("2h", NOW - 7200),
        ("1.5 h", NOW - 5400),
        ("7d", NOW - 604_800),
        ("2w", NOW - 1_209_600),
        ("2026-11-15", epoch("2026-11-15T00:00:00Z")),
        ("2026-11-15T08:00:00Z", epoch("2026-11-15T08:00:00Z")),
        ("2026-11-15T08:00:00", epoch("2026-11-15T08:00:00Z")),
        ("2026-11-15T08:00:00+02:00", epoch("2026-11-15T06:00:00Z")),
    ],
)
def test_since_is_a_moment_or_a_duration(text: str, moment: float) -> None:
    assert moment_since(text, NOW) == moment


def test_the_audit_log_has_the_documents_records_with_moments_as_floats(made: Made, reader: Reader) -> None:
    log = get_audit_log(reader)
    assert [entry.timestamp for entry in log] == sorted((entry.timestamp for entry in log), reverse=True)
    approved = next(entry for entry in log if entry.request_id == "mail-bob")
    assert approved == AuditEntry(
        request_id="mail-bob",
        timestamp=approved.timestamp,
        tool_name="mail.send",
        args={"to": "bob"},
        signature="mail.send(bob)",
        decision="ask",
        resolution="approved",
        resolved_by="anna",
        resolved_at=approved.resolved_at,
        execution_result="sent to bob",
        agent_id="robot",
    )
    assert START < (approved.resolved_at or 0) <= approved.timestamp < NOW


def test_the_audit_log_keeps_to_its_limit(reader: Reader) -> None:
    assert get_audit_log(reader, limit=3) == get_audit_log(reader)[:3]


def test_the_audit_log_shows_large_results_and_what_is_left_of_erased_ones(made: Made, reader: Reader) -> None:
    log = {entry.request_id: entry for entry in get_audit_log(reader)}
    assert log[made.calls["large"]].execution_result == "long" * 10_000
    erased = log[made.calls["erased"]]
    assert (erased.args, erased.signature, erased.decision, erased.execution_result) == ({}, "", "", None)


def test_the_audit_log_of_an_empty_ledger_is_empty(tmp_path: Path) -> None:
    async def look() -> list[AuditEntry]:
        async with gate_at(tmp_path / "a.db"):
            with closing(open_reader(tmp_path / "a.db")) as reader:
                return get_audit_log(reader)

    assert asyncio.run(look()) == []


async def test_pending_shows_what_waits_until_its_deadline(tmp_path: Path) -> None:
    async with gate_at(tmp_path / "a.db") as gate:
        asked = await gate.call("mail.send", to="bob", request_id="r", wait=False)
        with closing(open_reader(tmp_path / "a.db")) as reader:
            assert pending(reader, NOW) == [
                {
                    "call_id": asked.call_id,
                    "request_id": "r",
                    "project": "default",
                    "agent_id": "robot",
                    "tool": "mail.send",
                    "args": {"to": "bob"},
                    "signatures": ["mail.send(bob)"],
                    "reasons": [reason.to_json() for reason in asked.reasons],
                    "expires_at": iso(asked.expires_at or 0),
                }
            ]
            assert pending(reader, NOW + 86_400) == []


def test_a_call_is_told_by_all_its_entries(made: Made, reader: Reader) -> None:
    kinds = [entry.kind for entry in call(reader, made.calls["approved"])]
    assert kinds == ["held", "answered", "performing", "settled"]


def test_an_unknown_call_is_a_coded_error(reader: Reader) -> None:
    with pytest.raises(GateError) as unknown:
        call(reader, "nothing")
    assert unknown.value.code == 2002


def test_runs_have_the_columns_of_the_document(made: Made, reader: Reader) -> None:
    (run,) = runs(reader)
    assert (run["run_id"], run["status"], run["mode"]) == (made.run_id, "failed", "run")
    assert (run["total_steps"], run["completed_steps"], run["denied_steps"], run["failed_steps"]) == (3, 2, 1, 0)
    assert '"name":"tour"' in run["plan_json"]
    assert run["created_at"] < run["completed_at"]


async def test_runs_come_newest_first(tmp_path: Path) -> None:
    clock = SteppingClock()
    async with gate_at(tmp_path / "a.db", clock) as gate:
        plan = Plan((PlanStep("echo", {"text": "a"}),))
        ids = [(await run_plan(gate, plan)).run_id for _ in range(3)]
        with closing(open_reader(tmp_path / "a.db")) as reader:
            assert [run["run_id"] for run in runs(reader, limit=2)] == [ids[2], ids[1]]
