"""bubblewrap: the very file that was judged is shown, whatever its name has come to mean."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent_gate.model.errors import ToolError
from agent_gate.sandbox.bubblewrap import NEEDED, candidates, options_of
from agent_gate.sandbox.choice import Sandbox
from agent_gate.sandbox.command import Access, Place
from tests.unit.sandbox.commands import finished, made, said, sandboxes


@pytest.fixture
def bubblewrap() -> Sandbox:
    if "bubblewrap" not in sandboxes():
        pytest.skip("this machine has no bubblewrap")
    return sandboxes()["bubblewrap"]


async def test_a_file_is_shown_by_its_descriptor_though_its_name_was_swapped(
    bubblewrap: Sandbox, tmp_path: Path
) -> None:
    judged, secret = tmp_path / "a.txt", tmp_path / "secret"
    judged.write_text("judged")
    secret.write_text("secret")
    descriptor = os.open(judged, os.O_PATH)
    try:
        judged.rename(tmp_path / "elsewhere")
        judged.symlink_to(secret)
        place = Place(str(judged), Access.READ, False, descriptor)
        done = await finished(bubblewrap, ["cat", str(judged)], places=[place], starts_programs=False)
    finally:
        os.close(descriptor)
    assert done.stdout == b"judged"


async def test_a_file_that_was_removed_after_it_was_judged_is_not_replaced_by_another(
    bubblewrap: Sandbox, tmp_path: Path
) -> None:
    judged = tmp_path / "a.txt"
    judged.write_text("judged")
    descriptor = os.open(judged, os.O_PATH)
    try:
        judged.unlink()
        judged.write_text("another")
        place = Place(str(judged), Access.READ, False, descriptor)
        with pytest.raises(ToolError, match="could not be started") as failed:
            await finished(bubblewrap, ["cat", str(judged)], places=[place], starts_programs=False)
    finally:
        os.close(descriptor)
    assert failed.value.code == 2006


async def test_a_name_that_is_a_link_leads_to_what_was_judged(bubblewrap: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "real").write_text("real")
    place = Place(str(tmp_path / "real"), Access.READ, False)
    link = (f"{tmp_path}/other/name", str(tmp_path / "real"))
    done = await finished(bubblewrap, ["cat", link[0]], places=[place], links=[link], starts_programs=False)
    assert done.stdout == b"real"


async def test_what_is_hidden_looks_empty_to_a_reader_and_closed_to_others(bubblewrap: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "f").write_text("needle")
    (tmp_path / "file").write_text("needle")
    places = [
        Place(str(tmp_path), Access.READ, True),
        Place(str(tmp_path / "folder"), Access.NONE, True),
        Place(str(tmp_path / "file"), Access.NONE, False),
    ]
    quiet = await finished(bubblewrap, ["grep", "-r", "needle", str(tmp_path)], places=places, starts_programs=False)
    assert (quiet.return_code, quiet.stdout, quiet.stderr) == (1, b"", b"")
    closed = await finished(bubblewrap, ["sh", "-c", f"cat {tmp_path}/file; ls {tmp_path}/folder"], places=places)
    assert closed.stderr.count(b"Permission denied") == 2


async def test_it_sees_a_machine_of_its_own(bubblewrap: Sandbox) -> None:
    told = await said(bubblewrap, "id -u; uname -n; cat /proc/sys/kernel/osrelease >/dev/null; ls / /etc; pwd")
    assert told.splitlines()[:2] == ["65534", "sandbox"]
    assert {"home", "root", "var", "work", "shadow", "hosts"}.isdisjoint(told.split())


async def test_its_own_temporary_files_are_bounded_and_go_with_it(bubblewrap: Sandbox) -> None:
    fill = "i=0; while [ $i -lt 80 ]; do head -c 1000000 /dev/zero > /tmp/$i || exit 3; i=$((i+1)); done"
    done = await finished(bubblewrap, ["sh", "-c", fill])
    assert (done.return_code, b"No space left" in done.stderr) == (3, True)
    assert await said(bubblewrap, "ls /tmp") == ""


def test_neither_words_nor_variables_show_in_the_list_of_processes(bubblewrap: Sandbox) -> None:
    with made(["true"], env={"TOKEN": "secret"}) as command:
        launch = bubblewrap.wrap(command)
        try:
            assert "secret" not in " ".join(launch.argv)
        finally:
            launch.close()


def test_a_bubblewrap_that_cannot_bind_descriptors_is_not_used() -> None:
    for bwrap in candidates():
        assert set(NEEDED) <= options_of(bwrap) or "bubblewrap" not in sandboxes()
    assert not set(NEEDED) <= options_of("/bin/true")
    assert options_of("/nonexistent") == frozenset()
