"""Programs that list names, sizes and times, and do not read what is in a file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from agent_gate.policy.guards.programs.grammar import Program, Reach, Reader, Refused, Syntax, Use, names

_LS = Reader(
    "-a -A -b -B -c -C -d -f -F -g -G -h -H -i -k -l -L -m -n -N -o -p -q -Q -r -R -s -S -t -u -U -v -x -X -Z -1",
    "-I= -T= -w= --all --almost-all --author --escape --block-size= --ignore-backups --color? --directory",
    "--classify? --file-type --format= --full-time --group-directories-first --no-group --human-readable --si",
    "--dereference-command-line --dereference-command-line-symlink-to-dir --hide= --hyperlink? --indicator-style=",
    "--inode --ignore= --kibibytes --dereference --numeric-uid-gid --literal --hide-control-chars",
    "--show-control-chars --quote-name --quoting-style= --reverse --recursive --size --sort= --time= --time-style=",
    "--tabsize= --width= --context --zero",
    below="-R --recursive",
    default=".",
)

_FIND_STARTS = frozenset({"-H", "-L", "-P"})
_FIND_ALONE = names(
    "-empty -readable -writable -executable -nouser -nogroup -true -false -prune -print -print0 -quit -depth -d",
    "-daystart -mount -xdev -follow -noleaf -ignore_readdir_race -noignore_readdir_race -warn -nowarn -ls -not -a",
    "-o -and -or ! ( ) ,",
)
_FIND_TEXT = names(
    "-name -iname -path -ipath -wholename -iwholename -regex -iregex -type -xtype -size -mtime -atime -ctime",
    "-mmin -amin -cmin -user -group -uid -gid -perm -links -inum -fstype -lname -ilname -used -maxdepth -mindepth",
    "-regextype -printf",
)
_FIND_PATH = names(
    "-newer -anewer -cnewer -samefile",
)
_FIND_NEWER = re.compile(r"-newer[aBcm]([aBcmt])")


def find(words: Sequence[str], /) -> Use:
    """Tests and prints; no action that starts a program, deletes or writes."""
    if words in (["--version"], ["--help"]):
        return Use()
    at = 0
    while at < len(words) and (words[at] in _FIND_STARTS or re.fullmatch(r"-O[0-3]", words[at])):
        at += 1
    starts: list[str] = []
    while at < len(words) and not _begins_expression(words[at]):
        starts.append(words[at])
        at += 1
    compared = _compared(words[at:])
    return Use((*(starts or ["."]), *compared), reach=Reach.BELOW)


def _begins_expression(word: str) -> bool:
    return word[:1] == "-" or word in ("(", ")", "!", ",")


def _compared(words: Sequence[str]) -> list[str]:
    """The files that an expression compares with."""
    paths: list[str] = []
    waiting = iter(words)
    for word in waiting:
        if word in _FIND_ALONE:
            continue
        newer = _FIND_NEWER.fullmatch(word)
        if word not in _FIND_TEXT and word not in _FIND_PATH and newer is None:
            raise Refused(f"`{word}` is not a part of an expression that it may be given")
        value = next(waiting, None)
        if value is None:
            raise Refused(f"`{word}` has no value")
        if word in _FIND_PATH or (newer is not None and newer[1] != "t"):
            paths.append(value)
    return paths


_WHICH = Syntax("-a", common="")


def which(words: Sequence[str], /) -> Use:
    """Names of programs; one with a slash in it is a path."""
    return Use(tuple(word for word in _WHICH.read(words).operands if "/" in word))


LISTING: Mapping[str, Program] = {
    "df": Reader(
        "-a -h -H -i -k -l -P -T -B= -t= -x= --all --block-size= --human-readable --si --inodes --local --no-sync",
        "--output? --portability --sync --total --type= --print-type --exclude-type=",
    ),
    "dir": _LS,
    "du": Reader(
        "-0 -a -c -D -H -h -k -l -L -m -P -s -S -x -b -B= -d= -t= -X@ --null --all --apparent-size --block-size=",
        "--bytes --total --dereference-args --max-depth= --human-readable --inodes --count-links --dereference",
        "--no-dereference --separate-dirs --si --summarize --threshold= --time? --time-style= --exclude-from@",
        "--exclude= --one-file-system",
        reach=Reach.BELOW,
        default=".",
    ),
    "find": find,
    "ls": _LS,
    "readlink": Reader(
        "-f -e -m -n -q -s -v -z --canonicalize --canonicalize-existing --canonicalize-missing --no-newline --quiet",
        "--silent --verbose --zero",
    ),
    "realpath": Reader(
        "-e -m -L -P -q -s -z --canonicalize-existing --canonicalize-missing --logical --physical --quiet --strip",
        "--no-symlinks --zero --relative-to@ --relative-base@",
    ),
    "stat": Reader("-L -f -c= -t --format= --printf= --dereference --file-system --terse --cached="),
    "tree": Reader(
        "-a -d -f -i -l -p -s -h -u -g -D -F -r -t -c -U -v -x -n -C -S -A -N -q -Q -J -X -L= -P= -I= --gitignore",
        "--noreport --dirsfirst --filesfirst --du --si --inodes --prune --ignore-case --matchdirs --metafirst",
        "--charset= --filelimit= --timefmt= --sort? --filesfirst",
        reach=Reach.BELOW,
        default=".",
        parted="LPI",
    ),
    "vdir": _LS,
    "which": which,
}
