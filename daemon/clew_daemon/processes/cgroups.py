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

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path

import structlog

from clew_daemon.host import units
from clew_daemon.processes import cgroup_tree as tree
from clew_shared.wire.nursery import CellLimits

log = structlog.get_logger()

CONTROLLERS = ("memory", "pids", "cpu")
"""cpu has no limit, but enabling it keeps a worker that spins to the same share as the daemon."""

RECORD = "cgroup"
END_S = 5.0
_MIB = 1 << 20
_UNSAFE = re.compile(r"[^A-Za-z0-9-]")
_NAME_CHARS = 120


@dataclass(slots=True)
class CellGroup:
    """The group of one cell."""

    path: Path

    def kill(self) -> None:
        """Send SIGKILL to every process in it, including those that are being forked."""
        tree.kill(self.path)

    async def end(self) -> None:
        """Kill every process in it, and remove it; what does not die in time is left to the daemon's next start."""
        await _end(self.path)


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
        return tree.counted(self.path / "memory.events", "oom_kill") > 0

    async def end(self) -> None:
        """Kill every process in it, and remove it."""
        await _end(self.path)


class Cgroups:
    """The groups of this daemon: `base` is its own folder, None if nothing is delegated to it."""

    def __init__(self, base: Path | None, why_not: str = "") -> None:
        self.base = base
        self.why_not = why_not
        self.controllers: tuple[str, ...] = ()
        self._own = base.parent if base else None

    @classmethod
    def claim(cls, state: Path, run: Path) -> Cgroups:
        """End what an earlier daemon of this home left, and take over what is delegated to this process.

        Call it before anything is started: what the daemon starts is then in its leaf, too.
        """
        # by the folder's inode, too: a copy at the path of an earlier home is another home
        home = f"{state.resolve()} {state.stat().st_ino}"
        name = f"clew-{hashlib.sha256(home.encode()).hexdigest()[:12]}"
        record = run / RECORD
        own, why_not = tree.own_group()
        _end_recorded(record, name, own)
        if own is None or (why_not := tree.why_not_delegated(own, units.is_delegated)):
            record.unlink(missing_ok=True)
            return cls(None, why_not)
        groups = cls(own / name)
        try:
            groups._settle(record)
        except OSError as error:
            log.warning("cgroup.failed", path=str(own), reason=str(error))
            return cls(None, f"{own} is delegated, but cannot be used: {error}")
        return groups

    def _settle(self, record: Path) -> None:
        """Move into a leaf: a group that has controllers enabled for others may hold no process itself."""
        assert self.base is not None  # noqa: S101 - `claim` has checked
        assert self._own is not None  # noqa: S101 - `claim` has checked
        _clear(self.base)
        record.write_text(str(self.base))
        (self.base / "daemon").mkdir(parents=True, exist_ok=True)
        (self.base / "daemon" / "cgroup.procs").write_text(str(os.getpid()))
        enabled = tree.enable(self._own, CONTROLLERS)
        self.controllers = tree.enable(self.base, enabled)

    def worker(self, goal: str, epoch: int) -> WorkerGroup | None:
        """Create the group of a new worker; None where that is not possible."""
        if self.base is None:
            return None
        path = self.base / f"worker-{_UNSAFE.sub('_', goal)[:_NAME_CHARS]}-{epoch}"
        try:
            path.mkdir(exist_ok=True)
            return WorkerGroup(path, tree.enable(path, self.controllers))
        except OSError as error:
            log.warning("cgroup.failed", goal=goal, epoch=epoch, reason=str(error))
            return None

    def close(self) -> None:
        """Restore the group as it was found; call it when only this process is left in it."""
        if self.base is None or self._own is None:
            return
        with contextlib.suppress(OSError):
            for folder in (self.base, self._own):
                tree.disable(folder, self.controllers)
            (self._own / "cgroup.procs").write_text(str(os.getpid()))
            tree.remove(self.base)

    def view(self) -> dict[str, object]:
        """Return what `clew status` and `clew doctor` show."""
        return {
            "path": str(self.base) if self.base else None,
            "controllers": list(self.controllers),
            "why_not": self.why_not,
        }


def _end_recorded(record: Path, name: str, own: Path | None) -> None:
    """End what an earlier daemon left in its groups, whose place it recorded."""
    try:
        base = Path(record.read_text().strip())
    except (OSError, ValueError):
        return
    ours = base.name == name and (base / "cgroup.kill").exists()
    if ours and not (own and own.is_relative_to(base)):
        _clear(base)
        tree.remove(base)


def _clear(base: Path) -> None:
    """Kill and remove all groups of an earlier daemon; blocks, since the daemon serves no requests yet."""
    if not base.exists():
        return
    left = tree.members(base)
    if left:
        log.warning("worker.leftover", cgroup=str(base), pids=left)
    deadline = time.monotonic() + END_S
    while not tree.remove(base) and time.monotonic() < deadline:
        tree.kill(base)
        time.sleep(0.01)


async def _end(path: Path) -> None:
    deadline = time.monotonic() + END_S
    tree.kill(path)
    while not tree.remove(path):
        if time.monotonic() > deadline:
            log.warning("cgroup.lingers", path=str(path), pids=tree.members(path))
            return
        await asyncio.sleep(0.005)
        tree.kill(path)
