"""Programs that print what they are told, or what the machine is, and read no file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agent_gate.policy.guards.programs.grammar import Program, Refused, Syntax, Talker, Use, free

_DATE = Syntax(
    "-u -R -I? -d= -r@ --utc --universal --rfc-email --iso-8601? --rfc-3339= --date= --reference@ --debug --resolution"
)


def date(words: Sequence[str], /) -> Use:
    read = _DATE.read(words)
    for word in read.operands:
        if not word.startswith("+"):
            raise Refused(f"`{word}` would set the clock; a format begins with `+`")
    return Use(read.paths)


class VersionOnly:
    """A program that may be asked what it is, and nothing else."""

    def __init__(self, words: Sequence[str]) -> None:
        self._words = words

    def __call__(self, words: Sequence[str], /) -> Use:
        if len(words) != 1 or words[0] not in self._words:
            raise Refused(f"it may only be asked for its version ({', '.join(self._words)})")
        return Use()


def version_only(*words: str) -> Program:
    return VersionOnly(words)


_NOTHING = Talker("", operands_max=0)
_CODE = version_only("--version", "-V")

TALKING: Mapping[str, Program] = {
    "arch": _NOTHING,
    "basename": Talker("-a -s= -z --multiple --suffix= --zero"),
    "bash": version_only("--version"),
    "date": date,
    "dirname": Talker("-z --zero"),
    "echo": free,
    "expr": free,
    "factor": Talker(""),
    "false": free,
    "go": version_only("version"),
    "groups": _NOTHING,
    "hostname": Talker("-s -f -i -I -d -A --short --fqdn --long --domain --ip-address", operands_max=0),
    "id": Talker("-a -g -G -n -r -u -z --group --groups --name --real --user --zero", operands_max=1),
    "java": version_only("--version", "-version"),
    "lua": version_only("-v"),
    "node": version_only("--version", "-v"),
    "npm": version_only("--version", "-v"),
    "nproc": Talker("--all --ignore=", operands_max=0),
    "perl": version_only("--version", "-v"),
    "php": version_only("--version", "-v"),
    "printf": free,
    "pwd": Talker("-L -P --logical --physical", operands_max=0),
    "python": _CODE,
    "python3": _CODE,
    "ruby": version_only("--version", "-v"),
    "seq": Talker("-f= -s= -w -# --format= --separator= --equal-width"),
    "sleep": Talker(""),
    "tr": Talker(
        "-c -C -d -s -t --complement --delete --squeeze-repeats --truncate-set1",
        operands_max=2,
    ),
    "true": free,
    "tty": Talker("-s --silent --quiet", operands_max=0),
    "uname": Talker(
        "-a -s -n -r -v -m -p -i -o --all --kernel-name --nodename --kernel-release --kernel-version --machine",
        "--processor --hardware-platform --operating-system",
        operands_max=0,
    ),
    "uptime": Talker("-p -s --pretty --since", operands_max=0),
    "whoami": _NOTHING,
    "yes": free,
}
