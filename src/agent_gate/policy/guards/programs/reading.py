"""Programs that read the files they are named and print what is in them."""

from __future__ import annotations

from collections.abc import Mapping

from agent_gate.policy.guards.programs.grammar import Program, Reach, Reader
from agent_gate.policy.guards.programs.hex import xxd
from agent_gate.policy.guards.programs.pagers import PAGERS

_GREP = Reader(
    "-E -F -G -P -i -y -v -w -x -c -L -l -o -q -s -b -H -h -n -T -Z -a -I -U -z -r -R -# -e= -f@ -m= -A= -B= -C=",
    "--extended-regexp --fixed-strings --basic-regexp --perl-regexp --regexp= --file@ --ignore-case --no-ignore-case",
    "--invert-match --word-regexp --line-regexp --count --color? --colour? --files-with-matches --files-without-match",
    "--max-count= --only-matching --quiet --silent --no-messages --byte-offset --with-filename --no-filename --label=",
    "--line-number --initial-tab --null --after-context= --before-context= --context= --text --binary-files=",
    "--exclude= --exclude-from@ --exclude-dir= --include= --recursive --dereference-recursive --line-buffered",
    "--null-data --binary --group-separator= --no-group-separator",
    below="-r -R --recursive --dereference-recursive",
    default_below=".",
    texts=1,
    instead_of_texts="-e -f --regexp --file",
)
# Neither --pre, --search-zip nor --hostname-bin, which start programs, nor --ignore-file, which names a file of rules.
_RIPGREP = Reader(
    "-i -S -s -w -x -v -c -l -n -N -H -I -o -p -q -F -P -U -L -a -0 -u -b -. -# -V -h -j= -A= -B= -C= -e= -f@ -g= -t=",
    "-T= -m= -M= -E= -d= -r= --ignore-case --smart-case --case-sensitive --word-regexp --line-regexp --invert-match",
    "--count --count-matches --files-with-matches --files-without-match --line-number --no-line-number",
    "--with-filename --no-filename --only-matching --pretty --quiet --fixed-strings --pcre2 --multiline",
    "--multiline-dotall --hidden --no-ignore --no-ignore-vcs --no-ignore-parent --no-ignore-global --no-ignore-dot",
    "--no-ignore-files --no-config --no-messages --follow --text --null --null-data --sort= --sortr= --threads=",
    "--after-context= --before-context= --context= --regexp= --file@ --glob= --iglob= --type= --type-not=",
    "--type-list --max-count= --max-columns= --max-columns-preview --max-depth= --max-filesize= --encoding=",
    "--replace= --files --stats --json --vimgrep --heading --no-heading --color= --colors= --column --no-column",
    "--trim --crlf --one-file-system --passthru --byte-offset --line-buffered --block-buffered --no-unicode",
    "--context-separator= --field-match-separator= --field-context-separator= --path-separator= --engine=",
    "--dfa-size-limit= --regex-size-limit= --mmap --no-mmap --unrestricted --glob-case-insensitive",
    reach=Reach.BELOW,
    default=".",
    texts=1,
    instead_of_texts="-e -f --regexp --file --files --type-list",
)
# No --paginate, which starts a program. Where one operand is a directory, files in it are read.
_DIFF = Reader(
    "-q -s -c -u -e -n -y -t -T -i -E -Z -b -w -B -a -d -r -N -H -p -P -# -C= -U= -W= -I= -F= -x= -X@ -S= -D=",
    "--normal --brief --report-identical-files --context? --unified? --ed --rcs --side-by-side --width=",
    "--left-column --suppress-common-lines --show-c-function --show-function-line= --label= --expand-tabs",
    "--initial-tab --tabsize= --suppress-blank-empty --recursive --no-dereference --new-file",
    "--unidirectional-new-file --ignore-file-name-case --no-ignore-file-name-case --exclude= --exclude-from@",
    "--starting-file= --from-file@ --to-file@ --ignore-case --ignore-tab-expansion --ignore-trailing-space",
    "--ignore-space-change --ignore-all-space --ignore-blank-lines --ignore-matching-lines= --text",
    "--strip-trailing-cr --ifdef= --minimal --horizon-lines= --speed-large-files --color? --palette=",
    # Two directories are compared file by file without -r, too.
    reach=Reach.BELOW,
)
_DIGEST = Reader("-b -t -z --binary --text --tag --zero -l= --length=")
_ENCODE = Reader("-d -i -w= --decode --ignore-garbage --wrap=", operands_max=1)

