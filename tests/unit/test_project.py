"""Checks on the project itself: what is committed, pinned, licensed, listed and named."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]

_MACHINE = re.compile(
    r"(?i)"
    r"\b(?:[\w-]+\.)*(?:pypi|pythonhosted|npmjs|yarnpkg|crates|debian|packagist|rubygems)\.(?:org|com|io|net)\b"
    r"|(?<![\w.])/work/(?:main|shared|\.library)\b"
    r"|/root/\.(?:pyenv|cache|local|config|pip)\b"
    r"|file:///(?:opt|work|root)\b"
    r"|/opt/(?:pypi|wheels)\b"
    r"|/tmp/bash_job[s]"
)
_SECOND_SENTENCE = re.compile(r"(?<!e\.g)(?<!i\.e)[.!?]\s+[A-Z]")
_MAKE = re.compile(r"(?:^|`|\$ )make ([a-z]+)\b", re.MULTILINE)


def _git(*args: str) -> str:
    return subprocess.run(["git", *args], cwd=ROOT, check=True, capture_output=True, text=True).stdout


@cache
def _committed() -> tuple[Path, ...]:
    """What is committed, or will be by `git add --all`."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    names = _git("ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    return tuple(path for name in sorted({*names} - {""}) if (path := ROOT / name).is_file())


def _texts() -> Iterator[tuple[Path, str]]:
    for path in _committed():
        try:
            yield path.relative_to(ROOT), path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue


def _machine_words(text: str) -> list[str]:
    return [found.group() for found in _MACHINE.finditer(text)]


def _pins(text: str) -> dict[str, list[str]]:
    """Each requirement line with its hashes; anything else that a pip file may hold is an entry without hashes."""
    logical = text.replace("\\\n", " ").splitlines()
    split = (re.split(r"\s+--hash=", line.strip()) for line in logical if line.strip())
    return {requirement: hashes for requirement, *hashes in split}


def _pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def _wanted(group: str) -> list[Requirement]:
    """What a dependency group asks for, the groups it includes taken in; `dev` installs the project too."""
    groups, project = _pyproject()["dependency-groups"], _pyproject()["project"]
    lines = [*groups[group], *(project["dependencies"] if group == "dev" else ())]
    return [
        requirement
        for line in lines
        for requirement in (_wanted(line["include-group"]) if isinstance(line, dict) else [Requirement(line)])
    ]


def _opening(source: str) -> str:
    """The first paragraph of a file's docstring, as one line."""
    text = ast.get_docstring(ast.parse(source)) or ""
    return " ".join(text.partition("\n\n")[0].split())


def _is_one_sentence(text: str) -> bool:
    return text.endswith((".", "!", "?")) and not _SECOND_SENTENCE.search(text)


@pytest.mark.parametrize(
    "text",
    [
        "index = https://files.pythonhosted." + "org/x",
        "see pypi." + "org",
        "extra-index-url = file://" + "/opt/simple",
        "cd /" + "work/main",
        "exec /" + "root/.pyenv/shims/python",
    ],
)
def test_the_scan_for_machine_words_sees_one(text: str) -> None:
    assert len(_machine_words(text)) == 1


@pytest.mark.parametrize(
    "text", ["/work/order.txt", "/root/.ssh/id_ed25519", "PyPI", "docs/work/main", "file:///etc/passwd"]
)
def test_the_scan_for_machine_words_leaves_others_alone(text: str) -> None:
    assert _machine_words(text) == []


def test_no_committed_file_names_a_registry_host_or_a_path_of_one_machine() -> None:
    found = {str(path): words for path, text in _texts() if (words := _machine_words(text))}
    assert found == {}


@pytest.mark.parametrize(
    "name", ["a.db", "a.db-wal", "a.db-shm", "a.db.anchor", "a.db.d/1.lock", ".venv/x", "p/__pycache__/x"]
)
def test_databases_and_caches_stay_out_of_git(name: str) -> None:
    _committed()
    assert _git("check-ignore", "--no-index", name).strip() == name


