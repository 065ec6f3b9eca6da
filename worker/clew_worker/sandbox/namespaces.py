"""A PID and mount namespace for a cell: it sees and signals nobody, and dies with its init.

Root makes them directly, others by way of a user namespace where that is permitted. `enter` and
`furnish` are called in processes that were forked for it, and change only those.
"""

import contextlib
import fcntl
import os
import socket
import stat
import struct
from pathlib import Path

from . import kernel
from .grants import PRIVATE_SHM, is_within

_SHROUDED = ("/run", "/tmp")  # noqa: S108 - to be covered, not used: sockets of others lie there
_QUIET = kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1


def flags(*, userns: bool, netns: bool) -> int:
    """Say which namespaces a cell gets."""
    return (
        kernel.CLONE_NEWPID
        | kernel.CLONE_NEWNS
        | (kernel.CLONE_NEWUSER if userns else 0)
        | (kernel.CLONE_NEWNET if netns else 0)
    )


def enter(*, userns: bool, netns: bool) -> None:
    """Leave for new namespaces; the next child is the init of the PID namespace."""
    uid, gid = os.geteuid(), os.getegid()
    kernel.unshare(flags(userns=userns, netns=netns))
    if userns:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
        Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")


def furnish() -> None:
    """As the init of the namespace: mounts of its own, and its own /proc."""
    kernel.mount("none", "/", "", kernel.MS_SLAVE | kernel.MS_REC)
    kernel.mount("proc", "/proc", "proc", _QUIET)


def close_off(keep: list[str], writable: list[str]) -> None:
    """Show nothing of others in /run, /tmp, /dev/shm, and make all but `writable` read-only.

    `keep` are the paths that must stay where they are. Read-only mounts stop what Landlock does
    not: changing modes, owners and times. They need Linux 5.12; without them Landlock holds.
    """
    for folder in _SHROUDED:
        _shroud(folder, [path for path in keep if is_within(path, folder)])
    there = [path for path in writable if Path(path).exists()]
    for path in there:
        kernel.mount(path, path, "", kernel.MS_BIND | kernel.MS_REC)
    with contextlib.suppress(OSError):
        kernel.set_read_only("/", read_only=True)
        for path in there:
            kernel.set_read_only(path, read_only=False)
    if Path(PRIVATE_SHM).is_dir():
        kernel.mount("shm", PRIVATE_SHM, "tmpfs", _QUIET, "mode=1777,size=256m")


def _shroud(folder: str, keep: list[str]) -> None:
    """Cover a folder with an empty one in which only the paths of `keep` are as they were."""
    if not Path(folder).is_dir() or Path(folder).is_symlink() or folder in keep:
        return
    outer = [p for p in keep if not any(p != q and is_within(p, q) for q in keep)]
    held = {path: os.open(path, os.O_PATH | os.O_CLOEXEC) for path in set(outer) if _there(path)}
    kernel.mount("none", folder, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "mode=755,size=1m")
    for path, fd in held.items():
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            Path(path).mkdir(parents=True, exist_ok=True)
        else:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).touch()
        kernel.mount(f"/proc/self/fd/{fd}", path, "", kernel.MS_BIND | kernel.MS_REC)
        os.close(fd)


def _there(path: str) -> bool:
    return Path(path).exists()


def raise_loopback() -> None:
    """Bring up `lo` in a new network namespace, so that tests can talk to themselves."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        request = struct.pack("16sH14x", b"lo", 0)
        answer = fcntl.ioctl(probe, _SIOCGIFFLAGS, request)
        (now,) = struct.unpack_from("H", answer, 16)
        fcntl.ioctl(probe, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", now | _IFF_UP))


def possible(*, userns: bool, netns: bool) -> bool:
    """Try in a child whether this user may have these namespaces, and a /proc in them."""
    child = os.fork()
    if child == 0:
        os._exit(_try(userns=userns, netns=netns))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def _try(*, userns: bool, netns: bool) -> int:
    """Enter and furnish, in processes of our own; returns the exit code."""
    try:
        enter(userns=userns, netns=netns)
        init = os.fork()
        if init == 0:
            code = 1
            try:
                furnish()
                close_off([], [])
                if netns:
                    raise_loopback()
                code = 0
            finally:
                os._exit(code)
        return os.waitstatus_to_exitcode(os.waitpid(init, 0)[1])
    except OSError:
        return 1
