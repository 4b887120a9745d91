"""The anchor has a line before the first entry, follows its file, and keeps the furthest head of every chain."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_gate.ledger import anchor as anchors
from agent_gate.ledger.anchor import Anchor, AnchorKey
from agent_gate.ledger.files import LedgerFiles
from agent_gate.model.bounds import ANCHOR_COMPACT_BYTES
from agent_gate.model.errors import StorageError
from agent_gate.ports.examining import Heads


@pytest.fixture
def files(tmp_path: Path) -> LedgerFiles:
    files = LedgerFiles(tmp_path / "a.db")
    files.create()
    return files


def heads(count: int, project: str = "p") -> Heads:
    return {project: (count, bytes([count % 256]) * 32)}


def test_a_new_anchor_begins_with_a_signed_line_and_an_old_one_does_not_begin_again(files: LedgerFiles) -> None:
    key = AnchorKey.of(files)
    anchor = Anchor(files, key)
    assert anchors.is_blank(files.anchor)
    anchor.begin_if_new("t")
    anchor.begin_if_new("t")
    assert len(files.anchor.read_bytes().splitlines()) == 1
    assert not anchors.is_blank(files.anchor)
    assert anchors.read(files.anchor, key) == {}


@pytest.mark.parametrize("content", [b"", b"half a line"])
def test_an_anchor_without_a_whole_line_is_blank(files: LedgerFiles, content: bytes) -> None:
    assert anchors.is_blank(files.anchor)
    files.anchor.write_bytes(content)
    assert anchors.is_blank(files.anchor)


def test_lines_and_signatures_go_to_the_file_that_another_process_put_in_place(files: LedgerFiles) -> None:
    key = AnchorKey.of(files)
    mine, other = Anchor(files, key), Anchor(files, key)
    mine.append("t", heads(1))
    files.anchor.write_bytes(files.anchor.read_bytes() * (ANCHOR_COMPACT_BYTES // files.anchor.stat().st_size + 2))
    other.compact_if_long("t")
    assert len(files.anchor.read_bytes().splitlines()) == 1
    mine.sync("t")
    assert len(files.anchor.read_bytes().splitlines()) == 2
    mine.append("t", heads(2))
    assert anchors.read(files.anchor, key) == heads(2)


def test_compacting_keeps_the_furthest_head_of_every_chain(files: LedgerFiles) -> None:
    key = AnchorKey.of(files)
    anchor = Anchor(files, key)
    anchor.append("t", heads(3, "a"))
    anchor.append("t", heads(1, "a") | heads(2, "b"))
    files.anchor.write_bytes(files.anchor.read_bytes() * (ANCHOR_COMPACT_BYTES // files.anchor.stat().st_size + 2))
    anchor.compact_if_long("t")
    assert anchors.read(files.anchor, key) == heads(3, "a") | heads(2, "b")
    assert files.anchor.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("raw", [b"", b"short", bytes(33)])
def test_a_key_file_that_holds_no_key_is_an_integrity_error(files: LedgerFiles, raw: bytes) -> None:
    files.anchor_key.write_bytes(raw)
    with pytest.raises(StorageError) as refused:
        AnchorKey.of(files)
    assert refused.value.code == 5004


@pytest.mark.parametrize("zeros", [bytes(40), b"[" + bytes(40)], ids=["whole", "in part"])
def test_zeros_before_a_signed_line_are_no_loss_of_power_but_a_forgery(files: LedgerFiles, zeros: bytes) -> None:
    """Signing waits until every line before it is on the disk: whoever zeroes one to hide a head is found."""
    key = AnchorKey.of(files)
    anchor = Anchor(files, key)
    anchor.begin_if_new("t")
    anchor.append("t", heads(1))
    begin, first = files.anchor.read_bytes().splitlines(keepends=True)
    anchor.sync("t")
    signed = files.anchor.read_bytes().splitlines(keepends=True)[-1]
    files.anchor.write_bytes(begin + zeros + b"\n" + signed)
    with pytest.raises(StorageError, match=r"line 3 of .* was not made with the ledger's key") as refused:
        anchors.read(files.anchor, key)
    assert refused.value.code == 5004
    files.anchor.write_bytes(begin + zeros + b"\n" + first)
    assert anchors.read(files.anchor, key) == {}


def test_a_key_that_is_lost_is_not_replaced_while_its_anchor_is_there(files: LedgerFiles) -> None:
    """A new key would bless whatever the database says now."""
    Anchor(files, AnchorKey.of(files)).begin_if_new("t")
    files.anchor_key.unlink()
    with pytest.raises(StorageError, match=r"the key of .* is gone") as refused:
        AnchorKey.of(files)
    assert refused.value.code == 5004
    assert not files.anchor_key.exists()
