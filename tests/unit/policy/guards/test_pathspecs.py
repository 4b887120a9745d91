"""What `fs.read` does not allow of a repository, as pathspecs by which git leaves it out."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_gate.model.policy import Guards, PathGuard, Policy
from agent_gate.policy.guards.paths import PathRules
from agent_gate.policy.guards.pathspecs import NotCovered, excluded
from agent_gate.policy.guards.surroundings import Surroundings

HIDDEN = ["**/.*", "**/.*/**"]
HERE = "/srv/app"


def specs(deny: tuple[str, ...] = (), top: str = HERE, **fields: object) -> list[str]:
    section = PathGuard(**{"allow_paths": ("./**",), "deny_paths": deny, "allow_hidden": True, **fields})  # type: ignore[arg-type]
    found = excluded(section, Policy(guards=Guards({"fs.read": section})), Surroundings(HERE), top)
    assert all(spec.startswith(":(top,exclude,glob)") for spec in found)
    return [spec.removeprefix(":(top,exclude,glob)") for spec in found]


@pytest.mark.parametrize(
    ("deny", "expected"),
    [
        ("./secrets", ["secrets/**", "secrets"]),
        ("./secrets/**", ["secrets/**", "secrets"]),
        ("**/*.pem", ["**/*.pem"]),
        ("**/.env", ["**/.env/**", "**/.env"]),
        ("/srv/app/a/*/b", ["a/*/b/**", "a/*/b"]),
        ("/srv/**/b.txt", ["**/b.txt/**", "**/b.txt"]),
        ("**/app/x", ["**/app/x/**", "**/app/x", "x/**", "x"]),
        ("/elsewhere/**", []),
        ("./a[0-9]?", ["a[0-9]*"]),
        ("./[!a]b*", ["*b*"]),
        ("./a\\b", ["a\\\\b/**", "a\\\\b"]),
    ],
)
def test_a_pattern_is_told_as_it_is_seen_from_the_top(deny: str, expected: list[str]) -> None:
    assert specs((deny,)) == expected


def test_hidden_names_and_own_files_are_left_out() -> None:
    section = PathGuard(allow_paths=("./**",))
    around = Surroundings(HERE, secret=("/srv/app/gate.db", "/srv/other.db"))
    found = excluded(section, Policy(guards=Guards({"fs.read": section})), around, HERE)
    assert found == [f":(top,exclude,glob){glob}" for glob in (*HIDDEN, "gate.db", "gate.db/**")]


@pytest.mark.parametrize("allow", [("./src/**",), ("./*",), ("./*.txt", "./.git/**"), ()])
def test_a_repository_of_which_only_some_is_allowed_cannot_be_told(allow: tuple[str, ...]) -> None:
    with pytest.raises(NotCovered):
        specs(allow_paths=allow)


def test_a_repository_that_is_denied_altogether_cannot_be_told() -> None:
    with pytest.raises(NotCovered):
        specs(("./sub",), top=f"{HERE}/sub/deeper")


_GLOBS = st.sampled_from(["a", "*.pem", "**", "?", "[ab]*", "[!a]", ".e*", "x[[]1]", "*", "é"])


@pytest.fixture(scope="module")
def listing(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A repository whose index holds every path of up to two names."""
    top = tmp_path_factory.mktemp("listed").resolve()
    names = ["a", "b.pem", ".env", "x[1]", "é", "a*b"]
    paths = [*(f"top-{name}" for name in names), *(f"sub/{name}" for name in names)]
    paths += [f"{one}/{two}" for one in names for two in names]
    for path in paths:
        (top / path).parent.mkdir(exist_ok=True)
        (top / path).write_text("x")
    for words in (["init", "-q"], ["add", "-A"]):
        subprocess.run(["git", *words], cwd=top, check=True)
    return top, paths


@given(deny=st.lists(st.lists(_GLOBS, min_size=1, max_size=3), max_size=3), hidden=st.booleans())
def test_git_lists_nothing_that_may_not_be_read(
    deny: list[list[str]], hidden: bool, listing: tuple[Path, list[str]]
) -> None:
    top, paths = listing
    section = PathGuard(("./**",), tuple("./" + "/".join(names) for names in deny), allow_hidden=hidden)
    policy, around = Policy(guards=Guards({"fs.read": section})), Surroundings(str(top))
    try:
        words = excluded(section, policy, around, str(top))
    except NotCovered:
        return
    done = subprocess.run(["git", "ls-files", "-z", "--", *words], cwd=top, check=True, capture_output=True)
    listed = set(done.stdout.decode().split("\0")) - {""}
    rules = PathRules("fs.read", section, policy, around)
    readable = {path for path in paths if rules.judge(f"{top}/{path}", {"type": "file"})[1] is None}
    assert listed <= readable
