"""A control group for each worker, where the service manager or a container delegates one to the daemon.

It finds the daemon's own group, moves the daemon into a leaf of it, and creates, limits, ends and removes groups
beneath. Where none is delegated, it does nothing.
Source: cgroup-v2.rst of Linux ("Delegation", "No Internal Process Constraint"), systemd's CGROUP_DELEGATION.md.

    own group (delegated)
      clew-1f9a…            one for each home, so that two daemons never share one
        daemon              the daemon and its nursery
        worker-GOAL-EPOCH   memory.max
          agent, executor-1 pids.max
"""

import asyncio
import contextlib
import hashlib
import os
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import structlog

from clew_daemon.host import units
from clew_shared.wire.nursery import CellLimits

log = structlog.get_logger()

# cpu without a limit: a worker that spins keeps to its share
CONTROLLERS = ("memory", "pids", "cpu")
_MOUNTS = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified"))  # beside version 1: the latter
END_S = 5.0
_MIB = 1 << 20
_UNSAFE = re.compile(r"[^A-Za-z0-9-]")
_NAME_CHARS = 120


@dataclass(slots=True)
class CellGroup:
    """The group of one cell, or another with all beneath it."""

    path: Path

    def kill(self) -> None:
        """Send SIGKILL to every process in it, including those that are being forked, if it exists."""
        with contextlib.suppress(OSError):
            (self.path / "cgroup.kill").write_text("1")

    async def end(self) -> None:
        """Kill every process in it, and remove it; what does not die in time is left to the daemon's next start."""
        deadline = time.monotonic() + END_S
        self.kill()
        while not self.remove():
            if time.monotonic() > deadline:
                log.warning("cgroup.lingers", path=str(self.path), pids=self.members())
                return
            await asyncio.sleep(0.005)
            self.kill()

    def remove(self) -> bool:
        """Remove it; False while there are processes in it."""
        try:
            for folder, _, _ in os.walk(self.path, topdown=False):
                Path(folder).rmdir()
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True

    def members(self) -> list[int]:
        found: list[int] = []
        for folder, _, _ in os.walk(self.path):
            with contextlib.suppress(OSError):
                found += map(int, (Path(folder) / "cgroup.procs").read_text().split())
        return found


@dataclass(slots=True)
class WorkerGroup:
    """The group of one epoch's worker: its cells' groups, and the memory limit that they share."""

    path: Path
    controllers: tuple[str, ...]
    _memory_mb: int = 0
    _cells: int = 0

    def cell(self, kind: str, limits: CellLimits) -> CellGroup:
        """Create the group of a new cell; raises OSError."""
        self._cells += 1
        leaf = self.path / f"{kind}-{self._cells}"
        leaf.mkdir()
        if "pids" in self.controllers:
            (leaf / "pids.max").write_text(str(limits.processes))
        return CellGroup(leaf)

    def limit(self, memory_mb: int) -> bool:
        """Have the kernel limit the worker's memory; return whether it does."""
        if "memory" not in self.controllers:
            return False
        if memory_mb != self._memory_mb:
            (self.path / "memory.max").write_text(str(memory_mb * _MIB))
            (self.path / "memory.oom.group").write_text("1")
            self._memory_mb = memory_mb
        return True

    def out_of_memory(self) -> bool:
        """Return whether the kernel has killed one of its processes for exceeding the limit."""
        try:
            events = (self.path / "memory.events").read_text()
        except OSError:
            return False
        return bool(re.search(r"^oom_kill [1-9]", events, re.MULTILINE))

    async def end(self) -> None:
        await CellGroup(self.path).end()


