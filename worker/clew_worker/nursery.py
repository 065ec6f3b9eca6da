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


def preload(modules: list[str]) -> tuple[str, ...]:
    """Import what cells will need; what is not installed stays out."""
    loaded = []
    for name in (*_WARM, *modules):
        with contextlib.suppress(ModuleNotFoundError):
            importlib.import_module(name)
            loaded.append(name)
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


def _listen(reports: socket.socket, birth: _Birth) -> None:
    """Read reports until the payload runs (every other end is closed) or the deadline."""
    while True:
        try:
            data, ancillary, _, _ = reports.recvmsg(_NOTE_BYTES_MAX, socket.CMSG_SPACE(_UCRED.size))
        except TimeoutError:
            birth.reason, birth.message = "spawn", f"no start within {_SPAWN_TIMEOUT_S:.0f} s"
            if birth.guard_pid is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(birth.guard_pid, signal.SIGKILL)
            return
        if not data:
            return
        sender = _UCRED.unpack(ancillary[0][2][: _UCRED.size])[0] if ancillary else 0
        _note(birth, data, sender)


def spawn(control: int, spec: CellSpec, fds: list[int], report: SandboxReport) -> _Birth:
    """Start a cell as a child of the daemon; returns when its payload runs, or has failed to."""
    birth = _Birth()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        ours.settimeout(_SPAWN_TIMEOUT_S)
        log = fds[1] if len(fds) > 1 else None
        wiring = cell.Wiring(control, theirs.fileno(), fds[0], log, report)
        middle = os.fork()
        if middle == 0:
            ours.close()
            cell.start(spec, wiring)
        os.waitpid(middle, 0)  # from now on the daemon is the guard's parent
        with contextlib.suppress(OSError):
            ours.send(b"!")
        theirs.close()
        _listen(ours, birth)
    return birth


def _born(
    control: socket.socket, spec: CellSpec, fds: list[int], report: SandboxReport, *, cut: bool
) -> _Birth:
    """Start a cell; where there is nothing to start it with, the nursery lives on and says so."""
    if cut or not fds:
        return _Birth(reason="resources", message=os.strerror(errno.EMFILE))
    try:
        return spawn(control.fileno(), spec, fds, report)
    except OSError as error:
        if not cellwire.is_shortage(error):
            raise
        return _Birth(reason="resources", message=error.strerror or str(error))


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


def _serve_one(control: socket.socket, report: SandboxReport) -> bool:
    """Answer one request; False when the daemon has hung up."""
    data, fds, flags, _ = socket.recv_fds(control, cellwire.PACKET_BYTES_MAX, _DESCRIPTORS_MAX)
    if not data:
        return False
    try:
        request = cellwire.read_spawn(data)
        birth = _born(control, request.spec, fds, report, cut=bool(flags & socket.MSG_CTRUNC))
    finally:
        for fd in fds:
            os.close(fd)
    control.sendall(_answer(request, birth, report))
    return True


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
    while _serve_one(control, report):
        pass
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
