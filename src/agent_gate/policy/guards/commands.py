"""The command guard: whether a program may be started with these words, in this place and with these settings."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache

from agent_gate.model.call import BoundCall, Facts
from agent_gate.model.policy import CommandGuard
from agent_gate.model.tool import Json
from agent_gate.model.verdict import Decision, Reason
from agent_gate.model.visible import visible
from agent_gate.policy.encoding import encoded_text
from agent_gate.policy.guards.command_text import Words, words_of
from agent_gate.policy.guards.needs import unseen
from agent_gate.policy.guards.paths import PathRules
from agent_gate.policy.guards.programs import Reach, Refused, Use, is_wrapper, program_named
from agent_gate.policy.guards.tokens import DenyTokens
from agent_gate.policy.layers import Answer, ask, deny
from agent_gate.policy.signature import shown

OWN_COMMAND = "agent-gate"
_OWN_PATH = f"/{OWN_COMMAND}"
NO_SANDBOX = "none"
_OWN_IN_WORDS = re.compile(r"(?:^|[\s/;&|\"'`(])agent-gate(?:[\s;&|\"'`)]|$)|-m\s*agent_gate\b")
_STEERING = re.compile(
    r"LD_.*|GIT_.*|PATH|HOME|IFS|ENV|SHELL|BASH_.*|PYTHON.*|PERL.*|RUBY.*|NODE_.*|JAVA_.*|_JAVA_.*|LUA_.*|AWK.*"
    r"|[A-Z0-9_]*OPTIONS|[A-Z0-9_]*OPTS|[A-Z0-9_]*PAGER|[A-Z0-9_]*EDITOR|VISUAL|LESS.*|RIPGREP_.*|GREP_.*|TAR_.*|TAPE"
    r"|RSH|TMPDIR|TMP|TEMP|TZDIR|LOCPATH|NLSPATH|GCONV_PATH|TERMINFO.*|MALLOC_.*|GLIBC_TUNABLES|XDG_.*|POSIXLY_CORRECT"
    r"|POSIX.*|HOSTALIASES|RES_.*|MAGIC|SSH_.*|DYLD_.*"
)
"""Names by which a program is made to load, start or read something else, or to read its options otherwise."""


_PLAIN = b' !"#$&+-./0123456789:;<=>@ABCDEFGHIJKLMNOPQRSTUVWXYZ\\^_`abcdefghijklmnopqrstuvwxyz{|}~'
"""Words that stand in a signature as they are."""


def signature_of(argv: Sequence[str]) -> str:
    """`shell.run(…)` with the words joined by one space; blanks and quotes inside of a word are encoded."""
    text = " ".join(argv)
    if not (_is_plain(text) and all(argv) and text.count(" ") == len(argv) - 1):
        text = " ".join(map(_signed, argv))
    return f"shell.run({text})"


def _is_plain(text: str) -> bool:
    return text.isascii() and not text.encode().translate(None, _PLAIN)


def _signed(word: str) -> str:
    if word and " " not in word and _is_plain(word):
        return word
    return encoded_text("argv", word).replace(" ", "%20").replace("'", "%27") if word else "''"


def argv_of(args: Mapping[str, Json]) -> Sequence[str]:
    """The words of a command, in whichever way they were given; TextError where a text has none."""
    argv: Sequence[str] | None = args.get("argv") or args.get("cmd")
    return argv or words_of(args["command"]).words


def use_of(argv: Sequence[str], section: CommandGuard, executable: str = "") -> Use:
    """Find what a command would touch; raises Refused where its words may not be judged or may not be given.

    A program that is not listed, and that a person is asked about, is read as far as there are rules for its words;
    beyond that it runs unchecked.
    """
    if is_named(argv[0], section.unchecked_executables):
        return _UNCHECKED
    use = _read(tuple(argv))
    if isinstance(use, Use):
        return use
    if section.otherwise != "ask" or is_listed(argv[0], executable, section):
        raise Refused(use)
    return _UNCHECKED


_NOT_AS_TEXT = Words([])
_ABSENT: Mapping[str, Json] = {"type": "absent"}
_UNCHECKED = Use(reach=Reach.ALL, starts_programs=True)


@lru_cache(maxsize=64)
def _read(argv: tuple[str, ...]) -> Use | str:
    """The use, or why the words are refused.

    Kept for a while, because binding reads a command in a thread before it is judged on the event loop.
    """
    name = argv[0].rpartition("/")[2]
    program = program_named(name)
    if program is None:
        return "it is there to start other programs" if is_wrapper(name) else "there are no rules for its arguments"
    try:
        return program(argv[1:])
    except Refused as refused:
        return str(refused)


def is_named(given: str, names: Collection[str]) -> bool:
    """Tell whether a program is in a list of names and full paths."""
    return given in names or ("/" in given and given.rpartition("/")[2] in names)


def is_listed(given: str, executable: str, section: CommandGuard) -> bool:
    """Tell whether `allow_executables` has a program, by the agent's word for it or by the file that this leads to."""
    return is_named(given, section.allow_executables) or executable in section.allow_executables


