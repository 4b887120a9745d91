"""The place where an unexpected exception came from, without its words: they may hold a secret."""

from __future__ import annotations

from traceback import walk_tb

_PLACES_MAX = 20


def told(error: BaseException) -> str:
    """Its type, and the places that it went through; of an exception behind it, the type."""
    places = [
        f"{frame.f_code.co_filename.rpartition('/')[2]}:{line} {frame.f_code.co_name}"
        for frame, line in walk_tb(error.__traceback__)
    ]
    behind = error.__cause__ or error.__context__
    because = f" (because of {type(behind).__name__})" if behind is not None else ""
    return f"{type(error).__name__}{because} at {' > '.join(places[-_PLACES_MAX:]) or 'an unknown place'}"
