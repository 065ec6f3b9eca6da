"""System calls that Python 3.11 does not wrap, by ctypes, and what a process gives up before it runs anything."""

import contextlib
import ctypes
import errno
import os
import platform
import resource
import signal
import struct
import time
from collections.abc import Callable
from pathlib import Path

from clew_shared.wire.nursery import CellLimits

_TICK_S, _LOOKS_MAX = 0.001, 20
_CHILDREN = "/proc/thread-self/children"
_GONE = (FileNotFoundError, ProcessLookupError)


def descendants(root: int) -> list[int]:
    """Return every process beneath `root`; raises OSError where they cannot be read.

    It looks until it finds nothing new: what loses its parent or its parent's thread meanwhile is beneath another one.
    """
    found: dict[int, None] = {}
    for _ in range(_LOOKS_MAX):
        children = _children if Path(_CHILDREN).exists() else _by_parent()
        seen = children(root)
        for pid in seen:  # grows while it is walked
            with contextlib.suppress(*_GONE):
                seen += children(pid)
        if found.keys() >= set(seen):
            break
        found |= dict.fromkeys(seen)
    return list(found)


def _children(pid: int) -> list[int]:
    tasks, found = Path(f"/proc/{pid}/task"), list[int]()
    for task in os.listdir(tasks):  # noqa: PTH208 - names
        with contextlib.suppress(*(() if task == str(pid) else _GONE)):
            found += map(int, (tasks / task / "children").read_text().split())
    return found


def _by_parent() -> Callable[[int], list[int]]:
    """Return what `_children` is on a kernel without these lists."""
    children: dict[int, list[int]] = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208 - names
        with contextlib.suppress(*_GONE):
            stat = Path("/proc", pid, "stat").read_text(errors="replace")
            children.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(int(pid))
    return lambda pid: children.pop(pid, [])


def kill_beneath(root: int) -> None:
    """Kill every process beneath `root`; they are stopped first, until there is no new one, so that none forks."""
    tree = set[int]()
    for _ in range(_LOOKS_MAX):
        new = set(descendants(root)) - tree
        for pid in new:
            _signal(pid, signal.SIGSTOP)
        tree |= new
        if not new:
            break
    for pid in tree:
        _signal(pid, signal.SIGKILL)


def end_descendants(within_s: float, *, alone: bool = False) -> None:
    """End and collect every descendant of this process, which must be a subreaper; give up after `within_s` seconds.

    `alone` says that its PID namespace has no other processes but the init: one signal then reaches all of them at
    once, also a process that forks all the time (kill(2): pid -1).
    """
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if alone:
            _signal(-1, signal.SIGKILL)
        else:
            with contextlib.suppress(OSError):  # tried again
                kill_beneath(os.getpid())
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(_TICK_S)


def _signal(pid: int, signum: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signum)


_libc = ctypes.CDLL(None, use_errno=True)
_with_gil = ctypes.PyDLL(None, use_errno=True)
MACHINE = platform.machine()

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP = 1, 4, 22
PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 36, 38
PR_CAPBSET_DROP, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 24, 47, 4

CLONE_PARENT, CLONE_NEWNS, CLONE_NEWIPC = 0x0000_8000, 0x0002_0000, 0x0800_0000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x1000_0000, 0x2000_0000, 0x4000_0000

MS_NOSUID, MS_NODEV, MS_NOEXEC = 2, 4, 8
MS_BIND, MS_REC, MS_SLAVE = 1 << 12, 1 << 14, 1 << 19

RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS, RESOLVE_BENEATH = 0x02, 0x04, 0x08
_SYS_CLONE = {"x86_64": 56, "ppc64le": 120, "i686": 120, "armv7l": 120}
_SYS_CLONE_GENERIC = 220
_FLAGS_ARE_SECOND = ("s390x",)
_SYS_OPENAT2, _SYS_MOUNT_SETATTR = 437, 442
_MOUNT_ATTR_RDONLY, _AT_RECURSIVE = 1, 0x8000


def _call(function: Callable[..., int], what: str, *args: object) -> int:
    """Call a function of the C library; numbers are passed as long, bytes by their address, for reading alone."""
    values = (ctypes.c_long(one) if isinstance(one, int) else one for one in args)
    return _checked(int(function(*values)), what)


def _checked(value: int, what: str) -> int:
    if value < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return value


def syscall(number: int, what: str, *args: int | bytes | None) -> int:
    """Make system call `number`; raises an OSError that names `what`. Bytes are passed by their address."""
    return _call(_libc.syscall, what, number, *args)


def prctl(option: int, arg2: int = 0, arg3: int = 0) -> int:
    return _call(_libc.prctl, f"prctl({option})", option, arg2, arg3, 0, 0)


def fork(flags: int) -> int:
    """Fork with flags of clone(2): as a child of the caller's parent, into other namespaces.

    For single-threaded processes. It bypasses the C library, which in the child keeps the parent's thread number:
    the child may wait and fork (by os.fork, which corrects that), and should do little else.
    """
    if MACHINE in _FLAGS_ARE_SECOND:
        raise OSError(errno.ENOSYS, f"clone: not known for {MACHINE}")
    api = ctypes.pythonapi
    api.PyOS_BeforeFork()
    number = _SYS_CLONE.get(MACHINE, _SYS_CLONE_GENERIC)
    args = map(ctypes.c_long, (number, flags | signal.SIGCHLD, 0, 0, 0, 0))
    pid = int(_with_gil.syscall(*args))
    if pid == 0:
        api.PyOS_AfterFork_Child()
    else:
        api.PyOS_AfterFork_Parent()
    return _checked(pid, "clone")


