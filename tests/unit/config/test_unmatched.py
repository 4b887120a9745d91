"""A rule that can never match is told when the policy is loaded, and one that can is not."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_gate.config import load_policy
from agent_gate.config.policy_warnings import warnings_of
from agent_gate.config.unmatched import why_unmatched
from agent_gate.model.builtin import BUILTIN
from agent_gate.policy.aliases import aliases_of
from agent_gate.policy.changes import write_signature
from agent_gate.policy.declared import unregistered
from agent_gate.policy.guards.fetches import read_fetch
from agent_gate.policy.guards.surroundings import Surroundings
from agent_gate.policy.pointers import with_pointer
from agent_gate.policy.rule_paths import resolved
from agent_gate.policy.signature import signatures_for


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("fs.read(notes/*)", "begins with `/`"),
        ("fs.write(out.txt)", "begins with `/`"),
        ("fs.read(../x)", "begins with `/`"),
        ("fs.read(/etc/*", ""),
        ("fs.read(/etc/passwd", "ends with `)`"),
        ("state.set(settings.admin*)", "begins with `/`"),
        ("state.delete(a)", "begins with `/`"),
        ("http.get(example.com*)", "begins with `https://`"),
        ("http.get(ftp://example.com*)", "begins with `https://`"),
        ("http.get(https://Example.com/*)", "lower case"),
        ("ha_call_service(light.turn_on,light.a)", "`%2C`"),
        ("(x)", "the name of a tool"),
        ("*", ""),
        ("fs.*", ""),
        ("fs.*(./x)", ""),
        ("fs.read(*.env)", ""),
        ("fs.read(./notes/*)", ""),
        ("fs.read(~/notes/*)", ""),
        ("fs.read([./]*)", ""),
        ("state.set(/a*)", ""),
        ("state.set()", ""),
        ("state.get", ""),
        ("http.get(*)", ""),
        ("http.get(http*)", ""),
        ("http.get(https://*.Example.com/X)", ""),
        ("ha_call_service(light.turn_on, *)", ""),
        ("shell.run(git log*)", ""),
        ("shell.run(git?log)", ""),
    ],
)
def test_what_no_signature_can_be_is_known_by_its_pattern(pattern: str, why: str) -> None:
    found = why_unmatched(pattern)
    assert (why in found) if why else found == ""


def test_the_warning_names_the_rule_and_the_policy_still_loads(tmp_path: Path) -> None:
    policy = load_policy({"rules": [{"pattern": "*", "action": "ask"}, {"pattern": "fs.read(x)", "action": "deny"}]})
    assert warnings_of(policy) == ("rules[1] `fs.read(x)` can never match: a path in it begins with `/`, `./` or `~/`",)


TEXT = st.text(st.sampled_from("aA,. /()[]*?%\n\"'-:~é"), max_size=6)


def _signatures() -> st.SearchStrategy[list[str]]:
    def of(name: str, args: dict[str, object]) -> list[str]:
        args = dict(with_pointer(args)) if name.startswith("state.") and name != "state.patch" else args
        declaration = BUILTIN.get(name) or unregistered(name)
        return [*signatures_for(declaration, args), *aliases_of(name, args, {})]

    paths = TEXT.map(lambda text: "/" + text.replace("~", ""))
    return st.one_of(
        paths.map(lambda path: [write_signature(path), write_signature(path).replace("fs.write", "fs.read")]),
        st.builds(lambda path, value: of("state.set", {"path": path, "value": value}), paths, TEXT),
        paths.map(lambda path: of("state.delete", {"path": path})),
        paths.map(lambda path: of("state.get", {"path": path})),
        st.dictionaries(TEXT.filter(bool), TEXT, max_size=3).map(lambda args: of("own.tool", dict(args))),
        st.builds(
            lambda host, path: list(read_fetch({"url": f"https://{host}.Org:443/{path}"}).signatures),
            st.sampled_from(("a", "B", "c.D")),
            st.sampled_from(("", "A", "a,b", "x?y,z", "%28", "a%2cB")),
        ),
    )


@given(_signatures(), st.data())
def test_no_pattern_that_matches_a_signature_is_told_never_to_match(signatures: list[str], data: st.DataObject) -> None:
    """Patterns are made of a signature by putting wildcards into it; those match it."""
    for signature in signatures:
        pattern = signature
        for _ in range(data.draw(st.integers(0, 3))):
            start = data.draw(st.integers(0, len(pattern)))
            end = data.draw(st.integers(start, len(pattern)))
            pattern = pattern[:start] + "*" + pattern[end:]
        if fnmatchcase(signature, pattern):
            assert why_unmatched(pattern) == "", signature


def test_relative_paths_in_rules_are_those_of_the_working_directory_and_of_home() -> None:
    around = Surroundings("/srv/a (1)", home="/home/anna", links={"/srv/a (1)/linked": "/data/x*"})
    assert [resolved(pattern, around) for pattern in (
        "fs.read(./notes/*)", "fs.write(./x.txt)", "fs.*(./*)", "fs.read(~/out/a?)", "fs.read(./../b/*)",
        "fs.read(./linked/*)", "fs.read(./notes/*", "fs.read(/etc/*)", "state.set(./a)", "fs.read(*)",
    )] == [
        "fs.read(/srv/a %281%29/notes/*)", "fs.write(/srv/a %281%29/x.txt)", "fs.*(/srv/a %281%29/*)",
        "fs.read(/home/anna/out/a?)", "fs.read(/srv/b/*)", "fs.read(/data/x%2A/*)", "fs.read(/srv/a %281%29/notes/*",
        "fs.read(/etc/*)", "state.set(./a)", "fs.read(*)",
    ]  # fmt: skip
    assert resolved("fs.read(~/x)", Surroundings("/srv")) == "fs.read(~/x)"
