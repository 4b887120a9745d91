"""Options that a program takes before or beside its subcommand, and that do not change which subcommand it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property


class GlobalOptions:
    """Names as in `Syntax`: `-x` takes no value, `-x=` one in the same word or the next, `-x?` only in the same word.

    Programs with `anywhere` take them after the subcommand too. A long name may be shortened: some programs allow it,
    and where one does not, nothing runs that an alias could have hidden.
    """

    def __init__(self, *specs: str, anywhere: bool = False) -> None:
        self._specs, self._anywhere = specs, anywhere

    @cached_property
    def _kinds(self) -> dict[str, str]:
        names = " ".join(self._specs).split()
        return {name.rstrip("=?"): name[len(name.rstrip("=?")) :] for name in names}

    def left_out(self, words: Sequence[str]) -> tuple[list[str], ...]:
        """The words without the options before the subcommand, and without all of them."""
        first = self._left_out(words, anywhere=False)
        return (first, self._left_out(words, anywhere=True)) if self._anywhere else (first,)

    def _left_out(self, words: Sequence[str], *, anywhere: bool) -> list[str]:
        kept: list[str] = []
        waiting = iter(words)
        for word in waiting:
            takes_next = self._takes_next(word) if word[:1] == "-" else None
            if takes_next is None:
                kept.append(word)
            elif takes_next:
                next(waiting, None)
            if word == "--" or not (anywhere or word[:1] == "-"):
                break
        return [*kept, *waiting]

    def _takes_next(self, word: str) -> bool | None:
        """Tell whether the word's value stands in the next one; None where it is no global option."""
        kind = self._kinds.get(word)
        if kind is not None:
            return kind == "="
        name, equals, _ = word.partition("=")
        if equals and name in self._kinds:
            return False
        if word.startswith("--"):
            known = [kind for full, kind in self._kinds.items() if len(name) > 2 and full.startswith(name)]
            return ("=" in known and not equals) if known else None
        return self._of_letters(word)

    def _of_letters(self, word: str) -> bool | None:
        for at, letter in enumerate(word[1:], 1):
            kind = self._kinds.get(f"-{letter}")
            if kind is None:
                return None
            if kind:
                return kind == "=" and at == len(word) - 1
        return None if word == "-" else False


def without_global_options(program: str, words: Sequence[str]) -> tuple[list[str], ...]:
    """The words after a program's bare name without the options that say nothing of what it does."""
    options = _OPTIONS.get(program)
    return options.left_out(words) if options else ()


