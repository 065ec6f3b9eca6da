"""The payload of a cell: it enters the sandbox, and becomes executor, agent or command."""

import contextlib
import errno
import fcntl
import os
import signal
import socket
import sys
import traceback
from dataclasses import dataclass
from typing import NoReturn

from setproctitle import setproctitle

from clew_shared.wire.nursery import CHANNEL_FD, CellSpec
from clew_worker import sandbox
from clew_worker.bridge.place import open_gateway, with_program
from clew_worker.cell.wiring import CellStartError, Wiring, close_all_but, run_to_end, send_report
from clew_worker.sandbox import interpreter, kernel, namespaces, privileges

_REPORT_FD = CHANNEL_FD + 1
_GO_FD = CHANNEL_FD + 2
_PEER_FD = CHANNEL_FD + 3
_HIGH_FD = _PEER_FD + 1  # above every fixed number, so that moving one never overwrites another
_NOT_PROGRAMS = (errno.EACCES, errno.EPERM, errno.ENOENT, errno.ENOEXEC, errno.ELIBBAD)
"""Why the kernel does not start a file, whenever it is tried."""

_NAMED_IN = {"command": "command", "cli": "program"}  # the key that names what is started


def begin(wiring: Wiring, go: int) -> NoReturn:
    """Move the descriptors to their fixed numbers, and be the payload, which reports by those numbers."""
    guard = os.getppid()
    _place_descriptors(wiring, go)
    run_to_end(_REPORT_FD, lambda: _payload(wiring, guard))


def _payload(wiring: Wiring, guard: int) -> int:
    """Be the payload: enter the sandbox, and run."""
    _reset_signals()
    os.setsid()
    os.write(_REPORT_FD, b"P")
    if not wiring.pidns:
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != guard:
            return 1
    spec = wiring.spec
    if spec.kind == "cli":
        spec = with_program(spec)
    if spec.title:
        setproctitle(spec.title)
    if wiring.pidns:
        spec = _furnish(spec, wiring)
    elif spec.overlay:
        raise CellStartError("sandbox", "an overlay needs a mount namespace")
    _set_up(spec)
    _enter_folder(spec)
    program = _program(spec)
    privileges.no_new_privs()
    spare = privileges.EXECUTOR_SPARE if spec.kind == "executor" else 0
    privileges.limit(spec.limits, processes=wiring.pidns and wiring.sandbox.userns, spare=spare)
    listener = None
    if spec.kind == "cli":
        spec, listener = open_gateway(spec, unix=sandbox.has_unix_sockets(spec, pidns=wiring.pidns))
    try:
        netns = _uses_netns(spec, wiring)
        rules = sandbox.commands_rules(spec, wiring.sandbox, pidns=wiring.pidns)
        warnings = sandbox.confine(spec, wiring.sandbox, pidns=wiring.pidns, netns=netns)
    except (sandbox.SandboxError, OSError) as error:
        raise CellStartError("sandbox", str(error)) from error
    _check_folder(spec)
    if not os.read(_GO_FD, 1):  # the guard has ended, and could not end this process
        return 1
    os.close(_GO_FD)
    send_report(_REPORT_FD, b"W", warnings=warnings)
    return _run(spec, program, _Inherited(rules, listener, alone=wiring.pidns))


def _set_up(spec: CellSpec) -> None:
    """Take the umask, the environment and the signals of the cell."""
    if spec.kind == "command":  # as programs expect; Python itself ignores it
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    os.umask(spec.umask)
    os.environ.clear()
    os.environ.update(spec.env)
    if spec.kind in ("agent", "command"):
        os.environ["CLEW_FD"] = str(CHANNEL_FD)


def _furnish(spec: CellSpec, wiring: Wiring) -> CellSpec:
    """Enter mounts of its own, and an empty network where none is allowed; return the spec for what stands there then.

    An overlay has another identity than the folder beneath it.
    """
    netns = _uses_netns(spec, wiring)
    namespaces.leave_mounts(netns=netns)
    namespaces.furnish()
    if spec.overlay:
        _require_identity(spec, spec.cwd)
        try:
            namespaces.overlay(spec.cwd, *spec.overlay, userns=wiring.sandbox.userns)
        except OSError as error:
            raise CellStartError("sandbox", f"no overlay: {error.strerror}") from error
        spec = spec.model_copy(update={"stands_on": None})
    if spec.sandbox.mode != "off":
        namespaces.close_off(sandbox.view(spec))
    if netns:
        namespaces.raise_loopback()
    return spec


