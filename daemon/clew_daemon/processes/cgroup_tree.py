"""The kernel's tree of control groups (cgroup v2): where this process is in it, and operations on a group's files."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePosixPath

_DELEGATED = ("user.delegate", "trusted.delegate")
"""The system's systemd sets the first since 251, and the second, which only root can read, since 236."""


def own_group() -> tuple[Path | None, str]:
    """Return the folder of this process's group; None and the reason if there is none."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except FileNotFoundError:
        return None, "/proc is not mounted: mount it (mount -t proc proc /proc)"
    name = next((line[3:] for line in lines if line.startswith("0::")), None)
    if name is not None:
        for root, mount in _mounts(Path("/proc/self/mountinfo").read_text()):
            with contextlib.suppress(ValueError):  # another part of the tree is mounted here
                return mount / PurePosixPath(name).relative_to(root), ""
    return None, "cgroup v2 is not mounted here"


def _mounts(mountinfo: str) -> Iterator[tuple[str, Path]]:
    """Return root and place of every cgroup2 mount; proc_pid_mountinfo(5)."""
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        if after.startswith("cgroup2 "):
            root, place = before.split(" ")[3:5]
            yield _unescaped(root), Path(_unescaped(place))


def _unescaped(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), text)


def why_not_delegated(group: Path, manager: Callable[[Path], bool]) -> str:
    """Return why this process may not create groups beneath a group, "" where it may.

    A group is delegated where systemd has marked it, where it is the root of a container's own view, where it
    belongs to this user and its parent does not, or where the user's `manager` confirms it (which marks nothing
    itself: 252 and 257). That it is writable is no sign: root may write everywhere, and a user's manager owns every
    group of the session.
    """
    if not (group / "cgroup.kill").exists():  # the kernel's own root has none, either
        return f"{group} is the root of the machine's control groups, or Linux is older than 5.14"
    signs = (_marked, _is_view_root, _is_owned_below_foreign, manager)
    if not any(sign(group) for sign in signs):
        return f"{group} is not delegated to this process"
    for name in ("", "cgroup.procs", "cgroup.subtree_control"):
        if not os.access(group / name, os.W_OK):
            return f"{group / name} is not writable"
    return ""


def _marked(group: Path) -> bool:
    for name in _DELEGATED:
        with contextlib.suppress(OSError):
            if os.getxattr(group, name) == b"1":
                return True
    return False


def _is_view_root(group: Path) -> bool:
    return not (group.parent / "cgroup.procs").exists()


def _is_owned_below_foreign(group: Path) -> bool:
    mine = os.geteuid()
    return mine not in (0, group.parent.stat().st_uid) and group.stat().st_uid == mine


def enable(group: Path, wanted: Iterable[str]) -> tuple[str, ...]:
    """Enable controllers for the groups beneath; return those that are now enabled.

    The kernel refuses all of them where the group itself has processes.
    """
    for name in wanted:
        with contextlib.suppress(OSError):
            (group / "cgroup.subtree_control").write_text(f"+{name}")
    now = (group / "cgroup.subtree_control").read_text().split()
    return tuple(name for name in wanted if name in now)


def disable(group: Path, names: Iterable[str]) -> None:
    """Disable controllers for the groups beneath; raises OSError."""
    for name in names:
        (group / "cgroup.subtree_control").write_text(f"-{name}")


def kill(group: Path) -> None:
    """Send SIGKILL to every process in a group and beneath it, if it exists."""
    with contextlib.suppress(OSError):
        (group / "cgroup.kill").write_text("1")


def remove(group: Path) -> bool:
    """Remove a group and all beneath it; False while one of them has processes."""
    try:
        for folder, _, _ in os.walk(group, topdown=False):
            Path(folder).rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def members(group: Path) -> list[int]:
    """Return the processes in a group and beneath it."""
    found: list[int] = []
    for folder, _, _ in os.walk(group):
        with contextlib.suppress(OSError):
            found += map(int, (Path(folder) / "cgroup.procs").read_text().split())
    return found


def counted(events: Path, name: str) -> int:
    """Read one of the numbers of a file such as `memory.events`; 0 if there is none."""
    with contextlib.suppress(OSError, ValueError):
        for line in events.read_text().splitlines():
            key, _, value = line.partition(" ")
            if key == name:
                return int(value)
    return 0
