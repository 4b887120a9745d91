"""Looks through what a command would read by itself where no sandbox hides from it what `fs.read` does not show."""

from __future__ import annotations

from agent_gate.model.errors import GateError
from agent_gate.model.policy import Policy
from agent_gate.policy.guards.paths import PathRules
from agent_gate.policy.guards.programs import Reach
from agent_gate.policy.guards.surroundings import Surroundings
from agent_gate.resolve.paths import PathResolver
from agent_gate.resolve.unshown import first_unshown
from agent_gate.services.shell.looking import Looked

_FILE = {"type": "file"}


def look_below(looked: Looked, policy: Policy, around: Surroundings, resolver: PathResolver) -> None:
    """Note in `found` the first path below what the command reads through that it may not see. May wait for a disk."""
    use, section = looked.use, policy.guards.fs_read
    if use is None or use.reach is not Reach.BELOW or section is None:
        return
    rules = PathRules("fs.read", section, policy, around)

    def is_shown(path: str, has_other_names: bool) -> bool:
        found = _found(path, resolver) if has_other_names else _FILE
        return found is not None and rules.judge(path, {**found, "type": "file"})[1] is None

    targets = [looked.targets[word] for word in use.reads]
    unshown = first_unshown([target.path for target in targets if target.kind == "directory"], is_shown)
    if unshown:
        looked.found["unshown"] = unshown


def _found(path: str, resolver: PathResolver) -> dict[str, object] | None:
    """Tell the guard of a file with several names: whether one of them is ours."""
    try:
        target = resolver.resolve(path)
    except GateError:
        return None
    try:
        return {key: value for key, value in target.found.items() if key != "size"}
    finally:
        target.release()
