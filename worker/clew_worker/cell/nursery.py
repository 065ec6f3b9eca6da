"""The nursery: a warm, single-threaded process that workers are forked from.

A restart then costs a fork and not a start of Python. It starts cells and reports on their start
(`clew_shared.wire.nursery`); the daemon watches and ends them.
Run as `python -m clew_worker.cell.nursery FD [MODULE ...]`.
"""

import contextlib
import errno
import gc
import importlib
import json
import os
import select
import signal
import socket
import struct
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

from setproctitle import setproctitle

from clew_shared.wire import nursery as wire
from clew_shared.wire.nursery import SandboxReport, Spawn, Spawned, SpawnFailed, to_packet
from clew_worker import sandbox
from clew_worker.cell import guard
from clew_worker.cell.guard import Wiring, hung_up
from clew_worker.sandbox import kernel

_WARM = ("clew_worker.executor.server", "clew_worker.agent.runbook", "uvloop")
# what a first request imports, slowly
_WITH_LLM = ("httpcore2", "anyio._backends._asyncio", "truststore")
_VERSION = version("clew")
_SPAWN_TIMEOUT_S, _TICK_MS = 10.0, 200
_DESCRIPTORS_MAX = 3
_UCRED = struct.Struct("iII")
_NOTE_BYTES_MAX = 16 * 1024


@dataclass
class _StartingCell:
    """A cell that does not run yet; it has reported nothing, the warnings of its walls, or a fault."""

    id: int
    guard_pid: int
    reports: socket.socket
    pidns: bool
    late_at: float
    pid: int = 0
    report: Mapping[str, Any] = field(default_factory=dict)

    def read_report(self) -> bool:
        """Take one report, with the pid of its sender, which the kernel gives; return False when there are no more."""
        space = socket.CMSG_SPACE(_UCRED.size)
        data, ancillary, _, _ = self.reports.recvmsg(_NOTE_BYTES_MAX, space)
        if data:
            self.report = json.loads(data)
            self.pid = _UCRED.unpack(ancillary[0][2][: _UCRED.size])[0] if ancillary else 0
        return bool(data)

    def answer(self) -> Spawned | SpawnFailed:
        if self.pid and "warnings" in self.report:
            return Spawned(
                id=self.id,
                guard_pid=self.guard_pid,
                pid=self.pid,
                isolation="pidns" if self.pidns else "guard",
                warnings=tuple(self.report["warnings"]),
            )
        ended = {"reason": "spawn", "message": "the new process ended before it had started"}
        fault = self.report if "reason" in self.report else ended
        return SpawnFailed(id=self.id, guard_pid=self.guard_pid, **fault)


def preload(modules: list[str]) -> tuple[str, ...]:
    loaded = []
    later = _WITH_LLM if "clew_worker.agent.llm" in modules else ()
    for name in (*_WARM, *modules, *later):
        with contextlib.suppress(ModuleNotFoundError):
            importlib.import_module(name)
            loaded.append(name)
    return tuple(loaded)


class NurseryServer:
    """Forks cells, several at once."""

    def __init__(self, control: socket.socket, report: SandboxReport) -> None:
        self._control = control
        self._report = report
        self._starting: list[_StartingCell] = []

    def serve(self) -> None:
        while True:
            ready, now = self._ready(), time.monotonic()
            for one in list(self._starting):
                is_over = one.reports.fileno() in ready and not one.read_report()
                if not is_over and one.late_at <= now:
                    late = f"not started within {_SPAWN_TIMEOUT_S:.0f} s"
                    one.report, is_over = {"reason": "spawn", "message": late}, True
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(one.guard_pid, signal.SIGKILL)
                if is_over:
                    self._starting.remove(one)
                    one.reports.close()
                    self._send(one.answer())
            if self._control.fileno() in ready and not self.serve_one():
                return

    def _ready(self) -> set[int]:
        """Wait for a message, while a cell starts for a moment only: it may be late."""
        poll = select.poll()
        for one in (self._control, *(c.reports for c in self._starting)):
            poll.register(one, select.POLLIN)
        return {fd for fd, _ in poll.poll(_TICK_MS if self._starting else None)}

    def serve_one(self) -> bool:
        """Begin with one request; return False when the daemon has hung up."""
        try:
            data, fds, flags, _ = socket.recv_fds(
                self._control, wire.PACKET_BYTES_MAX, _DESCRIPTORS_MAX
            )
        except ConnectionResetError:  # it hung up with an answer unread
            return False
        try:
            if data:
                self._begin(wire.read_spawn(data), fds, cut=bool(flags & socket.MSG_CTRUNC))
        finally:
            for fd in fds:
                os.close(fd)
        return bool(data)

    def _begin(self, request: Spawn, fds: list[int], *, cut: bool) -> None:
        """Start a cell; where resources have run out, the nursery reports that and lives on."""
        box = sandbox.Box(request.spec, self._report)
        try:
            if cut or not fds:
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))  # noqa: TRY301 - as any other
            reports, report = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with report, contextlib.ExitStack() as failed:
                failed.enter_context(reports)
                reports.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
                wiring = Wiring(self._control.fileno(), report.fileno(), tuple(fds), box)
                pid = guard.fork(wiring)
                failed.pop_all()
            late_at = time.monotonic() + _SPAWN_TIMEOUT_S
            self._starting.append(_StartingCell(request.id, pid, reports, box.pidns, late_at))
        except OSError as error:
            reason: Any = "resources" if wire.is_shortage(error) else "spawn"
            message = error.strerror or str(error)
            self._send(SpawnFailed(id=request.id, reason=reason, message=message))

    def _send(self, message: Spawned | SpawnFailed) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # noticed at the next read
            self._control.sendall(to_packet(message))


def main(argv: list[str]) -> int:
    """Take the inherited socket, and serve until the daemon hangs up; return the exit code."""
    with contextlib.suppress(PermissionError):  # already leads a session
        os.setsid()
    with socket.socket(fileno=int(argv[1])) as control:
        control.set_inheritable(False)
        setproctitle("clew: nursery")
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
        if hung_up(control.fileno()):
            return 1
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.umask(0o077)
        loaded, report = preload(argv[2:]), sandbox.probe()
        gc.collect()
        gc.freeze()  # collections in the cells then leave these pages shared
        hello = wire.NurseryHello(
            pid=os.getpid(), version=_VERSION, preloaded=loaded, sandbox=report
        )
        try:
            control.sendall(to_packet(hello))
        except (BrokenPipeError, ConnectionResetError):  # the daemon could not start
            return 1
        NurseryServer(control, report).serve()
        return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
