"""Commands through a whole gate, under a policy made of the plain fields of the case; they really run."""

from __future__ import annotations

import asyncio
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent_gate import ConfigError, Outcome, open_gate
from agent_gate.model.outcome import Status
from tests.attacks.cases import Case
from tests.attacks.runner import CheckFailed

CHECKS = frozenset(
    {"output_must_not_contain", "output_must_contain", "must_not_contain", "must_contain", "return_code", "unchanged"}
)

_FIELDS = {
    "allow_executables": "allow_executables",
    "unchecked_executables": "unchecked_executables",
    "allow_env": "allow_env",
    "trusted_dirs": "trusted_dirs",
    "deny_tokens": "deny_tokens",
    "timeout_s": "timeout_seconds",
    "max_output_bytes": "max_output_bytes",
    "otherwise": "otherwise",
}
_FILE_FIELDS = {"allow_paths": "allow_paths", "deny_paths": "deny_paths"}


def run(case: Case, root: Path) -> str:
    for step in case.setup:
        _arrange(step)
    before = {path: _content(Path(path)) for path in case.check.get("unchanged", ())}
    try:
        outcome = asyncio.run(_call(case, root))
    except ConfigError:
        return "error"
    _check(case, outcome)
    for path, content in before.items():
        if _content(Path(path)) != content:
            raise CheckFailed(f"{path} was changed")
    return {Status.SUCCESS: "allow", Status.DENIED: "deny"}.get(outcome.status, "error")


def _arrange(step: Mapping[str, Any]) -> None:
    """A repository with one commit; configuration that the case brings comes into force after that."""
    if "git_repo" not in step:
        return
    folder = Path(step["git_repo"])
    config = folder / ".git" / "config"
    brought = config.read_text() if config.is_file() else ""
    config.unlink(missing_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    _git(folder, "init", "-q", "-b", "main")
    files = step.get("files")
    for name, content in files.items() if isinstance(files, dict) else {"tracked.txt": "one\ntwo\n"}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    _git(folder, "add", "-A")
    _git(folder, "commit", "-q", "--allow-empty", "-m", "first")
    settings = step.get("config", {})
    for key, value in settings.items() if isinstance(settings, dict) else ():
        _git(folder, "config", key, value)
    with config.open("a") as file:
        file.write(brought + (settings if isinstance(settings, str) else ""))


def _git(folder: Path, *words: str) -> None:
    settings = ("user.name=Test", "user.email=test@example.test", "commit.gpgsign=false", "core.hooksPath=/dev/null")
    options = [word for setting in settings for word in ("-c", setting)]
    subprocess.run(["git", *options, *words], cwd=folder, check=True, capture_output=True)


async def _call(case: Case, root: Path) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="attack-gate-") as folder:
        async with open_gate(_policy(case), Path(folder) / "gate.db", working_dir=root) as gate:
            return await gate.call(case.tool, dict(case.args))


def _policy(case: Case) -> dict[str, Any]:
    """What the case does not name is permissive, as for files; interpreters and wrappers are not named by default."""
    fields = case.policy
    command = {_FIELDS[name]: value for name, value in fields.items() if name in _FIELDS}
    files = {_FILE_FIELDS[name]: value for name, value in fields.items() if name in _FILE_FIELDS}
    policy: dict[str, Any] = {"version": 1, "tools": {"shell.run": command}}
    if files:
        asks = {"otherwise": fields["otherwise"], "allow_hidden": False} if "otherwise" in fields else {}
        policy["tools"]["fs.read"] = {"allow_hidden": True, **files, **asks}
    if "rules" in fields:
        policy["rules"] = fields["rules"]
    if fields.get("default") == "deny":
        policy["boundary"] = "deny_by_default"
    return policy


def _check(case: Case, outcome: Outcome) -> None:
    told = str(outcome.data) if outcome.data is not None else ""
    for text in (*case.check.get("must_not_contain", ()), *case.check.get("output_must_not_contain", ())):
        if text in told:
            raise CheckFailed(f"the output holds {text!r}")
    for text in (*case.check.get("must_contain", ()), *case.check.get("output_must_contain", ())):
        if text not in told:
            raise CheckFailed(f"the output does not hold {text!r}: {outcome.to_json()}")
    if "return_code" in case.check and (outcome.data or {}).get("return_code") != case.check["return_code"]:
        raise CheckFailed(f"expected the return code {case.check['return_code']}, got {outcome.data}")


def _content(path: Path) -> object:
    return path.read_bytes() if path.is_file() else sorted(path.rglob("*")) if path.is_dir() else None