class CommandRules:
    """Rules about commands, compiled; judges what binding found."""

    def __init__(self, section: CommandGuard, files: PathRules | None) -> None:
        self._section = section
        self._files = files
        self._tokens = DenyTokens(section.deny_tokens)
        self._allowed = frozenset(section.allow_executables)
        self._env = frozenset(section.allow_env)
        self._asks = section.otherwise == "ask" and section.sandbox != "off"
        self._answers: dict[str, Answer] = {}

    def __call__(self, bound: BoundCall, facts: Facts) -> Answer:
        resources, args = bound.resources, bound.args
        text, env = args.get("command"), args.get("env")
        written = words_of(text) if text else _NOT_AS_TEXT
        argv = args.get("argv") or args.get("cmd") or written.words
        asked = self._judge_program(argv, resources, facts.found)
        refusal = (
            _denied(asked)
            or self._judge_words(argv, text or "", written.operator)
            or (self._judge_environment(argv, env) if env else None)
            or self._judge_sandbox(resources, facts.found)
            or self._judge_needs(argv[0], facts.found.get("needs", ()))
            or self._judge_use(argv, written.expanded, resources, facts.found)
        )
        return _together(asked, refusal) or self._passed(argv[0])

    def _passed(self, name: str) -> Answer:
        answer = self._answers.get(name)
        if answer is None:
            answer = self._answers[name] = Reason("guard", Decision.ALLOW, name), None
        return answer

    def _judge_program(
        self, argv: Sequence[str], resources: Mapping[str, Json], found: Mapping[str, Json]
    ) -> Answer | None:
        section, given, path = self._section, argv[0], resources.get("executable", "")
        if given == OWN_COMMAND or given.endswith(_OWN_PATH) or path.endswith(_OWN_PATH):
            return _no(1004, "no tool may run the gate's own command", "ask a person to run it")
        unlisted = not is_named(given, self._allowed) and path not in self._allowed
        if unlisted and not self._asks:
            return self._unlisted(given)
        if not path:
            where = ", ".join(section.trusted_dirs)
            return _no(
                1004,
                f"{_quoted(given)} {found.get('executable', 'was not found')} ({where})",
                "add its directory there, or use a program that is in one of them",
            )
        return self._ask_about(argv, path) if unlisted else None

    def _unlisted(self, given: str) -> Answer:
        alone = self._section.otherwise == "ask"
        without = ", and without a sandbox nothing would hold it that a person could agree to" if alone else ""
        remedy = "add it there, or use one of them" + (", or take `sandbox: off` away" if alone else "")
        return _no(1004, self._not_in_list(given) + without, remedy)

    def _ask_about(self, argv: Sequence[str], path: str) -> Answer:
        """The question says what a yes would mean: words that nobody read, but neither network nor hidden files."""
        is_unchecked = use_of(argv, self._section, path) is _UNCHECKED
        words = ", whatever its words make it do" if is_unchecked else ""
        return ask("guard", f"{self._not_in_list(argv[0])}; it would run in the sandbox, without network{words}")

    def _not_in_list(self, given: str) -> str:
        listed = ", ".join(self._section.allow_executables) or "it is empty"
        return f"{_quoted(given)} is not in allow_executables of shell.run ({listed})"

    def _judge_words(self, argv: Sequence[str], text: str, operator: str) -> Answer | None:
        token = self._tokens.found_in(argv, text)
        if token is not None:
            return _no(
                1005,
                f"the command holds {_quoted(token)}, which deny_tokens of shell.run denies",
                "leave it out, or remove the token there",
                token,
            )
        if operator:
            return _no(
                1005,
                f"a shell would act on {_quoted(operator)}, and there is no shell here",
                "make one call for each program; put what is meant as it stands in quotes, or give the words in argv",
            )
        return None

    def _judge_environment(self, argv: Sequence[str], env: Mapping[str, str]) -> Answer | None:
        for name in env:
            if name not in self._env:
                return _no(
                    1001,
                    f"the variable {_quoted(name)} is not in allow_env of shell.run",
                    "add it there, or leave it out",
                )
            if _STEERING.fullmatch(name) and not is_named(argv[0], self._section.unchecked_executables):
                return _no(
                    1001,
                    f"the variable {_quoted(name)} can make {_quoted(argv[0])} load or start something else",
                    "leave it out, or name the program in unchecked_executables",
                )
        return None

    def _judge_use(
        self, argv: Sequence[str], expanded: frozenset[str], resources: Mapping[str, Json], found: Mapping[str, Json]
    ) -> Answer | None:
        try:
            use = use_of(argv, self._section, resources.get("executable", ""))
        except Refused as refused:
            remedy = "or name it in unchecked_executables of shell.run, which lets every argument of it pass"
            if self._asks:
                remedy += ", or take it out of allow_executables, so that a person is asked"
            return _no(1004, f"{_quoted(argv[0])}: {refused}", f"use it otherwise, {remedy}")
        if use.starts_programs and _OWN_IN_WORDS.search(" ".join(argv[1:])):
            return _no(1004, "no tool may run the gate's own command", "ask a person to run it")
        replaced = expanded and expanded.intersection(use.reads)
        if replaced:
            return _no(
                1005,
                f"a shell would replace a part of the path {_quoted(next(iter(replaced)))}, and there is no shell here",
                "write the path as it is, or in single quotes",
            )
        programs = found.get("repository")
        if use.repository and programs:
            return _no(
                1004,
                f"the repository's own configuration may name programs or files ({', '.join(programs)})",
                "take that out of its configuration, or name git in unchecked_executables of shell.run",
            )
        unfit = found.get("repository_refused")
        if use.repository and unfit:
            return _no(1004, unfit, "work in another directory, or name git in unchecked_executables of shell.run")
        return _together(self._judge_paths(use, resources, found), _judge_below(argv[0], found))

    def _judge_paths(self, use: Use, resources: Mapping[str, Json], found: Mapping[str, Json]) -> Answer | None:
        """Each path as `fs.read` would judge it; what a word only mentions counts where such a file exists."""
        wanted, asked = use.reads, None
        paths, seen = resources.get("paths", {}), found.get("paths", {})
        if use.mentions:
            wanted += tuple(word for word in use.mentions if word in seen and seen[word]["type"] != "absent")
        if "cwd" in resources:
            wanted = (".", *wanted)
        if wanted and self._files is None:
            return _no(
                1002,
                f"{_quoted(wanted[0])} cannot be read: fs.read has no section under tools: in the policy",
                'add `tools: {fs.read: {allow_paths: ["./**"]}}`, whose paths count for commands too',
            )
        for word in wanted:
            if word not in seen:
                # A call that was recorded under a policy which let this program's words pass unread.
                return _no(1002, f"it is not known what {_quoted(word)} leads to", "make the call again to find out")
            answer = self._judge_path(word, paths[word]["path"], seen[word])
            if answer[0].decision is not Decision.ALLOW:
                asked = _together(asked, answer)
                if answer[1] is not None:
                    return answer
        return _together(asked, self._judge_tracked(use, resources.get("tracked", {})))

    def _judge_tracked(self, use: Use, tracked: Mapping[str, Sequence[str]]) -> Answer | None:
        """Judge what a repository holds under a name as a file of that name would be, also where there is none."""
        asked: Answer | None = None
        for word, _, _ in use.git.tracked() if use.git is not None else ():
            if self._files is None or word not in tracked:
                return _no(1002, f"it is not known what {_quoted(word)} leads to", "make the call again to find out")
            for path in tracked[word]:
                answer = self._files.judge_or_ask(path, _ABSENT, word)
                if answer[0].decision is not Decision.ALLOW:
                    asked = _together(asked, answer)
                    if answer[1] is not None:
                        return answer
        return asked

    def _judge_path(self, word: str, path: str, seen: Mapping[str, Json]) -> Answer:
        assert self._files is not None
        kind = seen["type"]
        if kind not in ("file", "directory", "absent"):
            return _no(1002, f"{_quoted(word)} is a {kind}", "name a file or a directory")
        # A command may list a directory.
        return self._files.judge_or_ask(path, {**seen, "type": "file"} if kind == "directory" else seen, word)

    def _judge_needs(self, name: str, needs: Sequence[Mapping[str, str]]) -> Answer | None:
        """A script whose interpreter no command is shown could not even be started."""
        missing = unseen(needs, self._files) if needs else None
        if missing is None:
            return None
        what = f"{_quoted(name)} is a script that needs {missing.paths}, which fs.read does not allow commands to see"
        return _no(1002, what, missing.remedy)

    def _judge_sandbox(self, resources: Mapping[str, Json], found: Mapping[str, Json]) -> Answer | None:
        if self._section.sandbox == "auto" and resources.get("sandbox") == NO_SANDBOX:
            return _no(
                1004,
                "this machine offers no sandbox, and commands run in one",
                "install bubblewrap (see `agent-gate doctor`), or write `sandbox: off` under shell.run to do without",
            )
        if found.get("layers") is False:
            return _no(
                1004,
                f"the sandbox {resources.get('sandbox')} cannot keep apart what a command writes, so that it is judged",
                "install bubblewrap 0.11 or newer (see `agent-gate doctor`), or write `writes: direct` under shell.run",
            )
        return None


def _denied(answer: Answer | None) -> Answer | None:
    return answer if answer is not None and answer[1] is not None else None


def _together(first: Answer | None, then: Answer | None) -> Answer | None:
    """The one that denies, else both questions as one."""
    if first is None or (then is not None and then[1] is not None):
        return then
    if then is None or first[1] is not None:
        return first
    return ask("guard", f"{first[0].text}; {then[0].text}") if first[0].text != then[0].text else first


def _judge_below(name: str, found: Mapping[str, Json]) -> Answer | None:
    unshown = found.get("unshown")
    if unshown is None:
        return None
    return _no(
        1002,
        f"{_quoted(name)} would read {_quoted(unshown)} too, which fs.read does not allow, and no sandbox hides it",
        "name files, or a directory without such files, or remove `sandbox: off` of shell.run",
    )


def _no(code: int, detail: str, suggestion: str, rule: str = "") -> Answer:
    return deny("guard", code, detail, suggestion, rule)


def _quoted(text: str) -> str:
    return f"`{shown(visible(text))}`"
