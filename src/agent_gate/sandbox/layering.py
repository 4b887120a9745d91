"""A command made ready to run with all that it writes kept apart, to be judged before it counts."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace

from agent_gate.model.errors import ToolError
from agent_gate.model.visible import visible
from agent_gate.sandbox.command import Access, Command, Place

UPPER, WORK, COPY = "upper", "work", "copy"
"""The parts of a layer: two directories that lie over a directory, or the copy of a single file."""


def in_layers(command: Command, scratch: str) -> Command:
    """The command with a layer above all that it may write. May wait for a disk."""
    _refuse_mounts_below([p.path for p in command.view.places if p.access is Access.WRITE and p.is_directory])
    layers = {}
    for number, place in enumerate(command.view.places):
        if place.access is Access.WRITE:
            layer = layers[place.path] = f"{scratch}/{number}"
            os.mkdir(layer)
            if place.is_directory:
                os.mkdir(f"{layer}/{UPPER}")
                os.mkdir(f"{layer}/{WORK}")
                shutil.copymode((place.sources or (place.path,))[-1], f"{layer}/{UPPER}")
            else:
                _copy(place, f"{layer}/{COPY}", command.limits.file_bytes)
    return replace(command, layers=layers)


def written(command: Command) -> Iterator[tuple[str, str]]:
    """Each layer's place, and where what was written there is."""
    for place in command.view.places:
        layer = command.layers.get(place.path)
        if layer is not None:
            yield place.path, f"{layer}/{UPPER if place.is_directory else COPY}"


def _refuse_mounts_below(folders: Sequence[str]) -> None:
    """No layer can lie above a directory with another file system somewhere below it."""
    inside = tuple(f"{folder.rstrip('/')}/" for folder in folders)
    mounted = next((point for point in mount_points() if point.startswith(inside)), None)
    if mounted is not None:
        raise ToolError(
            f"`{visible(mounted)}` is a mount point below what the command may write; no layer can lie above it",
            code=2006,
            suggestion="name directories without mount points in allow_paths of fs.write,"
            " or write `writes: direct` under shell.run",
        )


def mount_points() -> Iterator[str]:
    with open("/proc/self/mountinfo", "rb") as file:
        for line in file:
            # Blanks, tabs, line ends and backslashes stand there as three octal digits.
            yield os.fsdecode(re.sub(rb"\\([0-7]{3})", lambda told: bytes([int(told[1], 8)]), line.split()[4]))


def _copy(place: Place, to: str, bytes_max: int) -> None:
    source = place.sources[-1] if place.sources else place.path
    with open(source if place.descriptor is None else f"/proc/self/fd/{place.descriptor}", "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size > bytes_max:
            raise ToolError(
                f"`{place.path}` has {size} bytes, too many to be copied into a layer",
                code=2006,
                suggestion="raise max_size_bytes of fs.write",
            )
        with open(to, "xb") as copy:
            shutil.copyfileobj(file, copy)
    shutil.copystat(source, to)
