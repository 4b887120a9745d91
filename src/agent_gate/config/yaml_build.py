"""Builds values from YAML events within bounds, so that no text can grow, nest or loop without end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

from agent_gate.config.places import Field, field_name
from agent_gate.config.yaml_scalars import plain
from agent_gate.model.bounds import YAML_ALIAS_NODES_MAX, YAML_BYTES_MAX, YAML_DEPTH_MAX, YAML_NODES_MAX
from agent_gate.model.tool import Json

Lines: TypeAlias = tuple[int, Any]
"""The line of a value, and the same for each value below it."""

_PROBLEMS_MAX = 20


@dataclass(frozen=True, slots=True)
class Bounds:
    bytes_max: int = YAML_BYTES_MAX
    depth_max: int = YAML_DEPTH_MAX
    nodes_max: int = YAML_NODES_MAX
    alias_nodes_max: int = YAML_ALIAS_NODES_MAX


class YamlProblem(Exception):
    """A mistake in a line; raised where going on makes no sense, else collected."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(f"{line}: {text}")


@dataclass(slots=True)
class _Node:
    """A finished value with what it weighs, for the aliases that repeat it."""

    value: Json
    lines: Lines
    nodes: int = 1
    chars: int = 0
    depth: int = 0


@dataclass(slots=True)
class _Frame:
    """A list or mapping that is still open."""

    node: _Node
    anchor: str | None
    key: str | None = None
    key_line: int = 0
    seen: dict[str, int] = field(default_factory=dict)
    """Keys so far, with their lines."""


class Builder:
    """Takes the events of one document in their order; `root` is the value with its lines once all came."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.root: tuple[Json, Lines] | None = None
        self.problems: list[YamlProblem] = []
        self._frames: list[_Frame] = []
        self._anchors: dict[str, _Node | None] = {}
        self._documents = self._nodes = self._alias_nodes = self._alias_chars = 0

    def take(self, event: Any) -> None:
        handle = _HANDLERS.get(type(event).__name__)
        if handle is None:
            return
        line = event.start_mark.line + 1
        self._nodes += handle is not Builder._close
        if self._nodes > self.bounds.nodes_max:
            raise YamlProblem(line, f"more than {self.bounds.nodes_max} values")
        handle(self, event, line)

    def _document(self, _event: Any, line: int) -> None:
        self._documents += 1
        if self._documents > 1:
            raise YamlProblem(line, "a second document; keep one to a file, without `---` between parts")

    def _scalar(self, event: Any, line: int) -> None:
        self._refuse_tag(event, line)
        _refuse_surrogates(event.value, line)
        text, is_plain = event.value, event.implicit[0] and not event.style
        frame = self._frames[-1] if self._frames else None
        if frame is not None and frame.key is None and isinstance(frame.node.value, dict):
            self._key(frame, text, is_plain, line)
            return
        if frame is None and is_plain and not text:
            return
        node = _Node(self._resolve(text, line) if is_plain else text, (line, None), chars=len(text))
        self._finish(node, event.anchor)

    def _resolve(self, text: str, line: int) -> Json:
        try:
            return plain(text)
        except ValueError as error:
            self._collect(line, str(error))
            return None

    def _key(self, frame: _Frame, text: str, is_plain: bool, line: int) -> None:
        frame.key, frame.key_line = text, line
        frame.node.chars += len(text)
        if is_plain and text == "<<":
            self._collect(line, "merge keys (`<<`) are not used here; write the fields out")
        elif is_plain and not isinstance(self._resolve(text, line), str):
            self._collect(line, "a key must be text; write it in quotes")
        elif text in frame.seen:
            self._collect(line, f"given twice, first in line {frame.seen[text]}; keep one")
        frame.seen.setdefault(text, line)

    def _open(self, event: Any, line: int) -> None:
        self._refuse_tag(event, line)
        self._refuse_complex_key(line)
        if len(self._frames) >= self.bounds.depth_max:
            raise YamlProblem(line, f"nested deeper than {self.bounds.depth_max} levels")
        empty: Any = {} if type(event).__name__ == "MappingStartEvent" else []
        self._frames.append(_Frame(_Node(empty, (line, type(empty)())), event.anchor))
        if event.anchor:
            self._anchors[event.anchor] = None

    def _close(self, _event: Any, _line: int) -> None:
        frame = self._frames.pop()
        frame.node.depth += 1
        self._finish(frame.node, frame.anchor)

    def _alias(self, event: Any, line: int) -> None:
        self._refuse_complex_key(line)
        node = self._anchors.get(event.anchor)
        if node is None:
            what = "stands inside itself" if event.anchor in self._anchors else "is not defined above"
            raise YamlProblem(line, f"the anchor of this alias {what}")
        self._alias_nodes += node.nodes
        self._alias_chars += node.chars
        if self._alias_nodes > self.bounds.alias_nodes_max or self._alias_chars > self.bounds.bytes_max:
            raise YamlProblem(line, f"aliases expand to more than {self.bounds.alias_nodes_max} values; write them out")
        if len(self._frames) + node.depth > self.bounds.depth_max:
            raise YamlProblem(line, f"nested deeper than {self.bounds.depth_max} levels")
        self._finish(_Node(node.value, (line, node.lines[1]), node.nodes, node.chars, node.depth), None)

    def _finish(self, node: _Node, anchor: str | None) -> None:
        if anchor:
            self._anchors[anchor] = node
        if not self._frames:
            self.root = (node.value, node.lines)
            return
        frame = self._frames[-1]
        around = frame.node
        around.nodes += node.nodes
        around.chars += node.chars
        around.depth = max(around.depth, node.depth)
        if frame.key is None:
            around.value.append(node.value)
            around.lines[1].append(node.lines)
            return
        around.value[frame.key] = node.value
        # A field is looked for at its key, also where its value begins further down.
        around.lines[1][frame.key] = (frame.key_line, node.lines[1])
        frame.key = None

    def _refuse_tag(self, event: Any, line: int) -> None:
        if event.tag is not None:
            self._collect(line, "tags (`!…`) are not used here; write the plain value")

    def _refuse_complex_key(self, line: int) -> None:
        if self._frames and self._frames[-1].key is None and isinstance(self._frames[-1].node.value, dict):
            raise YamlProblem(line, "a key must be text")

    def _collect(self, line: int, text: str) -> None:
        name = field_name(self._place())
        self.problems.append(YamlProblem(line, f"{name}: {text}" if name else text))
        if len(self.problems) >= _PROBLEMS_MAX:
            raise YamlProblem(line, "and more; these first")

    def _place(self) -> Field:
        steps: list[str | int] = []
        for frame in self._frames:
            if isinstance(frame.node.value, list):
                steps.append(len(frame.node.value))
            elif frame.key is not None:
                steps.append(frame.key)
        return tuple(steps)


def _refuse_surrogates(text: str, line: int) -> None:
    """The C parser refuses their escapes itself, the parser in Python does not."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise YamlProblem(line, "not valid YAML: found invalid Unicode character escape code") from None


_HANDLERS: dict[str, Any] = {
    "DocumentStartEvent": Builder._document,
    "ScalarEvent": Builder._scalar,
    "SequenceStartEvent": Builder._open,
    "MappingStartEvent": Builder._open,
    "SequenceEndEvent": Builder._close,
    "MappingEndEvent": Builder._close,
    "AliasEvent": Builder._alias,
}
