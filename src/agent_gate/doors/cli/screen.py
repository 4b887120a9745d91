"""Output of commands: JSON for machines; colour and tables for people, and only where a terminal shows them."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

import orjson

from agent_gate.model.bounds import SHOWN_CHARS_MAX
from agent_gate.model.tool import Json
from agent_gate.model.visible import more, visible, visible_difference, visible_json, visible_lines

_COLOURS = {
    "green": ("allow", "ok", "success", "open", "verified"),
    "yellow": ("ask", "warn", "expired", "pending_approval", "locked", "erased", "unknown"),
    "red": ("deny", "denied", "fail", "error", "archived", "broken"),
}
_COLOUR_OF = {word: colour for colour, words in _COLOURS.items() for word in words}
_DIFFERENCE = {"+": "green", "-": "red", "@": "dim"}
"""The colour of a line of a unified diff, by how it begins."""
_WRAPPED_COLUMNS_MIN = 20
SIGNATURES_IN_A_LINE_MAX = 3
OUTPUT_LINES_MAX = 5
"""Of each stream of a command; the rest is in the JSON."""
HAS_RUN = "The command has run on a copy, and nothing is written yet. It would change:"
_ANSI = {"green": "32", "yellow": "33", "red": "31", "bold": "1", "dim": "2"}


def shortened(text: object, chars_max: int = SHOWN_CHARS_MAX) -> str:
    return visible(text, chars_max)


def signatures(items: Sequence[str]) -> str:
    """The first of them, on a line."""
    others = len(items) - SIGNATURES_IN_A_LINE_MAX
    return "; ".join(map(shortened, items[:SIGNATURES_IN_A_LINE_MAX])) + (f" and {others} more" if others > 0 else "")


def count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"


def on_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()


def columns() -> int | None:
    """Return the width of the terminal; None where there is none, and a line may be as long as it is."""
    if not on_terminal(sys.stdout):
        return None
    return _terminal_size().columns


def rows() -> int:
    return _terminal_size().lines


def _terminal_size() -> os.terminal_size:
    import shutil  # noqa: PLC0415 -- 2 ms (bz2, lzma) that output to a pipe does not need

    return shutil.get_terminal_size()


def has_colour(stream: TextIO | None) -> bool:
    return on_terminal(stream) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, style: str = "", stream: TextIO | None = None) -> str:
    """The text in a colour, or in the one that belongs to it as a word."""
    code = _ANSI.get(style or _COLOUR_OF.get(text.strip(), ""))
    return f"\x1b[{code}m{text}\x1b[0m" if code and has_colour(stream or sys.stdout) else text


def change_lines(changes: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Each changed file, and below it its difference."""
    for change in changes:
        yield f"{paint(change['change'], 'yellow')}  {visible(change['path'])}"
        for line in difference_of(change):
            yield f"  {difference_line(line)}"


def difference_of(change: Mapping[str, Any]) -> list[str]:
    """Without its first two lines, which name the file once more."""
    lines = visible_difference(change.get("diff") or "")
    return lines[2:] if lines[0].startswith("--- ") else [] if lines == [""] else lines


def printed(data: Json) -> Iterator[str]:
    """Tell how a command ended and what it said: its return code, and the first lines of both of its streams.

    Of one that failed the last line too, where programs say why.
    """
    if not isinstance(data, Mapping) or not isinstance(code := data.get("return_code"), int):
        return
    yield paint(f"return code {code}", "yellow" if code else "dim")
    if data.get("hint"):
        yield shortened(data["hint"])
    for stream in ("stdout", "stderr"):
        yield from _first_lines(stream, str(data.get(stream) or ""), with_last=code != 0)


def _first_lines(stream: str, text: str, *, with_last: bool) -> Iterator[str]:
    lines = text.rstrip().split("\n") if text.strip() else []
    shown = [*map(_output_line, lines[:OUTPUT_LINES_MAX])]
    left_out = len(lines) - len(shown)
    if left_out > 0:
        last = [_output_line(lines[-1])] if with_last else []
        hidden = left_out - len(last)
        shown += [*([paint(f"… {count(hidden, 'more line')}", "dim")] if hidden else []), *last]
    for label, line in zip((stream, *[""] * len(shown)), shown, strict=False):
        yield f"{paint(label.ljust(len('stdout')), 'dim')}  {line}".rstrip()


