"""The nursery: a warm, single-threaded process that workers are forked from.

A restart then costs a fork and not a Python start. It knows how a cell is started and reported
(`clew_shared.cellwire`); it does not watch, judge or end one: that is the daemon's.
Run as `python -m clew_worker.nursery FD [MODULE ...]`.
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
from dataclasses import dataclass

from clew_shared import cellwire
from clew_shared.cellwire import CellSpec, NurseryHello, SandboxReport, Spawned, SpawnFailed

from . import cell, sandbox
from .sandbox import kernel

_WARM = (
    "clew_worker.executor",
    "clew_worker.agent",
    "clew_worker.agent.life",
    "clew_worker.agent.runbook",
    "uvloop",
)
_SPAWN_TIMEOUT_S = 10.0
_DESCRIPTORS_MAX = 2
_UCRED = struct.Struct("iII")
_NOTE_BYTES_MAX = 16 * 1024


@dataclass
class _Birth:
    """What a new cell has reported of itself."""

    guard_pid: int | None = None
    pid: int | None = None
    warnings: tuple[str, ...] = ()
    reason: str | None = None
    message: str = ""


@dataclass
class _Unborn:
    """A cell that waits for its order: a process in between, the guard, and the payload."""

    middle: int
    reports: socket.socket
    leash: socket.socket
    pidns: bool

    def order(self, request: bytes, fds: list[int], cgroup: str) -> None:
        """Tell it what to be; the daemon is the guard's parent when this returns."""
        with contextlib.suppress(BrokenPipeError):  # it has ended, and said why
            socket.send_fds(self.reports, [request], fds)
        os.kill(self.middle, signal.SIGKILL)
        os.waitpid(self.middle, 0)
        with contextlib.suppress(BrokenPipeError):
            self.leash.send(b"!" + os.fsencode(cgroup))
        self.leash.close()

    def forget(self) -> None:
        """Let it end: nobody is going to order it."""
        self.reports.close()
        self.leash.close()
        os.waitpid(self.middle, 0)


def preload(modules: list[str]) -> tuple[str, ...]:
    """Import what cells will need; what is not installed stays out."""
    loaded = []
    for name in (*_WARM, *modules):
        with contextlib.suppress(ModuleNotFoundError):
            importlib.import_module(name)
            loaded.append(name)
    if "clew_worker.agent.llm" in loaded:
        from .agent.rehearsal import rehearse

        rehearse()
    return tuple(loaded)


def _note(birth: _Birth, data: bytes, sender: int) -> None:
    """Take in one report: a pid of this namespace, by the kernel's word, or what went wrong."""
    match data[:1]:
        case b"G":
            birth.guard_pid = sender
        case b"P":
            birth.pid = sender
        case b"W":
            birth.warnings = tuple(json.loads(data[1:])["warnings"])
        case _:
            fields = json.loads(data[1:])
            birth.reason, birth.message = fields["reason"], fields["message"]


def _listen(reports: socket.socket, birth: _Birth, *, for_guard: bool = False) -> None:
    """Read reports until the payload runs (every other end is closed), has a guard, or the deadline."""
    while not (for_guard and birth.guard_pid):
        try:
            data, ancillary, _, _ = reports.recvmsg(_NOTE_BYTES_MAX, socket.CMSG_SPACE(_UCRED.size))
        except TimeoutError:
            birth.reason, birth.message = "spawn", f"no start within {_SPAWN_TIMEOUT_S:.0f} s"
            if birth.guard_pid is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(birth.guard_pid, signal.SIGKILL)
            return
        except (
            ConnectionResetError
        ):  # it ended with its order unread; what it said can still be read
            continue
        if not data:
            return
        sender = _UCRED.unpack(ancillary[0][2][: _UCRED.size])[0] if ancillary else 0
        _note(birth, data, sender)


