"""The view of a command on the file system: what `fs.read` and `fs.write` allow, and no more than its words need."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from agent_gate.model.policy import PathGuard, Policy
from agent_gate.policy.guards.path_patterns import PathPattern, compile_patterns, normal
from agent_gate.policy.guards.paths import PathRules
from agent_gate.policy.guards.programs import Reach, Use
from agent_gate.policy.guards.surroundings import Surroundings
from agent_gate.resolve.below import Below, Seen
from agent_gate.resolve.copies import Copies
from agent_gate.resolve.descriptors import Descriptor, real_name
from agent_gate.resolve.own_files import OwnFiles
from agent_gate.resolve.repository import Repository
from agent_gate.sandbox.command import Access, Place, View
from agent_gate.services.shell.copied_view import over_copies
from agent_gate.services.shell.layering import writes_of
from agent_gate.services.shell.looking import Looked
from agent_gate.services.shell.showing import GitFiles, Shown

_OWN_TO_SANDBOX = frozenset({"proc", "dev", "sys"})


class Viewer:
    """Makes views under one policy."""

    def __init__(self, policy: Policy, around: Surroundings, own_files: OwnFiles, copies: Copies | None = None) -> None:
        """`copies` are those of a simulation, which later steps see as if they were on the disk."""
        self._policy, self._around, self._own = policy, around, own_files
        self._copies = copies if copies is not None and copies.is_open else None

    def view(self, looked: Looked, use: Use) -> tuple[View, list[Descriptor]]:
        """The view, and the descriptors that it is made of besides those of what was looked at. May wait for a disk."""
        if use.reach is Reach.ALL:
            places, held = self._of_all(looked, use)
        else:
            places, held = self._of_named(looked, use), []
        left_out = sum(place.access is Access.NONE for place in places)
        return View(tuple(places), tuple(_links(looked)), tuple(_passed_through(looked)), left_out), held

    def _of_named(self, looked: Looked, use: Use) -> list[Place]:
        """Exactly what was judged, by its descriptor; of what lies below a directory, what `fs.read` allows."""
        named: dict[str, Place] = {}
        for target in {looked.targets[word] for word in use.reads}:
            if target.kind in ("file", "directory"):
                is_directory = target.kind == "directory"
                named[target.path] = Place(target.path, Access.READ, is_directory, target.descriptor.number)
        folders = sorted(place.path for place in named.values() if place.is_directory)
        files = [place for _, place in sorted(named.items()) if not place.is_directory]
        # Files last, because a directory on the way to one may be too far away to be shown.
        places = [*(_named(seen, named) for seen in self._folders(folders, use.reach)), *files]
        if self._copies is None:
            return places
        return over_copies(places, self._copies, self._shown(named=folders).access, whole=False)

    def _folders(self, folders: Sequence[str], reach: Reach) -> Iterator[Seen[Access]]:
        """Show near things soon to what does not descend by itself; what does needs all of it, or nothing."""
        starts = dict.fromkeys(path for folder in folders for path in (_top() if folder == "/" else [folder]))
        if not starts:
            return
        shown = self._shown(named=folders)
        if reach is Reach.NAMED:
            for start in starts:
                yield from self._below(shown, [start], near=True)
        else:
            yield from self._below(shown, starts)

    def _of_all(self, looked: Looked, use: Use) -> tuple[list[Place], list[Descriptor]]:
        """All that the policy allows; what starts programs may also write where `fs.write` may."""
        shown = self._shown(looked.repository, writes=writes_of(self._policy, use) != "none")
        starts = [path for section in shown.sections for path in self._starts(section)]
        places: list[Place] = []
        held: list[Descriptor] = []
        found = self._below(shown, starts)
        for seen in (*found, *self._below(shown, _apart(looked, found))):
            place = _place(seen)
            if place.access is not Access.NONE:
                descriptor = _open(place.path)
                if descriptor is None:
                    continue
                held.append(descriptor)
                place = replace(place, descriptor=descriptor.number)
            places.append(place)
        if self._copies is not None:
            places = over_copies(places, self._copies, shown.access, whole=True)
        return places, held

    def _shown(self, repository: Repository | None = None, *, writes: bool = False, named: Sequence[str] = ()) -> Shown:
        guards = self._policy.guards
        readable = self._rules("fs.read", self._opened(named))
        git = None
        if repository is not None and guards.fs_read is not None:
            inside = self._rules("fs.read", replace(guards.fs_read, allow_hidden=True))
            git = GitFiles(repository, inside) if inside else None
        writable = self._rules("fs.write", guards.fs_write) if writes else None
        return Shown(readable, writable, self._own_files(), git, frozenset(named))

    def _opened(self, named: Sequence[str]) -> PathGuard | None:
        """The section of `fs.read`, with what a person agreed to among the directories that were named."""
        section = self._policy.guards.fs_read
        if section is None or section.otherwise != "ask" or not named:
            return section
        return PathRules("fs.read", section, self._policy, self._around).opened(named)

    def _rules(self, tool: str, section: PathGuard | None) -> PathRules | None:
        """Nobody can be asked about each of the files below a directory: what would ask is not shown."""
        if section is None:
            return None
        return PathRules(tool, replace(section, otherwise="deny"), self._policy, self._around)

    def _own_files(self) -> OwnFiles | None:
        """None while no file of the gate's own has a second name, which no walk needs to look for then."""
        return self._own if self._own.any_linked() else None

    def _below(self, shown: Shown, starts: Iterable[str], *, near: bool = False) -> list[Seen[Access]]:
        can_differ = _always if shown.looks_at_files else self._can_differ(shown.sections)
        return Below(shown.access, Access.NONE, can_differ).look(starts, near=near)

    def _can_differ(self, sections: Sequence[PathGuard]) -> Callable[[str], bool]:
        """Tell whether something below a directory may be treated otherwise than the directory itself."""
        around = self._around
        if not all(section.allow_hidden for section in sections):
            return _always
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
        """Find where the fixed parts of patterns lead; the root stands for what it holds."""
        for pattern in self._patterns(section.allow_paths):
            if not pattern.fixed:
                yield from _top()
            elif os.path.lexists(pattern.fixed) and not os.path.islink(pattern.fixed):
                yield pattern.fixed


def _apart(looked: Looked, found: Iterable[Seen[Access]]) -> list[str]:
    """Find where a repository keeps its own things inside of another one's, which are hidden: as a submodule does."""
    hidden = tuple(f"{seen.path}/" for seen in found if seen.level is Access.NONE)
    return [path for path in looked.repository.directories if path.startswith(hidden)] if looked.repository else []


def _always(_: str) -> bool:
    return True


def _covers_all(pattern: PathPattern) -> bool:
    """Tell whether it matches whatever lies below its fixed part, at any depth."""
    return pattern.matches(f"{pattern.fixed}/\0") and pattern.matches(f"{pattern.fixed}/\0/\0")


def _top() -> list[str]:
    return [f"/{name}" for name in os.listdir("/") if name not in _OWN_TO_SANDBOX and not os.path.islink(f"/{name}")]


def _place(seen: Seen[Access]) -> Place:
    return Place(seen.path, seen.level, seen.is_directory)


def _named(seen: Seen[Access], named: Mapping[str, Place]) -> Place:
    """By its descriptor, unless this is the mask that hides it as a part of something else that was named."""
    return named.get(seen.path, _place(seen)) if seen.level is not Access.NONE else _place(seen)


def _open(path: str) -> Descriptor | None:
    """Find what was looked at, if it is still there under its own name."""
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
