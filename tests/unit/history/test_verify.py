"""Verification is exact where it is fast, quiet while others write, and says what it could not check."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_gate.history.erase import erase_call
from agent_gate.history.findings import FINDINGS_MAX, Finding, Findings, Report
from agent_gate.history.verify import verify
from agent_gate.history.verify_chain import WITH_SIGNATURES, is_signed_as
from agent_gate.history.verify_contents import has_data
from agent_gate.ledger.sqlite.ledger import SqliteLedger
from agent_gate.model.codec import canonical, restore, sha256_hex
from agent_gate.model.entry import Draft, Kind
from agent_gate.model.errors import GateError
from agent_gate.model.moment import iso
from agent_gate.model.record import undo_blob
from agent_gate.model.work import KeepBlob, Open, Work
from tests.unit.history.made import IDS, START, Made, SteppingClock, gate_at, ledger_of

TEXTS = st.text(st.sampled_from('ab"\\,[]{}:\n é')) | st.sampled_from(['"signatures":', '"data":', "x", 'a","b'])
VALUES = st.recursive(
    st.none() | st.integers(-9, 9) | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(TEXTS | st.sampled_from(["signatures", "data", "args"]), inner, max_size=3)
    ),
    max_leaves=8,
)


def tamper(path: Path, sql: str, *values: object) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(sql, values)


@given(
    st.sampled_from(sorted(WITH_SIGNATURES)),
    st.lists(TEXTS.filter(bool), max_size=3),
    st.none() | TEXTS | st.lists(TEXTS, max_size=3).map("\n".join),
    st.dictionaries(TEXTS | st.sampled_from(["args", "data"]), VALUES, max_size=3),
)
def test_the_fast_look_at_signatures_agrees_with_parsing(
    kind: str, signatures: list[str], column: str | None, others: dict[str, Any]
) -> None:
    body = canonical({**others, "signatures": signatures}).decode()
    joined = "\n".join(signatures) or None
    assert is_signed_as(kind, joined, body)
    assert is_signed_as(kind, column, body) is (column == joined)


@given(st.none() | TEXTS, st.dictionaries(TEXTS | st.sampled_from(["args", "data"]), VALUES, max_size=3))
def test_an_entry_without_signatures_has_none_in_the_column_whatever_its_data_holds(
    column: str | None, fields: dict[str, Any]
) -> None:
    fields.pop("signatures", None)
    assert is_signed_as("effect", column, canonical(fields).decode()) is (column is None)


@given(
    st.none() | st.dictionaries(TEXTS, VALUES, max_size=3),
    st.lists(TEXTS, max_size=2),
    st.booleans(),
    st.booleans(),
    VALUES,
)
def test_the_fast_look_for_a_result_agrees_with_parsing(
    args: dict[str, Any] | None, aliases: list[str], costs: bool, holds: bool, data: object
) -> None:
    fields: dict[str, Any] = {"decision": "allow", "output_hash": "0"}
    if aliases:
        fields["aliases"] = aliases
    if args is not None:
        fields["args"] = args
    if costs:
        fields["cost"] = 1.5
    if holds:
        fields["data"] = data
    body = canonical(fields)
    assert has_data(body.decode()) is ("data" in restore(body))


async def test_a_live_writer_causes_no_false_alarm(tmp_path: Path) -> None:
    async with gate_at(tmp_path / "a.db") as gate:

        async def write() -> None:
            for _ in range(40):
                await gate.call("echo", text="x")

        writers = asyncio.gather(*(write() for _ in range(8)))
        reports: list[Report] = []
        while not writers.done():
            reports.append(await asyncio.to_thread(verify, tmp_path / "a.db"))
        await writers
    assert len(reports) > 1
    assert [report for report in reports if not report.ok] == []


def test_verifying_changes_and_creates_nothing(copy: Made) -> None:
    def content() -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in copy.db.parent.rglob("*") if path.is_file()}

    before = content()
    assert verify(copy.db).ok
    assert content() == before


def test_a_run_is_checked_by_its_own_entries(made: Made) -> None:
    report = verify(made.db, run_id=made.run_id)
    assert (report.ok, report.entries, report.projects) == (True, 6, 1)


def test_a_run_that_does_not_exist_is_an_error_of_its_own(made: Made) -> None:
    with pytest.raises(GateError) as unknown:
        verify(made.db, run_id="nothing")
    assert unknown.value.code == 4001


def test_an_anchor_that_is_named_must_exist(made: Made) -> None:
    with pytest.raises(GateError) as missing:
        verify(made.db, anchor=made.db.with_name("elsewhere"))
    assert missing.value.code == 5001


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("UPDATE entries SET tool = 'x' WHERE call_id = :call", "project `default`, entry 1: the entry is not the one"),
        ("DELETE FROM entries WHERE call_id = :call", "project `default`, entry 2: entry 1 before it is missing"),
        ("UPDATE entries SET body = '{}' WHERE call_id = :call", "project `default`, entry 1: the body is not the one"),
        ("UPDATE entries SET signature = 'x' WHERE call_id = :call", "the column `signature` differs"),
        ("UPDATE entries SET seq = 'x' WHERE call_id = :call", "its number in the chain is not a number"),
        ("UPDATE entries SET body = CAST(body AS BLOB) WHERE call_id = :call", "a value that is never written"),
        ("UPDATE entries SET tool = CAST(x'ff' AS TEXT) WHERE call_id = :call", "the database cannot be read further"),
        ("DROP TABLE entries", "the table `entries` is gone"),
    ],
)
def test_a_finding_says_where_and_what(copy: Made, sql: str, told: str) -> None:
    tamper(copy.db, sql.replace(":call", f"'{copy.calls['read']}'"))
    report = verify(copy.db)
    assert not report.ok
    assert any(told in str(finding) for finding in report.problems), report.problems
    assert {finding["code"] for finding in report.to_json()["problems"]} == {5004}


def test_a_body_that_was_erased_only_before_the_entry_was_written_is_broken(copy: Made) -> None:
    """An erase entry speaks for what stood in the chain before it."""

    async def write_after_erasing() -> None:
        async with gate_at(copy.db) as gate:
            await erase_call(ledger_of(gate), copy.calls["read"], by="anna", clock=gate.clock, ids=IDS)
            await gate.call("echo", text="later")

    asyncio.run(write_after_erasing())
    assert verify(copy.db).ok
    last = "id = (SELECT max(id) FROM entries)"
    tamper(copy.db, f"UPDATE entries SET call_id = ?, body = NULL, signature = NULL WHERE {last}", copy.calls["read"])
    assert any("no erase entry names it" in finding.what for finding in verify(copy.db).problems)


def test_a_signature_that_outlives_its_erased_body_is_found(copy: Made) -> None:
    tamper(copy.db, "UPDATE entries SET signature = 'x' WHERE call_id = ?", copy.calls["erased"])
    assert {finding.what for finding in verify(copy.db).problems} == {"the body was erased, but not its signature"}


def test_the_result_of_an_erased_call_must_not_be_there(copy: Made) -> None:
    tamper(copy.db, "INSERT INTO blobs VALUES ('output:' || ?, x'22')", copy.calls["erased"])
    assert [finding.what for finding in verify(copy.db).problems] == [
        "the call was erased, but the call's result is still there"
    ]


@pytest.mark.parametrize(
    ("damage", "found"),
    [
        ("SELECT 1", []),
        ("UPDATE blobs SET data = x'00'", ["what was kept to undo the call is not the one that was recorded"]),
        ("DELETE FROM blobs", ["what was kept to undo the call is missing"]),
    ],
)
async def test_what_was_kept_to_undo_a_call_is_checked(tmp_path: Path, damage: str, found: list[str]) -> None:
    ledger = SqliteLedger(tmp_path / "a.db", SteppingClock(), IDS)
    body = canonical(
        {"instance": ledger.instance, "kept_hash": sha256_hex(b"before"), "salt": "s", "signatures": ["t"]}
    )
    draft = Draft(Kind.PERFORMING, iso(START), body, "c", tool="t", signature="t")
    await ledger.commit(Work("default", (draft,), (Open("call", "c"), KeepBlob(undo_blob("c"), b"before"))))
    await ledger.close()
    tamper(tmp_path / "a.db", damage)
    assert [finding.what for finding in verify(tmp_path / "a.db").problems] == found


def test_a_report_names_a_bounded_number_of_findings_and_counts_the_rest() -> None:
    findings = Findings()
    for seq in range(FINDINGS_MAX + 5):
        findings.add("p", seq, "wrong\nhere")
    assert (len(findings.kept), findings.count) == (FINDINGS_MAX, FINDINGS_MAX + 5)
    assert findings.kept[0] == Finding("p", 0, "wrong here")


def test_a_report_is_plain_json() -> None:
    report = Report(False, 3, 1, 0, (Finding("p", 2, "wrong"), Finding(None, None, "gone")), 4, {"p": 1}, "ok")
    assert report.to_json() == {
        "ok": False,
        "entries": 3,
        "projects": 1,
        "erased": 0,
        "anchor": "ok",
        "unanchored": {"p": 1},
        "problems": [
            {"code": 5004, "name": "storage_integrity", "project": "p", "seq": 2, "what": "wrong"},
            {"code": 5004, "name": "storage_integrity", "what": "gone"},
        ],
        "more_problems": 4,
    }


@pytest.mark.parametrize(
    ("signatures", "column"),
    [
        (["a", "b"], 'a","b'),
        (['a"b'], 'a\\"b'),
        (["a\\b"], "a\\\\b"),
        (['a","b'], 'a\\",\\"b'),
    ],
)
def test_a_forged_column_that_reads_like_the_bodys_text_is_not_its_signatures(
    signatures: list[str], column: str
) -> None:
    """The fast look compares text: what would have to be escaped there must not pass as if it had been."""
    body = canonical({"signatures": signatures}).decode()
    assert f'["{column}"]' in body
    assert not is_signed_as("settled", column, body)
    assert is_signed_as("settled", "\n".join(signatures), body)
