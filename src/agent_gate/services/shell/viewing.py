"""What a command is shown of the file system: what `fs.read` and `fs.write` allow, and no more than its words need."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from agent_gate.bindings.below import Below, Seen
from agent_gate.bindings.descriptors import Descriptor, real_name
from agent_gate.bindings.own_files import OwnFiles
from agent_gate.bindings.repository import Repository
from agent_gate.model.policy import PathGuard, Policy
from agent_gate.model.tool import Json
from agent_gate.policy.guards.path_patterns import PathPattern, compile_patterns, normal
from agent_gate.policy.guards.paths import PathRules
from agent_gate.policy.guards.programs import Reach, Use
from agent_gate.policy.guards.surroundings import Surroundings
from agent_gate.sandbox.command import Access, Place, View
from agent_gate.services.shell.looking import Looked

_FILE: dict[str, Json] = {"type": "file"}
_GIT_RULES = frozenset({".gitignore", ".gitattributes"})
_OWN_TO_SANDBOX = frozenset({"proc", "dev", "sys"})


class _Readable:
    """What `fs.read` allows to be shown, by name and, where that matters, by what else the file is called."""

    def __init__(
        self,
        rules: PathRules,
        own: OwnFiles | None,
        inside: PathRules | None = None,
        repository: Repository | None = None,
    ) -> None:
        """`inside` of the directories that a repository keeps its own things in, other rules hold."""
        self._rules, self._own, self._inside = rules, own, inside
        self._git = tuple(f"{path}/" for path in repository.own_paths) if repository else ()
        self._top = f"{repository.top}/" if repository else ""
        self.section = rules.section
        self.looks_at_files = own is not None or not rules.section.allow_hardlinks

    def allows(self, path: str) -> bool:
        if not self.looks_at_files:
            return self._rules_for(path).judge(path, _FILE)[1] is None
        return self._rules_for(path).judge(path, self._found(path))[1] is None

    def _rules_for(self, path: str) -> PathRules:
        if self._inside is not None and self._belongs_to_git(path):
            return self._inside
        return self._rules

    def _belongs_to_git(self, path: str) -> bool:
        if f"{path}/".startswith(self._git):
            return True
        # git prints neither, and without them it takes ignored files for new ones.
        folder, _, name = path.rpartition("/")
        return name in _GIT_RULES and f"{folder}/".startswith(self._top) and not _has_dot(folder, self._top)

    def _found(self, path: str) -> dict[str, Json]:
        try:
            status = os.lstat(path)
        except OSError:
            return _FILE
        if not stat.S_ISREG(status.st_mode) or status.st_nlink < 2:
            return _FILE
        same = self._own.name_of(status, path) if self._own is not None else None
        return {**_FILE, "nlink": status.st_nlink, **({"same_as": same} if same else {})}


class Viewer:
    """Makes views under one policy."""

    def __init__(self, policy: Policy, around: Surroundings) -> None:
        self._policy, self._around = policy, around

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
        return [*(named.get(seen.path) or _place(seen) for seen in self._folders(folders, use.reach)), *files]

    def _folders(self, folders: Sequence[str], reach: Reach) -> Iterator[Seen[Access]]:
        """What does not descend by itself is shown what is near, soon; what does needs all of it, or nothing."""
        starts = [path for folder in folders for path in (_top() if folder == "/" else [folder])]
        if not starts:
            return
        readable = self._readable()
        if reach is Reach.NAMED:
            for start in starts:
                yield from self._below(readable, [start], near=True)
        else:
            yield from self._below(readable, starts)

    def _of_all(self, looked: Looked, use: Use) -> tuple[list[Place], list[Descriptor]]:
        """All that the policy allows; what starts programs may also write where `fs.write` may."""
        guards = self._policy.guards
        readable = self._readable(looked.repository)
        sections = [guards.fs_read]
        writable: PathRules | None = None
        if use.starts_programs and guards.fs_write is not None:
            sections.append(guards.fs_write)
            writable = self._rules("fs.write", guards.fs_write)
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

    def _readable(self, repository: Repository | None = None) -> _Readable | None:
        section = self._policy.guards.fs_read
        if section is None:
            return None
        rules = self._rules("fs.read", section)
        if repository is None:
            return _Readable(rules, self._own_files())
        # A repository keeps all that git works with below a name that begins with a dot.
        inside = self._rules("fs.read", replace(section, allow_hidden=True))
        return _Readable(rules, self._own_files(), inside, repository)

    def _rules(self, tool: str, section: PathGuard) -> PathRules:
        """Nobody can be asked about each of the files below a directory: what would ask is not shown."""
        return PathRules(tool, replace(section, otherwise="deny"), self._policy, self._around)

    def _own_files(self) -> OwnFiles | None:
        """None while no file of the gate's own has a second name, which no walk needs to look for then."""
        own = OwnFiles(self._around.secret)
        return own if own.any_linked() else None

    def _below(
        self,
        readable: _Readable | None,
        starts: Iterable[str],
        writable: PathRules | None = None,
        *,
        near: bool = False,
    ) -> list[Seen[Access]]:
        def access(path: str) -> Access:
            if writable is not None and writable.judge(path, _FILE)[1] is None:
                return Access.WRITE
            if readable is not None and readable.allows(path):
                return Access.READ
            return Access.NONE

        sections = [rules.section for rules in (readable, writable) if rules is not None]
        can_differ = _always if readable is not None and readable.looks_at_files else self._can_differ(sections)
        return Below(access, Access.NONE, can_differ).look(starts, near=near)

    def _can_differ(self, sections: Sequence[PathGuard]) -> Callable[[str], bool]:
        """Whether something below a directory may be treated otherwise than the directory itself."""
        around = self._around
        if not all(section.allow_hidden for section in sections):
            return _always
        own = [*around.protected, *around.secret]
        denied = [source for section in sections for source in section.deny_paths]
        for pattern in self._patterns((*denied, *self._policy.protected_paths), denies=True):
            own.append(pattern.fixed)
        parts: list[str] = []
        for pattern in self._patterns([source for section in sections for source in section.allow_paths]):
            (parts if _covers_all(pattern) else own).append(pattern.fixed)

        def can_differ(folder: str) -> bool:
            inside = f"{folder.rstrip('/')}/"
            if any(part.startswith(inside) for part in parts):
                return True
            return any(f"{part}/".startswith(inside) or inside.startswith(f"{part}/") for part in own)

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


def _always(_: str) -> bool:
    return True


def _has_dot(folder: str, top: str) -> bool:
    return "/." in f"/{folder[len(top) :]}"


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
