"""A PID, mount and IPC namespace for a cell: it can see and signal no other process, and dies with its init.

Root makes them directly, other users through a user namespace where that is permitted. `furnish` is called in
processes that were forked for this, and changes only those.
"""

import contextlib
import fcntl
import os
import re
import select
import signal
import socket
import stat
import struct
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from clew_shared.files import closing
from clew_worker.sandbox import kernel
from clew_worker.sandbox.grants import PRIVATE_SHM, SYSTEM, is_within, python_folders

Paths = Sequence[str]

_ESCAPED = re.compile(rb"\\([0-7]{3})")
_FURNITURE = {"/proc", "/sys", "/dev"}
_QUIET = kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC
_TRIAL_S = 10
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1


def fork_apart(*, userns: bool, parent: bool) -> int:
    """Fork the init of new PID and IPC namespaces; with `parent` as a child of the caller's parent."""
    user = kernel.CLONE_NEWUSER if userns else 0
    whose = kernel.CLONE_PARENT if parent else 0
    return kernel.fork(kernel.CLONE_NEWPID | kernel.CLONE_NEWIPC | user | whose)


def remain(uid: int, gid: int) -> None:
    """Map the user and group of the process into its new user namespace unchanged."""
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
    Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")


def furnish(*, netns: bool = False) -> None:
    """Enter a copy of the mounts with the /proc of this PID namespace, and with `netns` an empty network."""
    kernel.unshare(kernel.CLONE_NEWNS | (kernel.CLONE_NEWNET if netns else 0))
    kernel.mount("none", "/", "", kernel.MS_SLAVE | kernel.MS_REC)
    kernel.mount("proc", "/proc", "proc", _QUIET)


def overlay(folder: str, upper: str, work: str, *, userns: bool) -> None:
    """Mount an overlay over a folder: what is written there goes to `upper`, and the folder stays as it is."""
    held = [os.open(path, os.O_PATH | os.O_CLOEXEC) for path in (folder, upper, work)]
    try:
        names = zip(("lowerdir", "upperdir", "workdir"), held, strict=True)
        options = [f"{name}=/proc/self/fd/{fd}" for name, fd in names]
        options += ["userxattr"] if userns else []
        kernel.mount("overlay", folder, "overlay", 0, ",".join(options))
    finally:
        for fd in held:
            os.close(fd)


def close_off(keep: Paths, *, own: Paths = (), hide: Paths = (), writable: Paths = ()) -> None:
    """Show only a part of the file system, and make all but the `writable` paths read-only.

    `own` are the cell's workspace and private folders, always shown; `keep` is what else it may read, and `hide` is
    covered in any case. All that Landlock allows stays visible, so this hides what Landlock does not cover: sockets,
    and the existence of files. Read-only mounts prevent changes of modes, owners and times. They need Linux 5.12;
    without them Landlock still applies.
    """
    links = _links([*own, *keep])
    owned = [*map(os.path.realpath, own)]
    kept = [*owned, *map(os.path.realpath, keep)]
    with os.scandir("/") as entries:
        tops = {entry.path for entry in entries if entry.is_dir(follow_symlinks=False)}
    for folder in sorted(tops - _FURNITURE):
        if not any(is_within(folder, path) for path in kept):
            _shroud(folder, kept, links)
    for path in sorted(map(os.path.realpath, hide)):
        if os.path.isdir(path):  # noqa: PTH112 - as `_there`
            if not any(is_within(path, one) for one in owned):
                _shroud(path, owned, links)
        elif _there(path):
            kernel.mount(os.devnull, path, "", kernel.MS_BIND)
    there = [path for path in map(os.path.realpath, writable) if _there(path)]
    for path in there:
        kernel.mount(path, path, "", kernel.MS_BIND | kernel.MS_REC)
    left_writable = _writable_mounts(there)
    with contextlib.suppress(OSError):
        kernel.set_read_only("/", read_only=True)
        for path in left_writable:
            kernel.set_read_only(path, read_only=False, recursive=False)
    if Path(PRIVATE_SHM).is_dir():
        kernel.mount("shm", PRIVATE_SHM, "tmpfs", _QUIET, "mode=1777,size=256m")


