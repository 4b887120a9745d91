"""The command guard: pure answers on words, and on what binding found of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from agent_gate.model.call import Agent, BoundCall, CallRequest, Facts
from agent_gate.model.policy import CommandGuard, Guards, PathGuard, Policy
from agent_gate.model.tool import Mode
from agent_gate.model.verdict import Decision
from agent_gate.policy.guards import GuardContext, Surroundings, guard_of
from agent_gate.policy.guards.commands import signature_of
from agent_gate.tools.shell import SHELL_RUN

AROUND = Surroundings("/srv/app", secret=("/srv/app/gate.db",))
READ = PathGuard(allow_paths=("./**",), deny_paths=("**/secrets/**",))


def said(
    argv: Sequence[str],
    *,
    text: str | None = None,
    env: dict[str, str] | None = None,
    paths: dict[str, tuple[str, str]] | None = None,
    cwd: str | None = None,
    read: PathGuard | None = READ,
    executable: str | None = "",
    sandbox: str = "bubblewrap",
    found: dict[str, Any] | None = None,
    **section: Any,
) -> str:
    """`allow`, or the problem as people read it; `paths` are what words lead to, each with its kind."""
    guard = CommandGuard(**{"allow_executables": ("ls", "cat", "git", "echo"), **section})
    args: dict[str, Any] = {"argv": list(argv)} if text is None else {"command": text}
    if env is not None:
        args["env"] = env
    resources: dict[str, Any] = {"sandbox": sandbox}
    if executable is not None:
        resources["executable"] = executable or f"/usr/bin/{argv[0].rpartition('/')[2]}"
    seen = dict(paths or {})
    if cwd is not None:
        resources["cwd"] = cwd
        seen["."] = cwd, "directory"
    resources["paths"] = {word: {"path": path} for word, (path, _) in seen.items()}
    told = {"paths": {word: {"type": kind} for word, (_, kind) in seen.items()}, **(found or {})}
    policy = Policy(guards=Guards({"fs.read": read, "shell.run": guard}))
    bound = BoundCall("", CallRequest(Agent("a"), "shell.run", args), args, args, ("s",), "", resources)
    facts = Facts(0, Mode.ASSISTED, ("operator",), False, "", found=told)
    judge = guard_of(SHELL_RUN, GuardContext(policy, AROUND))
    assert judge is not None
    reason, problem = judge(bound, facts)
    assert (reason.layer, reason.decision) == ("guard", Decision.DENY if problem else Decision.ALLOW)
    return str(problem) if problem else f"allow {reason.rule}"


A = {"a.txt": ("/srv/app/a.txt", "file")}


def test_an_allowed_program_with_harmless_words_passes() -> None:
    assert said(["cat", "a.txt"], paths=A) == "allow cat"
    assert said(["echo", "anything", "goes"]) == "allow echo"


def test_a_program_that_is_not_listed_is_denied_and_the_list_is_shown() -> None:
    assert said(["rm", "a.txt"]) == (
        "executable_denied: `rm` is not in allow_executables of shell.run (ls, cat, git, echo);"
        " add it there, or use one of them"
    )


def test_an_empty_list_allows_nothing() -> None:
    assert said(["ls"], allow_executables=()).startswith(
        "executable_denied: `ls` is not in allow_executables of shell.run (it is empty)"
    )


def test_a_name_that_led_to_no_program_is_denied_with_the_reason() -> None:
    assert said(["ls"], executable=None, found={"executable": "was not found in trusted_dirs"}) == (
        "executable_denied: `ls` was not found in trusted_dirs (/usr/bin, /bin);"
        " add its directory there, or use a program that is in one of them"
    )


@pytest.mark.parametrize("names", [("ls",), ("/usr/bin/ls",)])
@pytest.mark.parametrize("given", ["ls", "/usr/bin/ls"])
def test_a_program_may_be_listed_and_called_by_name_or_full_path(names: tuple[str, ...], given: str) -> None:
    here = {".": ("/srv/app", "directory")}
    assert said([given], allow_executables=names, paths=here) == f"allow {given}"


@pytest.mark.parametrize("given", ["agent-gate", "/usr/bin/agent-gate"])
def test_the_gates_own_command_is_refused_whatever_the_policy_says(given: str) -> None:
    names = ("agent-gate", "sh", "gate")
    denied = "executable_denied: no tool may run the gate's own command; ask a person to run it"
    assert said([given, "approve"], allow_executables=names, unchecked_executables=names) == denied
    linked = said(["gate"], executable="/usr/bin/agent-gate", allow_executables=names, unchecked_executables=names)
    assert linked == denied


@pytest.mark.parametrize(
    "words",
    [
        ["-c", "agent-gate approve x"],
        ["-c", "exec /opt/bin/agent-gate pending"],
        ["-m", "agent_gate"],
        ["agent-gate", "approve"],
    ],
)
def test_nor_may_an_unchecked_program_be_told_to_run_it(words: list[str]) -> None:
    names = ("sh",)
    assert said(["sh", *words], allow_executables=names, unchecked_executables=names).startswith(
        "executable_denied: no tool may run the gate's own command"
    )


def test_a_word_that_only_looks_like_it_is_no_obstacle() -> None:
    names = ("make",)
    words = ["make", "-C", "/srv/app/my-agent-gate-plugin"]
    assert said(words, allow_executables=names, unchecked_executables=names) == "allow make"


def test_a_wrapper_is_refused_unless_the_policy_names_it_unchecked() -> None:
    assert said(["env", "ls"], allow_executables=("env",)) == (
        "executable_denied: `env`: it is there to start other programs; use it otherwise,"
        " or name it in unchecked_executables of shell.run, which lets every argument of it pass"
    )
    assert said(["env", "ls"], allow_executables=("env",), unchecked_executables=("env",)) == "allow env"


def test_a_program_without_rules_is_refused_unless_the_policy_names_it_unchecked() -> None:
    assert said(["tool", "x"], allow_executables=("tool",)).startswith(
        "executable_denied: `tool`: there are no rules for its arguments"
    )
    assert said(["tool", "x"], allow_executables=("tool",), unchecked_executables=("tool",)) == "allow tool"


def test_being_unchecked_is_not_being_allowed() -> None:
    assert said(["tool"], unchecked_executables=("tool",)).startswith("executable_denied: `tool` is not in allow_exec")


def test_an_argument_that_may_not_be_given_is_named() -> None:
    assert said(["git", "-c", "core.pager=x", "log"]).startswith(
        "executable_denied: `git`: `-c` is not an option that it may be given"
    )


def test_a_deny_token_is_named() -> None:
    assert said(["echo", "rm", "-rf"], deny_tokens=("rm -rf",)) == (
        "token_denied: the command holds `rm -rf`, which deny_tokens of shell.run denies;"
        " leave it out, or remove the token there"
    )
    assert said(["echo", "a\nb"], deny_tokens=("\n",)).startswith("token_denied: the command holds `⟨U+000A⟩`")


def test_a_token_is_sought_in_the_text_before_quotes_are_undone_and_in_the_words_after() -> None:
    assert said(["echo", "push"], text='echo pu""sh', deny_tokens=("push",)).startswith("token_denied")
    assert said(["echo", "a b"], text="echo 'a b'", deny_tokens=("'",)).startswith("token_denied")


def test_shell_syntax_in_a_text_is_refused_even_where_no_token_denies_it() -> None:
    assert said(["echo", "a", "&&", "ls"], text="echo a && ls") == (
        "token_denied: a shell would act on `&&`, and there is no shell here; make one call for each program;"
        " put what is meant as it stands in quotes, or give the words in argv"
    )
    assert said(["echo", "a", "&&", "ls"]) == "allow echo"
    assert said(["echo", "a && ls"], text="echo 'a && ls'") == "allow echo"


def test_a_path_that_a_shell_would_rewrite_is_refused_and_a_text_is_not() -> None:
    home = {"~/x": ("/srv/app/~/x", "absent")}
    assert said(["cat", "~/x"], text="cat ~/x", paths=home).startswith(
        "token_denied: a shell would replace a part of the path `~/x`"
    )
    assert said(["cat", "~/x"], text="cat '~/x'", paths=home) == "allow cat"
    assert said(["echo", "$HOME"], text="echo $HOME") == "allow echo"


@pytest.mark.parametrize(
    ("real", "kind", "problem"),
    [
        ("/etc/passwd", "file", "path_denied: `a.txt` (really `/etc/passwd`) is outside allow_paths of fs.read"),
        ("/srv/app/secrets/k", "file", "path_denied: `a.txt` (really `/srv/app/secrets/k`) is under deny_paths"),
        ("/srv/app/.env", "file", "path_denied: `a.txt` (really `/srv/app/.env`) is hidden"),
        ("/srv/app/gate.db", "file", "protected_file: `a.txt` (really `/srv/app/gate.db`)"),
        ("/etc", "directory", "path_denied: `a.txt` (really `/etc`) is outside allow_paths of fs.read"),
        ("/etc/none", "absent", "path_denied: `a.txt` (really `/etc/none`) is outside allow_paths of fs.read"),
        ("/srv/app/pipe", "named pipe", "path_denied: `a.txt` is a named pipe; name a file or a directory"),
    ],
)
def test_a_path_is_judged_as_fs_read_would_judge_it(real: str, kind: str, problem: str) -> None:
    assert said(["cat", "a.txt"], paths={"a.txt": (real, kind)}).startswith(problem)


def test_a_file_that_is_not_there_is_for_the_program_to_find_out() -> None:
    assert said(["cat", "a.txt"], paths={"a.txt": ("/srv/app/a.txt", "absent")}) == "allow cat"


def test_a_call_whose_words_were_not_read_when_it_was_recorded_is_denied() -> None:
    assert said(["cat", "a.txt"]) == (
        "path_denied: it is not known what `a.txt` leads to; make the call again to find out"
    )


def test_without_a_section_for_reading_no_path_passes() -> None:
    assert said(["cat", "a.txt"], paths=A, read=None) == (
        "path_denied: `a.txt` cannot be read: fs.read has no section under tools: in the policy;"
        ' add `tools: {fs.read: {allow_paths: ["./**"]}}`, whose paths count for commands too'
    )
    assert said(["echo", "a.txt"], read=None) == "allow echo"


def test_the_working_directory_is_judged_where_the_agent_names_one() -> None:
    assert said(["echo"], cwd="/srv/app/sub") == "allow echo"
    assert said(["echo"], cwd="/etc").startswith("path_denied: `.` (really `/etc`) is outside allow_paths")


def test_a_word_that_may_be_a_revision_is_judged_only_where_a_file_of_that_name_exists() -> None:
    there = {"main": ("/etc/passwd", "file"), ".": ("/srv/app", "directory")}
    absent = {"main": ("/elsewhere/main", "absent"), ".": ("/srv/app", "directory")}
    assert said(["git", "log", "main"], paths=there).startswith("path_denied")
    assert said(["git", "log", "main"], paths=absent) == "allow git"
    assert said(["git", "log", "no path at all"], paths={".": ("/srv/app", "directory")}) == "allow git"


def test_a_repository_that_names_programs_is_refused() -> None:
    found = {"repository": ["core.fsmonitor"]}
    assert said(["git", "status"], found=found, paths={".": ("/srv/app", "directory")}) == (
        "executable_denied: the repository's own configuration may name programs or files (core.fsmonitor);"
        " take that out of its configuration, or name git in unchecked_executables of shell.run"
    )


def test_a_variable_that_is_not_listed_is_refused() -> None:
    assert said(["echo"], env={"LANG": "C"}) == (
        "policy_denied: the variable `LANG` is not in allow_env of shell.run; add it there, or leave it out"
    )
    assert said(["echo"], env={"LANG": "C"}, allow_env=("LANG",)) == "allow echo"


@pytest.mark.parametrize(
    "name", ["LD_PRELOAD", "PATH", "GIT_DIR", "BASH_ENV", "PYTHONPATH", "LESSOPEN", "HOME", "PAGER"]
)
def test_a_variable_that_steers_programs_is_refused_where_their_words_are_judged(name: str) -> None:
    assert said(["echo"], env={name: "x"}, allow_env=(name,)).startswith(
        f"policy_denied: the variable `{name}` can make `echo` load or start something else"
    )
    unchecked: dict[str, Any] = {"allow_executables": ("sh",), "unchecked_executables": ("sh",)}
    assert said(["sh"], env={name: "x"}, allow_env=(name,), **unchecked) == "allow sh"


def test_without_a_sandbox_nothing_runs_unless_the_policy_says_so() -> None:
    assert said(["echo"], sandbox="none") == (
        "executable_denied: this machine offers no sandbox, and commands run in one; install bubblewrap"
        " (see `agent-gate doctor`), or write `sandbox: off` under shell.run to do without"
    )
    assert said(["echo"], sandbox="off") == "allow echo"


@pytest.mark.parametrize(
    ("argv", "signature"),
    [
        (["ls"], "shell.run(ls)"),
        (["grep", "-n", "two words", "a.txt"], "shell.run(grep -n two%20words a.txt)"),
        (["echo", "", "it's"], "shell.run(echo '' it%27s)"),
        (["echo", "a*b", "(c)", "d,e", "50%"], "shell.run(echo a%2Ab %28c%29 d%2Ce 50%25)"),
        (["echo", "a\nb", "''"], "shell.run(echo a%0Ab %27%27)"),
    ],
)
def test_the_signature_tells_every_word_apart(argv: list[str], signature: str) -> None:
    assert signature_of(argv) == signature


def test_what_lies_below_and_may_not_be_read_is_named_where_no_sandbox_hides_it() -> None:
    names, here = ("grep",), {".": ("/srv/app", "directory")}
    words = ["grep", "-r", "x", "."]
    assert said(words, allow_executables=names, paths=here, sandbox="off") == "allow grep"
    unshown = {"unshown": "/srv/app/.env"}
    assert said(words, allow_executables=names, paths=here, sandbox="off", found=unshown) == (
        "path_denied: `grep` would read `/srv/app/.env` too, which fs.read does not allow, and no sandbox hides it;"
        " name files, or a directory without such files, or remove `sandbox: off` of shell.run"
    )