_GIT = GlobalOptions(
    "-C= -c= --config-env= --exec-path? --git-dir= --work-tree= --namespace= --super-prefix= --list-cmds=",
    "--attr-source= -p --paginate",
    "-P --no-pager --no-replace-objects --no-lazy-fetch --no-optional-locks --no-advice --bare",
    "--literal-pathspecs --glob-pathspecs --noglob-pathspecs --icase-pathspecs",
)
_PYTHON = GlobalOptions("-b -B -d -E -i -I -O -P -q -s -S -u -v -x -X= -W= --check-hash-based-pycs=")
_NODE = GlobalOptions(
    "--no-warnings --trace-warnings --enable-source-maps --preserve-symlinks -r= --require= --import="
)
_NPM = GlobalOptions(
    "--prefix= -C= --userconfig= --globalconfig= --cache= --registry= --loglevel= -w= --workspace= --color= --omit=",
    "-g --global -s --silent -q --quiet -d -dd -ddd --verbose --no-color --offline --prefer-offline --no-audit",
    "--no-fund --no-progress --foreground-scripts --ignore-scripts -y --yes -f --force --workspaces -ws --json",
    anywhere=True,
)
_YARN = GlobalOptions("--cwd= -s --silent --verbose --offline --json --no-progress --non-interactive", anywhere=True)
_PNPM = GlobalOptions(
    "-C= --dir= --filter= -F= --loglevel= -r --recursive -w --workspace-root -s --silent --color --no-color",
    anywhere=True,
)
_PIP = GlobalOptions(
    "--python= --log= --proxy= --retries= --timeout= --exists-action= --trusted-host= --cert= --client-cert=",
    "--cache-dir= --use-feature= --use-deprecated= --keyring-provider= --isolated --require-virtualenv -v --verbose",
    "-q --quiet --debug --no-input --no-cache-dir --disable-pip-version-check --no-color --no-python-version-warning",
    anywhere=True,
)
_DOCKER = GlobalOptions(
    "--config= -c= --context= -D --debug -H= --host= -l= --log-level= --tls --tlscacert= --tlscert=",
    "--tlskey= --tlsverify --url= --connection= --identity= --root= --runroot= -r --remote",
)
_KUBECTL = GlobalOptions(
    "-n= --namespace= --context= --cluster= --user= --kubeconfig= -s= --server= --token= --as= --as-group= --as-uid=",
    "--cache-dir= --certificate-authority= --client-certificate= --client-key= --request-timeout= --tls-server-name=",
    "-v= --v= --vmodule= --profile= --profile-output= --username= --password= --insecure-skip-tls-verify",
    "--match-server-version --warnings-as-errors --disable-compression",
    anywhere=True,
)
_SYSTEMCTL = GlobalOptions(
    "--system --user --global -H= --host= -M= --machine= --no-pager -q --quiet --no-ask-password --root= --image= -l",
    "--full --plain --no-legend --no-wall --no-block --runtime --now -f --force -o= --output= -a --all",
    anywhere=True,
)
_MAKE = GlobalOptions(
    "-b -m -B --always-make -C= --directory= -d --debug? -e --environment-overrides -E= --eval= -f= --file=",
    "--makefile= -i --ignore-errors -I= --include-dir= -j? --jobs? -k --keep-going -l? --load-average? -L",
    "--check-symlink-times -n --just-print --dry-run --recon -o= --old-file= --assume-old= -O? --output-sync? -p",
    "--print-data-base -q --question -r --no-builtin-rules -R --no-builtin-variables -s --silent --quiet --no-silent",
    "-S --no-keep-going --stop -t --touch --trace -w --print-directory --no-print-directory -W= --what-if= --new-file=",
    "--assume-new= --warn-undefined-variables",
    anywhere=True,
)
_CARGO = GlobalOptions(
    "-v --verbose -q --quiet --color= -C= --config= -Z= --offline --locked --frozen --manifest-path= --lockfile-path=",
    anywhere=True,
)
_GO = GlobalOptions("-C=")
_APT = GlobalOptions(
    "-c= --config-file= -o= --option= -q --quiet -y --yes --assume-yes -qq --no-install-recommends", anywhere=True
)
_GH = GlobalOptions("-R= --repo= --hostname=", anywhere=True)
_TERRAFORM = GlobalOptions("-chdir?")
_HG = GlobalOptions("-R= --repository= --cwd= -y --noninteractive -q --quiet -v --verbose --config= --debug --pager=")
_SVN = GlobalOptions(
    "--username= --password= --no-auth-cache --non-interactive --config-dir= --config-option=", anywhere=True
)

_OPTIONS: Mapping[str, GlobalOptions] = {
    **dict.fromkeys(("git",), _GIT),
    **dict.fromkeys(("python", "python2", "python3", "pypy", "pypy3"), _PYTHON),
    **dict.fromkeys(("node", "nodejs"), _NODE),
    **dict.fromkeys(("npm", "npx"), _NPM),
    "yarn": _YARN,
    "pnpm": _PNPM,
    **dict.fromkeys(("pip", "pip3"), _PIP),
    **dict.fromkeys(("docker", "podman"), _DOCKER),
    "kubectl": _KUBECTL,
    "systemctl": _SYSTEMCTL,
    **dict.fromkeys(("make", "gmake"), _MAKE),
    "cargo": _CARGO,
    "go": _GO,
    **dict.fromkeys(("apt", "apt-get", "aptitude"), _APT),
    "gh": _GH,
    **dict.fromkeys(("terraform", "tofu"), _TERRAFORM),
    "hg": _HG,
    "svn": _SVN,
}
