"""The process between the gate and a command where no namespace holds it: it adopts, limits and ends what it starts."""

from __future__ import annotations

import ctypes
import json
import os
import resource
import shutil
import signal
import subprocess
import threading
from collections.abc import Mapping
from typing import Any

from agent_gate.sandbox import seccomp, tree

_PR_SET_SECCOMP, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 22, 36, 38
_PR_CAPBSET_DROP = 24
_SECCOMP_MODE_FILTER = 2
_CAPABILITY_VERSION_3 = 0x2008_0522
_CAPABILITIES_MAX = 64
_CHUNK_BYTES = 65_536
_LIMITS = {
    "data": resource.RLIMIT_DATA,
    "file": resource.RLIMIT_FSIZE,
    "open": resource.RLIMIT_NOFILE,
    "core": resource.RLIMIT_CORE,
}


def main(order_file: int, reports: int) -> None:
    """Runs the order in one descriptor and reports into the other: how it ended, or why it never began."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    with os.fdopen(order_file, "rb") as file:
        order = json.load(file)
    for number in (reports, order["starts_on"], order["lifeline"]):
        os.set_inheritable(number, False)
    threading.Thread(target=_end_with_gate, args=(order["lifeline"], order["tmp"]), daemon=True).start()
    if not os.read(order["starts_on"], 1):
        return
    try:
        report: dict[str, Any] = {"exit-code": _run(order)}
    except Exception as error:
        report = {"failed": f"{type(error).__name__}: {error}"}
    finally:
        tree.kill(os.getpid())
    os.write(reports, json.dumps(report).encode() + b"\n")


def _end_with_gate(lifeline: int, tmp: str) -> None:
    """Nobody writes there: what ends the wait is the end of the gate, or of its interest."""
    while os.read(lifeline, 1):
        pass
    tree.kill(os.getpid())
    shutil.rmtree(tmp, ignore_errors=True)
    os._exit(1)


def _run(order: Mapping[str, Any]) -> int:
    for name, most in order["limits"].items():
        hard = resource.getrlimit(_LIMITS[name])[1]
        within = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(_LIMITS[name], (within, within))
    return _run_locked(order) if "sandlock" in order else _run_freely(order)


def _run_freely(order: Mapping[str, Any]) -> int:
    descriptor = order["descriptor"]
    done = subprocess.run(  # noqa: S603 -- judged by the gate
        order["argv"],
        executable=f"/proc/self/fd/{descriptor}",
        pass_fds=(descriptor,),
        env=order["env"],
        cwd=order["cwd"],
        stdin=subprocess.DEVNULL,
        check=False,
    )
    return done.returncode if done.returncode >= 0 else 128 - done.returncode


def _run_locked(order: Mapping[str, Any]) -> int:
    from sandlock import ExitReason, Sandbox, StdioMode  # noqa: PLC0415 -- only here, and only where it is installed

    judged, there = os.fstat(order["descriptor"]), os.stat(order["executable"])
    os.close(order["descriptor"])
    if not os.path.samestat(judged, there):
        raise OSError("the program was replaced after it was judged")
    rules = order["sandlock"]
    sandbox = Sandbox(
        fs_readable=rules["readable"],
        fs_writable=[*rules["writable"], order["tmp"]],
        fs_denied=rules["denied"],
        extra_deny_syscalls=rules["deny_syscalls"],
        max_memory=rules["memory_bytes"],
        max_processes=rules["processes"],
        cwd=order["cwd"],
        clean_env=True,
        env=order["env"],
    )
    outputs = _own_outputs()
    _drop_capabilities()
    _deny_system_calls()
    command = [order["executable"], *order["argv"][1:]]
    process = sandbox.popen(command, StdioMode.NULL, StdioMode.PIPED, StdioMode.PIPED)
    pumps = [
        threading.Thread(target=_pump, args=(stream.fileno(), output))
        for stream, output in zip((process.stdout, process.stderr), outputs, strict=True)
    ]
    for pump in pumps:
        pump.start()
    result = process.wait()
    # What the command left running holds the other ends of its streams.
    tree.kill(os.getpid())
    for pump in pumps:
        pump.join()
    if result.reason is ExitReason.EXITED:
        return int(result.exit_code)
    return 128 + (result.signal if result.signal > 0 else signal.SIGKILL)


def _own_outputs() -> tuple[int, int]:
    """The streams of the gate, kept for the command alone: the library says things on its own account."""
    outputs = os.dup(1), os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    os.close(nowhere)
    return outputs


def _pump(source: int, target: int) -> None:
    try:
        while chunk := os.read(source, _CHUNK_BYTES):
            left = memoryview(chunk)
            while left:
                left = left[os.write(target, left) :]
    finally:
        os.close(target)


class _Filter(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_char_p))


class _CapabilityHeader(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


def _drop_capabilities() -> None:
    """Root without them is an owner of files, and nothing more."""
    libc = ctypes.CDLL(None, use_errno=True)
    for number in range(_CAPABILITIES_MAX):
        # An ordinary user may not, and has none to drop; a kernel has fewer than can be named.
        libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0)
    none = (ctypes.c_uint32 * 6)()
    if libc.capset(ctypes.byref(_CapabilityHeader(_CAPABILITY_VERSION_3, 0)), ctypes.byref(none)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _deny_system_calls() -> None:
    """Sockets of every kind among them, which sandlock leaves partly open."""
    code = seccomp.program(starts_programs=True, supervises=True)
    _prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(_Filter(len(code) // 8, code)))


def _prctl(option: int, value: int, pointer: Any = 0) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, value, pointer, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
