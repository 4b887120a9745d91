"""Resolving a path: one descriptor, its real name, and what is not there, with openat2 and without it."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_gate.model.errors import GateError, PolicyDeniedError, ToolError
from agent_gate.resolve import openat2
from agent_gate.resolve.own_watch import OwnWatch
from agent_gate.resolve.ownership import Own
from agent_gate.resolve.paths import PathResolver, Target

WAYS = [
    pytest.param(False, id="openat2", marks=pytest.mark.skipif(not openat2.is_available(), reason="no openat2 here")),
    pytest.param(True, id="walk"),
]


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Path]:
    """A working directory with an outside; whatever a test resolves must be closed at its end."""
    root = tmp_path.resolve()
    (root / "work/sub").mkdir(parents=True)
    (root / "outside").mkdir()
    (root / "work/a.txt").write_text("one\n")
    (root / "secret.txt").write_text("CANARY\n")
    before = set(os.listdir("/proc/self/fd"))
    yield root / "work"
    assert set(os.listdir("/proc/self/fd")) == before


@pytest.fixture(params=WAYS)
def resolver(request: pytest.FixtureRequest, work: Path) -> PathResolver:
    return PathResolver(str(work), by_walking=request.param)


def seen(resolver: PathResolver, path: str | Path) -> tuple[str, str]:
    """The real name and the kind; the obstacle stands for the kind of what cannot be made either."""
    target = resolver.resolve(str(path))
    target.release()
    return target.path, target.obstacle or target.kind


def problem(resolver: PathResolver, path: str) -> GateError:
    with pytest.raises(GateError) as raised:
        resolver.resolve(path)
    return raised.value


@pytest.mark.parametrize("path", ["a.txt", "./a.txt", "sub/../a.txt", ".//sub//.././a.txt", "../work/a.txt"])
def test_every_spelling_leads_to_the_one_real_name(resolver: PathResolver, work: Path, path: str) -> None:
    for spelling in (path, str(work / path), f"//{work}/{path}"):
        assert seen(resolver, spelling) == (str(work / "a.txt"), "file")


def test_what_was_found_can_be_recorded(resolver: PathResolver, work: Path) -> None:
    target = resolver.resolve("a.txt")
    target.release()
    status = (work / "a.txt").stat()
    device = f"{os.major(status.st_dev)}:{os.minor(status.st_dev)}"
    assert target.identity == {"device": device, "inode": str(status.st_ino)}
    assert target.found == {"type": "file", "size": 4}


@pytest.mark.parametrize(
    ("link", "to", "real"),
    [
        ("link", "../secret.txt", "../secret.txt"),
        ("link", "a.txt", "a.txt"),
        ("sub/link", "../../secret.txt", "../secret.txt"),
        ("link", "/etc/hostname", "/etc/hostname"),
    ],
)
def test_a_link_is_judged_by_where_it_leads(resolver: PathResolver, work: Path, link: str, to: str, real: str) -> None:
    (work / link).symlink_to(to)
    expected = os.path.normpath(work / real)
    assert seen(resolver, link)[0] == expected


def test_a_directory_on_the_way_may_be_a_link(resolver: PathResolver, work: Path) -> None:
    (work / "dir").symlink_to("../outside")
    (work.parent / "outside/a.txt").write_text("x")
    assert seen(resolver, "dir/a.txt") == (str(work.parent / "outside/a.txt"), "file")
    assert seen(resolver, "dir/../a.txt") == (str(work.parent / "a.txt"), "absent")


def test_a_chain_of_links_ends_where_the_last_one_leads(resolver: PathResolver, work: Path) -> None:
    for number in range(20):
        (work / f"l{number}").symlink_to(f"l{number + 1}")
    (work / "l20").symlink_to("../secret.txt")
    assert seen(resolver, "l0") == (str(work.parent / "secret.txt"), "file")


def test_links_in_a_circle_are_refused(resolver: PathResolver, work: Path) -> None:
    (work / "one").symlink_to("two")
    (work / "two").symlink_to("one")
    error = problem(resolver, "one")
    assert (type(error), error.code) == (PolicyDeniedError, 1002)


@pytest.mark.parametrize(
    "path", ["/proc/self/root/etc/passwd", "/proc/self/cwd/x", "/proc/self/fd/0", "/proc/thread-self/root", "/dev/fd/0"]
)
def test_links_of_proc_are_refused(resolver: PathResolver, path: str) -> None:
    error = problem(resolver, path)
    assert str(error) == (
        f"path_denied: `{path}` leads through a link of /proc, or through too many links;"
        " name the file by its real path"
    )


def test_something_absent_has_the_name_that_it_would_have(resolver: PathResolver, work: Path) -> None:
    (work / "dir").symlink_to("../outside")
    assert seen(resolver, "new.txt") == (str(work / "new.txt"), "absent")
    assert seen(resolver, "dir/new.txt") == (str(work.parent / "outside/new.txt"), "absent")
    assert seen(resolver, "x/y/z.txt") == (str(work / "x/y/z.txt"), "absent")


@pytest.mark.parametrize(
    ("path", "real", "obstacle"),
    [
        ("dangling", "../outside/new", "is a link to something that does not exist"),
        ("nowhere/../a.txt", "a.txt", "leads through a directory that does not exist"),
        ("nowhere/../../secret.txt", "../secret.txt", "leads through a directory that does not exist"),
        ("a.txt/b", "a.txt/b", "cannot be reached: Not a directory"),
        ("a.txt/../a.txt", "a.txt", "leads through a directory that does not exist"),
        ("n" * 300, "n" * 300, "cannot be reached: File name too long"),
    ],
)
def test_where_nothing_can_be_made_the_obstacle_is_named(
    resolver: PathResolver, work: Path, path: str, real: str, obstacle: str
) -> None:
    (work / "dangling").symlink_to("../outside/new")
    assert seen(resolver, path) == (os.path.normpath(work / real), obstacle)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may look everywhere")
def test_a_directory_that_may_not_be_entered_is_an_obstacle(resolver: PathResolver, work: Path) -> None:
    (work / "sub").chmod(0)
    assert seen(resolver, "sub/x") == (str(work / "sub/x"), "cannot be reached: Permission denied")


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("", "the path is empty"),
        ("a\0b", "the path holds a NUL"),
        ("\ud800", "the path holds half of a surrogate pair"),
        ("a/" * 2_100 + "b", "the path has 4201 bytes, more than 4095"),
        ("sub/", "`sub/` names a directory"),
        ("a.txt/", "`a.txt/` names a directory"),
        ("sub/.", "`sub/.` names a directory"),
        (".", "`.` names a directory"),
    ],
)
def test_a_text_that_names_no_file_is_a_bad_argument(resolver: PathResolver, path: str, words: str) -> None:
    error = problem(resolver, path)
    assert (type(error), error.code, error.problem.detail) == (ToolError, 2002, words)


@pytest.mark.parametrize("path", ["~/a.txt", "%2e%2e/secret.txt", "..\\secret.txt", "file:///etc/passwd", "*", "$HOME"])
def test_no_spelling_is_expanded_or_decoded(resolver: PathResolver, work: Path, path: str) -> None:
    assert seen(resolver, path) == (os.path.normpath(work / path), "absent")


@pytest.mark.parametrize("name", ["é", "e\u0301", "a b", "a\nb", "\u202ea", "..a", "-rf", "report[1].txt", "a%00b"])
def test_names_of_any_characters_stay_what_they_are(resolver: PathResolver, work: Path, name: str) -> None:
    (work / name).write_text("x")
    assert seen(resolver, name) == (str(work / name), "file")


def test_two_unicode_forms_of_a_name_are_two_names(resolver: PathResolver, work: Path) -> None:
    (work / "é").write_text("x")
    assert seen(resolver, "e\u0301") == (str(work / "e\u0301"), "absent")


def test_a_name_that_is_not_utf_8_is_refused(resolver: PathResolver, work: Path) -> None:
    (work / os.fsdecode(b"\xff")).write_text("x")
    (work / "link").symlink_to(os.fsdecode(b"\xff"))
    assert problem(resolver, "link").problem.detail == "`link` leads to a name that is not UTF-8"


def test_kinds_are_told_apart_without_opening_them(resolver: PathResolver, work: Path) -> None:
    os.mkfifo(work / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(work / "socket"))
    expected = {"pipe": "named pipe", "socket": "socket", "sub": "directory", "/dev/null": "device", "..": "directory"}
    assert {name: seen(resolver, name)[1] for name in expected} == expected


def test_a_name_that_only_looks_deleted_is_a_name(resolver: PathResolver, work: Path) -> None:
    name = "x (deleted)"
    (work / name).write_text("x")
    assert seen(resolver, name) == (str(work / name), "file")


@pytest.mark.parametrize("links", [0, 1])
def test_a_file_deleted_between_two_looks_is_refused(resolver: PathResolver, work: Path, links: int) -> None:
    if links:
        os.link(work / "a.txt", work / "b.txt")
    number = os.open(work / "a.txt", os.O_PATH)
    (work / "a.txt").unlink()
    with pytest.raises(ToolError, match=r"`a\.txt` was deleted a moment ago"):
        resolver._existing("a.txt", number)


def test_the_number_of_hard_links_is_found(resolver: PathResolver, work: Path) -> None:
    os.link(work / "a.txt", work / "b.txt")
    target = resolver.resolve("b.txt")
    target.release()
    assert target.found == {"type": "file", "size": 4, "nlink": 2}


@pytest.mark.parametrize("own", ["gate.db", "gate.db.d"])
def test_another_name_of_an_own_file_is_recognised(work: Path, own: str) -> None:
    (work / "gate.db.d").mkdir()
    for name in ("gate.db", "gate.db.d/key"):
        (work / name).write_text("x")
    real = {"gate.db": "gate.db", "gate.db.d": "gate.db.d/key"}[own]
    resolver = PathResolver(str(work), OwnWatch(lambda: Own(secret=(str(work / own),))))
    os.link(work / real, work / "innocent")

    def same_as(name: str) -> str | None:
        target = resolver.resolve(name)
        target.release()
        return target.same_as

    assert same_as("innocent") == str(work / real)
    assert same_as(real) is None
    assert same_as("a.txt") is None


def test_an_own_file_that_was_replaced_is_recognised_by_its_new_self(work: Path) -> None:
    own = work / "policy.yaml"
    own.write_text("old")
    resolver = PathResolver(str(work), OwnWatch(lambda: Own(protected=(str(own),))))
    resolver.resolve("a.txt").release()
    (work / "new").write_text("new")
    (work / "new").rename(own)
    os.link(own, work / "innocent")
    target = resolver.resolve("innocent")
    target.release()
    assert target.same_as == str(own)


def test_what_is_in_memory_is_found_at_once_and_all_else_is_left_to_a_thread(work: Path) -> None:
    resolver = PathResolver(str(work))
    target = resolver.resolve_at_once("a.txt")
    if target is None:
        pytest.skip("this kernel always waits")
    target.release()
    assert (target.path, target.kind) == (str(work / "a.txt"), "file")
    for path in ("absent", "sub/absent", "/proc/self/root"):
        assert resolver.resolve_at_once(path) is None
    with pytest.raises(ToolError):
        resolver.resolve_at_once("a\0b")


def test_the_descriptor_stays_with_the_file_whatever_happens_to_its_name(resolver: PathResolver, work: Path) -> None:
    target: Target = resolver.resolve("a.txt")
    (work / "a.txt").rename(work / "b.txt")
    (work / "a.txt").symlink_to("../secret.txt")
    assert os.fstat(target.descriptor.number).st_ino == (work / "b.txt").stat().st_ino
    target.release()
    target.release()
