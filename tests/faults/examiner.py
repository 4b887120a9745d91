"""What must hold of a ledger whenever anybody looks, whoever was killed before: read with nothing but sqlite3."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

HEADER = ("agent_id", "at", "call_id", "kind", "project", "request_id", "run_id", "seq", "status", "tool")


@dataclass
class Witness:
    """What was seen from outside the ledger."""

    acts: Path
    outcomes: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """What callers were told, by call id."""
    dead: set[str] = field(default_factory=set)
    """Instances whose process is gone."""

    def hear(self, told: Iterable[Any], *, died: bool = False) -> None:
        """Keep what a program told; `died`: it is gone, and what it had open is in doubt."""
        for message in told:
            match message:
                case {"instance": instance} if died:
                    self.dead.add(instance)
                case {"outcome": outcome}:
                    self.outcomes[outcome["call_id"]] = outcome
                case _:
                    pass

    def lines(self, kind: str) -> Counter[str]:
        text = self.acts.read_text() if self.acts.exists() else ""
        return Counter(line.partition(" ")[2] for line in text.splitlines() if line.startswith(f"{kind} "))


@dataclass
class Call:
    intents: list[dict[str, Any]] = field(default_factory=list)
    endings: list[str] = field(default_factory=list)
    effects: list[str] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)
    tool: str = ""
    token: str = ""
    """What its act and its effect leave in the world."""
    lost: bool = False
    """Settled by whoever found it, not by who performed it."""


class Examiner:
    """Reads each entry once; what it learned of earlier ones it keeps, and holds against later looks."""

    def __init__(self, db: Path, witness: Witness) -> None:
        self._db, self._witness = db, witness
        self._heads: dict[str, tuple[int, bytes]] = {}
        self.calls: dict[str, Call] = {}
        self.entries = 0

    def problems(self, *, at_rest: bool = False) -> list[str]:
        """Everything that is wrong; `at_rest`: no process is alive but the one that settled the past."""
        witness = self._witness
        acts, effects = witness.lines("act"), witness.lines("effect")
        told = list(witness.outcomes.values())
        connection = sqlite3.connect(f"file:{self._db}?mode=ro", uri=True, isolation_level=None)
        try:
            connection.execute("BEGIN")
            return [
                *self._read_on(connection),
                *self._unheard(told),
                *self._without_intent(acts, effects),
                *self._wrongly_ended(),
                *self._still_open(connection, at_rest),
                *self._miscounted(connection),
            ]
        finally:
            connection.close()

    def _read_on(self, connection: sqlite3.Connection) -> Iterable[str]:
        for project, seq, last in connection.execute("SELECT project, seq, hash FROM heads").fetchall():
            yield from self._read_chain(connection, project)
            if self._heads.get(project, (0, bytes(32))) != (seq, last):
                yield f"the head of {project} is not the end of its chain"

    def _read_chain(self, connection: sqlite3.Connection, project: str) -> Iterable[str]:
        count, last = self._heads.get(project, (0, bytes(32)))
        cursor = connection.execute(
            "SELECT * FROM entries WHERE project = ? AND seq >= ? ORDER BY seq", (project, count)
        )
        names = [column[0] for column in cursor.description]
        rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        if count and (not rows or rows.pop(0)["hash"] != last):
            yield f"entry {count} of {project} is no longer what it was"
        for row in rows:
            count += 1
            header = {name: row[name] for name in HEADER} | {"body_hash": sha256(row["body"].encode()).hexdigest()}
            text = json.dumps(header, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
            if (row["seq"], row["prev_hash"], row["body_hash"].hex()) != (count, last, header["body_hash"]):
                yield f"entry {row['seq']} of {project} does not follow {count - 1}"
            last = sha256(last + text.encode()).digest()
            if last != row["hash"]:
                yield f"entry {count} of {project} has another hash"
            self._learn(row)
        self._heads[project] = count, last

    def _learn(self, row: Mapping[str, Any]) -> None:
        self.entries += 1
        if row["call_id"] is None:
            return
        call = self.calls.setdefault(row["call_id"], Call())
        call.tool = row["tool"]
        body = json.loads(row["body"])
        call.token = body.get("args", {}).get("token", call.token)
        match row["kind"]:
            case "answered":
                call.answers.append(row["status"])
            case "performing":
                call.intents.append(body)
            case "settled":
                call.endings.append(row["status"])
                call.lost = body.get("error", {}).get("code") == 2007
            case "effect":
                call.effects.append(row["status"])
            case _:
                pass

    def _unheard(self, told: Iterable[Mapping[str, Any]]) -> Iterable[str]:
        """What a caller was told must stand in the ledger, unless it was told that the ledger failed."""
        for outcome in told:
            call = self.calls.get(outcome["call_id"], Call())
            if not 5000 <= outcome.get("code", 0) < 6000 and call.endings != [outcome["status"]]:
                yield f"{outcome} was told, {call.endings} is recorded"

    def _without_intent(self, acts: Counter[str], effects: Counter[str]) -> Iterable[str]:
        intents = Counter(call.token for call in self.calls.values() for _ in call.intents)
        succeeded = {call.token for call in self.calls.values() if call.intents and call.endings == ["success"]}
        yield from (f"{token} acted without intent" for token in acts if not intents[token])
        yield from (f"{token} acted {count} times" for token, count in acts.items() if count > 1)
        yield from (f"{token} has {count} intents" for token, count in intents.items() if count > 1)
        yield from (f"the effect of {token} ran without success" for token in effects if token not in succeeded)
        yield from (f"the effect of {token} ran {count} times" for token, count in effects.items() if count > 1)
        acts_by_now = self._witness.lines("act")
        yield from (f"{token} is a success and never acted" for token in succeeded if not acts_by_now[token])

    def _wrongly_ended(self) -> Iterable[str]:
        for call_id, call in self.calls.items():
            if len(call.endings) > 1:
                yield f"{call_id} is settled {len(call.endings)} times"
            if len(call.effects) > (call.endings == ["success"]):
                yield f"{call_id} is {call.endings} and has effects {call.effects}"
            if call.tool == "line.ask" and call.intents and call.answers != ["approved"]:
                yield f"{call_id} was performed, and the answers were {call.answers}"
            if call.lost and call.intents[0]["instance"] not in self._witness.dead:
                yield f"{call_id} of a live process was settled as unknown"

    def _still_open(self, connection: sqlite3.Connection, at_rest: bool) -> Iterable[str]:
        open_calls = {row[0]: row[1] for row in connection.execute("SELECT id, instance FROM open_work").fetchall()}
        for call_id, call in self.calls.items():
            if not call.intents:
                continue
            if bool(call.endings) == (call_id in open_calls):
                yield f"{call_id} is {call.endings or 'not settled'}, and open: {call_id in open_calls}"
            if not call.endings and (at_rest or call.intents[0]["instance"] in self._witness.dead):
                yield f"{call_id} of a dead process was left open"
        for call_id, instance in connection.execute("SELECT call_id, instance FROM outbox").fetchall():
            if at_rest or instance in self._witness.dead:
                yield f"the effect of {call_id} was left open"
        if at_rest:
            for call_id, call in self.calls.items():
                if call.tool == "line.append" and call.endings == ["success"] and len(call.effects) != 1:
                    yield f"{call_id} succeeded and its effect is recorded as {call.effects}"

    def _miscounted(self, connection: sqlite3.Connection) -> Iterable[str]:
        row = connection.execute(
            "SELECT b.data FROM heads h JOIN snapshots s ON s.snapshot_id = h.snapshot_id"
            " JOIN blobs b ON b.hash = s.document WHERE h.project = 'default'"
        ).fetchone()
        counted = json.loads(row[0])["n"] if row else 0
        added = sum(call.tool == "counter.add" and call.endings == ["success"] for call in self.calls.values())
        if counted != added:
            yield f"{added} transitions succeeded, and the counter says {counted}"
