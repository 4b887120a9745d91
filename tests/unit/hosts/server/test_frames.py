"""Frames in their plain form: the same bytes as the library's, and None for whatever is not plain."""

from __future__ import annotations

from collections.abc import Generator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import Frame, Opcode
from websockets.streams import StreamReader

from agent_gate.hosts.server.frames import are_whole, text_frame, text_in

SIZES = (0, 1, 2, 124, 125, 126, 127, 128, 1_000, 65_535, 65_536, 70_000)


def by_library(data: bytes) -> list[Frame] | None:
    """The frames in data that a client sent; None where it does not end with one."""
    reader, found = StreamReader(), list[Frame]()
    reader.feed_data(data)
    while reader.buffer:
        parsing: Generator[None, None, Frame] = Frame.parse(reader.read_exact, mask=True)
        try:
            next(parsing)
        except StopIteration as ended:
            found.append(ended.value)
            continue
        return None
    return found


def sent(payload: bytes, opcode: Opcode = Opcode.TEXT, *, fin: bool = True) -> bytes:
    return Frame(opcode, payload, fin).serialize(mask=True)


@pytest.mark.parametrize("size", SIZES)
def test_an_answer_is_framed_as_the_library_does(size: int) -> None:
    text = b"x" * size
    assert text_frame(text) == Frame(Opcode.TEXT, text).serialize(mask=False)


@pytest.mark.parametrize("size", SIZES)
def test_a_text_in_one_piece_is_found_up_to_64_kb(size: int) -> None:
    text = bytes(number % 251 for number in range(size))
    assert text_in(sent(text)) == (text if 0 < size < 65_536 else None)


@given(st.binary(min_size=1, max_size=300), st.binary(max_size=20))
def test_what_is_found_is_what_the_library_finds(text: bytes, more: bytes) -> None:
    data = sent(text)
    assert text_in(data) == text
    assert text_in(data[:-1]) is None
    if more:
        assert text_in(data + more) is None


@given(st.binary(max_size=400))
def test_any_bytes_are_read_as_the_library_reads_them_or_left_to_it(data: bytes) -> None:
    text = text_in(data)
    if text is not None:
        frames = by_library(data)
        assert frames is not None
        assert [(frame.opcode, frame.fin, bytes(frame.data)) for frame in frames] == [(Opcode.TEXT, True, text)]


NOT_PLAIN = {
    "nothing": b"",
    "a byte": b"\x81",
    "half a head": b"\x81\x80",
    "a first part": sent(b"part", fin=False),
    "a last part": sent(b"rest", Opcode.CONT),
    "bytes": sent(b"bytes", Opcode.BINARY),
    "a ping": sent(b"ping", Opcode.PING),
    "an extension": b"\xc1" + sent(b"compressed")[1:],
    "not masked": Frame(Opcode.TEXT, b"not masked").serialize(mask=False),
    "two": sent(b"two") + sent(b"texts"),
    "a long length": b"\x81\xff" + (5).to_bytes(8) + bytes(4) + b"hello",
}


@pytest.mark.parametrize("name", NOT_PLAIN)
def test_what_is_not_plain_is_left_to_the_library(name: str) -> None:
    assert text_in(NOT_PLAIN[name]) is None


_frames = st.lists(
    st.builds(sent, st.binary(max_size=200), st.sampled_from([Opcode.TEXT, Opcode.BINARY, Opcode.CONT])), max_size=5
)


@given(_frames, st.integers(0, 40))
def test_whether_data_ends_with_a_frame_is_known(frames: list[bytes], cut: int) -> None:
    whole = b"".join(frames)
    data = whole[: len(whole) - cut] if cut else whole
    assert are_whole(data) == (by_library(data) is not None)


@pytest.mark.parametrize("size", SIZES)
def test_a_frame_of_any_size_is_whole_and_a_part_of_it_is_not(size: int) -> None:
    data = sent(b"x" * size, Opcode.BINARY)
    assert are_whole(data)
    assert not any(are_whole(data[:end]) for end in {1, 2, 3, len(data) // 2, len(data) - 1} if 0 < end < len(data))
