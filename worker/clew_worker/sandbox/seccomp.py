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

# The system calls that cells are denied, in groups that are refused together: their numbers on x86_64 and on aarch64.
# Only numbers; `_rules` decides which cell is denied which call, and with which error.
# Source: arch/x86/entry/syscalls/syscall_64.tbl, include/uapi/asm-generic/unistd.h.

_AUDIT_ARCH = {"x86_64": 0xC000_003E, "aarch64": 0xC000_00B7}
_CALLS: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "socket": ((41,), (198,)),
    "socketpair": ((53,), (199,)),
    "ioctl": ((16,), (29,)),
    "clone": ((56,), (220,)),
    "unshare": ((272,), (97,)),
    "execution": ((59, 322), (221, 281)),  # execve, execveat
    "memory files": ((319,), (279,)),  # memfd_create
    # chmod, fchmod, fchmodat; chown, fchown, lchown, fchownat
    "marking": ((90, 91, 268, 92, 93, 94, 260), (52, 53, 54, 55)),
    "times": ((132, 235, 261, 280), (88,)),  # utime, utimes, futimesat, utimensat
    "attributes": ((188, 189, 190, 197, 198, 199), (5, 6, 7, 14, 15, 16)),  # set-, removexattr
    "mounts": ((165, 166, 155, 308), (40, 39, 41, 268)),  # mount, umount2, pivot_root, setns
    # modules are loaded and removed, kexec
    "modules": ((175, 313, 176, 246, 320), (105, 273, 106, 104, 294)),
    # settimeofday, clock_settime, reboot, set the host's names
    "clocks": ((164, 227, 169, 170, 171), (170, 112, 142, 161, 162)),
    "disks": ((167, 168, 163, 179), (224, 225, 89, 60)),  # swapon, swapoff, acct, quotactl
    # syslog, vhangup, fanotify, open_by_handle; of x86_64 alone: iopl, ioperm
    "logs": ((172, 173, 103, 153, 300, 304), (116, 58, 262, 265)),
    # add_key, request_key, keyctl, bpf, perf, userfaultfd: large and unneeded
    "kernel doors": ((248, 249, 250, 321, 298, 323), (217, 218, 219, 280, 241, 282)),
    # ptrace and reading or changing another process's memory
    "tracing": ((101, 310, 311), (117, 270, 271)),
    "prying": ((312,), (272,)),  # comparing and taking descriptors of another process
    # System V and POSIX queues, shared memory, semaphores
    "ipc": ((*range(29, 32), *range(64, 72), 220, 240, 241), (*range(180, 198),)),
    # prlimit64, sched_setaffinity, -param, -scheduler, -attr: of their first argument, 0 is the caller
    "of a process": ((302, 203, 142, 144, 314), (261, 122, 118, 119, 274)),
    # setpriority, ioprio_set: first argument: process, group or user; second: which, 0 the caller's
    "priority": ((141,), (140,)),
    "io priority": ((251,), (30,)),
}
_SINCE_5_1: dict[str, tuple[int, ...]] = {  # the same number on every machine
    "prying": (438,),  # pidfd_getfd
    "tracing": (440,),  # process_madvise
    "memory files": (447,),  # memfd_secret
    "marking": (452, 463, 466),  # fchmodat2, setxattrat, removexattrat
    "mounts": (*range(428, 434), 442, 467),  # open_tree to fspick, mount_setattr, open_tree_attr
    "disks": (443,),  # quotactl_fd
    "io_uring": (425, 426, 427),  # setup, enter, register
    "clone3": (435,),
}
_ADMINISTRATION = ("mounts", "modules", "clocks", "disks", "logs")


_LOAD, _JUMP_EQ, _JUMP_GE, _JUMP_SET, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_ALLOW = 0x7FFF_0000
_ERRNO = 0x0005_0000
_KILL = 0x8000_0000
_OFFSET_NR, _OFFSET_ARCH = 0, 4
_X32_BIT = 0x4000_0000
_NEW_NAMESPACES = 0x7E02_0080  # CLONE_NEWUSER and the other namespaces
_NEW_TIME = 0x80  # for clone it is part of the signal's number
_KIND_OF_SOCKET = 0xF
_PRIO_USER, _IOPRIO_WHO_USER = 2, 3  # everything of the caller's user
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C  # type into a terminal, as if a person did
_NETLINK_ROUTE = 0  # the one that looking up an address needs

