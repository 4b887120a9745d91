"""Verification: whether a ledger still is what was written, by its chains, its contents and its anchor."""

from __future__ import annotations

from contextlib import closing, suppress
from pathlib import Path

from agent_gate.history.archive import open_archive
from agent_gate.history.clock_jumps import ClockJump, clock_jumps
from agent_gate.history.erasures import Erasures
from agent_gate.history.findings import FINDINGS_MAX, ODD_VALUES, Findings, Report
from agent_gate.history.rebuilt import Rebuilt
from agent_gate.history.verify_chain import End, Walk
from agent_gate.history.verify_contents import Contents
from agent_gate.history.verify_side_tables import SideTables
from agent_gate.model.entry import GATE_PROJECT
from agent_gate.model.errors import ReplayError
from agent_gate.ports.examining import Anchored, Heads, Unreadable
from agent_gate.ports.reading import NoLedgerError, Reader
from agent_gate.ports.storage import Storage

PAGE_FINDINGS_MAX = 100
CLOCK_JUMPS_SHOWN_MAX = 10
ALWAYS_THERE = ("default", GATE_PROJECT)


def verify(storage: Storage | Path | str, *, run_id: str | None = None, anchor: Path | str | None = None) -> Report:
    """Check a ledger, or one run of it; `anchor` names a copy of the anchor that was kept elsewhere.

    The anchor is read first and the database after it, at one moment: what a live writer adds in between
    is an unanchored tail and no false alarm.
    """
    if isinstance(storage, str | Path):
        storage = open_archive(storage)
    anchored = storage.anchored(None if anchor is None else Path(anchor))
    try:
        reader = storage.reader()
    except NoLedgerError as error:
        if not anchored.heads:
            raise
        return _lost(error, anchored)
    with closing(reader):
        return examine(reader, anchored, run_id)


def _lost(error: NoLedgerError, anchored: Anchored) -> Report:
    findings = Findings()
    findings.add(None, None, error.problem.detail)
    for project, (count, _) in anchored.heads.items():
        findings.add(project, None, f"the {count} entries that were anchored are gone")
    return Report(False, 0, 0, 0, tuple(findings.kept), anchor=anchored.status)


def examine(reader: Reader, anchored: Anchored, run_id: str | None = None) -> Report:
    """All checks on an open reader; whatever the ledger holds becomes a finding, never an exception."""
    findings = Findings()
    examination = _Examination(reader, findings, anchored, run_id)
    with reader.one_moment():
        try:
            examination.run()
        except Unreadable as error:
            findings.add(None, None, f"the database cannot be read further: {error.why}")
    walk, jumps = examination.walk, examination.jumps
    ends = walk.ends if walk else {}
    if anchored.wrong and (anchored.status == "broken" or ends):
        findings.add(None, None, anchored.wrong)
    return Report(
        ok=not findings.count,
        entries=walk.entries if walk else 0,
        projects=len(ends),
        erased=walk.erased if walk else 0,
        problems=tuple(findings.kept),
        more_problems=findings.count - len(findings.kept),
        unanchored={} if anchored.wrong else _tails(ends, anchored.heads),
        anchor=anchored.status,
        clock_jumps=tuple(jumps[:CLOCK_JUMPS_SHOWN_MAX]),
        more_clock_jumps=len(jumps[CLOCK_JUMPS_SHOWN_MAX:]),
    )


def _tails(ends: dict[str, End], heads: Heads) -> dict[str, int]:
    beyond = {project: end.seq - heads.get(project, (0, b""))[0] for project, end in ends.items()}
    return {project: count for project, count in beyond.items() if count > 0 and isinstance(project, str)}


