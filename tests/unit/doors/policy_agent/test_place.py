"""Where the agent listens: nobody's socket is taken away, and nobody else can put one there."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest

from agent_gate.doors.codes import Unreachable
from agent_gate.doors.policy_agent.place import OURS_ONLY, claimed, default_socket_path, umask
from agent_gate.model.errors import ConfigError


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def bound(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(os.fspath(path))
    return listener


def test_a_directory_that_is_made_is_ours_alone(tmp_path: Path) -> None:
    with umask(0), claimed(tmp_path / "own" / "s"), claimed(tmp_path / "passable" / "s", for_others=True):
        assert (mode(tmp_path / "own"), mode(tmp_path / "passable")) == (0o700, 0o711)


def test_a_socket_is_never_wider_than_it_should_be(tmp_path: Path) -> None:
    with umask(0), umask(OURS_ONLY), bound(tmp_path / "s"):
        assert mode(tmp_path / "s") == 0o600


def test_what_a_killed_agent_left_behind_is_removed(tmp_path: Path) -> None:
    bound(tmp_path / "s").close()
    with claimed(tmp_path / "s"):
        assert not (tmp_path / "s").exists()


def test_a_socket_at_which_somebody_listens_stays(tmp_path: Path) -> None:
    with bound(tmp_path / "s") as listener:
        listener.listen()
        with pytest.raises(Unreachable, match="somebody listens"), claimed(tmp_path / "s"):
            pytest.fail("taken away")
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(os.fspath(tmp_path / "s"))


def test_two_agents_do_not_take_one_path(tmp_path: Path) -> None:
    with claimed(tmp_path / "s"), pytest.raises(Unreachable, match="somebody listens"), claimed(tmp_path / "s"):
        pytest.fail("taken twice")
    with claimed(tmp_path / "s"):
        pass


def test_a_file_that_is_no_socket_stays(tmp_path: Path) -> None:
    (tmp_path / "s").write_text("precious")
    with pytest.raises(ConfigError, match="no socket"), claimed(tmp_path / "s"):
        pytest.fail("removed")
    assert (tmp_path / "s").read_text() == "precious"


def test_the_socket_is_gone_when_the_agent_is(tmp_path: Path) -> None:
    with claimed(tmp_path / "s"):
        bound(tmp_path / "s").close()
    assert not (tmp_path / "s").exists()


def test_a_directory_that_others_can_change_is_refused(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o777)
    with pytest.raises(ConfigError, match="others can change"), claimed(tmp_path / "shared" / "s"):
        pytest.fail("taken")
    (tmp_path / "shared").chmod(0o1777)
    with claimed(tmp_path / "shared" / "s"):
        pass


def test_a_directory_that_others_cannot_reach_into_is_refused_where_they_should(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir(mode=0o700)
    with pytest.raises(ConfigError, match="allow_uids cannot reach"), claimed(tmp_path / "own" / "s", for_others=True):
        pytest.fail("taken")


def test_a_path_that_the_kernel_does_not_take_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="107 bytes"), claimed(tmp_path / ("x" * 108)):
        pytest.fail("taken")


def test_a_file_in_place_of_the_directory_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="not a directory"), claimed(tmp_path / "file" / "s"):
        pytest.fail("taken")


def test_by_default_it_is_in_a_directory_of_this_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert default_socket_path() == tmp_path / "agent-gate" / "policy-agent.sock"
