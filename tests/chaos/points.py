"""The labelled points at which a process of clew may die or be stopped, and what a hit does.

A point is a moment just before or just after a function that touches disk, process or socket. Its name
is `LABEL.before` or `LABEL.after`. Hits are counted in one file that all processes of a home map, so
that they count on over restarts, in sandboxes, and in processes that write no file.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import mmap
import os
import signal
import struct
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

DAEMON = {
    # the ledger, on its own thread and on the loop's
    "ledger.open": "clew_daemon.ledger.ledger:Ledger.open",
    "ledger.append": "clew_daemon.ledger.ledger:Ledger.append",
    "ledger.commit": "clew_shared.ledger.opening:write",
    "ledger.deliver": "clew_daemon.ledger.ledger:Ledger._deliver",
    "ledger.checkpoint": "clew_daemon.ledger.ledger:Ledger._checkpoint",
    "ledger.snapshot": "clew_daemon.ledger.ledger:Ledger.snapshot",
    "ledger.close": "clew_daemon.ledger.ledger:Ledger._close_files",
    "book.enter": "clew_daemon.record.goals:GoalStore.enter",
    "book.tell": "clew_daemon.record.goal_events:GoalEvents._announce",
    "log.events": "clew_daemon.record.eventlog:log_events",
    # start and stop
    "lock": "clew_daemon.bootstrap:acquire",
    "recover": "clew_daemon.supervision.supervisor:Supervisor._recover",
    "leftovers": "clew_daemon.app.lifecycle:end_leftovers",
    "cgroups.claim": "clew_daemon.processes.cgroups:Cgroups.claim",
    "ready": "clew_daemon.host.own_process:Notifier.ready",
    "shut_down": "clew_daemon.app.lifecycle:App._shut_down",
    "supervisor.stop": "clew_daemon.supervision.supervisor:Supervisor.stop",
    "reload.read": "clew_daemon.app.housekeeping:reload",
    "reload.adopt": "clew_daemon.record.goals:GoalStore.adopt",
    "control.start": "clew_daemon.control.server:Control.start",
    "control.answer": "clew_daemon.control.server:Control._answer",
    "control.stop": "clew_daemon.control.server:Control.stop",
    # the inbox
    "inbox.look": "clew_daemon.inbox.files:look_around",
    "inbox.own": "clew_daemon.inbox.files:InboxOwner.take",
    "inbox.claim": "clew_daemon.inbox.files:claim",
    "inbox.read": "clew_daemon.inbox.files:read",
    "inbox.remove": "clew_daemon.inbox.files:remove",
    "inbox.reject": "clew_daemon.inbox.files:reject",
    "inbox.reason": "clew_daemon.inbox.files:write_whole",
    "goal.copy": "clew_daemon.inbox.inbox:_write_copy",
    "goal.folders": "clew_daemon.supervision.goal_run:GoalRun._unfit",
    # the worker, as the daemon sees it
    "nursery.ensure": "clew_daemon.processes.nursery:Nursery.ready",
    "nursery.send": "clew_daemon.processes.nursery:_send",
    "nursery.answer": "clew_daemon.processes.nursery:Zygote._answered",
    "nursery.stop": "clew_daemon.processes.nursery:Nursery.stop",
    "worker.connect": "clew_daemon.session.worker:Launcher.agent",
    "worker.record_start": "clew_daemon.session.session:Session._record_start",
    "worker.start": "clew_daemon.session.session:Session._start",
    "worker.tear_down": "clew_daemon.session.session:Session._tear_down",
    "worker.close": "clew_daemon.session.session:Session._record_end",
    "cell.kill": "clew_daemon.processes.nursery:Cell.kill",
    "children.sweep": "clew_daemon.processes.children:Children.sweep",
    "agent.receive": "clew_daemon.processes.lines:LineChannel.receive",
    "agent.attend": "clew_daemon.session.conversation:Conversation._answer",
    "agent.judge": "clew_daemon.session.actions:Actions._judge",
    "agent.plan": "clew_daemon.session.conversation:Conversation._plan",
    "agent.send": "clew_daemon.processes.lines:LineChannel.send",
    "executor.start": "clew_daemon.processes.executor:ExecutorProcess.start",
    "executor.ask": "clew_daemon.processes.executor:ExecutorProcess._ask",
    "executor.read": "clew_daemon.processes.executor:ExecutorProcess._take",
    "executor.check": "clew_daemon.processes.executor:ExecutorProcess.check",
    "executor.end": "clew_daemon.processes.executor:ExecutorProcess.end",
    # snapshots of the workspace
    "stores.open": "clew_daemon.supervision.afterwards:SnapshotStores.open",
    "snapshot.ask": "clew_daemon.session.snapshots:ask_snapshot",
    "snapshot.record": "clew_daemon.session.snapshots:record",
    # what people see
    "publish.rebuild": "clew_shared.views.contextdir:ContextDir.rebuild",
    "publish.update": "clew_shared.views.contextdir:ContextDir.update",
    "publish.append": "clew_shared.views.contextdir:ContextDir._append",
    "publish.replace": "clew_shared.views.contextdir:replace_file",
    "report.write": "clew_daemon.publish.report:write",
    "review": "clew_daemon.learning.playbook:Reviewer._review",
    "playbook.learn": "clew_daemon.learning.playbook:PlaybookStore.learn",
    # every change of a name, and every flush, whoever asks for it
    "os.rename": "os:rename",
    "os.replace": "os:replace",
    "os.unlink": "os:unlink",
    "os.fsync": "os:fsync",
}
"""Label → the function of the daemon that it names."""

RETENTION = {
    "ledger.purge": "clew_daemon.ledger.ledger:Ledger.purge",
    "book.forget": "clew_daemon.record.goals:GoalStore.purge",
    "retention.let_go": "clew_daemon.supervision.afterwards:Retention.run",
    "retention.folders": "clew_daemon.supervision.afterwards:remove_folders",
    "retention.remove_tree": "clew_daemon.supervision.afterwards:remove_tree",
    "stores.remove": "clew_daemon.supervision.afterwards:SnapshotStores._remove",
    "os.rmdir": "os:rmdir",
}
"""The same, of what is done to goals that ended long ago."""

UNDO = {
    "undo.snapshot": "clew_daemon.undo.undo:WorkspaceVisit.snapshot",
    "undo.begin": "clew_daemon.undo.undo:WorkspaceVisit._begin",
    "undo.restore": "clew_daemon.processes.executor:ExecutorProcess.restore",
    "undo.finish": "clew_daemon.undo.undo:WorkspaceVisit._finish",
    "undo.view": "clew_daemon.control.handlers:undo_view",
    "undo.complete": "clew_daemon.app.lifecycle:complete_undos",
}
"""The same, of an undo, and of its completion by the next daemon."""

ATTEMPT = {
    "attempt.restore": "clew_daemon.supervision.goal_run:put_back",
    "attempt.begin": "clew_shared.core.journal:GoalJournal.begin_attempt",
}
"""The same, between the end of an attempt and the start of the next, beside the points of an undo."""

WORKER = {
    "nursery.serve_one": "clew_worker.cell.nursery:NurseryServer.serve_one",
    "nursery.spawn": "clew_worker.cell.nursery:NurseryServer._begin",
    "cell.fork": "clew_worker.cell.guard:fork",
    "cell.guard": "clew_worker.cell.guard:_guard",
    "cell.payload": "clew_worker.cell.guard:_payload",
    "cell.run": "clew_worker.cell.guard:_run",
    "runbook.call": "clew_worker.agent.client:AgentClient.call",
    "runbook.send": "clew_worker.agent.client:AgentClient._send",
    "executor.next": "clew_worker.executor.commands:Wire.next_request",
    "executor.effect": "clew_worker.executor.tools.registry:carry_out",
    "executor.command": "clew_worker.executor.commands:Commands.start",
    "executor.digest": "clew_worker.executor.world.world:WorldWatch.digest",
    "executor.send": "clew_worker.executor.commands:Wire.send",
    "snapshot.take": "clew_worker.executor.snapshots.taking:SnapshotTaker.take",
    "snapshot.write": "clew_worker.executor.snapshots.taking:SnapshotTaker._written",
}
"""Label → the function of the nursery, a cell, the runbook agent or the executor that it names."""

UNDO_WORKER = {
    "restore": "clew_worker.executor.snapshots.restoring:Restorer.restore",
    "restore.entry": "clew_worker.executor.snapshots.restoring:Restorer._restore",
}
"""The same, of an undo."""


def names(labels: dict[str, str]) -> list[str]:
    """Give the points of some labels."""
    return [f"{label}.{side}" for label in labels for side in ("before", "after")]


ALL = names(DAEMON | RETENTION | UNDO | ATTEMPT | WORKER | UNDO_WORKER)
_SLOT = struct.Struct("Q")


@dataclass(frozen=True)
class Order:
    """Where to strike: at these hits of a point (1 is the first), by a signal; "" strikes nowhere."""

    counts: Path
    point: str = ""
    hits: tuple[int, ...] = (1,)
    signum: int = signal.SIGKILL
    constants: dict[str, float] = field(default_factory=dict)
    """Numbers of the program that are other ones in this life, by "module:NAME"."""

    namespaces: bool = True
    """Where they can be had; without them each cell has a guard that is a process like others."""


class Counts:
    """How often each point was hit; mapped, so that a forked and confined process counts too."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(_SLOT.size * len(ALL)))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)
        self._lock = threading.Lock()

    def add(self, point: str) -> int:
        at = ALL.index(point) * _SLOT.size
        with self._lock:
            count = _SLOT.unpack_from(self._map, at)[0] + 1
            _SLOT.pack_into(self._map, at, count)
        return count

    def read(self) -> dict[str, int]:
        return {
            point: _SLOT.unpack_from(self._map, n * _SLOT.size)[0] for n, point in enumerate(ALL)
        }


