"""git: the options of each of its commands that only look at a repository."""

from __future__ import annotations

from collections.abc import Mapping

from agent_gate.policy.guards.programs.grammar import names

# Neither --output, --ext-diff nor --textconv; -O names a file of its own.
_DIFF = (
    "-p -u -s -U? -B? -M? -C? -D -l= -S= -G= -R -a -b -w -I= -W -z -0 -1 -2 -3 -m -c --patch --no-patch --unified?"
    " --raw --patch-with-raw --patch-with-stat --stat? --numstat --shortstat --dirstat? --cumulative --summary"
    " --name-only --name-status --color? --no-color --word-diff? --word-diff-regex= --color-words? --color-moved?"
    " --no-color-moved --color-moved-ws= --no-renames --rename-empty --no-rename-empty --check --full-index --binary"
    " --abbrev? --no-abbrev --break-rewrites? --find-renames? --find-copies? --find-copies-harder"
    " --irreversible-delete --pickaxe-all --pickaxe-regex --find-object= --diff-filter= --relative? --no-relative"
    " --text --ignore-space-at-eol --ignore-cr-at-eol --ignore-space-change --ignore-all-space --ignore-blank-lines"
    " --ignore-matching-lines= --inter-hunk-context= --function-context --exit-code --quiet --no-ext-diff"
    " --no-textconv --ignore-submodules? --src-prefix= --dst-prefix= --no-prefix --default-prefix --line-prefix="
    " --minimal --patience --histogram --diff-algorithm= --anchored= --indent-heuristic --no-indent-heuristic"
    " --compact-summary --ws-error-highlight= --cc --combined-all-paths --diff-merges= --no-diff-merges"
    " --merge-base --cached --staged --base --ours --theirs --ita-invisible-in-index --skip-to= --rotate-to="
)
# No --show-signature, which starts gpg, no --alternate-refs, which can, and no --stdin. Neither --full-diff nor -L,
# which show files that no pathspec keeps out.
_REVISIONS = (
    "-n= -# -i -E -F -P -g --max-count= --skip= --since= --after= --until= --before= --since-as-filter= --max-age="
    " --min-age= --author= --committer= --grep= --grep-reflog= --all-match --invert-grep --regexp-ignore-case"
    " --basic-regexp --extended-regexp --fixed-strings --perl-regexp --merges --no-merges --min-parents= --max-parents="
    " --no-min-parents --no-max-parents --first-parent --exclude-first-parent-only --not --all --branches? --tags?"
    " --remotes? --glob= --exclude= --exclude-hidden= --reflog --ignore-missing --cherry-mark"
    " --cherry-pick --left-only --right-only --cherry --walk-reflogs --merge --boundary --simplify-by-decoration"
    " --show-pulls --full-history --dense --sparse --simplify-merges --ancestry-path? --date-order"
    " --author-date-order --topo-order --reverse --no-walk? --do-walk --oneline --pretty? --format= --abbrev-commit"
    " --no-abbrev-commit --encoding= --expand-tabs? --no-expand-tabs --notes? --no-notes --relative-date --date="
    " --parents --children --left-right --graph --no-graph --show-linear-break? --count --follow"
    " --decorate? --no-decorate --decorate-refs= --decorate-refs-exclude= --source --mailmap --no-mailmap"
    " --use-mailmap --no-use-mailmap --log-size --clear-decorations --show-notes? --no-standard-notes"
)
_LOG = f"{_REVISIONS} {_DIFF}"
_REFERENCES = "-g --walk-reflogs --all --branches? --tags? --remotes? --glob= --reflog --follow"
# Nothing by which `git show` finds objects by itself: it would print whatever they are.
_SHOW = " ".join(name for name in _LOG.split() if name not in _REFERENCES.split())
_REFS = "--sort= --format= --contains= --no-contains= --merged= --no-merged= --points-at= --ignore-case -i"

