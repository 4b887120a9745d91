"""Path patterns: what they match by segments, where they are anchored, and that no pattern takes long."""

from __future__ import annotations

import time
from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_gate.model.errors import ConfigError
from agent_gate.policy.guards.path_patterns import PathPattern, compile_patterns, fixed_part, mistake_in, normal

WORK = "/srv/app"


def compiled(source: str, *, denies: bool = False, links: dict[str, str] | None = None) -> tuple[PathPattern, ...]:
    return compile_patterns([source], WORK, links or {}, denies=denies)


def matches(source: str, path: str, *, denies: bool = False) -> bool:
    return any(pattern.matches(path) for pattern in compiled(source, denies=denies))


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("./**", "/srv/app", True),
        ("./**", "/srv/app/a", True),
        ("./**", "/srv/app/a/b/c", True),
        ("**", "/srv/app/a/b", True),
        ("**", "/etc/passwd", False),
        ("./**", "/srv/app-secrets/key", False),
        ("./**", "/srv/ap", False),
        ("./**", "/srv", False),
        ("/srv/app/*", "/srv/app/a", True),
        ("/srv/app/*", "/srv/app/a/b", False),
        ("/srv/app/*", "/srv/app", False),
        ("*.txt", "/srv/app/a.txt", True),
        ("*.txt", "/srv/app/sub/a.txt", False),
        ("*/a.md", "/srv/app/sub/a.md", True),
        ("*/a.md", "/srv/app/a.md", False),
        ("**/a.md", "/srv/app/a.md", True),
        ("**/a.md", "/srv/app/x/y/a.md", True),
        ("a/**/z", "/srv/app/a/z", True),
        ("a/**/z", "/srv/app/a/b/c/z", True),
        ("a/**/z", "/srv/app/a/b/zz", False),
        ("a/**/b/**/c", "/srv/app/a/b/x/b/c", True),
        ("a/**/b/**/c", "/srv/app/a/x/c", False),
        ("?.txt", "/srv/app/a.txt", True),
        ("a?b", "/srv/app/a/b", False),
        ("[ab].txt", "/srv/app/a.txt", True),
        ("[ab].txt", "/srv/app/c.txt", False),
        ("a[!x]b", "/srv/app/a/b", False),
        ("report[[]1].txt", "/srv/app/report[1].txt", True),
        ("report[1].txt", "/srv/app/report[1].txt", False),
        ("A.txt", "/srv/app/a.txt", False),
        ("a.txt", "/srv/app/a.txt\n", False),
        ("*", "/srv/app/a\nb", True),
        ("../shared/**", "/srv/shared/x", True),
        ("../shared/**", "/srv/app/x", False),
        ("./a//b/./c", "/srv/app/a/b/c", True),
        ("/**", "/etc/passwd", True),
        ("/**", "/", True),
        ("/", "/etc", False),
        ("~/x", "/srv/app/~/x", True),
        ("a\\*b", "/srv/app/a\\xb", True),
        ("out", "/srv/app/out/x", False),
    ],
)
def test_an_allow_pattern_matches_by_segments(pattern: str, path: str, expected: bool) -> None:
    assert matches(pattern, path) is expected


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("**/.env", "/srv/app/.env", True),
        ("**/.env", "/data/x/.env", True),
        ("**/.env", "/.env", True),
        ("**/.env", "/data/.env.example", False),
        ("**/.env", "/data/my.env", False),
        ("**/.ssh", "/home/anna/.ssh/id_rsa", True),
        ("**/.gate/**", "/data/.gate/policy.yaml", True),
        ("**/*.pem", "/etc/keys/a.pem", True),
        ("**/a/b", "/x/a/b/c", True),
        ("**/a/b", "/x/a/c/b", False),
        ("./private", "/srv/app/private/k.txt", True),
        ("./private/", "/srv/app/private/k.txt", True),
        ("private", "/srv/other/private/k.txt", False),
        ("*", "/srv/app/sub/a.txt", False),
        ("*.txt", "/srv/app/a.txt", True),
    ],
)
def test_a_deny_pattern_may_stand_anywhere_and_covers_what_lies_below_a_plain_name(
    pattern: str, path: str, expected: bool
) -> None:
    assert matches(pattern, path, denies=True) is expected


def test_a_fixed_part_that_leads_through_a_link_counts_as_written_and_as_what_it_is() -> None:
    patterns = compiled("data/*.csv", links={"/srv/app/data": "/mnt/disk"})
    assert [pattern.fixed for pattern in patterns] == ["/srv/app/data", "/mnt/disk"]
    assert [pattern.matches("/mnt/disk/a.csv") for pattern in patterns] == [False, True]
    assert {pattern.source for pattern in patterns} == {"data/*.csv"}


def test_a_link_to_the_root_is_followed_too() -> None:
    assert any(pattern.matches("/etc/passwd") for pattern in compiled("all/**", links={"/srv/app/all": "/"}))