def _writable_mounts(paths: list[str]) -> list[str]:
    """Return the mounts at and beneath these paths that are not read-only already."""
    found = []
    for line in Path("/proc/self/mountinfo").read_bytes().splitlines():
        fields = line.split(b" ")  # proc_pid_mountinfo(5): the mount point and its options
        point = os.fsdecode(_ESCAPED.sub(lambda m: bytes([int(m[1], 8)]), fields[4]))
        if b"ro" not in fields[5].split(b",") and any(is_within(point, path) for path in paths):
            found.append(point)
    return found


def _links(paths: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    todo = [os.path.abspath(path) for path in paths]  # noqa: PTH100 - `..` after a link counts
    while todo:
        at = "/"
        for part in todo.pop().split("/"):
            at = f"{os.path.realpath(at).rstrip('/')}/{part}"
            if at not in found and os.path.islink(at):  # noqa: PTH114 - False where it cannot be seen
                found[at] = os.readlink(at)  # noqa: PTH115 - as above
                todo.append(str(Path(at).parent / found[at]))
    return found


def _shroud(folder: str, keep: list[str], links: dict[str, str]) -> None:
    """Cover a folder with an empty one in which only the paths of `keep` appear."""
    inside = {path for path in keep if is_within(path, folder)}
    outer = {p for p in inside if not any(p != q and is_within(p, q) for q in inside)}
    held = {path: os.open(path, os.O_PATH | os.O_CLOEXEC) for path in outer if _there(path)}
    kernel.mount("none", folder, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "mode=755,size=1m")
    for path, fd in sorted(held.items()):
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            Path(path).mkdir(parents=True, exist_ok=True)
        else:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).touch()
        kernel.mount(f"/proc/self/fd/{fd}", path, "", kernel.MS_BIND | kernel.MS_REC)
        os.close(fd)
    for link, target in links.items():
        if is_within(link, folder) and not os.path.lexists(link):
            Path(link).parent.mkdir(parents=True, exist_ok=True)
            Path(link).symlink_to(target)


def _there(path: str) -> bool:
    return os.path.exists(path)  # noqa: PTH110 - False also where it cannot be seen


def raise_loopback() -> None:
    """Bring up `lo` in a new network namespace, so that tests can connect to their own servers."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        request = struct.pack("16sH14x", b"lo", 0)
        answer = fcntl.ioctl(probe, _SIOCGIFFLAGS, request)
        (now,) = struct.unpack_from("H", answer, 16)
        fcntl.ioctl(probe, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", now | _IFF_UP))


def possible(*, userns: bool, netns: bool) -> bool:
    """Return whether this user may create these namespaces with a /proc, as tried in a child."""

    def enter() -> None:
        furnish(netns=netns)
        close_off((*SYSTEM, *python_folders()))
        if netns:
            raise_loopback()

    return _tried(enter, userns=userns)


def overlay_possible(*, userns: bool) -> bool:
    """Return whether this user may mount an overlay in such a namespace, as tried in a child on an empty folder."""
    with contextlib.suppress(OSError), tempfile.TemporaryDirectory(prefix="clew-overlay-") as place:
        lower, upper, work = (Path(place, name) for name in ("lower", "upper", "work"))
        for folder in (lower, upper, work):
            folder.mkdir()

        def enter() -> None:
            furnish()
            overlay(str(lower), str(upper), str(work), userns=userns)

        return _tried(enter, userns=userns)
    return False


def _tried(steps: Callable[[], None], *, userns: bool) -> bool:
    """Return whether a child that is the init of its own namespaces gets through some steps."""
    ids = os.geteuid(), os.getegid()
    try:
        child = fork_apart(userns=userns, parent=False)
    except OSError:
        return False
    if child == 0:
        code = 1
        try:
            if userns:
                remain(*ids)
            steps()
            code = 0
        finally:  # nothing may return into the nursery
            os._exit(code)
    with closing(os.pidfd_open(child)) as ended:
        if not select.select([ended], [], [], _TRIAL_S)[0]:  # a mount of a server that is silent
            os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
