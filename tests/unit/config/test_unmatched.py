"""A rule that can never match is told when the policy is loaded, and one that can is not."""

from __future__ import annotations

import logging
import posixpath
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_gate.config import load_policy
from agent_gate.config.policy_warnings import warnings_of
from agent_gate.config.unmatched import Unmatched
from agent_gate.model.tool import ToolDeclaration
from agent_gate.policy.aliases import aliases_of
from agent_gate.policy.changes import write_signature
from agent_gate.policy.declared import unregistered
from agent_gate.policy.guards.fetches import read_fetch
from agent_gate.policy.guards.surroundings import Surroundings
from agent_gate.policy.pointers import with_pointer
from agent_gate.policy.rule_paths import resolved
from agent_gate.policy.signature import signatures_for
from agent_gate.tools.catalogue import BUILTIN
from tests.gates import a_gate, sender


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
    found = Unmatched(BUILTIN).why(pattern)
    assert (why in found) if why else found == ""


def test_the_warning_names_the_rule_and_the_policy_still_loads(tmp_path: Path) -> None:
    policy = load_policy({"rules": [{"pattern": "*", "action": "ask"}, {"pattern": "fs.read(x)", "action": "deny"}]})
    assert warnings_of(policy) == (
        "rules[1] `fs.read(x)` can never match: a path in it begins with `/`, `./` or `~/`; `fs.read(./x)` would",
    )


@pytest.mark.parametrize(
    ("pattern", "nearest"),
    [
        ("FS.read(/etc/*)", "fs.read(/etc/*)"),
        ("fs.raed(/etc/*)", "fs.read(/etc/*)"),
        ("Shell.Run(git log*)", "shell.run(git log*)"),
        ("ha_get_stat(light.a)", "ha_get_state(light.a)"),
        ("state.gett", "state.get"),
        ("ha_call_service(Light.Turn_On, light.a)", "ha_call_service(light.turn_on, light.a)"),
        ("ha_get_state(person.Anna*)", "ha_get_state(person.anna*)"),
        ("ha_fire_event(MY_EVENT)", "ha_fire_event(my_event)"),
        ("fs.read(/etc/passwd", "fs.read(/etc/passwd)"),
        ("fs.read(/etc/*))", "fs.read(/etc/*)"),
        ("fs.read)", "fs.read(*)"),
        ("mail.send(hello (you))", "mail.send(hello %28you%29)"),
        ("ha_call_service((lock.*)", "ha_call_service(%28lock.*)"),
        ("fs.read(notes/*)", "fs.read(./notes/*)"),
        ("fs.write(../x)", "fs.write(./../x)"),
        ("fs.write(src/*", "fs.write(./src/*"),
        ("fs.read(/srv//app/*)", "fs.read(/srv/app/*)"),
        ("fs.read(/srv/./app/../*)", "fs.read(/srv/*)"),
        ("fs.read(/srv/app/)", "fs.read(/srv/app)"),
        ("fs.read", "fs.read(*)"),
        ("shell.run", "shell.run(*)"),
        ("http.get", "http.get(*)"),
        ("state.set", "state.set(*)"),
        ("ha_call_service", "ha_call_service(*)"),
        ("ha_list_areas(*)", "ha_list_areas"),
        ("ha_render_template(*)", "ha_render_template"),
        ("ha_activate_scene(*)", "ha_call_service(scene.turn_on, *)"),
        ("ha_activate_scene(scene.night)", "ha_call_service(scene.turn_on, scene.night)"),
        ("ha_activate_scene", "ha_call_service(scene.turn_on, *)"),
        ("state.set(settings*)", "state.set(/settings*)"),
        ("http.get(example.com/*)", "http.get(https://example.com/*)"),
        ("http.get(ftp://example.com/*)", "http.get(https://example.com/*)"),
        ("http.get(https://Example.com/*)", "http.get(https://example.com/*)"),
        ("http.get(https://example.com:443/*)", "http.get(https://example.com/*)"),
        ("http.get(http://example.com:80/*)", "http.get(http://example.com/*)"),
        ("http.get(https://bücher.example/*)", "http.get(https://xn--bcher-kva.example/*)"),
        ("ha_call_service(light.turn_on,light.a)", "ha_call_service(light.turn_on, light.a)"),
        ("shell.run(git  log*)", "shell.run(git log*)"),
        ("HTTP.get(Example.com:443/*", "http.get(https://example.com/*"),
    ],
)
def test_the_warning_shows_the_nearest_that_would_match(pattern: str, nearest: str) -> None:
    assert Unmatched(BUILTIN).why(pattern).endswith(f"; `{nearest}` would")
    assert Unmatched(BUILTIN).why(nearest) == ""


