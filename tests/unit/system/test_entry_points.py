"""What other packages offer, found without reading the metadata of all of them."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import pytest

from agent_gate.system.entry_points import SERVICES, offers


@pytest.mark.parametrize("kind", ["dist-info", "egg-info"])
def test_a_package_that_offers_a_service_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    _package(tmp_path / f"mine-1.{kind}", "agent_gate.services")
    monkeypatch.syspath_prepend(tmp_path)
    assert [point.name for point in offers(SERVICES)] == ["mine"]


def test_a_package_in_an_archive_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.writestr("mine-1.dist-info/METADATA", "Name: mine\nVersion: 1\n")
        archive.writestr("mine-1.dist-info/entry_points.txt", "[agent_gate.services]\nmine = mine:Mine\n")
    monkeypatch.syspath_prepend(tmp_path / "all.zip")
    assert [point.name for point in offers(SERVICES)] == ["mine"]


def test_packages_that_offer_something_else_are_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _package(tmp_path / "mine-1.dist-info", "console_scripts")
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(tmp_path / "gone")])
    assert list(offers(SERVICES)) == []


def _package(information: Path, group: str) -> None:
    information.mkdir()
    (information / ("METADATA" if information.suffix == ".dist-info" else "PKG-INFO")).write_text(
        "Metadata-Version: 2.1\nName: mine\nVersion: 1\n"
    )
    (information / "entry_points.txt").write_text(f"[{group}]\nmine = mine:Mine\n")