def arm(order: Order, labels: dict[str, str]) -> None:
    """Put the points around their functions in this process, and in those that it forks."""
    counts = Counts(order.counts)

    def hit(point: str) -> None:
        if counts.add(point) in order.hits and point == order.point:
            strike(order.signum)

    for label, target in labels.items():
        _wrap(target, label, hit)
    for place, value in order.constants.items():
        module, name = place.split(":")
        if module.partition(".")[0] in {part.partition(".")[0] for part in _parts(labels)}:
            setattr(importlib.import_module(module), name, value)


def strike(signum: int) -> None:
    """Send this very process a signal."""
    os.kill(os.getpid(), signum)
    if signum == signal.SIGKILL:
        os._exit(137)  # the init of a PID namespace does not hear its own signals


def _parts(labels: dict[str, str]) -> set[str]:
    return {target.split(":")[0] for target in labels.values()}


def _wrap(target: str, label: str, hit: Any) -> None:
    module, path = target.split(":")
    owner: Any = importlib.import_module(module)
    *outer, name = path.split(".")
    for part in outer:
        owner = getattr(owner, part)
    found = inspect.getattr_static(owner, name)
    bound = isinstance(found, classmethod | staticmethod)
    wrapped = _around(found.__func__ if bound else found, label, hit)
    setattr(owner, name, type(found)(wrapped) if bound else wrapped)


def _around(function: Any, label: str, hit: Any) -> Any:
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def later(*args: Any, **named: Any) -> Any:
            hit(f"{label}.before")
            result = await function(*args, **named)
            hit(f"{label}.after")
            return result

        return later

    @functools.wraps(function)
    def now(*args: Any, **named: Any) -> Any:
        hit(f"{label}.before")
        result = function(*args, **named)
        hit(f"{label}.after")
        return result

    return now