@pytest.mark.parametrize(
    "pattern",
    ["http.get(https://example.com:8443/*)", "http.get(https://example.com:443*)", "http.request(GET https://x/*)",
     "fs.read(/)", "fs.read(/a/...)", "fs.read(/a/.b/..c/d)", "state.get", "state.get(*)",
     "ha_get_states", "ha_list_services", "ha_list_services(light)", "mail.send", "state.get(/a)*", "x",
     "*)", "state*)", "own.tool(A, B)", "ha_get_history(*T*)", "[Ff]s.read(/x)", "fs.read([A-Z]*)", "*.delete(*)"],
)  # fmt: skip
def test_what_may_match_is_not_warned_of(pattern: str) -> None:
    assert Unmatched(BUILTIN).why(pattern) == ""


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("mail.sent(*)", "there is no tool `mail.sent`; `mail.send(*)` would"),
        ("zzz(*)", ""),
        ("mial.*", ""),
        ("mail.*", ""),
        ("*send*", ""),
        ("m?il.send(*)", ""),
        ("ha_get_state(*)", ""),
        ("http.request(*)", ""),
        ("http.req*", ""),
        ("mail.send", "a call of it has arguments in its signature; `mail.send(*)` would"),
        ("note.clear(*)", "a call of it has no arguments in its signature; `note.clear` would"),
    ],
)
def test_where_tools_of_ones_own_are_known_a_rule_that_misses_them_is_told(pattern: str, why: str) -> None:
    text = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    nothing = {"type": "object", "properties": {}, "additionalProperties": False}
    tools = {
        "mail.send": ToolDeclaration("mail.send", input_schema=text),
        "note.clear": ToolDeclaration("note.clear", input_schema=nothing),
    }
    assert Unmatched(tools).why(pattern) == why


async def test_a_gate_warns_of_rules_about_tools_that_it_does_not_have(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "agent_gate")
    rules = [{"pattern": pattern, "action": "deny"} for pattern in ("mail.sent(*)", "mail.send(*)", "shell.run")]
    async with a_gate(tmp_path, {"rules": rules}, sender([])):
        pass
    assert [record.getMessage() for record in caplog.records] == [
        "rules[0] `mail.sent(*)` can never match: there is no tool `mail.sent`; `mail.send(*)` would",
        "rules[2] `shell.run` can never match: a call of it has arguments in its signature; `shell.run(*)` would",
    ]


def test_of_many_rules_that_can_never_match_the_first_are_told() -> None:
    rules = [{"pattern": f"fs.read(x{number})", "action": "deny"} for number in range(1_000)]
    told = warnings_of(load_policy({"rules": rules}))
    assert (len(told), told[-1]) == (21, "further rules can never match; mend these first")


def test_a_warning_stays_on_one_line_and_is_drawn() -> None:
    [told] = warnings_of(load_policy({"rules": [{"pattern": "fs.read(\u202ex\n)", "action": "deny"}]}))
    assert ("\n" in told, "\u202e" in told) == (False, False)


TEXT = st.text(st.sampled_from("aA,. /()[]*?%\n\"'-:~é"), max_size=6)


def _signatures() -> st.SearchStrategy[list[str]]:
    def of(name: str, args: dict[str, object]) -> list[str]:
        args = dict(with_pointer(args)) if name.startswith("state.") and name != "state.patch" else args
        declaration = BUILTIN.get(name) or unregistered(name)
        return [*signatures_for(declaration, args), *aliases_of(declaration, args, {})]

    paths = TEXT.map(lambda text: "/" + text.replace("~", ""))
    # A real path is what the kernel says: no step of it is empty or a dot.
    real_paths = paths.map(lambda path: posixpath.normpath(f"/{path.lstrip('/')}"))
    return st.one_of(
        real_paths.map(lambda path: [write_signature(path), write_signature(path).replace("fs.write", "fs.read")]),
        st.builds(lambda path, value: of("state.set", {"path": path, "value": value}), paths, TEXT),
        paths.map(lambda path: of("state.delete", {"path": path})),
        paths.map(lambda path: of("state.get", {"path": path})),
        st.dictionaries(TEXT.filter(bool), TEXT, max_size=3).map(lambda args: of("own.tool", dict(args))),
        st.builds(
            lambda host, path: list(read_fetch({"url": f"https://{host}.Org:443/{path}"}).signatures),
            st.sampled_from(("a", "B", "c.D")),
            st.sampled_from(("", "A", "a,b", "x?y,z", "%28", "a%2cB", "a(b)c", "*()")),
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
            assert Unmatched(BUILTIN).why(pattern) == "", signature


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
