"""Builds the files that a case starts from; what is not a file is its family's to arrange."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def arrange(setup: Mapping[str, Any]) -> None:
    """Does one step of a set-up whose texts are already expanded."""
    match setup:
        case {"dir": path}:
            Path(path).mkdir(parents=True, exist_ok=True)
        case {"file": path, "content": content}:
            file = _parent_of(path)
            file.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
            if "mode" in setup:
                file.chmod(int(str(setup["mode"]), 8))
        case {"symlink": path, "target": target}:
            _parent_of(path).symlink_to(target)
        case {"hardlink": path, "target": target}:
            _parent_of(path).hardlink_to(target)
        case {"fifo": path}:
            os.mkfifo(_parent_of(path))
        case {"sparse": path, "bytes": size}:
            with _parent_of(path).open("wb") as file_object:
                file_object.truncate(size)
        case _:
            pass


def _parent_of(path: str) -> Path:
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    return file