class _Examination:
    def __init__(self, reader: Reader, findings: Findings, anchored: Anchored, run_id: str | None) -> None:
        self._reader, self._tables = reader, reader.tables
        self._findings, self._anchored, self._run_id = findings, anchored, run_id
        self.walk: Walk | None = None
        self.jumps: list[ClockJump] = []

    def run(self) -> None:
        tables = self._found_tables()
        if "entries" not in tables:
            self._check_anchored_heads({})
            return
        if self._run_id is not None and not self._tables.has_run(self._run_id):
            raise ReplayError(f"there is no run `{self._run_id}`", suggestion="see `agent-gate list-runs`")
        with suppress(*ODD_VALUES):  # the walk says what is wrong with them
            self.jumps = clock_jumps(self._reader, FINDINGS_MAX)
        whole = self._run_id is None
        contents = Contents(self._tables, self._findings, hash_now=not whole)
        with closing(Rebuilt(self._tables.scratch())) as rebuilt:
            with closing(Erasures(self._tables)) as erasures:
                own = rebuilt if whole else None
                self.walk = Walk(self._tables, self._findings, erasures, contents, self._run_id, own)
                self.walk.run()
            ends = self.walk.ends
            self._check_anchored_heads(ends)
            if "heads" in tables:
                self._check_heads(ends, rebuilt.created)
            if whole:
                self._check_pages()
                SideTables(self._tables, self._findings, rebuilt).check(tables)
        if whole and "blobs" in tables:
            contents.check_blobs()

    def _found_tables(self) -> set[str]:
        """Those that are there; whatever differs from what agent-gate makes is found here."""
        for what in self._tables.schema_findings():
            self._findings.add(None, None, what)
        return self._tables.names()

    def _check_pages(self) -> None:
        """An index that lacks a row, or has one too many, shows decisions another ledger than the chain."""
        for what in self._tables.page_findings(PAGE_FINDINGS_MAX):
            self._findings.add(None, None, what)

    def _check_anchored_heads(self, ends: dict[str, End]) -> None:
        """With a run, only its own chains were walked."""
        for project, (count, hash) in self._anchored.heads.items():
            end = ends.get(project)
            if end is None and self._run_id is not None:
                continue
            if end is None or end.seq < count:
                found = end.seq if end else 0
                self._findings.add(project, None, f"cut short: {count} entries were anchored, {found} are there")
            elif self._tables.hash_at(project, count) != hash:
                self._findings.add(project, count, "it is not the entry that was anchored")

    def _check_heads(self, ends: dict[str, End], created: dict[str, str]) -> None:
        rows = {row[0]: row[1:] for row in self._tables.rows("heads")}
        for project in sorted({*ends, *ALWAYS_THERE} - rows.keys(), key=repr):
            self._findings.add(project, None, "the project has no head")
        for project, (seq, hash, created_at, *rest) in rows.items():
            end = ends.get(project)
            if end is None and self._run_id is not None:
                continue
            end = end or End()
            if (seq, hash) != (end.seq, end.hash):
                self._findings.add(project, None, f"its head names entry {seq}, and its last entry is {end.seq}")
            if self._run_id is None:
                if project not in ALWAYS_THERE and created_at != created.get(project):
                    self._findings.add(project, None, "it was not made when its head says")
                self._check_project(project, end, *rest)

    def _check_project(
        self, project: str, end: End, version: object, snapshot_id: object, status: object, *documents: object
    ) -> None:
        if status != end.status:
            self._findings.add(project, None, f"its status is `{status}`, and its entries say `{end.status}`")
        if documents != (end.initial_state, end.state_schema):
            self._findings.add(project, None, "its initial state or schema is not the one that was recorded")
        if (version, snapshot_id) != (end.state_version, end.snapshot_id) and not self._is_erased_state(
            project, end, version, snapshot_id
        ):
            self._findings.add(
                project, None, f"its state has version {version}, and its entries say {end.state_version}"
            )

    def _is_erased_state(self, project: str, end: End, version: object, snapshot_id: object) -> bool:
        """Tell whether a call whose body was erased made this state, after the last one that entries still tell of."""
        if not isinstance(version, int) or version <= end.state_version:
            return False
        return self._tables.is_erased_state(project, version, snapshot_id)