READING: Mapping[str, Program] = {
    **PAGERS,
    "base32": _ENCODE,
    "base64": _ENCODE,
    "b2sum": _DIGEST,
    "cat": Reader(
        "-A -b -e -E -n -s -t -T -u -v --show-all --number-nonblank --show-ends --number --squeeze-blank",
        "--show-tabs --show-nonprinting",
    ),
    "cksum": Reader("-a= --algorithm= --untagged --tag -l= --length= -z --zero"),
    "cmp": Reader(
        "-b -i= -l -n= -s --print-bytes --ignore-initial= --verbose --bytes= --quiet --silent", operands_max=2
    ),
    "column": Reader(
        "-t -x -s= -o= -c= -N= -R= -e --table --separator= --output-separator= --output-width= --fillrows"
    ),
    "comm": Reader(
        "-1 -2 -3 -z --check-order --nocheck-order --output-delimiter= --total --zero-terminated", operands_max=2
    ),
    "cut": Reader(
        "-b= -c= -d= -f= -n -s -z --bytes= --characters= --delimiter= --fields= --complement --only-delimited",
        "--output-delimiter= --zero-terminated",
    ),
    "diff": _DIFF,
    "egrep": _GREP,
    "expand": Reader("-i -t= --initial --tabs= -#"),
    "fgrep": _GREP,
    # No -f, -m, -C or --compile, which name other files; no -z, which unpacks by other programs; no -s: special files.
    "file": Reader(
        "-b -i -I -L -h -k -n -N -r -v -0 -l -e= -F= -P= --brief --mime --mime-type --mime-encoding --extension",
        "--dereference --no-dereference --keep-going --no-buffer --no-pad --raw --exclude= --separator= --parameter=",
        "--print0 --apple",
    ),
    "fmt": Reader(
        "-c -t -s -u -p= -w= -g= -# --crown-margin --tagged-paragraph --split-only --uniform-spacing --width="
    ),
    "fold": Reader("-b -s -w= -# --bytes --spaces --width="),
    "grep": _GREP,
    "head": Reader(
        "-c= -n= -q -v -z -# --bytes= --lines= --quiet --silent --verbose --zero-terminated",
    ),
    "hexdump": Reader("-b -c -C -d -o -x -v -n= -s= -e= --canonical --length= --skip= --no-squeezing"),
    "join": Reader(
        "-a= -e= -i -j= -o= -t= -v= -1= -2= -z --header --check-order --nocheck-order --ignore-case --zero-terminated",
        operands_max=2,
    ),
    "md5sum": _DIGEST,
    "nl": Reader(
        "-b= -d= -f= -h= -i= -l= -n= -p -s= -v= -w= --body-numbering= --header-numbering= --footer-numbering=",
        "--line-increment= --number-format= --number-separator= --starting-line-number= --number-width=",
    ),
    "od": Reader(
        "-A= -t= -j= -N= -S= -w? -v -a -b -c -d -f -i -l -o -s -x --address-radix= --format= --skip-bytes=",
        "--read-bytes= --strings? --width? --output-duplicates --endian=",
    ),
    "paste": Reader("-d= -s -z --delimiters= --serial --zero-terminated"),
    "rev": Reader(""),
    "rg": _RIPGREP,
    "sha1sum": _DIGEST,
    "sha224sum": _DIGEST,
    "sha256sum": _DIGEST,
    "sha384sum": _DIGEST,
    "sha512sum": _DIGEST,
    "shuf": Reader("-e -i= -n= -r -z --echo --input-range= --head-count= --repeat --zero-terminated", operands_max=1),
    # Neither -o nor -T, which name files to write, nor --compress-program, nor lists of files.
    "sort": Reader(
        "-b -d -f -g -i -M -h -n -R -r -V -c -C -m -s -u -z -k= -t= -S= --ignore-leading-blanks --dictionary-order",
        "--ignore-case --general-numeric-sort --ignore-nonprinting --month-sort --human-numeric-sort --numeric-sort",
        "--random-sort --reverse --sort= --version-sort --check? --merge --stable --unique --zero-terminated --key=",
        "--field-separator= --buffer-size= --parallel= --batch-size= --debug",
    ),
    "strings": Reader(
        "-a -f -n= -t= -e= -o -w -d -s= --all --print-file-name --bytes= --radix= --encoding= -#", expands_at=True
    ),
    "sum": Reader("-r -s --sysv"),
    "tac": Reader("-b -r -s= --before --regex --separator="),
    "tail": Reader(
        "-c= -n= -q -v -z -# --bytes= --lines= --quiet --silent --verbose --zero-terminated -f -F --follow? --retry",
        "-s= --sleep-interval=",
        follows="-f -F --follow",
    ),
    "unexpand": Reader("-a -t= --all --first-only --tabs="),
    # Its second operand would be written.
    "uniq": Reader(
        "-c -d -D -i -u -z -f= -s= -w= -# --count --repeated --all-repeated? --group? --ignore-case --unique",
        "--zero-terminated --skip-fields= --skip-chars= --check-chars=",
        operands_max=1,
    ),
    "wc": Reader("-c -m -l -L -w --bytes --chars --lines --max-line-length --words --total="),
    "xxd": xxd,
}
