"""What must hold of the states that a ledger tells of, however the calls that made them met."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import jsonpatch
import orjson

from agent_gate.config import load_policy
from agent_gate.history.rejudge import Rejudge
from agent_gate.history.replay import replay_transitions
from agent_gate.history.verify import verify
from agent_gate.ledger.sqlite.reader import SqliteReader, open_reader
from agent_gate.model.tool import Json
from agent_gate.policy.documents import place_of, value_at
from agent_gate.policy.judge import Judge
from agent_gate.ports.tools import Transition
from agent_gate.services.state import StateService
from agent_gate.toolkit.decorators import REGISTERED

OWN: Mapping[str, Transition] = {
    registered.declaration.name: registered.transition
    for registered in StateService().registered_tools()
    if registered.transition
}


def state_problems(db: Path, policy: Mapping[str, Json], *tools: Any) -> list[str]:
    """Everything that is wrong, with `tools` the transitions of the calls' own."""
    registered_tools = [getattr(each, REGISTERED) for each in tools]
    transitions = {**OWN, **{registered.declaration.name: registered.transition for registered in registered_tools}}
    found = list(map(str, verify(db).problems))
    with closing(open_reader(db)) as reader:
        for (project,) in reader.connection.execute("SELECT project FROM heads").fetchall():
            found += _of_chain(reader, project)
            found += map(str, replay_transitions(reader, project, transitions.get))
        rejudge, judge = Rejudge(reader), Judge(load_policy(dict(policy)))
        for call in rejudge.calls():
            again = rejudge.verdict(call, judge, as_it_was=True).decision
            if again is not call.decision:
                found.append(
                    f"call {call.call_id} was judged {call.decision} and is {again} on the state that it names"
                )
    return found


def _of_chain(reader: SqliteReader, project: str) -> Iterator[str]:
    """Each change follows the one before it and says how; nothing names a state that was not there yet."""
    documents = _documents(reader, project)
    version = 0
    rows = reader.connection.execute(
        "SELECT seq, kind, tool, status, body FROM entries WHERE project = ? AND body LIKE '%\"facts\":%' ORDER BY seq",
        (project,),
    ).fetchall()
    for seq, kind, tool, status, text in rows:
        body = orjson.loads(text)
        judged_on = body["facts"].get("state_version", 0)
        if judged_on > version:
            yield f"entry {seq} was judged on version {judged_on}, and {version} was the last"
        if kind == "performing" and judged_on not in (0, version):
            yield f"intent {seq} stands on version {judged_on}, and {version} was the last"
        if kind != "settled" or "state_version" not in body:
            continue
        if "state_hash" not in body:
            if body["state_version"] != judged_on:
                yield f"entry {seq} saw version {body['state_version']} and was judged on {judged_on}"
            if tool == "state.get" and status == "success":
                seen = value_at(documents[judged_on], place_of(body["args"].get("path", "")))
                if seen != body["data"]:
                    yield f"entry {seq} read {body['data']} where version {judged_on} has {seen}"
            continue
        if (body["state_version"], judged_on) != (version + 1, version):
            yield f"entry {seq} made version {body['state_version']} of {judged_on}, and {version} was the last"
        version += 1
        if jsonpatch.apply_patch(documents[version - 1], body["state_diff"]) != documents[version]:
            yield f"the difference of entry {seq} does not lead from version {version - 1} to {version}"
    (last,) = reader.connection.execute("SELECT state_version FROM heads WHERE project = ?", (project,)).fetchone()
    if (last, len(documents)) != (version, version + 1):
        yield f"{version} changes, {len(documents) - 1} states, and the head has version {last}"


def _documents(reader: SqliteReader, project: str) -> dict[int, Any]:
    (initial,) = reader.connection.execute("SELECT initial_state FROM heads WHERE project = ?", (project,)).fetchone()
    rows = reader.connection.execute(
        "SELECT version, data FROM snapshots JOIN blobs ON hash = document WHERE project = ?", (project,)
    ).fetchall()
    return {0: orjson.loads(initial) if initial else {}, **{version: orjson.loads(data) for version, data in rows}}
