"""One BPF filter for each cell: the system calls and sockets that it is denied.

It covers what Landlock does not: unix sockets that have a path, programs in memory, modes and times
of files, other processes' limits, keyrings, and kernel interfaces that no work needs. `available`
is whether this machine is supported.
"""

import errno
import socket
import struct
from dataclasses import dataclass

from clew_worker.sandbox import kernel

# The numbers of the system calls that cells are denied, for each supported machine.
#
# Numbers only; `seccomp` decides which cell is denied which call, and with which error.
# Source: arch/x86/entry/syscalls/syscall_64.tbl, include/uapi/asm-generic/unistd.h.

# the same number on every machine: calls since Linux 5.1
_PIDFD_GETFD, _PROCESS_MADVISE, _MEMFD_SECRET = 438, 440, 447
_MARKING = (452, 463, 466)  # fchmodat2, setxattrat, removexattrat
_MOUNTS = (*range(428, 434), 442, 467)  # open_tree to fspick, mount_setattr, open_tree_attr
_QUOTACTL_FD = 443
IO_URING = (425, 426, 427)  # setup, enter, register
CLONE3 = 435


@dataclass(frozen=True)
class Calls:
    """System calls of one machine, in groups that are refused together."""

    audit_arch: int
    socket: int
    socketpair: int
    ioctl: int
    clone: int
    unshare: int
    execution: tuple[int, ...]  # execve, execveat
    memory_files: tuple[int, ...]  # memfd_create, memfd_secret
    marking: tuple[int, ...]  # chmod, chown, utime, setxattr, removexattr in all their forms
    administration: tuple[int, ...]  # mounts, modules, kexec, clocks, names, swap, quotas, logs
    kernel_doors: tuple[int, ...]  # keyrings, bpf, perf, userfaultfd: large and unneeded
    tracing: tuple[int, ...]  # ptrace and reading or changing another process's memory
    prying: tuple[int, ...]  # comparing and taking descriptors of another process
    ipc: tuple[int, ...]  # System V and POSIX queues, shared memory, semaphores
    of_a_process: tuple[int, ...]  # act on the process of their first argument; 0 is the caller
    of_a_class: tuple[
        int, ...
    ]  # first argument: process, group or user; second: which; 0 the caller's


_X86_64 = Calls(
    audit_arch=0xC000_003E,
    socket=41,
    socketpair=53,
    ioctl=16,
    clone=56,
    unshare=272,
    execution=(59, 322),
    memory_files=(319, _MEMFD_SECRET),
    marking=(
        *(90, 91, 268, 92, 93, 94, 260),  # chmod, fchmod, fchmodat; chown, fchown, lchown, fchownat
        *(132, 235, 261, 280),  # utime, utimes, futimesat, utimensat
        *(188, 189, 190, 197, 198, 199, *_MARKING),  # set- and removexattr
    ),
    administration=(
        *(165, 166, 155, 308, *_MOUNTS),  # mount, umount2, pivot_root, setns
        *(175, 313, 176, 246, 320),  # init_module, finit_module, delete_module, kexec (2)
        *(164, 227, 169, 170, 171),  # settimeofday, clock_settime, reboot, set the host's names
        *(167, 168, 163, 179, _QUOTACTL_FD),  # swapon, swapoff, acct, quotactl
        *(172, 173, 103, 153, 300, 304),  # iopl, ioperm, syslog, vhangup, fanotify, open_by_handle
    ),
    kernel_doors=(248, 249, 250, 321, 298, 323),  # add_key, request_key, keyctl, bpf, perf, uffd
    tracing=(101, 310, 311, _PROCESS_MADVISE),
    prying=(312, _PIDFD_GETFD),
    ipc=(*range(29, 32), *range(64, 72), 220, 240, 241),
    of_a_process=(
        302,
        203,
        142,
        144,
        314,
    ),  # prlimit64, sched_setaffinity, -param, -scheduler, -attr
    of_a_class=(141, 251),  # setpriority, ioprio_set
)
_AARCH64 = Calls(
    audit_arch=0xC000_00B7,
    socket=198,
    socketpair=199,
    ioctl=29,
    clone=220,
    unshare=97,
    execution=(221, 281),
    memory_files=(279, _MEMFD_SECRET),
    marking=(52, 53, 54, 55, 88, 5, 6, 7, 14, 15, 16, *_MARKING),
    administration=(
        *(40, 39, 41, 268, *_MOUNTS),
        *(105, 273, 106, 104, 294),
        *(170, 112, 142, 161, 162),
        *(224, 225, 89, 60, _QUOTACTL_FD),
        *(116, 58, 262, 265),
    ),
    kernel_doors=(217, 218, 219, 280, 241, 282),
    tracing=(117, 270, 271, _PROCESS_MADVISE),
    prying=(272, _PIDFD_GETFD),
    ipc=(*range(180, 198),),
    of_a_process=(261, 122, 118, 119, 274),
    of_a_class=(140, 30),
)
MACHINES = {"x86_64": _X86_64, "aarch64": _AARCH64}

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

_machine = MACHINES.get(kernel.MACHINE)
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


def _rules(machine: Calls, walls: Walls) -> dict[int, bytes]:
    """Return the steps that decide on each call that is not simply allowed, by its number."""
    eperm, enosys = _refuse(errno.EPERM), _refuse(errno.ENOSYS)
    rules = dict.fromkeys((*machine.administration, *machine.prying), eperm)
    rules |= dict.fromkeys((*machine.kernel_doors, *IO_URING, CLONE3), enosys)
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


def program(walls: Walls, machine: Calls) -> bytes:
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
