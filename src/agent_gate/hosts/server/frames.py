"""Frames of RFC 6455 in the one form that nearly all of them have: a text in one piece, from an agent or for it.

For speed, decision 0013: the library reads and writes every form, and takes a tenth of the server's time for a call.
Whatever is not plain here is left to it.
"""

from __future__ import annotations

try:
    from websockets.speedups import apply_mask
except ImportError:  # where there is no compiled one
    from websockets.utils import apply_mask

_TEXT = 0x81
"""The last and only frame of its message, without any extension."""
_MASKED = 0x80
_IN_TWO_BYTES, _IN_EIGHT_BYTES = 126, 127
"""Values in place of a length that follows."""
_MASK_BYTES = 4


def text_frame(text: bytes) -> bytes:
    """Frame a text for an agent: a server masks nothing."""
    size = len(text)
    if size < _IN_TWO_BYTES:
        return bytes((_TEXT, size)) + text
    if size < 1 << 16:
        return b"\x81\x7e" + size.to_bytes(2) + text
    return b"\x81\x7f" + size.to_bytes(8) + text


def text_in(data: bytes) -> bytes | None:
    """Return the text where the data is one whole frame of less than 64 KB, masked as an agent must; else None."""
    if len(data) <= 2 + _MASK_BYTES or data[0] != _TEXT:
        return None
    size, begin = data[1] - _MASKED, 2
    if size == _IN_TWO_BYTES:
        size, begin = data[2] << 8 | data[3], 4
    elif not 0 <= size < _IN_TWO_BYTES:
        return None
    mask_end = begin + _MASK_BYTES
    if len(data) != mask_end + size:
        return None
    return apply_mask(data[mask_end:], data[begin:mask_end])


def are_whole(data: bytes) -> bool:
    """Tell if the data, which begins with a frame, also ends with one."""
    at = 0
    while at + 1 < len(data):
        size, begin = data[at + 1] & 0x7F, at + 2
        if size == _IN_TWO_BYTES:
            size, begin = int.from_bytes(data[begin : begin + 2]), begin + 2
        elif size == _IN_EIGHT_BYTES:
            size, begin = int.from_bytes(data[begin : begin + 8]), begin + 8
        at = begin + _MASK_BYTES + size
    return at == len(data)