@dataclass(slots=True)
class Cgroups:
    """The groups of this daemon: `base` is its own folder, None if nothing is delegated to it."""

    base: Path | None
    why_not: str = ""
    controllers: tuple[str, ...] = ()

    @classmethod
    def claim(cls, state: Path) -> Self:
        """End what an earlier daemon of this home left, and take over what is delegated; call it before any start."""
        # by the folder's inode, too: a copy at the path of an earlier home is another home
        home = f"{state.resolve()} {state.stat().st_ino}"
        name = f"clew-{hashlib.sha256(home.encode()).hexdigest()[:12]}"
        own, why_not = own_group()
        if own is None or (why_not := why_not_delegated(own, units.is_delegated)):
            return cls(None, why_not)
        groups = cls(own / name)
        try:
            # A group that has controllers enabled for others may hold no process itself.
            last = CellGroup(own / name)
            if left := last.members():
                log.warning("worker.leftover", cgroup=str(last.path), pids=left)
            asyncio.run(last.end())  # no loop runs yet
            (own / name / "daemon").mkdir(parents=True, exist_ok=True)
            (own / name / "daemon" / "cgroup.procs").write_text(str(os.getpid()))
            groups.controllers = _enable(own / name, _enable(own, CONTROLLERS))
        except OSError as error:
            log.warning("cgroup.failed", path=str(own), reason=str(error))
            return cls(None, f"{own} is delegated, but cannot be used: {error}")
        return groups

    def worker(self, goal: str, epoch: int) -> WorkerGroup | None:
        """Create the group of a new worker; None where that is not possible."""
        if self.base is None:
            return None
        path = self.base / f"worker-{_UNSAFE.sub('_', goal)[:_NAME_CHARS]}-{epoch}"
        try:
            path.mkdir(exist_ok=True)
            return WorkerGroup(path, _enable(path, self.controllers))
        except OSError as error:
            log.warning("cgroup.failed", goal=goal, epoch=epoch, reason=str(error))
            return None

    def view(self) -> dict[str, object]:
        """Return what `clew status` and `clew doctor` show."""
        path, controllers = str(self.base) if self.base else None, list(self.controllers)
        return {"path": path, "controllers": controllers, "why_not": self.why_not}


def own_group() -> tuple[Path | None, str]:
    """Return the folder of this process's group; None and the reason if there is none."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except FileNotFoundError:
        return None, "/proc is not mounted: mount it (mount -t proc proc /proc)"
    names = [line[4:] for line in lines if line.startswith("0::/")]
    for own in (mount / name for name in names for mount in _MOUNTS):
        if (own / "cgroup.procs").exists():
            return own, ""
    return None, "cgroup v2 is not mounted here"


def why_not_delegated(group: Path, manager: Callable[[Path], bool]) -> str:
    """Return why this process may not create groups beneath a group, "" where it may.

    It may where systemd has marked it, at the root of a container's own view, where it belongs to this user and its
    parent does not, or where the user's `manager`, which marks nothing, confirms it; being writable is no sign.
    """
    if not (group / "cgroup.kill").exists():  # the kernel's own root has none, either
        return f"{group} is the root of the machine's control groups, or Linux is older than 5.14"
    mine, parent = os.geteuid(), group.parent
    if not (
        _is_marked(group)
        or not (parent / "cgroup.procs").exists()
        or (mine not in (0, parent.stat().st_uid) and group.stat().st_uid == mine)
        or manager(group)
    ):
        return f"{group} is not delegated to this process"
    for name in ("", "cgroup.procs", "cgroup.subtree_control"):
        if not os.access(group / name, os.W_OK):
            return f"{group / name} is not writable"
    return ""


def _is_marked(group: Path) -> bool:
    for name in ("user.delegate", "trusted.delegate"):  # since systemd 251; 236, for root alone
        with contextlib.suppress(OSError):
            if os.getxattr(group, name) == b"1":
                return True
    return False


def _enable(group: Path, wanted: Iterable[str]) -> tuple[str, ...]:
    """Enable controllers for the groups beneath, as far as the kernel allows it; return those that are enabled."""
    for name in wanted:
        with contextlib.suppress(OSError):
            (group / "cgroup.subtree_control").write_text(f"+{name}")
    now = (group / "cgroup.subtree_control").read_text().split()
    return tuple(name for name in wanted if name in now)
