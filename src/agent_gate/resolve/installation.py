"""The files that the gate itself runs from: its package, and the environment that the package is installed in."""

from __future__ import annotations

import os
import shutil
import site
import sys
from functools import lru_cache

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_PACKAGES = ("site-packages", "dist-packages")
_PARTS = ("bin", "include", "lib", "lib64", "pyvenv.cfg")


@lru_cache(maxsize=64)
def installation(working_dir: str) -> tuple[str, ...]:
    """Files and directories whose change would be another gate at the next start, by their real names."""
    launchers = filter(None, (sys.executable, shutil.which("agent-gate")))
    paths = (PACKAGE, *_environment(working_dir), os.path.dirname(os.__file__), *_packages(), *launchers)
    real = tuple(map(os.path.realpath, paths))
    return tuple(path for path in dict.fromkeys((*real, *paths)) if not _holds(path, working_dir))


def _environment(working_dir: str) -> tuple[str, ...]:
    """All of a virtual environment; where one was made of the working directory itself, its parts."""
    prefix = os.path.realpath(sys.prefix)
    is_own = sys.prefix != sys.base_prefix or os.path.isdir(f"{prefix}/conda-meta")
    if is_own and not _holds(prefix, working_dir):
        return (prefix,)
    return tuple(f"{prefix}/{part}" for part in _PARTS) if is_own else ()


def _packages() -> tuple[str, ...]:
    """Wherever Python looks for installed packages, also where the user's own would be."""
    found = [path for path in sys.path if os.path.basename(path) in _PACKAGES]
    if site.ENABLE_USER_SITE and site.USER_SITE:
        found.append(site.USER_SITE)
    return tuple(found)


def _holds(directory: str, working_dir: str) -> bool:
    """Tell whether all that an agent works on lies there: protecting that would leave it nothing to write."""
    return f"{working_dir}/".startswith(f"{directory}/")
