"""What a command is shown of the file system: what `fs.read` and `fs.write` allow, and no more than its words need."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from agent_gate.bindings.below import Below, Seen
from agent_gate.bindings.descriptors import Descriptor, real_name
from agent_gate.model.policy import PathGuard, Policy
from agent_gate.policy.guards.path_patterns import PathPattern, compile_patterns, normal
from agent_gate.policy.guards.paths import PathRules
from agent_gate.policy.guards.programs import Reach, Use
from agent_gate.policy.guards.surroundings import Surroundings
from agent_gate.sandbox.command import Access, Place, View
from agent_gate.services.shell.layering import writes_of
from agent_gate.services.shell.looking import Looked

_FILE = {"type": "file"}
_OWN_TO_SANDBOX = frozenset({"proc", "dev", "sys"})


class Viewer:
    """Makes views under one policy."""

    def __init__(self, policy: Policy, around: Surroundings) -> None:
        self._policy, self._around = policy, around

    def view(self, looked: Looked, use: Use) -> tuple[View, list[Descriptor]]:
        """The view, and the descriptors that it is made of besides those of what was looked at. May wait for a disk."""
        if use.reach is Reach.ALL:
            places, held = self._of_all(use)
        else:
            places, held = self._of_named(looked, use), []
        return View(tuple(places), tuple(_links(looked)), tuple(_passed_through(looked))), held

    def _of_named(self, looked: Looked, use: Use) -> list[Place]:
        """Exactly what was judged, by its descriptor; in directories that are read through, the rest is hidden."""
        places: dict[str, Place] = {}
        targets = {looked.targets[word] for word in use.reads}
        for target in sorted(targets, key=lambda target: target.path):
            if target.path == "/":
                return [Place(path, Access.READ, True) for path in _top()]
            if target.kind in ("file", "directory") and not _lies_below(target.path, places.values()):
                is_directory = target.kind == "directory"
                places[target.path] = Place(target.path, Access.READ, is_directory, target.descriptor.number)
        if use.reach is Reach.NAMED:
            return list(places.values())
        folders = [place.path for place in places.values() if place.is_directory]
        seen = self._below(self._opened(folders), folders)
        return [*places.values(), *(_place(item) for item in seen if item.path not in places)]

    def _of_all(self, use: Use) -> tuple[list[Place], list[Descriptor]]:
        """All that the policy allows; what starts programs may also write where `fs.write` may."""
        guards = self._policy.guards
        readable = self._readable(hidden=bool(use.repository))
        sections = [guards.fs_read]
        writable: PathRules | None = None
        if writes_of(self._policy, use) != "none" and guards.fs_write is not None:
            sections.append(guards.fs_write)
            writable = PathRules("fs.write", guards.fs_write, self._policy, self._around)
        starts = [path for section in sections if section is not None for path in self._starts(section)]
        places: list[Place] = []
        held: list[Descriptor] = []
        for seen in self._below(readable, starts, writable):
            place = _place(seen)
            if place.access is not Access.NONE:
                descriptor = _open(place.path)
                if descriptor is None:
                    continue
                held.append(descriptor)
                place = replace(place, descriptor=descriptor.number)
            places.append(place)
        return places, held

    def _readable(self, *, hidden: bool) -> PathRules | None:
        section = self._policy.guards.fs_read
        if section is None:
            return None
        if hidden:
            # A repository keeps all that git works with under names that begin with a dot.
            section = replace(section, allow_hidden=True)
        return PathRules("fs.read", section, self._policy, self._around)

    def _opened(self, folders: Iterable[str]) -> PathRules | None:
        readable = self._readable(hidden=False)
        return readable and PathRules("fs.read", readable.opened(folders), self._policy, self._around)

    def _below(
        self, readable: PathRules | None, starts: Iterable[str], writable: PathRules | None = None
    ) -> list[Seen[Access]]:
        def access(path: str) -> Access:
            if writable is not None and writable.judge(path, _FILE)[1] is None:
                return Access.WRITE
            if readable is not None and readable.judge(path, _FILE)[1] is None:
                return Access.READ
            return Access.NONE

        sections = [rules.section for rules in (readable, writable) if rules is not None]
        return Below(access, Access.NONE, self._can_differ(sections)).look(starts)

    def _can_differ(self, sections: Sequence[PathGuard]) -> Callable[[str], bool]:
        """Whether something below a directory may be treated otherwise than the directory itself."""
        around = self._around
        if not all(section.allow_hidden for section in sections):
            return lambda _: True
        own = [*around.protected, *around.secret]
        denied = [source for section in sections for source in section.deny_paths]
        spread: list[str] = []
        for pattern in self._patterns((*denied, *self._policy.protected_paths), denies=True):
            spread.append(pattern.fixed)
        # Below one of the gate's own directories all is as it is.
        parts = list(own)
        for pattern in self._patterns([source for section in sections for source in section.allow_paths]):
            (parts if _covers_all(pattern) else spread).append(pattern.fixed)

        def can_differ(folder: str) -> bool:
            inside = f"{folder.rstrip('/')}/"
            if any(part.startswith(inside) for part in parts):
                return True
            return any(f"{part}/".startswith(inside) or inside.startswith(f"{part}/") for part in spread)

        return can_differ

    def _patterns(self, sources: Iterable[str], *, denies: bool = False) -> tuple[PathPattern, ...]:
        return compile_patterns(sources, self._around.working_dir, self._around.links, denies=denies)

    def _starts(self, section: PathGuard) -> Iterator[str]:
        """Where the fixed parts of patterns lead; the root stands for what it holds."""
        for pattern in self._patterns(section.allow_paths):
            if not pattern.fixed:
                yield from _top()
            elif os.path.lexists(pattern.fixed):
                yield pattern.fixed


def _covers_all(pattern: PathPattern) -> bool:
    """Whether it matches whatever lies below its fixed part, at any depth."""
    return pattern.matches(f"{pattern.fixed}/\0") and pattern.matches(f"{pattern.fixed}/\0/\0")


def _top() -> list[str]:
    return [f"/{name}" for name in os.listdir("/") if name not in _OWN_TO_SANDBOX and not os.path.islink(f"/{name}")]


def _place(seen: Seen[Access]) -> Place:
    return Place(seen.path, seen.level, seen.is_directory)


def _open(path: str) -> Descriptor | None:
    """What was looked at, if it is still there under its own name."""
    with suppress(OSError):
        descriptor = Descriptor(os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC))
        if real_name(descriptor.number) == path:
            return descriptor
        descriptor.leave()
    return None


def _links(looked: Looked) -> Iterator[tuple[str, str]]:
    """The words by which the command calls things that really have another name."""
    for word, target in looked.targets.items():
        name = normal(word if word.startswith("/") else f"{looked.cwd}/{word}") or "/"
        if target.kind in ("file", "directory") and name != target.path:
            yield name, target.path


def _passed_through(looked: Looked) -> Iterator[str]:
    """The directories that a word names only to leave them again by `..`."""
    for word in looked.targets:
        names = word.split("/")
        for at, name in enumerate(names):
            if name == ".." and at:
                passed = "/".join(names[:at])
                yield normal(passed if word.startswith("/") else f"{looked.cwd}/{passed}") or "/"


def _lies_below(path: str, places: Iterable[Place]) -> bool:
    return any(place.is_directory and path.startswith(f"{place.path}/") for place in places)
