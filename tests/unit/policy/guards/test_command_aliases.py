"""The plain spellings of commands: by bare names, without global options."""

from __future__ import annotations

import pytest

from agent_gate.policy.guards.command_aliases import aliases_of_command


def aliases(line: str, executable: str = "") -> set[str]:
    return {
        alias.removeprefix("shell.run(").removesuffix(")") for alias in aliases_of_command(line.split(), executable)
    }


@pytest.mark.parametrize(
    "line", ["git log", "ls -la", "cat a.txt", "npm run build", "make deploy", "echo --no-pager x"]
)
def test_what_is_spelled_plainly_has_no_alias(line: str) -> None:
    assert aliases(line, f"/usr/bin/{line.split(maxsplit=1)[0]}") == set()


@pytest.mark.parametrize(
    "line",
    [
        "/usr/bin/git log -p",
        "git --no-pager log -p",
        "git -P log -p",
        "git -C . log -p",
        "git -C .. -C x log -p",
        "git -c core.pager=cat log -p",
        "git --git-dir=.git --work-tree . log -p",
        "git --git-dir .git log -p",
        "git --exec-path=/x --namespace n log -p",
        "git --literal-pathspecs --bare -p log -p",
        "git --config-env=a=B --attr-source HEAD log -p",
        "/bin/git --no-pager -C . log -p",
    ],
)
def test_every_way_to_git_is_known_by_its_subcommand(line: str) -> None:
    assert "git log -p" in aliases(line)


@pytest.mark.parametrize(
    ("line", "plain"),
    [
        ("make -C . deploy", "make deploy"),
        ("make -C. deploy", "make deploy"),
        ("make -kC . deploy -j4", "make deploy"),
        ("make deploy --direc=. -j", "make deploy"),
        ("npm --prefix . run build", "npm run build"),
        ("npm run --prefix=. build", "npm run build"),
        ("npm run build -- --prefix x -C y", "npm run build -- --prefix x -C y"),
        ("kubectl -n prod delete pod x", "kubectl delete pod x"),
        ("kubectl -nprod delete pod x", "kubectl delete pod x"),
        ("kubectl delete --namespace=prod pod x", "kubectl delete pod x"),
        ("docker -H tcp://x run y", "docker run y"),
        ("docker run -H y", "docker run -H y"),
        ("systemctl --no-pager list-units --all", "systemctl list-units --all"),
        ("pip --isolated install x", "pip install x"),
        ("pip3 --isolated install x", "pip install x"),
        ("python3 -I -Wignore x.py", "python3 x.py"),
        ("python3 -X dev x.py -I", "python x.py -I"),
        ("terraform -chdir=x destroy", "terraform destroy"),
        ("cargo -q publish", "cargo publish"),
        ("git-upload-pack .", "git upload-pack ."),
    ],
)
def test_global_options_are_left_out(line: str, plain: str) -> None:
    assert plain in aliases(line) | {line}


def test_after_its_subcommand_an_option_of_git_is_the_subcommands_own() -> None:
    assert aliases("/usr/bin/git commit -C HEAD -p") == {"git commit -C HEAD -p"}


@pytest.mark.parametrize(
    ("line", "executable", "names"),
    [
        ("python3 x", "/usr/bin/python3.11", {"python x", "python3.11 x"}),
        ("/usr/bin/python3.11 x", "/usr/bin/python3.11", {"python3.11 x", "python3 x", "python x"}),
        ("awk x", "/usr/bin/mawk", {"mawk x"}),
        ("nc.openbsd x", "/usr/bin/nc.openbsd", {"nc x"}),
        ("gcc-12 x", "/usr/bin/x86_64-linux-gnu-gcc-12", {"gcc x"}),
    ],
)
def test_a_program_is_known_by_its_own_name_and_without_a_version(line: str, executable: str, names: set[str]) -> None:
    assert names <= aliases(line, executable)


def test_words_are_encoded_as_in_signatures() -> None:
    assert aliases_of_command(["/usr/bin/git", "log", "a b*"]) == ("shell.run(git log a%20b%2A)",)