def unshare(flags: int) -> None:
    _call(_libc.unshare, f"unshare({flags:#x})", flags)


def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    raw = (os.fsencode(text) for text in (source, target, kind))
    _call(_libc.mount, f"mount {target}", *raw, flags, os.fsencode(options))


def set_read_only(target: str, *, read_only: bool, recursive: bool = True) -> None:
    """Make a mount and, if `recursive`, all mounts beneath it read-only, or writable again."""
    change = (_MOUNT_ATTR_RDONLY, 0) if read_only else (0, _MOUNT_ATTR_RDONLY)
    attr, flags = struct.pack("4Q", *change, 0, 0), _AT_RECURSIVE if recursive else 0
    path, what = os.fsencode(target), f"mount_setattr {target}"
    syscall(_SYS_MOUNT_SETATTR, what, -1, path, flags, attr, len(attr))


def open_beneath(path: str, flags: int, mode: int, dir_fd: int, *, links: bool = True) -> int:
    """Open `path`, no part of which may lead out of `dir_fd` (EXDEV) or, without `links`, be a link (ELOOP)."""
    resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | (0 if links else RESOLVE_NO_SYMLINKS)
    mode = mode if flags & os.O_CREAT else 0
    how = struct.pack("QQQ", flags | os.O_CLOEXEC, mode, resolve)
    return syscall(_SYS_OPENAT2, path, dir_fd, os.fsencode(path), how, len(how))


def sync_disk(fd: int) -> None:
    """Make everything durable that was written to the file system of an open file; raises OSError."""
    _call(_libc.syncfs, "syncfs", fd)


_CAPABILITY_HEADER = struct.pack("Ii", 0x2008_0522, 0)  # version 3, of this process


def seccomp_filter(program: bytes) -> None:
    """Install a BPF program of struct sock_filter; needs no_new_privs."""
    raw = ctypes.create_string_buffer(program, len(program))
    fprog = struct.pack("H6xQ", len(program) // 8, ctypes.addressof(raw))
    _call(_libc.prctl, "seccomp", PR_SET_SECCOMP, 2, fprog)


# The capabilities that root's tools and package managers need to act on files and drop rights;
# without SYS_PTRACE and the others of the daemon, its /proc entries cannot be read. DAC_READ_SEARCH
# is not among them: it opens files by handle, past every path, and OVERRIDE reads all the same.
_CHOWN, _DAC_OVERRIDE, _, _FOWNER, _FSETID, _KILL = range(6)
_SETGID, _SETUID, _BIND_SERVICE, _CHROOT = 6, 7, 10, 18
THINKING = (_DAC_OVERRIDE,)
_AS_OTHERS = _SETGID, _SETUID, _BIND_SERVICE, _CHROOT
ACTING = (_CHOWN, _DAC_OVERRIDE, _FOWNER, _FSETID, _KILL, *_AS_OTHERS)
_CAPABILITIES_MAX = 64
EXECUTOR_SPARE = 1024
"""How many more descriptors an executor may have than the commands that it starts.

Descriptors that were sent and not received count for the user as a whole, and a process at its own limit can send
no more. A command that hoards them reaches its own limit first, and the executor can still start the next one.
"""


def keep_capabilities(kept: tuple[int, ...]) -> None:
    """Drop every capability but `kept`, also for programs that root starts later."""
    for number in range(_CAPABILITIES_MAX):
        if number not in kept:
            with contextlib.suppress(OSError):  # unknown to this kernel, or not held
                prctl(PR_CAPBSET_DROP, number)
    with contextlib.suppress(OSError):
        prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    # root in a container has fewer than root outside, and asking for more is refused
    header = ctypes.create_string_buffer(_CAPABILITY_HEADER, 8)
    held = ctypes.create_string_buffer(24)
    _call(_libc.capget, "capget", header, held)
    _, low, _, _, high, _ = struct.unpack("6I", held.raw)
    mask = sum(1 << number for number in kept) & (low | high << 32)
    low, high = mask & 0xFFFF_FFFF, mask >> 32  # effective and permitted; none are inherited
    data = struct.pack("6I", low, low, 0, high, high, 0)
    _call(_libc.capset, "capset", header, data)


def limit(limits: CellLimits, *, processes: bool, spare: int = 0) -> None:
    """Set the limits; `processes` where they are counted for this cell alone, `spare` more files for an executor."""
    _lower(resource.RLIMIT_CORE, 0)
    limit_descriptors(limits.open_files + spare)
    if processes:
        _lower(resource.RLIMIT_NPROC, limits.processes)
    if limits.file_size_mb is not None:
        _lower(resource.RLIMIT_FSIZE, limits.file_size_mb * 1024 * 1024)


def limit_descriptors(count: int) -> None:
    _lower(resource.RLIMIT_NOFILE, count)


def _lower(what: int, value: int) -> None:
    _, hard = resource.getrlimit(what)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(what, (value, value))
