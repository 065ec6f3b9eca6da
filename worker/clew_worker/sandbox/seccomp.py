"""One BPF filter for each cell: the system calls and sockets that it is denied.

It covers what Landlock does not: unix sockets that have a path, programs in memory, modes and times
of files, other processes' limits, keyrings, and kernel interfaces that no work needs. `available`
is whether this machine is supported.
"""

import errno
import socket
import struct
from dataclasses import dataclass

from clew_worker.sandbox import calls, kernel

_LOAD, _JUMP_EQ, _JUMP_GE, _JUMP_SET, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_ALLOW = 0x7FFF_0000
_ERRNO = 0x0005_0000
_KILL = 0x8000_0000
_OFFSET_NR, _OFFSET_ARCH = 0, 4
_X32_BIT = 0x4000_0000
_NEW_NAMESPACES = 0x7E02_0080  # CLONE_NEWUSER and the other namespaces
_NEW_TIME = 0x80  # for clone it is part of the signal's number
_KIND_OF_SOCKET = 0xF
_BY_USER = (2, 3)  # PRIO_USER, IOPRIO_WHO_USER: everything of the caller's user
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C  # type into a terminal, as if a person did
_NETLINK_ROUTE = 0  # the one that looking up an address needs

_machine = calls.MACHINES.get(kernel.MACHINE)
available = _machine is not None


@dataclass(frozen=True)
class Walls:
    """The restrictions of one cell, besides those of all cells.

    families: socket families that it may use. thinks: it may not change modes or times of files, trace, or make
    programs in memory. execs: it may start programs. sees_others: it has no PID and IPC namespace. pretends: a change
    of modes or times has no effect and reports success: foreign programs rely on it for files of their own.
    """

    families: frozenset[int]
    thinks: bool
    execs: bool
    sees_others: bool
    pretends: bool = False


def families(*, network: bool, unix: bool) -> frozenset[int]:
    """Return the socket families that a cell may use; a socket pair is always allowed."""
    found = {socket.AF_INET, socket.AF_INET6} if network else set()
    if unix:
        found.add(socket.AF_UNIX)
    return frozenset({*map(int, found), int(socket.AF_NETLINK)})


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("HBBI", code, if_true, if_false, value)


def _argument(number: int) -> bytes:
    """Load the low half of an argument, the only half that the kernel reads of an int."""
    return _step(_LOAD, 16 + 8 * number)


def _refuse(code: int) -> bytes:
    return _step(_RETURN, _ERRNO | code)


_PASS = _step(_RETURN, _ALLOW)


def _unless_zero(number: int) -> bytes:
    return _argument(number) + _step(_JUMP_EQ, 0, 1, 0) + _refuse(errno.EPERM)


def _if_any_of(mask: int) -> bytes:
    return _argument(0) + _step(_JUMP_SET, mask, 0, 1) + _refuse(errno.EPERM)


def _if_equal(number: int, *values: int) -> bytes:
    tests = [_step(_JUMP_EQ, value, 0, 1) + _refuse(errno.EPERM) for value in values]
    return _argument(number) + b"".join(tests)


def _socket(allowed: frozenset[int]) -> bytes:
    """Allow sockets of these families; of netlink only those that query addresses and routes."""
    refuse = _refuse(errno.EAFNOSUPPORT)
    tests = [_step(_JUMP_EQ, one, 0, 1) + _PASS for one in sorted(allowed - {socket.AF_NETLINK})]
    route = _argument(2) + _step(_JUMP_EQ, _NETLINK_ROUTE, 1, 0) + refuse
    return (
        _argument(0) + b"".join(tests) + _step(_JUMP_EQ, socket.AF_NETLINK, 1, 0) + refuse + route
    )


def _socketpair() -> bytes:
    """Allow stream and packet pairs: one end of a datagram pair could send to any other socket."""
    kinds = (int(socket.SOCK_STREAM), int(socket.SOCK_SEQPACKET))
    tests = [_step(_JUMP_EQ, kind, 0, 1) + _PASS for kind in kinds]
    masked = _argument(1) + _step(_AND, _KIND_OF_SOCKET)
    return masked + b"".join(tests) + _refuse(errno.EAFNOSUPPORT)


def _rules(machine: calls.Calls, walls: Walls) -> dict[int, bytes]:
    """Return the steps that decide on each call that is not simply allowed, by its number."""
    eperm, enosys = _refuse(errno.EPERM), _refuse(errno.ENOSYS)
    rules = dict.fromkeys((*machine.administration, *machine.prying), eperm)
    rules |= dict.fromkeys((*machine.kernel_doors, *calls.IO_URING, calls.CLONE3), enosys)
    rules[machine.socket] = _socket(walls.families)
    rules[machine.clone] = _if_any_of(_NEW_NAMESPACES & ~_NEW_TIME)
    rules[machine.unshare] = _if_any_of(_NEW_NAMESPACES)
    rules[machine.ioctl] = _if_equal(1, _TIOCSTI, _TIOCLINUX)
    if socket.AF_UNIX not in walls.families:
        rules[machine.socketpair] = _socketpair()
    if walls.thinks:
        rules |= dict.fromkeys(machine.tracing, eperm)
        rules |= dict.fromkeys(machine.marking, _refuse(0) if walls.pretends else eperm)
        rules |= dict.fromkeys(machine.memory_files, enosys)
    if not walls.execs:
        rules |= dict.fromkeys(machine.execution, enosys)
    if walls.sees_others:
        rules |= dict.fromkeys(machine.ipc, enosys)
        rules |= dict.fromkeys(machine.of_a_process, _unless_zero(0))
        for call, user in zip(machine.of_a_class, _BY_USER, strict=True):
            rules[call] = _if_equal(0, user) + _unless_zero(1)
    return rules


def program(walls: Walls, machine: calls.Calls) -> bytes:
    """Write the filter: another machine's calls end the process, x32's are unknown."""
    steps = [
        _step(_LOAD, _OFFSET_ARCH),
        _step(_JUMP_EQ, machine.audit_arch, 1, 0),
        _step(_RETURN, _KILL),
        _step(_LOAD, _OFFSET_NR),
        _step(_JUMP_GE, _X32_BIT, 0, 1),
        _refuse(errno.ENOSYS),
    ]
    for call, block in sorted(_rules(machine, walls).items()):
        body = block + _PASS
        steps += [_step(_JUMP_EQ, call, 0, len(body) // 8), body]
    return b"".join([*steps, _PASS])


def confine(walls: Walls) -> None:
    """Install the filter, irrevocably; needs no_new_privs. No effect on an unsupported machine."""
    if _machine is not None:
        kernel.seccomp_filter(program(walls, _machine))
