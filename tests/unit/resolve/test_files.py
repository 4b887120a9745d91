"""Reading and writing a judged file: the same file, within bounds, whole or not at all."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent_gate.model.errors import ToolError
from agent_gate.resolve import files
from agent_gate.resolve.files import OpenFile
from agent_gate.resolve.paths import PathResolver, Target


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Path]:
    root = tmp_path.resolve()
    (root / "a.txt").write_text("one two three")
    before = set(os.listdir("/proc/self/fd"))
    yield root
    assert set(os.listdir("/proc/self/fd")) == before


@contextmanager
def judged(work: Path, path: str) -> Iterator[Target]:
    target = PathResolver(str(work)).resolve(path)
    try:
        yield target
    finally:
        target.release()


@contextmanager
def opened(work: Path, path: str = "a.txt", *, append: bool = False) -> Iterator[OpenFile]:
    with judged(work, path) as target:
        file = OpenFile.locked(target, append=append)
        assert file is not None
        try:
            yield file
        finally:
            file.descriptor.leave()


@contextmanager
def a_full_disk(bytes_max: int) -> Iterator[None]:
    """No file can grow beyond this; Python ignores the signal that comes with it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_max, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_file_is_read_up_to_the_bound_and_not_beyond(work: Path) -> None:
    with judged(work, "a.txt") as target:
        assert files.read(target, 13) == b"one two three"
        with pytest.raises(ToolError, match="has more than 12 bytes by now") as raised:
            files.read(target, 12)
        assert raised.value.code == 2005


def test_a_file_that_grows_while_it_is_read_is_not_read_without_end(work: Path) -> None:
    with judged(work, "a.txt") as target:
        os.truncate(work / "a.txt", 1 << 40)
        with pytest.raises(ToolError, match="has more than 100 bytes by now"):
            files.read(target, 100)


def test_a_file_that_lost_its_name_after_it_was_judged_is_not_read(work: Path) -> None:
    with judged(work, "a.txt") as target:
        (work / "a.txt").rename(work / "b.txt")
        (work / "a.txt").write_text("other")
        with pytest.raises(ToolError, match="was moved or replaced after it was judged"):
            files.read(target, 100)


@pytest.mark.parametrize("content", [b"", b"x", b"four five six seven", b"\x00" * 3_000_000])
def test_overwriting_leaves_exactly_the_new_content_in_the_same_file(work: Path, content: bytes) -> None:
    inode = (work / "a.txt").stat().st_ino
    with opened(work) as file:
        file.overwrite(content, file.content(100))
    assert ((work / "a.txt").read_bytes(), (work / "a.txt").stat().st_ino) == (content, inode)


def test_what_cannot_be_written_whole_leaves_the_previous_content(work: Path) -> None:
    with opened(work) as file:
        previous = file.content(100)
        with a_full_disk(1_000), pytest.raises(ToolError, match="could not be written: File too large"):
            file.overwrite(b"x" * 5_000, previous)
    assert (work / "a.txt").read_bytes() == previous


def test_what_cannot_be_appended_whole_leaves_the_previous_content(work: Path) -> None:
    with opened(work, append=True) as file, a_full_disk(1_000), pytest.raises(ToolError, match="File too large"):
        file.append(b"x" * 5_000)
    assert (work / "a.txt").read_bytes() == b"one two three"


def test_appending_adds_at_the_end(work: Path) -> None:
    with opened(work, append=True) as file:
        file.append(b" four")
    assert (work / "a.txt").read_bytes() == b"one two three four"


def test_a_change_by_another_program_between_looking_and_writing_is_noticed(work: Path) -> None:
    with opened(work) as file:
        (work / "a.txt").write_text("theirs")
        with pytest.raises(ToolError, match="was changed by another program in this moment"):
            file.overwrite(b"ours", b"one two three")
    assert (work / "a.txt").read_text() == "theirs"


def test_only_one_holds_the_lock_of_a_file(work: Path) -> None:
    with opened(work), judged(work, "a.txt") as again:
        assert OpenFile.locked(again, append=False) is None
    with opened(work):
        pass


def test_cutting_and_the_end_of_a_file(work: Path) -> None:
    with opened(work) as file:
        assert file.tail(5) == b"three"
        assert file.tail(99) == b"one two three"
        file.cut(7)
    assert (work / "a.txt").read_bytes() == b"one two"


def test_a_file_is_removed_only_while_its_name_means_it(work: Path) -> None:
    with opened(work) as file:
        (work / "a.txt").rename(work / "b.txt")
        (work / "a.txt").write_text("innocent")
        with pytest.raises(ToolError, match="was moved or replaced"):
            file.remove()
    assert (work / "a.txt").read_text() == "innocent"
    with opened(work) as file:
        file.remove()
    assert not (work / "a.txt").exists()


def test_a_new_file_has_the_content_and_the_mode_that_the_umask_leaves(work: Path) -> None:
    before = os.umask(0o027)
    try:
        with judged(work, "sub/dir/new.txt") as target:
            files.create(target, b"hello")
    finally:
        os.umask(before)
    modes = [(work / name).stat().st_mode & 0o777 for name in ("sub/dir/new.txt", "sub/dir", "sub")]
    assert ((work / "sub/dir/new.txt").read_bytes(), modes) == (b"hello", [0o640, 0o750, 0o750])


def test_a_name_that_was_taken_since_it_was_judged_is_not_overwritten(work: Path) -> None:
    with judged(work, "new.txt") as target:
        (work / "new.txt").write_text("theirs")
        with pytest.raises(ToolError, match="appeared after it was judged"):
            files.create(target, b"ours")
    assert (work / "new.txt").read_text() == "theirs"


@pytest.mark.parametrize("path", ["new.txt", "sub/new.txt"])
def test_a_link_that_was_put_in_the_way_is_not_followed(
    work: Path, tmp_path_factory: pytest.TempPathFactory, path: str
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    with judged(work, path) as target:
        (work / path.partition("/")[0]).symlink_to(outside / "caught" if "/" not in path else outside)
        with pytest.raises(ToolError):
            files.create(target, b"ours")
    assert list(outside.iterdir()) == []


def test_a_directory_that_moved_away_since_it_was_judged_gets_no_file(
    work: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (work / "sub").mkdir()
    with judged(work, "sub/new.txt") as target:
        (work / "sub").rename(outside / "sub")
        with pytest.raises(ToolError, match="was moved or replaced after it was judged"):
            files.create(target, b"ours")
    assert list((outside / "sub").iterdir()) == []


def test_a_new_file_that_cannot_be_written_whole_is_not_there_nor_are_its_directories(work: Path) -> None:
    words = "could not be created: File too large"
    with judged(work, "x/y/new.txt") as target, a_full_disk(1_000), pytest.raises(ToolError, match=words):
        files.create(target, b"x" * 5_000)
    assert sorted(path.name for path in work.iterdir()) == ["a.txt"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
def test_what_may_not_be_written_is_said_in_the_systems_words(work: Path) -> None:
    (work / "a.txt").chmod(0o400)
    with judged(work, "a.txt") as target, pytest.raises(ToolError, match=os.strerror(errno.EACCES)):
        OpenFile.locked(target, append=False)
