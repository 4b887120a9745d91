"""A seccomp filter: system calls that no command needs, and that lead out of a sandbox or into the kernel's depths."""

from __future__ import annotations

import errno
import platform
import struct
from collections.abc import Mapping
from functools import cache

_LOAD, _JUMP_EQUAL, _JUMP_GREATER_EQUAL, _JUMP_SET, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _ERRNO = 0x7FFF_0000, 0x8000_0000, 0x0005_0000
_NUMBER_AT, _ARCH_AT, _ARGS_AT = 0, 4, 16
_X32_BIT = 0x4000_0000
_CLONE_THREAD = 0x0001_0000
_CLONE_NAMESPACES = 0x7E02_0000
_AF_UNIX = 1
_TERMINAL_INJECTIONS = (0x5412, 0x541C)
_LAST_KNOWN = 462
"""The answer to a call that a later kernel adds: as if this one did not have it."""

_ARCHITECTURES: Mapping[str, tuple[int, int]] = {
    "x86_64": (0xC000_003E, 0),
    "aarch64": (0xC000_00B7, 1),
    "riscv64": (0xC000_00F3, 1),
}
"""The kernel's name for a machine, and which of the two columns of numbers it uses; -1 where it has no such call."""

_DENIED: Mapping[str, tuple[int, int]] = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "adjtimex": (159, 171),
    "bpf": (321, 280),
    "chroot": (161, 51),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "init_module": (175, 105),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "ioperm": (173, -1),
    "iopl": (172, -1),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "lookup_dcookie": (212, 18),
    "mbind": (237, 235),
    "migrate_pages": (256, 238),
    "modify_ldt": (154, -1),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "move_pages": (279, 239),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "perf_event_open": (298, 241),
    "pidfd_getfd": (438, 438),
    "pivot_root": (155, 41),
    "process_madvise": (440, 440),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "set_mempolicy": (238, 237),
    "setdomainname": (171, 162),
    "sethostname": (170, 161),
    "setns": (308, 268),
    "settimeofday": (164, 170),
    "socket": (41, 198),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
    "vhangup": (153, 58),
    "vmsplice": (278, 75),
}
_FOR_SUPERVISORS = frozenset({"kcmp", "pidfd_getfd", "process_vm_readv", "process_vm_writev"})
_CLONE, _CLONE3, _FORK, _VFORK = (56, 220), (435, 435), (57, -1), (58, -1)
_SOCKETPAIR, _IOCTL = (53, 199), (16, 29)


def is_supported() -> bool:
    return platform.machine() in _ARCHITECTURES


@cache
def program(*, starts_programs: bool, supervises: bool = False) -> bytes:
    """The filter as the kernel reads it; without `starts_programs` there are threads, but no other process.

    With `supervises` it leaves what a process needs that will supervise others, which then are under it as well.
    """
    architecture, column = _ARCHITECTURES[platform.machine()]
    code = _Code()
    code.load(_ARCH_AT)
    code.unless(_JUMP_EQUAL, architecture, _KILL)
    code.load(_NUMBER_AT)
    if column == 0:
        code.when(_JUMP_GREATER_EQUAL, _X32_BIT, _KILL)
    code.when(_JUMP_GREATER_EQUAL, _LAST_KNOWN + 1, _ERRNO | errno.ENOSYS)
    for name, numbers in _DENIED.items():
        if not (supervises and name in _FOR_SUPERVISORS):
            code.when(_JUMP_EQUAL, numbers[column], _ERRNO | errno.EPERM)
    if not supervises:
        _deny_processes(code, column, starts_programs)
    code.only_if(_SOCKETPAIR[column], 0, _JUMP_EQUAL, _AF_UNIX)
    for request in _TERMINAL_INJECTIONS:
        code.never_if(_IOCTL[column], 1, _JUMP_EQUAL, request)
    code.give(_ALLOW)
    return bytes(code.instructions)


def _deny_processes(code: _Code, column: int, starts_programs: bool) -> None:
    # Its arguments lie in memory, where a filter cannot look; told that there is none, libraries use the older call.
    code.when(_JUMP_EQUAL, _CLONE3[column], _ERRNO | errno.ENOSYS)
    if not starts_programs:
        code.when(_JUMP_EQUAL, _FORK[column], _ERRNO | errno.EPERM)
        code.when(_JUMP_EQUAL, _VFORK[column], _ERRNO | errno.EPERM)
        code.only_if(_CLONE[column], 0, _JUMP_SET, _CLONE_THREAD)
    code.never_if(_CLONE[column], 0, _JUMP_SET, _CLONE_NAMESPACES)


class _Code:
    """Instructions of the classic packet filter, each of eight bytes."""

    def __init__(self) -> None:
        self.instructions = bytearray()

    def _add(self, code: int, if_true: int, if_false: int, value: int) -> None:
        self.instructions += struct.pack("=HBBI", code, if_true, if_false, value)

    def load(self, offset: int) -> None:
        self._add(_LOAD, 0, 0, offset)

    def give(self, answer: int) -> None:
        self._add(_RETURN, 0, 0, answer)

    def when(self, test: int, value: int, answer: int) -> None:
        """A number that this machine does not have (-1) is never asked for."""
        if value >= 0:
            self._add(test, 0, 1, value)
            self.give(answer)

    def unless(self, test: int, value: int, answer: int) -> None:
        self._add(test, 1, 0, value)
        self.give(answer)

    def only_if(self, number: int, argument: int, test: int, value: int) -> None:
        """The call is refused unless its argument passes the test."""
        self._add(_JUMP_EQUAL, 0, 4, number)
        self.load(_ARGS_AT + 8 * argument)
        self.unless(test, value, _ERRNO | errno.EPERM)
        self.load(_NUMBER_AT)

    def never_if(self, number: int, argument: int, test: int, value: int) -> None:
        self._add(_JUMP_EQUAL, 0, 4, number)
        self.load(_ARGS_AT + 8 * argument)
        self.when(test, value, _ERRNO | errno.EPERM)
        self.load(_NUMBER_AT)