def test_the_reader_of_pins_shows_a_requirement_without_a_hash() -> None:
    text = "a==1 \\\n    --hash=sha256:00 \\\n    --hash=sha256:11\n--index-url x\nb==2\n"
    assert _pins(text) == {"a==1": ["sha256:00", "sha256:11"], "--index-url x": [], "b==2": []}


@pytest.mark.parametrize("name", ["bootstrap", "dev", "bench", "envoy"])
def test_every_requirement_is_one_version_with_hashes(name: str) -> None:
    pins = _pins((ROOT / "requirements" / f"{name}.txt").read_text())
    loose = [
        requirement
        for requirement, hashes in pins.items()
        if not re.fullmatch(r"[a-z0-9-]+==[\w.]+( ; .+)?", requirement)
        or not hashes
        or not all(re.fullmatch(r"sha256:[0-9a-f]{64}", digest) for digest in hashes)
    ]
    assert pins
    assert loose == []


def test_there_is_no_file_of_requirements_that_goes_unchecked() -> None:
    assert {path.stem for path in (ROOT / "requirements").iterdir()} == {"bootstrap", "dev", "bench", "envoy"}


@pytest.mark.parametrize("group", ["bootstrap", "dev", "bench", "envoy"])
def test_pins_satisfy_what_pyproject_asks_for(group: str) -> None:
    lines = _pins((ROOT / "requirements" / f"{group}.txt").read_text())
    pinned = {name: version for name, _, version in (line.partition(" ")[0].partition("==") for line in lines)}
    versions = [(wanted, pinned.get(canonicalize_name(wanted.name))) for wanted in _wanted(group)]
    assert [str(wanted) for wanted, version in versions if not (version and version in wanted.specifier)] == []


def test_the_licence_is_named_by_its_spdx_identifier() -> None:
    assert _pyproject()["project"]["license"] == "Apache-2.0"
    assert "Apache-2.0" in (ROOT / "README.md").read_text()


def test_every_decision_has_its_own_number_and_its_line_in_the_list() -> None:
    folder = ROOT / "docs" / "decisions"
    pages = sorted(path.name for path in folder.glob("*.md") if path.name != "README.md")
    listed = re.findall(r"^- \[(\d{4}) [^\]]+\]\((\S+\.md)\)", (folder / "README.md").read_text(), re.MULTILINE)
    assert listed == [(page[:4], page) for page in pages]
    assert [number for number, _ in listed] == [f"{n:04}" for n in range(1, len(pages) + 1)]


def test_every_decision_tells_context_decision_and_consequences() -> None:
    folder = ROOT / "docs" / "decisions"
    headings = {path.name: re.findall(r"^#+ .*", path.read_text(), re.MULTILINE) for path in folder.glob("[0-9]*.md")}
    assert headings
    for name, (title, *sections) in headings.items():
        assert title.startswith(f"# {name[:4]} "), name
        assert sections == ["## Context", "## Decision", "## Consequences"], name


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_every_make_target_that_a_page_names_exists(page: str) -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(_MAKE.findall((ROOT / page).read_text()))
    assert "test" in named
    assert named - targets == set()


def test_ci_runs_the_test_command_of_the_readme() -> None:
    last = (ROOT / ".ci" / "run").read_text().splitlines()[-1]
    assert last == "exec make test"
    assert "make test" in (ROOT / "README.md").read_text()


@pytest.mark.parametrize(
    ("source", "good"),
    [
        ('"""Says what the file is for."""', True),
        ('"""Says it over\ntwo lines.\n\nThen more. And more."""', True),
        ('"""Says it. Then says more."""', False),
        ('"""Has no end"""', False),
        ("x = 1", False),
    ],
)
def test_the_reader_of_docstrings_knows_one_sentence(source: str, good: bool) -> None:
    assert _is_one_sentence(_opening(source)) is good


def test_every_python_file_opens_with_one_sentence_on_what_it_is_for() -> None:
    sources = {str(path): text for path, text in _texts() if path.suffix == ".py" and text.strip()}
    assert "src/agent_gate/__init__.py" in sources
    assert [name for name, text in sources.items() if not _is_one_sentence(_opening(text))] == []


def test_the_changelog_tells_what_is_not_released_yet() -> None:
    headings = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == "Unreleased"
