"""What a command wrote into a layer above a directory, told as changes to that directory."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from agent_gate.bindings.texts import difference
from agent_gate.model.limits import DIFF_BYTES_MAX, PREVIEW_CHANGES_MAX
from agent_gate.model.tool import Json

_REPLACED = ("user.overlay.opaque", "trusted.overlay.opaque")


def changes(place: str, layer: str) -> list[dict[str, Json]]:
    """Each file that would be added, changed or removed, with its difference; bounded."""
    found: list[dict[str, Json]] = []
    entries = _entries(Path(layer), Path(place)) if os.path.isdir(layer) else [(Path(layer), Path(place))]
    for above, below in entries:
        change = _change(above, below)
        if change is None:
            continue
        if len(found) >= PREVIEW_CHANGES_MAX:
            found.append(
                {"path": str(below), "change": f"more than {PREVIEW_CHANGES_MAX} changes: the rest is left out"}
            )
            break
        found.append(change)
    return found


def _entries(layer: Path, folder: Path) -> Iterator[tuple[Path, Path]]:
    for name in sorted(os.listdir(layer)):
        above, below = layer / name, folder / name
        yield above, below
        if above.is_dir() and not above.is_symlink():
            _open_up(above)
            yield from _entries(above, below)


def _change(above: Path, below: Path) -> dict[str, Json] | None:
    status = above.lstat()
    there = os.path.lexists(below)
    if stat.S_ISCHR(status.st_mode) and status.st_rdev == 0:
        return {"path": str(below), "change": "removed"} if there else None
    if stat.S_ISDIR(status.st_mode):
        if there and _is_replaced(above):
            return {"path": str(below), "change": "removed with all below it"}
        return None if there else {"path": str(below), "change": "directory added"}
    if not stat.S_ISREG(status.st_mode):
        return {"path": str(below), "change": "link or special file"}
    _open_up(above)
    after = _content(above)
    try:
        before = _content(below) if there and below.is_file() and not below.is_symlink() else b""
    except PermissionError:
        return {"path": str(below), "change": "changed", "diff": "what is there now cannot be read"}
    if there and before == after:
        mode = below.lstat().st_mode
        return None if mode == status.st_mode else {"path": str(below), "change": "permissions changed"}
    told = {"path": str(below), "change": "changed" if there else "added"}
    return {**told, "diff": difference(before, after, f"a{below}", f"b{below}")}


def _content(path: Path) -> bytes:
    """Enough of it to be compared; what is larger is told by size and hash of this much."""
    with path.open("rb") as file:
        return file.read(DIFF_BYTES_MAX + 1)


def _open_up(path: Path) -> None:
    """The layer is ours, whatever the command has forbidden there."""
    if not os.access(path, os.R_OK | os.X_OK if path.is_dir() else os.R_OK):
        path.chmod(0o700)


def _is_replaced(folder: Path) -> bool:
    for name in _REPLACED:
        try:
            if os.getxattr(folder, name) == b"y":
                return True
        except OSError:
            continue
    return False