@pytest.mark.parametrize(
    ("pattern", "path", "hidden"),
    [
        ("./**", "/srv/app/.env", True),
        ("./**", "/srv/app/.git/config", True),
        ("./**", "/srv/app/a/.b/c", True),
        ("./**", "/srv/app/..notes/a", True),
        ("./**", "/srv/app/a.b/c.d", False),
        ("./.config/**", "/srv/app/.config/x", False),
        ("./.config/**", "/srv/app/.config/.x", True),
        ("./.env", "/srv/app/.env", False),
        ("./**/.env", "/srv/app/.env", True),
    ],
)
def test_a_path_is_hidden_by_a_dot_after_the_fixed_part(pattern: str, path: str, hidden: bool) -> None:
    assert [found.hides(path) for found in compiled(pattern) if found.matches(path)] == [hidden]


def test_a_working_directory_below_a_hidden_one_hides_nothing() -> None:
    (pattern,) = compile_patterns(["./**"], "/home/anna/.cache/work", {}, denies=False)
    assert not pattern.hides("/home/anna/.cache/work/a.txt")


@pytest.mark.parametrize(
    ("source", "mistake"),
    [
        ("", "is empty"),
        ("a\0b", "holds a NUL"),
        ("**.txt", "has `**` inside of `**.txt`, where it means nothing; write `**/*` and the rest of the name"),
        ("a/***/b", "has `**` inside of `***`, where it means nothing; write `**/*` and the rest of the name"),
        ("*/../x", "has `..` after a wildcard, where no real path can have it"),
        ("a[/]b", "has `/` inside of `[]`, which stays within one name; write `[[]` for the character itself"),
        ("a[!x/y]b", "has `/` inside of `[]`, which stays within one name; write `[[]` for the character itself"),
        ("a[[]b/c]d", None),
        ("a[b/c", None),
        ("../x/*", None),
        ("./**", None),
    ],
)
def test_what_is_no_pattern_is_said_when_the_policy_is_loaded(source: str, mistake: str | None) -> None:
    assert mistake_in(source) == mistake
    if mistake:
        with pytest.raises(ConfigError):
            compiled(source)


def test_the_fixed_part_is_what_the_system_has_to_resolve() -> None:
    assert fixed_part("a/../b/*/c", WORK, denies=False) == "/srv/app/a/../b"
    assert fixed_part("**/.env", WORK, denies=False) == "/srv/app"
    assert fixed_part("**/.env", WORK, denies=True) == ""


@pytest.mark.parametrize(
    ("path", "expected"),
    [("/a/./b//c/../d", "/a/b/d"), ("/../..", ""), ("a", "/a"), ("/", ""), ("/..a/...", "/..a/...")],
)
def test_normal_works_by_text_alone(path: str, expected: str) -> None:
    assert normal(path) == expected


def by_definition(steps: list[str], names: list[str]) -> bool:
    if not steps:
        return not names
    if steps[0] == "**":
        return any(by_definition(steps[1:], names[at:]) for at in range(len(names) + 1))
    return bool(names) and fnmatchcase(names[0], steps[0]) and by_definition(steps[1:], names[1:])


_STEPS = st.lists(st.sampled_from(["**", "*", "a", "b", "a*", "?", "[ab]", "*b*"]), min_size=1, max_size=7)
_NAMES = st.lists(st.sampled_from(["a", "b", "ab", "aab", "c"]), max_size=8)


@given(_STEPS, _NAMES)
def test_matching_agrees_with_its_definition(steps: list[str], names: list[str]) -> None:
    path = "".join(f"/{name}" for name in ["srv", "app", *names])
    assert matches("/".join(["/srv/app", *steps]), path) == by_definition(steps, names)


@given(_STEPS, _NAMES)
def test_a_list_that_denies_matches_at_least_what_the_same_pattern_allows(steps: list[str], names: list[str]) -> None:
    path = "".join(f"/{name}" for name in ["srv", "app", *names])
    source = "/".join(steps)
    assert matches(source, path, denies=True) or not matches(source, path)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("**/a/" * 200 + "**/b", "/a" * 2_000),
        ("/".join(["**", "*a*"] * 100) + "/x", "/aaaaaaaaaaaa" * 300),
        ("*a" * 100 + "b", "/srv/app/" + "a" * 255),
        ("[a]*" * 60 + "b", "/srv/app/" + "a" * 255),
        ("?*" * 100 + "b", "/srv/app/" + "a" * 255),
    ],
    ids=["names", "names and stars", "stars", "classes", "question marks"],
)
@pytest.mark.parametrize("denies", [False, True])
def test_no_pattern_takes_long(pattern: str, path: str, denies: bool) -> None:
    (pattern_,) = compile_patterns([pattern], "/" if "srv" not in path else WORK, {}, denies=denies)
    started = time.process_time()
    assert not pattern_.matches(path)
    assert time.process_time() - started < 10
