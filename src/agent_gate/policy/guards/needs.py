"""Judges what a script needs to start: all that it reads by itself must be shown to commands by `fs.read`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from agent_gate.model.tool import Json
from agent_gate.model.visible import visible
from agent_gate.policy.guards.paths import PathRules
from agent_gate.policy.signature import shown

_FILE: Mapping[str, Json] = {"type": "file"}


class Unseen(NamedTuple):
    paths: str
    remedy: str


def unseen(needs: Sequence[Mapping[str, str]], files: PathRules | None) -> Unseen | None:
    """Say what of it no command is shown, and how that is changed; `files` are the rules of `fs.read`."""
    missing = [need for need in needs if files is None or files.judge(need["path"], _FILE)[1] is not None]
    if not missing:
        return None
    patterns = _listed(need["allow"] for need in missing)
    return Unseen(_listed(need["name"] for need in missing), f"add {patterns} to allow_paths of fs.read")


def _listed(texts: Iterable[str]) -> str:
    return ", ".join(f"`{shown(visible(text))}`" for text in dict.fromkeys(texts))