available = kernel.MACHINE in _AUDIT_ARCH


@dataclass(frozen=True)
class Walls:
    """The restrictions of one cell, besides those of all cells.

    network, unix: it may use sockets of these kinds; a socket pair is always allowed. thinks: it may not change modes
    or times of files, trace, or make programs in memory. execs: it may start programs. sees_others: it has no
    PID and IPC namespace. pretends: a change of modes or times has no effect and reports success: foreign programs rely
    on it for files of their own.
    """

    network: bool
    unix: bool
    thinks: bool
    execs: bool
    sees_others: bool
    pretends: bool = False


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


def _socket(*, network: bool, unix: bool) -> bytes:
    """Allow sockets of these kinds; of netlink only those that query addresses and routes."""
    refuse = _refuse(errno.EAFNOSUPPORT)
    allowed = [*([socket.AF_UNIX] * unix), *([socket.AF_INET, socket.AF_INET6] * network)]
    tests = [_step(_JUMP_EQ, one, 0, 1) + _PASS for one in allowed]
    route = _argument(2) + _step(_JUMP_EQ, _NETLINK_ROUTE, 1, 0) + refuse
    netlink = _step(_JUMP_EQ, socket.AF_NETLINK, 1, 0) + refuse
    return _argument(0) + b"".join(tests) + netlink + route


def _socketpair() -> bytes:
    """Allow stream and packet pairs: one end of a datagram pair could send to any other socket."""
    kinds = (int(socket.SOCK_STREAM), int(socket.SOCK_SEQPACKET))
    tests = [_step(_JUMP_EQ, kind, 0, 1) + _PASS for kind in kinds]
    masked = _argument(1) + _step(_AND, _KIND_OF_SOCKET)
    return masked + b"".join(tests) + _refuse(errno.EAFNOSUPPORT)


def _rules(machine: str, walls: Walls) -> dict[int, bytes]:
    """Return the steps that decide on each call that is not simply allowed, by its number."""
    eperm, enosys = _refuse(errno.EPERM), _refuse(errno.ENOSYS)
    rules: dict[int, bytes] = {}

    def decide(steps: bytes, *groups: str) -> None:
        for group in groups:
            own = _CALLS[group][list(_AUDIT_ARCH).index(machine)] if group in _CALLS else ()
            rules.update(dict.fromkeys((*own, *_SINCE_5_1.get(group, ())), steps))

    decide(eperm, *_ADMINISTRATION, "prying")
    decide(enosys, "kernel doors", "io_uring", "clone3")
    decide(_socket(network=walls.network, unix=walls.unix), "socket")
    decide(_if_any_of(_NEW_NAMESPACES & ~_NEW_TIME), "clone")
    decide(_if_any_of(_NEW_NAMESPACES), "unshare")
    decide(_if_equal(1, _TIOCSTI, _TIOCLINUX), "ioctl")
    if not walls.unix:
        decide(_socketpair(), "socketpair")
    if walls.thinks:
        decide(eperm, "tracing")
        decide(_refuse(0) if walls.pretends else eperm, "marking", "times", "attributes")
        decide(enosys, "memory files")
    if not walls.execs:
        decide(enosys, "execution")
    if walls.sees_others:
        decide(enosys, "ipc")
        decide(_unless_zero(0), "of a process")
        decide(_if_equal(0, _PRIO_USER) + _unless_zero(1), "priority")
        decide(_if_equal(0, _IOPRIO_WHO_USER) + _unless_zero(1), "io priority")
    return rules


def program(walls: Walls, machine: str) -> bytes:
    """Write the filter: another machine's calls end the process, x32's are unknown."""
    steps = [
        _step(_LOAD, _OFFSET_ARCH),
        _step(_JUMP_EQ, _AUDIT_ARCH[machine], 1, 0),
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
    if available:
        kernel.seccomp_filter(program(walls, kernel.MACHINE))