COMMANDS: Mapping[str, str] = {
    "annotate": "",
    "blame": (
        "-L= -l -t -s -e -f -n -p -w -b -c -M? -C? --porcelain --line-porcelain --incremental --root --date= --since="
        " --show-name --show-number --show-email --show-stats --score-debug --abbrev? --first-parent --encoding="
        " --ignore-rev= --ignore-revs-file@ --color-lines --color-by-age --progress --no-progress --reverse --minimal"
    ),
    "branch": (
        f"-l -a -r -v --list --all --remotes --verbose --show-current {_REFS} --column? --no-column --color? --no-color"
        " --abbrev? --no-abbrev --omit-empty"
    ),
    "cat-file": "-t -s -p -e --allow-unknown-type",
    "check-ignore": "-q --quiet --no-index",
    # Without --path, which would expand a value.
    "config": "--get= --get-all= --bool --int --type= -z --null --local",
    "count-objects": "-v -H --verbose --human-readable",
    "describe": (
        "--tags --all --long --abbrev? --always --exact-match --match= --exclude= --first-parent"
        " --contains --candidates= --debug"
    ),
    "diff": f"{_DIFF} --no-index",
    "diff-files": _DIFF,
    "diff-index": _DIFF,
    "diff-tree": f"{_DIFF} -r -t --root -v --pretty? --format= --no-commit-id --always --date= --notes? --no-notes",
    "for-each-ref": f"--count= {_REFS} --color? --omit-empty",
    # No -O, which starts a pager, no --textconv, and nothing by which it reads files that are not the repository's.
    "grep": (
        "-a -I -i -w -v -h -H -E -G -P -F -n -l -L -z -o -c -p -W -q -r -e= -f@ -A= -B= -C= -m= -# --cached"
        " --text --no-textconv --ignore-case --word-regexp --invert-match"
        " --max-depth= --recursive --no-recursive --full-name --extended-regexp --basic-regexp --perl-regexp"
        " --fixed-strings --line-number --column --files-with-matches --name-only --files-without-match --null"
        " --only-matching --count --color? --no-color --break --heading --show-function --context= --after-context="
        " --before-context= --max-count= --function-context --threads= --and --or --not --all-match --quiet"
    ),
    "log": _LOG,
    "ls-files": (
        "-c -d -m -o -i -s -u -k -z -x= -X@ -t -v -f --cached --deleted --modified --others --ignored --stage"
        " --unmerged --killed --directory --no-empty-directory --eol --deduplicate --exclude= --exclude-from@"
        " --exclude-standard --error-unmatch --with-tree= --full-name --abbrev? --debug --sparse --format="
    ),
    "ls-tree": (
        "-d -r -t -l -z --long --name-only --name-status --object-only --full-name --full-tree --abbrev? --format="
    ),
    "merge-base": "-a --all --octopus --is-ancestor --independent --fork-point",
    "name-rev": "--tags --refs= --exclude= --all --name-only --no-undefined --always",
    "reflog": _LOG,
    "remote": "-v --verbose",
    "rev-list": (
        f"{_REVISIONS} --objects --objects-edge --header --timestamp --bisect --bisect-vars --bisect-all --quiet"
        " --disk-usage? --no-object-names --object-names --unpacked --no-commit-header --commit-header"
    ),
    "rev-parse": (
        "-q --abbrev-ref? --short? --verify --quiet --symbolic --symbolic-full-name --show-toplevel --git-dir"
        " --absolute-git-dir --git-common-dir --git-path= --is-inside-work-tree --is-inside-git-dir"
        " --is-bare-repository --is-shallow-repository --show-prefix --show-cdup --show-superproject-working-tree"
        " --show-object-format? --show-ref-format --all --branches? --tags? --remotes? --glob? --exclude? --revs-only"
        " --no-revs --flags --no-flags --not --default= --since? --after? --until? --before? --path-format="
        " --disambiguate? --local-env-vars"
    ),
    "shortlog": f"{_LOG} -n -s -e -c -w? --numbered --summary --email --group= --committer",
    "show": _SHOW,
    "show-ref": "-d -s? -q --head --heads --branches --tags --dereference --hash? --verify --abbrev? --quiet",
    "stash list": _LOG,
    "stash show": _DIFF,
    # No -v, which shows contents that no pathspec keeps out.
    "status": (
        "-s -b -u? -z --short --branch --show-stash --porcelain? --long --untracked-files? --ignored?"
        " --ignore-submodules? --column? --no-column --ahead-behind --no-ahead-behind --renames --no-renames"
        " --find-renames? --null"
    ),
    "symbolic-ref": "-q --quiet --short --recurse --no-recurse",
    "tag": f"-l -n? --list {_REFS} --column? --no-column --color? --omit-empty",
    "version": "--build-options",
    "whatchanged": _LOG,
    "worktree list": "-v -z --verbose --porcelain",
}
"""Options that each takes; commands that write, fetch or start programs are not here."""

CONTENTS = names(_DIFF.replace("=", "").replace("?", "")) - names(
    "-0 -1 -2 -3 -s -z --no-patch --color --no-color --abbrev --no-abbrev --no-ext-diff --no-textconv --no-renames"
)
"""Options of commands that walk history by which they show contents, or find by them."""
NAMES = names(
    "--name-only --name-status --stat --numstat --shortstat --summary --dirstat --raw --compact-summary --diff-filter"
    " -M --find-renames --full-index"
)
"""Those of them by which no more than names and numbers are shown."""
FORMATS = CONTENTS & names(
    "-p -u -U --patch --unified --raw --patch-with-raw --patch-with-stat --stat --numstat --shortstat --dirstat"
    " --summary --name-only --name-status --word-diff --color-words --check --binary --compact-summary --cumulative"
)
"""Those that say how a difference is shown."""