def _output_line(text: str) -> str:
    [first, *_], left_out = visible_lines(text, SHOWN_CHARS_MAX)
    return first + (more(left_out) if left_out else "")


def difference_line(line: str) -> str:
    """A line of a unified diff in its colour."""
    return paint(line, _DIFFERENCE.get(line[:1], ""))


def say(text: str = "") -> None:
    """A line for people."""
    write(text + "\n")


def warn(text: str) -> None:
    """A line for people that is no part of the answer."""
    if sys.stderr is not None:
        sys.stderr.write(f"warning: {visible(text)}\n")


def write(text: str) -> None:
    if sys.stdout is not None:
        sys.stdout.write(text)


def print_json(value: Json) -> None:
    """One JSON document; spread over lines where a person looks at it."""
    write_json(encoded(value, indent=on_terminal(sys.stdout)) + "\n")


def print_json_line(value: Json) -> None:
    write_json(encoded(value) + "\n")


def write_json(text: str) -> None:
    """Write JSON; a terminal gets it with escapes for what it would obey or not show."""
    write(visible_json(text) if on_terminal(sys.stdout) else text)


def encoded(value: Json, *, indent: bool = False) -> str:
    option = orjson.OPT_INDENT_2 if indent else 0
    try:
        return orjson.dumps(value, option=option).decode()
    except TypeError:
        # Bytes of the command line that are not UTF-8 arrive as lone surrogates, which JSON cannot carry.
        return orjson.dumps(_without_surrogates(value), option=option).decode()


def _without_surrogates(value: Json) -> Json:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, Mapping):
        return {_without_surrogates(key): _without_surrogates(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_surrogates(item) for item in value]
    return value


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str = "", whole: Sequence[str] = ()
) -> None:
    """A table for people; where no terminal is, plain aligned text that other programs can take apart.

    Columns named in `whole` are never broken over lines: moments and ids are there to be copied.
    """
    texts = [["" if cell is None else visible(cell) for cell in row] for row in rows]
    if not texts:
        say(paint(empty, "dim"))
    elif on_terminal(sys.stdout):
        _print_rich_table(columns, texts, whole)
    else:
        _print_plain_table(columns, texts)


def _print_rich_table(columns: Sequence[str], rows: Sequence[Sequence[str]], whole: Sequence[str]) -> None:
    # For speed: Rich takes 60 ms, and only a terminal shows what it draws.
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, no_wrap=column in whole)
    for row in rows:
        table.add_row(*(Text(cell, style=_COLOUR_OF.get(cell, ""), overflow="fold") for cell in row))
    Console(file=sys.stdout, color_system="auto" if has_colour(sys.stdout) else None, highlight=False).print(table)


def _print_plain_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    widths = [max(map(len, cells)) for cells in zip(columns, *rows, strict=True)]
    for row in (columns, *rows):
        say("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def print_fields(fields: Iterable[tuple[str, object]], indent: int = 2) -> None:
    """Names and values; what has no value is left out, and what needs several lines is kept in its column."""
    filled = [(name, str(value)) for name, value in fields if value not in (None, "")]
    width = max((len(name) for name, _ in filled), default=0)
    margin = indent + width + 2
    for name, value in filled:
        first, *others = _lines(value, margin)
        say(f"{' ' * indent}{paint(name.ljust(width), 'dim')}  {first}")
        for line in others:
            say(f"{' ' * margin}{line}".rstrip())


def _lines(value: str, margin: int) -> list[str]:
    """A text of one line is broken between words where the terminal ends; one of several is a diff, and stays."""
    if "\n" in value:
        first, *others = value.split("\n")
        return [*_lines(first, margin), *(difference_line(line) for line in others)]
    room = (columns() or 0) - margin
    if room < _WRAPPED_COLUMNS_MIN or "\x1b" in value:
        return [value]
    return textwrap.wrap(value, room, break_long_words=False, break_on_hyphens=False) or [value]


@contextmanager
def working(what: str) -> Iterator[Callable[[int], None]]:
    """A sign of life during long work, for whoever watches: how long it takes already, and how much it has done."""
    if not on_terminal(sys.stderr) or not on_terminal(sys.stdout):
        yield lambda _: None
        return
    # For speed, as above.
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    console = Console(file=sys.stderr, no_color=not has_colour(sys.stderr))
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done: progress.update(task, description=f"{what}: {done:,}")
