"""Files through a whole gate: what lies outside stays as it was and is never told, whatever the outcome."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from agent_gate import ConfigError, Outcome, open_gate
from agent_gate.model.outcome import Status
from tests.attacks.cases import Case
from tests.attacks.runner import CheckFailed
from tests.attacks.swapping import swapped

CHECKS = frozenset({"must_not_contain", "output_must_not_contain", "must_contain", "output_must_contain", "unchanged"})

_FIELDS = {
    "fs.read": {
        "allow_paths": "allow_paths",
        "deny_paths": "deny_paths",
        "max_read_bytes": "max_size_bytes",
        "max_bytes": "max_size_bytes",
        "allow_hidden": "allow_hidden",
        "allow_hardlinks": "allow_hardlinks",
        "otherwise": "otherwise",
    },
    "fs.write": {
        "allow_paths": "allow_paths",
        "deny_paths": "deny_paths",
        "max_write_bytes": "max_size_bytes",
        "max_bytes": "max_size_bytes",
        "allow_hidden": "allow_hidden",
        "otherwise": "otherwise",
    },
}
_CANARY = "CANARY"
_RACE_CALLS = 300


def run(case: Case, root: Path) -> str:
    before = _seen(case, root)
    with ExitStack() as stack:
        races = [stack.enter_context(swapped(step)) for step in case.setup if "race_swap" in step]
        try:
            outcomes = asyncio.run(_calls(case, root, _RACE_CALLS if races else 1))
        except ConfigError:
            return "error"
    for outcome in outcomes:
        _check(case, outcome)
    for path, content in before.items():
        if _content(path) != content:
            raise CheckFailed(f"{path} was changed")
    words = {Status.SUCCESS: "allow", Status.DENIED: "deny"}
    answers = {words.get(outcome.status, "error") for outcome in outcomes}
    return min(answers, key=lambda answer: (answer not in case.accepted, answer)) if races else answers.pop()


async def _calls(case: Case, root: Path, times: int) -> list[Outcome]:
    args = dict(case.args)
    working_dir = args.pop("cwd", root)
    with tempfile.TemporaryDirectory(prefix="attack-gate-") as folder:
        async with open_gate(_policy(case), Path(folder) / "gate.db", working_dir=working_dir) as gate:
            return [await gate.call(case.tool, args) for _ in range(times)]


def _policy(case: Case) -> dict[str, Any]:
    fields: Mapping[str, Any] = case.policy
    section: dict[str, Any] = {"allow_hidden": True}
    if case.tool == "fs.read" and str(fields.get("hardlinks", "")).startswith("deny"):
        section["allow_hardlinks"] = False
    known = _FIELDS[case.tool]
    section |= {known[name]: value for name, value in fields.items() if name in known}
    policy: dict[str, Any] = {"version": 1, "tools": {case.tool: section}}
    if "protected_paths" in fields:
        policy["protected_paths"] = fields["protected_paths"]
    if "rules" in fields:
        policy["rules"] = fields["rules"]
    if fields.get("default") == "deny":
        policy["boundary"] = "deny_by_default"
    return policy


def _check(case: Case, outcome: Outcome) -> None:
    told = str(outcome.to_json())
    forbidden = [*case.check.get("must_not_contain", ()), *case.check.get("output_must_not_contain", ())]
    if case.expect != "allow":
        forbidden.append(_CANARY)
    for text in forbidden:
        if text in told:
            raise CheckFailed(f"the outcome holds {text!r}")
    for text in [*case.check.get("must_contain", ()), *case.check.get("output_must_contain", ())]:
        if text not in told:
            raise CheckFailed(f"the outcome does not hold {text!r}")


def _seen(case: Case, root: Path) -> dict[Path, object]:
    """What no case may change: its own list, and whatever lies beside the allowed tree."""
    paths = list(map(Path, case.check.get("unchanged", ())))
    if case.expect != "allow":
        paths += [root / "secret.txt", root / "outside", *(root / "outside").rglob("*")]
    return {path: _content(path) for path in paths}


def _content(path: Path) -> object:
    if path.is_symlink():
        return path.readlink()
    if path.is_dir():
        return sorted(path.iterdir())
    return path.read_bytes() if path.is_file() and path.stat().st_size < 1 << 20 else path.exists()
