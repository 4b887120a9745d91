"""git: the settings of a repository that neither start a program nor name another file, as far as looking goes."""

from __future__ import annotations

import re

_PLAIN = frozenset({"", "true", "false", "yes", "no", "on", "off", "0", "1"})
_FSMONITOR = "core.fsmonitor"
_TOLD = (
    (
        r"core\.(repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode|symlinks|autocrlf|eol"
        r"|safecrlf|quotepath|abbrev|compression|loosecompression|bigfilethreshold|preloadindex|untrackedcache|trustctime"
        r"|checkstat|sharedrepository|sparsecheckout|sparsecheckoutcone|commitgraph|multipackindex|hidedotfiles|longpaths"
        r"|whitespace|commentchar|protecthfs|protectntfs|fscache|splitindex|packedgitlimit|packedgitwindowsize"
        r"|deltabasecachelimit|hookspath|pager|editor|fsmonitor)"
    ),
    r"extensions\.(objectformat|worktreeconfig|refstorage|partialclone|preciousobjects|compatobjectformat)",
    r"remote\.pushdefault",
    (
        r"remote\..+\.(url|pushurl|fetch|push|tagopt|prune|prunetags|mirror|promisor|partialclonefilter|gh-resolved"
        r"|skipdefaultupdate|skipfetchall)"
    ),
    r"branch\..+",
    r"(user|author|committer)\.(name|email|signingkey|useconfigonly)",
    r"(commit|tag)\.(gpgsign|sort|verbose|cleanup|status|forcesignannotated)",
    (
        r"(pull|push|fetch|merge|rebase|rerere|status|stash|checkout|clone|worktree|transfer)\."
        r"(rebase|ff|default|autosetupremote|followtags|prune|prunetags|parallel|writecommitgraph|conflictstyle|renames"
        r"|renamelimit|log|stat|autostash|autosquash|updaterefs|enabled|autoupdate|short|branch|showuntrackedfiles"
        r"|showstash|submodulesummary|aheadbehind|relativepaths|showpatch|showstat|defaultremote|guess|guessremote|workers"
        r"|fsckobjects|unpacklimit|recursesubmodules|defaultremotename|directoryrenames|thinpack|showforcedupdates)"
    ),
    (
        r"gc\.(auto|autodetach|autopacklimit|pruneexpire|reflogexpire|reflogexpireunreachable|worktreepruneexpire|packrefs"
        r"|aggressivewindow|aggressivedepth|writecommitgraph|logexpiry|bigpackthreshold|cruftpacks)"
    ),
    r"(pack|repack|index|feature|advice|column|i18n)\.[a-z0-9-]+",
    r"(init\.defaultbranch|maintenance\.(auto|strategy))",
    r"color\.(.+\.)?[a-z0-9-]+",
    (
        r"diff\.(renames|renamelimit|algorithm|mnemonicprefix|noprefix|colormoved|colormovedws|context|interhunkcontext"
        r"|indentheuristic|wserrorhighlight|suppressblankempty|statgraphwidth|statnamewidth|ignoresubmodules|relative"
        r"|autorefreshindex|dirstat|wordregex|srcprefix|dstprefix)"
    ),
    r"diff\..+\.(xfuncname|funcname|binary|wordregex|algorithm)",
    r"log\.(date|decorate|abbrevcommit|excludedecoration|graphcolors|showroot|mailmap)",
    r"blame\.(coloring|date|showemail|showroot|blankboundary)",
    r"grep\.(linenumber|column|patterntype|extendedregexp|threads|fullname)",
    r"submodule\.(active|recurse|fetchjobs)",
    r"submodule\..+\.(url|active|branch|ignore|path)",
    r"(gui|gitflow|lfs)\.(.+\.)?[a-z0-9-]+",
)
_KEPT = (r"http\.(.+\.)?extraheader",)
"""Harmless to git while it only looks, and nobody else's business."""
_CAN_BE_TOLD = re.compile("|".join(_TOLD))
_IS_HARMLESS = re.compile("|".join((*_TOLD, *_KEPT)))


def is_harmless(name: str, value: str) -> bool:
    """Of a setting in full: section and key in small letters, the subsection between them as it is."""
    return bool(_IS_HARMLESS.fullmatch(name)) and (name != _FSMONITOR or value.lower() in _PLAIN)


def can_be_told(key: str) -> bool:
    """Tell whether the value of a setting, named as on a command line, may be shown to an agent."""
    section, _, rest = key.partition(".")
    subsection, dot, name = rest.rpartition(".")
    return _CAN_BE_TOLD.fullmatch(f"{section.lower()}.{subsection}{dot}{name.lower()}") is not None