def _place_descriptors(wiring: Wiring, go: int) -> None:
    """Leave stdin, stdout, stderr, the channel, report and go until the start, and a bridge's peer; all else shut."""
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    channel, log, peer = (*wiring.given, *(null, null))[:3]
    wanted = (null, log, log, channel, wiring.report, go, peer)
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _HIGH_FD) for fd in wanted]
    for target, fd in enumerate(high):
        os.dup2(fd, target, inheritable=target < _REPORT_FD)
    close_all_but(*range(CHANNEL_FD, _PEER_FD + (len(wiring.given) > 2)))


def _reset_signals() -> None:
    """Ignore, handle and block no signal."""
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGCHLD):
        signal.signal(signum, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def _enter_folder(spec: CellSpec) -> None:
    """Enter the folder of the cell; fail where another folder has taken its place meanwhile."""
    try:
        os.chdir(spec.cwd)
    except OSError as error:
        raise CellStartError("spawn", f"cannot enter {spec.cwd}: {error.strerror}") from error
    _require_identity(spec, ".")


def _check_folder(spec: CellSpec) -> None:
    """Check that the sandbox, which goes by the path, was put around the folder that the cell is in."""
    with contextlib.suppress(PermissionError):  # a folder above it is closed to a confined root
        _require_identity(spec, spec.cwd)


def _require_identity(spec: CellSpec, path: str) -> None:
    try:
        found = os.stat(path, follow_symlinks=False)  # noqa: PTH116 - as elsewhere here
    except FileNotFoundError:
        place = None
    else:
        place = (found.st_dev, found.st_ino)
    if spec.stands_on and place != spec.stands_on:
        raise CellStartError("workspace", f"{spec.cwd} was replaced by another folder")


def _program(spec: CellSpec) -> str:
    """Return the path of the program that a command's or a coding agent's cell starts, "" for other cells.

    It is looked for before anything is hidden.
    """
    if spec.kind not in _NAMED_IN:
        return ""
    if not spec.argv:
        raise CellStartError("exec", "the command is empty")
    where = spec.argv[0], spec.cwd, spec.env.get("PATH", os.defpath)
    if why := interpreter.obstacle(*where):
        raise CellStartError("exec", _not_started(spec, why))
    return interpreter.program(*where) or ""


def _not_started(spec: CellSpec, why: str) -> str:
    return f"{why}; correct `{_NAMED_IN[spec.kind]}` of the agent, or what it names"


@dataclass(frozen=True)
class _Inherited:
    """What a payload has from before its sandbox: `rules` as `sandbox.commands_rules`.

    `listener` is where a CLI's relay connects to. `alone`: its PID namespace has no other processes but the guard.
    """

    rules: int
    listener: socket.socket | None
    alone: bool


def _run(spec: CellSpec, program: str, inherited: _Inherited) -> int:
    """Run the payload proper; return its exit code."""
    if spec.kind == "command":
        try:
            os.execve(program, spec.argv, os.environ)  # noqa: S606 - starting it is the job
        except OSError as error:
            if error.errno not in _NOT_PROGRAMS:
                raise
            why = f"{program}: {error.strerror}"
            raise CellStartError("exec", _not_started(spec, why)) from error
    kernel.prctl(kernel.PR_SET_DUMPABLE, 0)  # no process of the same user reads its memory
    os.close(_REPORT_FD)
    try:
        return _builtin(spec, inherited)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # noqa: BLE001 - a crash: to the log, and exit code 1
        traceback.print_exc()
        return 1
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()


def _builtin(spec: CellSpec, inherited: _Inherited) -> int:
    """Call the entry of the executor, of a CLI's starter, or of a built-in agent."""
    if spec.kind == "executor":
        from clew_worker.executor import server

        return server.main(spec, socket.socket(fileno=CHANNEL_FD), inherited.rules)
    if spec.kind == "cli":
        from clew_worker.bridge import starter

        assert inherited.listener is not None  # noqa: S101 - opened above
        channel = socket.socket(fileno=CHANNEL_FD)
        return starter.main(spec, channel, inherited.listener, alone=inherited.alone)
    if spec.agent == "cli":
        from clew_worker.bridge.life import run_bridge

        return run_bridge(CHANNEL_FD, _PEER_FD)
    from clew_worker.agent.main import main

    return main(spec.agent, CHANNEL_FD)


def _uses_netns(spec: CellSpec, wiring: Wiring) -> bool:
    wanted = not spec.sandbox.network and spec.sandbox.mode != "off"
    return wanted and wiring.pidns and wiring.sandbox.network_off == "netns"
