"""Generated command lines for programs with an argument table, and a folder in which each word of them is a file."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from agent_gate.policy.guards.programs import Program
from agent_gate.policy.guards.programs.grammar import Reader, Syntax, Talker

FILES = ["a.txt", "b.txt", "list", "@list", "sub/c.txt", "x=1"]
FOLDERS = ["sub", ".", "other"]
VALUES = ["1", "2", "c", "x", "a.txt", "0x1", "%s", ",", "=1", "/x/", "word", "list", "sub"]
ODD = ["-", "--", "+1", "-1", "-2", "+c", "@list", "--@list", "-@list", "", "-n", "-c", "-f", "-o", "out", "secret.txt"]
FIRST = (["@list", "a.txt"], ["-", "a.txt"], ["a.txt", "sub"], ["a.txt", "-c"], ["+1", "a.txt"])
SPELT: Mapping[str, str] = {
    "awk": "-F -F: -v -vx=1 x=1 {print} NR==1 /x/ {print$1/2} -f --",
    "date": "-u -d -r -ra.txt --reference=a.txt --date=1 -R -I -Is +%F +x",
    "find": "-H -L -P -O1 -name -newer -newermt -newerma -samefile -maxdepth -type f -print -ls ( ) ! -o , -regex",
    "jq": ". -r -n -s -c --arg --argjson --args --jsonargs --indent -R --tab .a -f -nr --seq -e input_filename",
    "less": "-N -S -R -F -X -n -NS -x4 -p -t -k -o --chop-long-lines +1 +G",
    "more": "-s -d -u -n -5 +1",
    "sed": "p -n -e -E -s -z --expression=p 1p s/x/y/ $d y/a/b/ = -l -l5 /x/d --posix -u --debug",
    "tar": "tf -tf tvf -t -f --list --file=a.tar -v a.tar a.tgz -z -tzf tzf --file -R member --gzip -J --zstd -tjf",
    "which": "-a ls cat ./a.txt sub/c.txt -s",
    "xxd": "-a -b -c -c4 -e -g -g2 -i -l -l3 -n -o -p -ps -s -s3 -u -d -v -ac -C -E -plain -cols -len",
}
"""Words for programs that read their command lines in a way of their own."""


def lay_out(folder: Path) -> None:
    """Every word that a line may hold is the name of a file, so that nothing is opened unseen."""
    for name in ("sub", "other", "sub/deep", ".hidden"):
        (folder / name).mkdir()
    words = {
        *FILES,
        *VALUES,
        *ODD,
        *(word for text in SPELT.values() for word in text.split()),
        "sub/.env",
        "sub/a.txt",
    }
    for word in sorted(words | {"other/a.txt", "other/c.txt", "sub/deep/d.txt", ".env", ".hidden/e.txt", ".gitignore"}):
        path = folder / word
        if word and path.parent.is_dir() and not path.exists():
            path.write_text("secret.txt\n-c secret.txt\nword 1\n")
    (folder / "list").write_bytes(b"secret.txt\0sub/c.txt\0")


def lines(name: str, program: Program, chance: random.Random) -> Iterator[list[str]]:
    """First those that are odd to many programs, then whatever chance makes of options and names."""
    options = _options(name, program)
    yield from (list(words) for words in FIRST)
    while True:
        yield [_word(options, chance) for _ in range(chance.randrange(6))]


def _options(name: str, program: Program) -> Sequence[str]:
    if isinstance(program, Reader | Talker):
        return sorted(spellings(program.syntax))
    spelt = SPELT.get(name) or (SPELT["awk"] if "awk" in name else "")
    return spelt.split()


def spellings(syntax: Syntax) -> Iterator[str]:
    """Each option as it can be written, with values."""
    for name, kind in syntax.kinds.items():
        if name == "-#":
            yield from ("-5", "-12")
            continue
        yield name
        joined = "=" if name.startswith("--") else ""
        if kind:
            yield from (f"{name}{joined}{value}" for value in ("1", "a.txt", "x", "sub"))


def _word(options: Sequence[str], chance: random.Random) -> str:
    kind = chance.random()
    if options and kind < 0.4:
        return chance.choice(options)
    if options and kind < 0.5:
        # Letters behind one dash, the last perhaps with a value.
        letters = [word[1:] for word in chance.choices(options, k=3) if word[:1] == "-" and word[:2] != "--"]
        return f"-{''.join(letters)}"
    if kind < 0.75:
        return chance.choice(FILES)
    if kind < 0.8:
        return chance.choice(FOLDERS)
    return chance.choice(VALUES if kind < 0.9 else ODD)
