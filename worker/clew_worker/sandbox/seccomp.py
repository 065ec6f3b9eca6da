"""Small BPF filters: which socket families and system calls a cell goes without.

For what Landlock does not cover: path-named unix sockets, programs in memory (memfd), modes and
times of files, networks where no network namespace can be had. It knows two machines; `available`
says whether this is one of them.
"""

import errno
import socket
import struct
from dataclasses import dataclass

from . import kernel

_LOAD, _JUMP_EQ, _JUMP_GE, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW = 0x7FFF_0000
_ERRNO = 0x0005_0000
_KILL = 0x8000_0000
_OFFSET_NR, _OFFSET_ARCH, _OFFSET_ARG0 = 0, 4, 16
_X32_BIT = 0x4000_0000
_AF_VSOCK = 40


@dataclass(frozen=True)
class _Machine:
    audit_arch: int
    socket: int
    execve: int
    execveat: int
    memfd_create: int
    marking: tuple[int, ...]  # chmod, chown, utime, setxattr, removexattr in all their forms
    io_uring_setup: int = 425


_MARKING_NEW = (452, 463, 466)  # fchmodat2, setxattrat, removexattrat: the same everywhere
_MARKING_X86_64 = (
    *(90, 91, 268, 92, 93, 94, 260),  # chmod, fchmod, fchmodat; chown, fchown, lchown, fchownat
    *(132, 235, 261, 280),  # utime, utimes, futimesat, utimensat
    *(188, 189, 190, 197, 198, 199, *_MARKING_NEW),  # set- and removexattr
)
_MARKING_AARCH64 = (52, 53, 54, 55, 88, 5, 6, 7, 14, 15, 16, *_MARKING_NEW)
_MACHINES = {
    "x86_64": _Machine(0xC000_003E, 41, 59, 322, 319, _MARKING_X86_64),
    "aarch64": _Machine(0xC000_00B7, 198, 221, 281, 279, _MARKING_AARCH64),
}
_machine = _MACHINES.get(kernel.MACHINE)
available = _machine is not None


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("HBBI", code, if_true, if_false, value)


def _program(machine: _Machine, calls: list[int], families: list[int]) -> bytes:
    """Refuse `calls` (ENOSYS; marking files: EPERM) and sockets of `families` (EAFNOSUPPORT), allow the rest."""
    steps = [
        _step(_LOAD, _OFFSET_ARCH),
        _step(_JUMP_EQ, machine.audit_arch, 1, 0),
        _step(_RETURN, _KILL),
        _step(_LOAD, _OFFSET_NR),
        _step(_JUMP_GE, _X32_BIT, 0, 1),
        _step(_RETURN, _ERRNO | errno.ENOSYS),
    ]
    for call in calls:
        code = errno.EPERM if call in machine.marking else errno.ENOSYS
        steps += [_step(_JUMP_EQ, call, 0, 1), _step(_RETURN, _ERRNO | code)]
    steps += [
        _step(_JUMP_EQ, machine.socket, 1, 0),
        _step(_RETURN, _ALLOW),
        _step(_LOAD, _OFFSET_ARG0),
    ]
    for family in families:
        steps += [_step(_JUMP_EQ, family, 0, 1), _step(_RETURN, _ERRNO | errno.EAFNOSUPPORT)]
    return b"".join([*steps, _step(_RETURN, _ALLOW)])


def confine_agent(*, may_exec: bool) -> None:
    """No new unix sockets, no program from memory and, unless `may_exec`, none at all.

    Nor may it change modes, owners or times of files, which Landlock does not know.
    """
    if _machine is None:
        return
    calls = [_machine.io_uring_setup, _machine.memfd_create, *_machine.marking]
    if not may_exec:
        calls += [_machine.execve, _machine.execveat]
    kernel.seccomp_filter(_program(_machine, calls, [socket.AF_UNIX, _AF_VSOCK]))


def confine_network() -> None:
    """No sockets of any network, for where there is no network namespace."""
    if _machine is None:
        return
    families = [socket.AF_INET, socket.AF_INET6, socket.AF_PACKET, _AF_VSOCK]
    kernel.seccomp_filter(_program(_machine, [_machine.io_uring_setup], families))
