"""A deny of a path holds however the state is changed: every path that a call changes is one of its names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

import jsonpatch
import jsonpointer
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent_gate.model.bounds import STATE_PATHS_CHARS_MAX, STATE_PATHS_MAX
from agent_gate.model.errors import ToolError
from agent_gate.model.tool import Json
from agent_gate.model.verdict import Decision
from agent_gate.policy.aliases import aliases_of
from agent_gate.policy.documents import ABSENT, changed_places, place_of, pointer_to, value_at
from agent_gate.policy.encoding import encoded_text
from agent_gate.policy.patches import patched
from agent_gate.policy.pointers import with_pointer
from agent_gate.policy.state_aliases import aliases_of_change, is_read, is_wide
from agent_gate.services.state import StateService
from agent_gate.tools.catalogue import BUILTIN
from tests.unit.policy.judging import judged, tool

NAMES = st.sampled_from(("a", "b", "0", "1", "-", "", "x*", "~/"))
SCALARS = st.sampled_from((None, True, False, 0, 1, 1.0, "t", ""))
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=8
)
STATES = st.dictionaries(NAMES, VALUES, max_size=4)
POINTERS = st.lists(NAMES, max_size=4).map(pointer_to)
OPERATIONS = st.one_of(
    st.builds(lambda op, path, value: {"op": op, "path": path, "value": value},
              st.sampled_from(("add", "replace", "test")), POINTERS, VALUES),
    st.builds(lambda path: {"op": "remove", "path": path}, POINTERS),
    st.builds(lambda op, path, source: {"op": op, "path": path, "from": source},
              st.sampled_from(("move", "copy")), POINTERS, POINTERS),
)  # fmt: skip
CALLS = st.one_of(
    st.builds(lambda path, value: ("state.set", {"path": path, "value": value}), POINTERS, VALUES),
    st.builds(lambda path: ("state.delete", {"path": path}), POINTERS),
    st.builds(lambda patch: ("state.patch", {"patch": patch}), st.lists(OPERATIONS, min_size=1, max_size=4)),
)
TRANSITIONS = {registered.declaration.name: registered.transition for registered in StateService().registered_tools()}


def written_out(value: Json, path: str = "") -> dict[str, object]:
    """Every path of a document with what makes it differ from another there: a value, or which kind of holder."""
    if isinstance(value, dict):
        below = [written_out(item, path + pointer_to([name])) for name, item in value.items()]
    elif isinstance(value, list):
        below = [written_out(item, f"{path}/{number}") for number, item in enumerate(value)]
    else:
        return {path: (isinstance(value, bool), value)}
    return {path: type(value), **{where: what for each in below for where, what in each.items()}}


def changed(before: Json, after: Json) -> set[str]:
    old, new = written_out(before), written_out(after)
    missing = object()
    return {path for path in {*old, *new} if old.get(path, missing) != new.get(path, missing)}


def name_of(path: str, tool: str = "state.set") -> str:
    return f"{tool}({encoded_text('path', path)})"


def is_told(path: str, aliases: Sequence[str], tool: str = "state.set") -> bool:
    wide, name = [alias[:-2] for alias in aliases if is_wide(alias)], name_of(path, tool)
    return name in aliases or any(name.startswith(beginning) for beginning in wide)


@given(STATES, CALLS)
@example({"a": {"b": 1}}, ("state.set", {"path": "/a", "value": {"b": True}}))
@example({"a": [1, 2, 3]}, ("state.delete", {"path": "/a/0"}))
@example({"a": [1]}, ("state.set", {"path": "/a/-", "value": 2}))
@example({"a": {"b": 1}}, ("state.patch", {"patch": [{"op": "copy", "from": "", "path": "/b"}]}))
@example({"a": {"b": 1}}, ("state.patch", {"patch": [{"op": "move", "from": "/a", "path": "/b"}]}))
def test_every_path_that_a_call_changes_is_one_of_its_names(state: Json, call: tuple[str, Any]) -> None:
    name, args = call
    transition = TRANSITIONS[name]
    assert transition is not None
    args = with_pointer(args)
    aliases = aliases_of(BUILTIN[name], args, state)
    try:
        after = transition(deepcopy(dict(args)), deepcopy(state)).state
    except ToolError:
        return
    created = {""} | {args["path"][:end] for end in range(len(args.get("path", "")))}  # on the way to what is set
    assert [path for path in changed(state, after) - created if not is_told(path, aliases)] == []


@given(VALUES, VALUES)
@example([None], {"a": None, "0": None})
def test_of_a_whole_new_state_every_path_that_changes_is_told(before: Json, after: Json) -> None:
    told, differ = set(map(pointer_to, changed_places(before, after))), changed(before, after)
    assert told >= differ
    # Where a list becomes an object, its first element is another thing than the member `0`.
    assert all(path.rpartition("/")[0] in told for path in told - differ)
    assert set(aliases_of_change(before, after)) == set(map(name_of, told))


@given(STATES, st.lists(OPERATIONS, max_size=5))
def test_a_patch_comes_out_as_the_standard_has_it_and_leaves_the_old_document_alone(
    state: Json, patch: list[dict[str, Any]]
) -> None:
    before, given_patch = deepcopy(state), deepcopy(patch)
    try:
        expected = jsonpatch.apply_patch(state, patch)
    except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException, TypeError):
        with pytest.raises(ToolError):
            patched(state, patch)
    else:
        after = patched(state, patch)
        assert written_out(after) == written_out(expected)
    assert (written_out(state), patch) == (written_out(before), given_patch)


MANY = {f"k{number}": number for number in range(STATE_PATHS_MAX + 1)}
LONG = {"k" * STATE_PATHS_CHARS_MAX: [1, 2]}


@pytest.mark.parametrize(
    ("name", "args", "state", "at"),
    [
        ("state.set", {"path": "/a", "value": MANY}, {}, "/a"),
        ("state.set", {"path": "/a", "value": LONG}, {}, "/a"),
        ("state.delete", {"path": "/a"}, {"a": MANY}, "/a"),
        ("state.delete", {"path": "/a/0"}, {"a": list(range(STATE_PATHS_MAX + 2))}, "/a"),
        ("state.patch", {"patch": [{"op": "add", "path": "/a/b/c", "value": MANY}]}, {"a": {"b": {}}}, "/a/b"),
        ("state.patch", {"patch": [{"op": "add", "path": f"/a/{n}", "value": n} for n in range(999)]}, {"a": {}}, "/a"),
        ("state.patch", {"patch": [{"op": "move", "from": "/b/x", "path": "/a/x"}]}, {"a": {}, "b": {"x": MANY}}, ""),
    ],
)
def test_too_many_paths_are_told_as_all_that_lies_below_one(
    name: str, args: Mapping[str, Json], state: Json, at: str
) -> None:
    below = f"state.set({at}/*)"
    changing = tuple(alias for alias in aliases_of(BUILTIN[name], args, state) if not is_read(alias))
    assert changing == ((name_of(at), below) if args.get("path") == at else (below,))


@given(STATES, st.sampled_from(["", "/a", "/b", "/a/b", "/a/0", "/c/-"]))
def test_every_path_that_a_read_shows_is_one_of_its_names(state: Json, path: str) -> None:
    shown = value_at(state, place_of(path))
    below = set() if shown is ABSENT else {f"{path}{one}" for one in written_out(shown) if one}
    aliases = aliases_of(BUILTIN["state.get"], {"path": path}, state)
    assert [one for one in below if not is_told(one, aliases, "state.get")] == []


def test_an_operation_that_is_none_has_no_names_and_is_no_fault() -> None:
    odd: list[Json] = [[], {}, None, 1, "no"]
    for op in odd:
        assert aliases_of(BUILTIN["state.patch"], {"patch": [{"op": op, "path": [], "from": {}}]}, {}) == ()


@pytest.mark.parametrize(
    ("action", "pattern", "decision"),
    [
        ("deny", "state.set(/a/k9*)", "deny"),
        ("deny", "state.set(/a*)", "deny"),
        ("deny", "state.set(/?/k1)", "deny"),
        ("deny", "state.set(/[ab]/k1)", "deny"),
        ("deny", "*admin*", "deny"),
        ("deny", "state.set(/a)", "allow"),
        ("deny", "state.set(/b*)", "allow"),
        ("deny", "state.set(/a)x", "allow"),
        ("deny", "state.set(/[!a]/k1)", "allow"),
        ("ask", "state.set(/a/k1)", "ask"),
        ("ask", "state.set(/ab*)", "allow"),
    ],
)
def test_a_rule_that_may_speak_of_one_of_too_many_paths_speaks(action: str, pattern: str, decision: str) -> None:
    aliases = aliases_of(BUILTIN["state.patch"], {"patch": [{"op": "add", "path": "/a/b", "value": MANY}]}, {"a": {}})
    policy: dict[str, Json] = {
        "rules": [{"pattern": "state.patch(*)", "action": "allow"}, {"pattern": pattern, "action": action}]
    }
    verdict = judged(policy, tool("state.patch"), "state.patch(…)", aliases=aliases)
    assert verdict.decision.value == decision
    if decision == "deny":
        assert "change fewer paths at a time" in str(verdict.problem)


@pytest.mark.parametrize(
    ("allowed", "decision"),
    [("state.*", "allow"), ("state.set(/a/*)", "allow"), ("state.set(/a/k*)", "ask"), ("state.set(/a/?*)", "ask")],
)
def test_only_an_allow_of_all_of_too_many_paths_silences_an_ask(allowed: str, decision: str) -> None:
    aliases = ("state.set(/a/*)",)
    rules = [("allow", "state.patch(*)"), ("allow", allowed), ("ask", "state.set(/a/*)")]
    policy: dict[str, Json] = {"rules": [{"pattern": pattern, "action": action} for action, pattern in rules]}
    assert judged(policy, tool("state.patch"), "state.patch(…)", aliases=aliases).decision.value == decision


PATTERNS = st.lists(st.sampled_from(("state.", "set(", "/a", "/", "k", "1", "*", "?", "[ab/]", ")")), max_size=7).map(
    "".join
)


@given(PATTERNS, st.sampled_from(("deny", "ask")), PATTERNS, st.integers(0, 30))
def test_too_many_paths_are_never_judged_less_strictly_than_each_of_them(
    pattern: str, action: str, allowed: str, number: int
) -> None:
    rules = [("allow", "state.patch(*)"), (action, pattern or "*"), ("allow", allowed or "x")]
    policy: dict[str, Json] = {"rules": [{"pattern": pattern, "action": action} for action, pattern in rules]}

    def decision(alias: str) -> Decision:
        return judged(policy, tool("state.patch"), "state.patch(…)", aliases=(alias,)).decision

    strictness = (Decision.ALLOW, Decision.ASK, Decision.DENY)
    assert strictness.index(decision("state.set(/a/*)")) >= strictness.index(decision(f"state.set(/a/k{number})"))


def test_a_patch_that_would_grow_without_end_is_refused_before_it_grows() -> None:
    doubling = [{"op": "copy", "from": "", "path": f"/x{number}"} for number in range(1_000)]
    with pytest.raises(ToolError, match="moves or copies too much"):
        patched({"a": list(range(100))}, doubling)
    shifting = [{"op": "add", "path": "/a/0", "value": 0}] * 1_000
    with pytest.raises(ToolError, match="moves or copies too much"):
        patched({"a": [0] * 1_000_000}, shifting)
    assert len(patched({"a": [0] * 1_000}, shifting)["a"]) == 2_000