class Nursery:
    """Forks cells; one of the usual kind is always forked ahead, since that is most of the time it takes."""

    def __init__(self, control: socket.socket, report: SandboxReport) -> None:
        self._control = control
        self._report = report
        self._spare: _Unborn | None = None

    def prepare(self) -> None:
        """Have a cell of the usual kind in store."""
        if self._spare is None:
            with contextlib.suppress(OSError):  # then the next request says what is wanting
                self._spare = self._unborn(pidns=self._report.isolation == "pidns")

    def forget(self) -> None:
        """End what is in store."""
        spare, self._spare = self._spare, None
        if spare:
            spare.forget()

    def spawn(self, spec: CellSpec, request: bytes, fds: list[int]) -> _Birth:
        """Start a cell as a child of the daemon; returns when its payload runs, or has failed to."""
        birth = _Birth()
        unborn = self._take(pidns=cell.uses_pidns(spec, self._report))
        with unborn.reports, unborn.leash:
            _listen(unborn.reports, birth, for_guard=True)
            unborn.order(request, fds, spec.cgroup)
            _listen(unborn.reports, birth)
        return birth

    def _take(self, *, pidns: bool) -> _Unborn:
        spare = self._spare
        if spare is None or spare.pidns != pidns:
            return self._unborn(pidns=pidns)
        self._spare = None
        if not cell.hung_up(spare.leash.fileno()):
            return spare
        spare.forget()  # something has ended it
        return self._unborn(pidns=pidns)

    def _unborn(self, *, pidns: bool) -> _Unborn:
        reports, report = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        leash, leashed = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with report, leashed:
                reports.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
                reports.settimeout(_SPAWN_TIMEOUT_S)
                fds = (self._control.fileno(), report.fileno(), leashed.fileno())
                wiring = cell.Wiring(*fds, pidns=pidns, sandbox=self._report)
                middle = os.fork()
                if middle == 0:
                    cell.start(wiring)
        except OSError:
            reports.close()
            leash.close()
            raise
        return _Unborn(middle, reports, leash, pidns)

    def born(self, request: cellwire.Spawn, data: bytes, fds: list[int], *, cut: bool) -> _Birth:
        """Start a cell; where there is nothing to start it with, the nursery lives on and says so."""
        if cut or not fds:
            return _Birth(reason="resources", message=os.strerror(errno.EMFILE))
        try:
            return self.spawn(request.spec, data, fds)
        except OSError as error:
            if not cellwire.is_shortage(error):
                raise
            return _Birth(reason="resources", message=error.strerror or str(error))

    def serve_one(self) -> bool:
        """Answer one request; False when the daemon has hung up."""
        control, most = self._control, cellwire.PACKET_BYTES_MAX
        data, fds, flags, _ = socket.recv_fds(control, most, _DESCRIPTORS_MAX)
        if not data:
            return False
        try:
            request = cellwire.read_spawn(data)
            birth = self.born(request, data, fds, cut=bool(flags & socket.MSG_CTRUNC))
        finally:
            for fd in fds:
                os.close(fd)
        control.sendall(_answer(request, birth, self._report))
        return True

    def serve(self) -> None:
        """Answer requests until the daemon hangs up; what can be done ahead is done when none waits."""
        while True:
            if not select.select([self._control], [], [], 0)[0]:
                self.prepare()
            if not self.serve_one():
                return


def _answer(request: cellwire.Spawn, birth: _Birth, report: SandboxReport) -> bytes:
    if birth.reason is None and birth.guard_pid and birth.pid:
        isolation = "pidns" if cell.uses_pidns(request.spec, report) else "guard"
        return cellwire.packet(
            Spawned(
                id=request.id,
                guard_pid=birth.guard_pid,
                pid=birth.pid,
                isolation=isolation,
                warnings=birth.warnings,
            )
        )
    return cellwire.packet(
        SpawnFailed.model_validate(
            {
                "id": request.id,
                "reason": birth.reason or "spawn",
                "message": birth.message or "the new process ended before it had started",
                "guard_pid": birth.guard_pid,
            }
        )
    )


def serve(control: socket.socket, modules: list[str]) -> int:
    """Live until the daemon hangs up."""
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    if cell.hung_up(control.fileno()):
        return 1
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.umask(0o077)
    loaded = preload(modules)
    report = sandbox.probe()
    gc.collect()
    gc.freeze()  # collections in the cells then leave these pages shared
    hello = NurseryHello(pid=os.getpid(), preloaded=loaded, sandbox=report)
    control.sendall(cellwire.packet(hello))
    nursery = Nursery(control, report)
    try:
        nursery.serve()
    finally:
        nursery.forget()
    return 0


def main(argv: list[str]) -> int:
    """Take the inherited socket and serve."""
    with contextlib.suppress(PermissionError):  # already leads a session
        os.setsid()
    with socket.socket(fileno=int(argv[1])) as control:
        control.set_inheritable(False)
        return serve(control, argv[2:])


if __name__ == "__main__":
    sys.exit(main(sys.argv))
