"""What is known of programs: command lines that only look pass, all others do not."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_gate.policy.guards.programs import Reach, Refused, Use, is_wrapper, program_named

HARMLESS = [
    "ls -la",
    "ls -R --color=never x",
    "cat -n a b",
    "head -n 1 a",
    "head -5 a",
    "head -n5 a",
    "tail -n +2 a",
    "tail -20 a",
    "wc -l a",
    'grep -n "two words" a',
    "grep -rn x .",
    "grep -rn x",
    "grep -e a -e b f",
    "grep -A3 -B 2 x f",
    "grep --include=*.py -r x d",
    "grep -nE 'a|b' f",
    'find . -name "*.txt"',
    "find . -type f -newer a.txt -print",
    "find a b -maxdepth 1 ( -name a -o -name b ) -print0",
    "find -newermt 2020-01-01",
    "sed -n 1p a",
    "sed -n '1,2p' a",
    "sed s/one/two/ a",
    "sed -E 's/([a-z]+)/[\\\\1]/g' a",
    "sed 's/[^/]*$//' a",
    "sed -e 1d -e '$d' a",
    "sed '/^$/d' a",
    "sed -n '/start/,/end/p' a",
    "sed 's|/usr|/opt|g;s/x/y/' a",
    "sed 's/[[:space:]]*$//' a",
    "sed '/x/{s/a/b/;p}' a",
    "sed -n '$=' a",
    "sed '1i header' a",
    "sed 'y/abc/xyz/' a",
    "awk '{print $1}' a",
    "awk -F: '{print $1, $3}' a",
    "awk '$1 > 5 {print}' a",
    "awk 'NR==1 || /x|y/' a",
    "awk '{s+=$1} END {print s/NR}' a",
    "awk -v x=1 '{ if (x > 0) print (x/2), \"a>b\" }' a",
    "awk 'BEGIN { for (i=0;i<3;i++) printf(\"%d\\\\n\", i) }'",
    "awk '{ a[$1]++ } END { for (k in a) print k, a[k] }' a",
    "awk 'length($0) > 80' a",
    "awk '(NR % 2) / 1 == 1' a",
    "awk '/[^/]+$/ {print $1/2 \"|\" $2}' a",
    "awk '{ n++ / 2; print \"a|b\", n/2 }' a",
    "awk '{ print $1,\n $2 }' a",
    "awk '{ x = $1 / $2\n y = $2 / $1\n if (x > y) print x, y }' a",
    "awk '/a[/.]b/ || $1 ~ /[[:digit:]]+/' a",
    "awk 'length > 72' a",
    "awk '{ gsub(/\\//, \"|\"); print }' a",
    "awk '{ x /= 2 } END { print (x > 1 ? 1 : 2) }' a",
    "tar tf x.tar",
    "tar -tvf x.tar",
    "tar --list --file=x.tar",
    "tar -tf x.tar member",
    "sort -u -k2,2n -t: a",
    "uniq -c a",
    "cut -d: -f1 a",
    "tr a-z A-Z",
    "diff -u a b",
    "jq -r .a f",
    "jq -n --arg x 1 '$x'",
    "jq '.[] | select(.a > 1) | {b}' f",
    "date +%F",
    "date -u",
    "git status",
    "git status --short",
    "git log --oneline -n 5",
    "git log -5 --format=%H",
    "git log --stat -p -U3 HEAD~1..HEAD -- a.txt",
    "git diff HEAD",
    "git diff --cached --stat",
    "git show HEAD:a.txt",
    "git rev-parse --abbrev-ref HEAD",
    "git branch",
    "git branch -a",
    "git branch --list 'x*'",
    "git branch --show-current",
    "git tag -l",
    "git tag",
    "git blame -L 1,2 a.txt",
    "git -C sub status",
    "git --no-pager log",
    "git ls-files",
    "git grep -n x",
    "git reflog",
    "git remote -v",
    "git stash list",
    "git stash show -p 1",
    "git config --get core.bare",
    "git config --get-all remote.origin.fetch",
    "git worktree list --porcelain",
    "git describe --tags --always",
    "git --version",
    "python3 --version",
    "python3.11 -V",
    "echo -n x",
    "printf %s x",
    "basename /a/b .c",
    "stat -c %s a",
    "file -b a",
    "md5sum a",
    "sha256sum a",
    "du -sh .",
    "seq 1 10",
    "rg -n x",
    "rg -g '*.py' x src",
    "xxd -l 16 a",
    "od -c a",
    "realpath a",
    "true",
    "sleep 1",
    "id -u",
    "cmp a b",
    "nl a",
    "comm -12 a b",
]
REFUSED = [
    "cat --foo a",
    "cat --numbe a",
    "head --l=1 a",
    "tail --pid=1 a",
    "wc --files0-from=x",
    "grep -f",
    "find . -exec touch x {} +",
    "find . -execdir x ;",
    "find . -ok x ;",
    "find . -delete",
    "find . -fprint x",
    "find . -fprintf x y",
    "find . -fls x",
    "find . -files0-from x",
    "sed -i s/a/b/ a",
    "sed --in-place s/a/b/ a",
    "sed -ni p a",
    "sed -n 1e a",
    "sed -n '1e touch x' a",
    "sed 's/a/b/e' a",
    "sed 's/a/b/w x' a",
    "sed 's/a/b/gw x' a",
    "sed -n 'w x' a",
    "sed 'r /etc/passwd' a",
    "sed '1R x' a",
    "sed 'W x' a",
    "sed -f x a",
    "sed -s --expression=e a",
    "sed '1!e' a",
    "sed 'p;s/x/y/;e id' a",
    "sed 's/[/]/w x/' a",
    "sed '/[/]/w x' a",
    "awk 'BEGIN{system(\"x\")}'",
    "awk 'BEGIN{\"x\" | getline}'",
    'awk \'BEGIN{print "x" | "sh"}\'',
    'awk \'BEGIN{print "x" > "f"}\'',
    'awk \'BEGIN{print "x" >> "f"}\'',
    'awk \'BEGIN{printf("x") > "f"}\'',
    "awk 'BEGIN{ARGV[1]=\"/etc/passwd\";ARGC=2}1'",
    "awk 'BEGIN{x++ / 2; print x++ / 2 | \"touch y\"; z = 4 / 2}'",
    'awk \'BEGIN{if (1) /"/; print "x" | "sh"; /"/}\'',
    'awk \'$/"/ ; print "id" | "sh" ; y=$/"/\'',
    'awk \'BEGIN{print "x",\n"y" > "f"}\'',
    "awk 'BEGIN{print 1 ||\n2 > \"f\"}'",
    "awk 'BEGIN{print 1 ?\n2 : 3 > \"f\"}'",
    'awk \'{} /[/]/ ; {print "id" | "sh"} /]/\'',
    'awk \'BEGIN{x = length /"/ ; print "id" | "sh" ; y = 1/"/}\'',
    'awk \'BEGIN{while (0) /"/ ; print "id" | "sh" ; y = 1/"/}\'',
    "awk 'BEGIN{sys\\\ntem(\"x\")}'",
    'awk \'{ # x\\\n print "id" | "sh" }\'',
    "awk 'BEGIN{x = \"a\nb\"}'",
    "awk 'BEGIN{x = /a\\\nb/}'",
    "awk '{ @f() }'",
    "awk '@include \"x\"'",
    "awk -i inplace 1 a",
    "awk -e 1",
    "awk '{'",
    "awk 'BEGIN{print (1}'",
    "awk -f x",
    "awk --file=x",
    "awk -W exec=x",
    "awk '@load \"x\"'",
    "awk 'BEGIN { while ((\"ls\" | getline line) > 0) print line }'",
    "tar cf x.tar a",
    "tar -cf x a",
    "tar xf a",
    "tar tf host:x",
    "tar xzf a",
    "tar -xJf a",
    "tar t",
    "tar -tf a --checkpoint=1",
    "tar -tf a --checkpoint-action=exec=x",
    "tar -tf a --to-command=x",
    "tar -tf a -I x",
    "tar -tf a --use-compress-program=x",
    "tar -tf a --use-compress-prog x",
    "sort -o x a",
    "sort --output=x a",
    "sort -ox a",
    "sort --compress-program=x a",
    "sort --compress-prog x a",
    "sort -T x a",
    "uniq a b",
    "date -s x",
    "date 010101",
    "date -f x",
    "file -m x a",
    "file -f x",
    "git -c a=b log",
    "git --exec-path=x log",
    "git --git-dir=x log",
    "git --work-tree=x status",
    "git -p log",
    "git diff --output=x",
    "git diff --ext-diff",
    "git log --output x",
    "git grep -O x",
    "git grep --open-files-in-pager=x y",
    "git push",
    "git commit -m x",
    "git config --list",
    "git config --get",
    "git config --get credential.helper",
    "git config --get user.name --get core.bare",
    "git config user.name x",
    "git worktree add x",
    "git stash drop",
    "git show 'HEAD^{tree}'",
    "git show 'HEAD^{blob}'",
    "git show --all",
    "git show -g HEAD",
    "git show HEAD:a/../b",
    "git diff HEAD:a HEAD:b",
    "git grep x HEAD:a",
    "git ls-tree HEAD:a",
    "git log -L1,2:a",
    "git log --full-diff -p -- a",
    "git log -p --follow -- a",
    "git --literal-pathspecs log",
    "git blame a b c",
    "git status -v",
    "git for-each-ref '--format=%(raw)'",
    "git branch x",
    "git tag x",
    "git branch -D x",
    "git clone x",
    "git fetch",
    "git log --show-signature",
    "git log --format=%G?",
    "git stash",
    "git stash pop",
    "git remote add x y",
    "git symbolic-ref HEAD x",
    "git cat-file --batch",
    "git cat-file --textconv x",
    "git help log",
    "git log --stdin",
    "git archive HEAD",
    "git hash-object -w x",
    "git update-index",
    "git show --textconv",
    "git bisect run x",
    "git submodule foreach x",
    "git --help",
    "rg --pre x y",
    "rg --pre=x y",
    "rg -z x",
    "rg --search-zip x",
    "rg --hostname-bin=x y",
    "jq -f x y",
    "jq --slurpfile a b .",
    "jq --rawfile a b .",
    "jq -L x .",
    "jq 'import \"x\" as y; .' f",
    "jq -nf x",
    "python3 -c x",
    "python3 x.py",
    "python3",
    "xxd -r a b",
    "xxd a b",
    "xxd -ac a b",
    "xxd -ac a",
    "xxd a -p",
    "xxd -c a b",
    "xxd -len 3 a",
    "xxd -- a b",
    "xxd -revert a",
    "strings @a",
    "strings a @b",
    "strings -- @a",
    "strings -n @a b",
    "tree -Pa x",
    "tree -aL2 x",
    "less -o log a",
    "less -olog a",
    "less -Nolog a",
    "less --log-file=x a",
    "less -k keys a",
    "less --lesskey-src=x a",
    "less -t tag",
    "less -T tags a",
    "less +!id a",
    "less a +1",
    "less a -o x",
    "less --+1 a",
    "more +/x a",
    "more -n 1 a",
    "which -i",
    "awk 1 /inet/tcp/0/x/80",
    "hostname foo",
    "diff -l a b",
    "md5sum -c x",
    "ls --foo",
]
"""Each starts, writes, changes or reads something, or is a shortened or unknown word for something that may."""


def use(line: str) -> Use:
    name, *words = shlex.split(line)
    program = program_named(name)
    assert program is not None
    return program(words)


@pytest.mark.parametrize("line", HARMLESS)
def test_a_command_line_that_only_looks_passes(line: str) -> None:
    assert not use(line).starts_programs


@pytest.mark.parametrize("line", REFUSED)
def test_a_command_line_that_could_do_more_is_refused(line: str) -> None:
    with pytest.raises(Refused):
        use(line)


@pytest.mark.parametrize(
    "words",
    [
        ["{p;e\n}"],
        ["a foo\ne id"],
        ["-e", "a foo", "-e", "e id"],
        ["s/a/b/\ne id"],
        ["#x\ne id"],
        [":a;e id"],
        ["b x;e id"],
        ["$!{e id\n}"],
        ["\\,x,e id"],
        ["1,~3e id"],
        ["0~3w x"],
        ["/x/Ie id"],
        ["s/x/\\\n/e"],
        ["y/a/b/;w x"],
        ["s,a,b,;1!w x"],
        ["a\\\ntext\nw x"],
        ["s/[/w x/"],
        ["p", "-n", "-i", "x"],
    ],
)
def test_a_script_of_sed_hides_nothing(words: list[str]) -> None:
    sed = program_named("sed")
    assert sed is not None
    with pytest.raises(Refused):
        sed(words)


@pytest.mark.parametrize(
    "script",
    ["a\\\ne id is text here", "s/e/w/;p", "y/ew/we/", "s/[^]e]/w/", "$!N;P;D", "1{p;p}", "a e id"],
)
def test_letters_of_a_script_that_are_not_commands_do_not_count(script: str) -> None:
    sed = program_named("sed")
    assert sed is not None
    assert sed([script, "f"]) == Use(("f",))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("cat a - b", Use(("a", "b"), ("-",))),
        ("rev -", Use((), ("-",))),
        ("cat", Use()),
        ("ls", Use((".",))),
        ("ls -R", Use((".",), reach=Reach.BELOW)),
        ("grep x", Use()),
        ("grep x a b", Use(("a", "b"))),
        ("grep -r x", Use((".",), reach=Reach.BELOW)),
        ("grep -e x a", Use(("a",))),
        ("grep -f p a", Use(("p", "a"))),
        ("grep -fp a", Use(("p", "a"))),
        ("grep --file=p a", Use(("p", "a"))),
        ("grep -- -x a", Use(("a",))),
        ("grep -nA2 x a", Use(("a",))),
        ("rg x", Use((".",), reach=Reach.BELOW)),
        ("find", Use((".",), reach=Reach.BELOW)),
        ("find a b -newer c -newermt x", Use(("a", "b", "c"), reach=Reach.BELOW)),
        ("sed p a", Use(("a",))),
        ("sed -e p a", Use(("a",))),
        ("awk 1 a x=y - b", Use(("a", "b"), ("x=y",))),
        ("awk -F : 1 a", Use(("a",))),
        ("tar tf a b c", Use(("a",))),
        ("tar -tzf a", Use(("a",), starts_programs=True)),
        ("tar tJf a member", Use(("a",), starts_programs=True)),
        ("tar --zstd -tf a", Use(("a",), starts_programs=True)),
        ("tar -tf a.tar.bz2", Use(("a.tar.bz2",), starts_programs=True)),
        ("tail -f a", Use(("a",), follows=True)),
        ("tail -n5 -F a", Use(("a",), follows=True)),
        ("tail --follow=name --retry a", Use(("a",), follows=True)),
        ("tail -n 5 a", Use(("a",))),
        ("less a b", Use(("a", "b"))),
        ("less -NSR -F -X a", Use(("a",))),
        ("less --chop-long-lines -- -a", Use(("-a",))),
        ("more -s a", Use(("a",))),
        ("which ls git", Use()),
        ("which -a ls sub/x", Use(("sub/x",))),
        ("xxd -c 4 -l16 -s -0x10 a", Use(("a",))),
        ("xxd -i -n name a", Use(("a",))),
        ("xxd -ps -u a", Use(("a",))),
        ("strings -n 5 a", Use(("a",))),
        ("tree -L 2 a", Use(("a",), reach=Reach.BELOW)),
        ("diff a b", Use(("a", "b"), reach=Reach.BELOW)),
        ("diff --to-file=d a", Use(("d", "a"), reach=Reach.BELOW)),
        ("jq . a --args b", Use(("a",))),
        ("date -r a", Use(("a",))),
        ("realpath --relative-to=a b", Use(("a", "b"))),
        ("echo a b", Use()),
        ("git status", Use((), (), Reach.ALL, ".")),
        ("git -C a -C b log -- c", Use(("a/b",), ("a/b/c",), Reach.ALL, "a/b")),
        ("git show main:a", Use((), ("main:a", "a"), Reach.ALL, ".")),
        ("git show :a", Use((), (":a",), Reach.ALL, ".")),
        ("git diff --no-index a /b", Use(("a", "/b"), (), Reach.BELOW, ".")),
    ],
)
def test_what_a_command_line_touches_is_read_from_it(line: str, expected: Use) -> None:
    assert use(line)._replace(git=None) == expected


@pytest.mark.parametrize("name", ["env", "xargs", "sudo", "timeout", "busybox", "ssh", "make", "pager"])
def test_a_program_that_is_there_to_start_others_has_no_rules(name: str) -> None:
    assert (program_named(name), is_wrapper(name)) == (None, True)


@pytest.mark.parametrize("name", ["rm", "cp", "tee", "curl", "sh", "dash", "nosuch"])
def test_a_program_that_writes_or_interprets_has_no_rules(name: str) -> None:
    assert program_named(name) is None


@pytest.mark.parametrize("name", ["python3.12", "python3.9", "perl5.36"])
def test_a_version_in_the_name_makes_no_other_program(name: str) -> None:
    program = program_named(name)
    assert program is not None
    with pytest.raises(Refused):
        program(["-c", "1"])


_ODD_WORDS = """
-n -i -e -f -o -O -c -C -x -r -t -z -exec -delete -- - --output --pre --file=x -tf tf p 1e s/a/b/w 'x' a.txt log status
diff HEAD --textconv -c --no-index {} ; ( ) ! /etc/passwd ../x
"""
_NAMES = "cat grep rg find sed awk tar sort git jq diff file date xxd uniq ls"
_WORDS = st.lists(st.one_of(st.sampled_from(_ODD_WORDS.split()), st.text(max_size=10)), max_size=8)


@given(st.sampled_from(_NAMES.split()), _WORDS)
def test_any_words_are_read_or_refused_and_every_path_in_them_is_told(name: str, words: list[str]) -> None:
    program = program_named(name)
    assert program is not None
    try:
        told = program(words)
    except Refused:
        return
    assert not told.starts_programs
    assert all(isinstance(path, str) and path for path in told.mentions)
