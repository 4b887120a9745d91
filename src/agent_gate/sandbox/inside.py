"""The process between the gate and a command where no namespace holds it: it adopts, limits and ends what is started.

Started as `python -I -m agent_gate.sandbox.inside ORDER REPORTS`, the numbers of two descriptors.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from typing import Any

from agent_gate.sandbox import tree

_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS, _PR_SET_CHILD_SUBREAPER = 1, 38, 36
_LIMITS = {
    "data": resource.RLIMIT_DATA,
    "file": resource.RLIMIT_FSIZE,
    "open": resource.RLIMIT_NOFILE,
    "core": resource.RLIMIT_CORE,
}


def main(order_file: int, reports: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    for option, value in ((_PR_SET_PDEATHSIG, signal.SIGKILL), (_PR_SET_CHILD_SUBREAPER, 1), (_PR_SET_NO_NEW_PRIVS, 1)):
        if libc.prctl(option, value, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl")
    with os.fdopen(order_file, "rb") as file:
        order = json.load(file)
    os.set_inheritable(reports, False)
    tmp = tempfile.mkdtemp(prefix="agent-gate-")
    try:
        code = _run(order, tmp)
        tree.kill(os.getpid())
    finally:
        shutil.rmtree(tmp, ignore_errors=True)
    os.write(reports, json.dumps({"exit-code": code}).encode() + b"\n")


def _run(order: Mapping[str, Any], tmp: str) -> int:
    for name, most in order["limits"].items():
        hard = resource.getrlimit(_LIMITS[name])[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(_LIMITS[name], (most, most))
    env = {**order["env"], "TMPDIR": tmp}
    if order["sandlock"] is None:
        return _run_freely(order, env)
    return _run_locked(order, env, tmp)


def _run_freely(order: Mapping[str, Any], env: Mapping[str, str]) -> int:
    descriptor = order["descriptor"]
    done = subprocess.run(  # noqa: S603 -- judged by the gate
        order["argv"],
        executable=f"/proc/self/fd/{descriptor}",
        pass_fds=(descriptor,),
        env=env,
        cwd=order["cwd"],
        stdin=subprocess.DEVNULL,
        check=False,
    )
    return done.returncode if done.returncode >= 0 else 128 - done.returncode


def _run_locked(order: Mapping[str, Any], env: Mapping[str, str], tmp: str) -> int:
    from sandlock import Sandbox, StdioMode  # noqa: PLC0415 -- only here, and only where it is installed

    judged, there = os.fstat(order["descriptor"]), os.stat(order["executable"])
    os.close(order["descriptor"])
    if not os.path.samestat(judged, there):
        raise OSError(f"{order['executable']} was replaced after it was judged")
    rules = order["sandlock"]
    sandbox = Sandbox(
        fs_readable=rules["readable"],
        fs_writable=[*rules["writable"], tmp],
        fs_denied=rules["denied"],
        extra_deny_syscalls=rules["deny_syscalls"],
        max_memory=rules["memory"],
        max_processes=rules["processes"],
        cwd=order["cwd"],
        clean_env=True,
        env=env,
    )
    process = sandbox.popen([order["executable"], *order["argv"][1:]], StdioMode.NULL, StdioMode.INHERIT, StdioMode.INHERIT)
    result = process.wait()
    return 128 + result.signal if result.signal else result.exit_code


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
