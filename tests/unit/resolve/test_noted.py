"""The list of what a user's gates call their own: private, bounded, whole at every moment, and never in the way."""

from __future__ import annotations

import fcntl
import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agent_gate.model.bounds import NOTED_MAX
from agent_gate.resolve.noted import LEDGER, PROTECTED, SECRET, Noted, note, noted, state_directory


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state/agent-gate"


def a_file(path: Path, kind: str = SECRET) -> Noted:
    path.touch()
    return Noted(kind, str(path))


def test_the_list_is_where_the_user_keeps_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", "/var/state")
    assert state_directory() == "/var/state/agent-gate"
    for named in ("", "relative"):
        monkeypatch.setenv("XDG_STATE_HOME", named)
        assert state_directory() == f"{tmp_path}/.local/state/agent-gate"


def test_without_a_home_there_is_no_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "relative")
    monkeypatch.delenv("XDG_STATE_HOME")
    note([a_file(tmp_path / "config.yaml")])
    (tmp_path / "own-files.jsonl").write_text(json.dumps({"kind": "secret", "path": "/a"}))
    assert noted() == ()


def test_each_thing_is_on_the_list_once_in_a_directory_that_is_the_user_s_alone(state: Path, tmp_path: Path) -> None:
    config, ledger = a_file(tmp_path / "config.yaml"), a_file(tmp_path / "gate.db", LEDGER)
    for entries in ([config], [config, ledger], [ledger]):
        note(entries)
    assert noted() == (config, ledger)
    assert state.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in state.iterdir()} == {0o600}


def test_a_list_that_says_it_all_is_not_written_again(state: Path, tmp_path: Path) -> None:
    config = a_file(tmp_path / "config.yaml")
    note([config])
    before = (state / "own-files.jsonl").stat()
    note([config])
    assert (state / "own-files.jsonl").stat().st_ino == before.st_ino


def test_what_is_gone_leaves_the_list_when_something_new_comes(state: Path, tmp_path: Path) -> None:
    old, new = a_file(tmp_path / "old.yaml"), a_file(tmp_path / "new.yaml", PROTECTED)
    note([old])
    Path(old.path).unlink()
    note([new])
    assert noted() == (new,)
    assert state.is_dir()


def test_neither_directories_nor_what_does_not_exist_are_noted(state: Path, tmp_path: Path) -> None:
    note([Noted(SECRET, str(tmp_path)), Noted(SECRET, str(tmp_path / "absent"))])
    assert noted() == ()
    assert not state.exists()


def test_the_list_is_bounded_and_keeps_the_newest(state: Path, tmp_path: Path) -> None:
    entries = [a_file(tmp_path / f"{number}.yaml") for number in range(NOTED_MAX + 5)]
    note(entries[:-1])
    note(entries[-1:])
    assert noted() == tuple(entries[-NOTED_MAX:])
    assert state.is_dir()


def test_lines_that_are_not_entries_are_passed_by_and_unknown_kinds_are_secret(state: Path) -> None:
    state.mkdir(parents=True)
    lines = [
        "not json",
        "[]",
        '{"kind": "secret"}',
        '{"kind": "secret", "path": "relative"}',
        '{"kind": "secret", "path": 7}',
        json.dumps({"kind": "of a later release", "path": "/a"}),
        json.dumps({"kind": "protected", "path": "/b", "since": 1}),
    ]
    (state / "own-files.jsonl").write_text("\n".join(lines))
    assert noted() == (Noted(SECRET, "/a"), Noted(PROTECTED, "/b"))


def test_starts_at_once_lose_nothing_of_each_other(state: Path, tmp_path: Path) -> None:
    entries = [a_file(tmp_path / f"{number}.yaml") for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda entry: note([entry]), entries))
    assert sorted(noted()) == sorted(entries)
    assert state.is_dir()


def test_a_start_does_not_wait_for_a_list_that_somebody_keeps_locked(state: Path, tmp_path: Path) -> None:
    state.mkdir(parents=True)
    lock = os.open(state / "own-files.lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    note([a_file(tmp_path / "config.yaml")])
    os.close(lock)
    assert noted() == ()


def test_a_home_that_cannot_be_written_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    for place in (tmp_path / "file", Path("/proc")):
        monkeypatch.setenv("XDG_STATE_HOME", str(place))
        note([a_file(tmp_path / "config.yaml")])
        assert noted() == ()
