"""A cell: a guard process and the payload that it starts, ended as one.

With a PID namespace the guard is its init, and the kernel ends the whole tree with it; without
one it is a subreaper that ends what is left. It runs in processes that the nursery has forked;
what the payload does is none of its business.
"""

import contextlib
import fcntl
import json
import os
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from clew_shared.cellwire import CHANNEL_FD, CellSpec, SandboxReport, is_shortage

from . import sandbox
from .sandbox import interpreter, kernel, namespaces, privileges

EXIT_CONFIGURATION = 78
_REPORT_FD = CHANNEL_FD + 1
_HIGH_FD = 64  # above every fixed number, so that moving one never overwrites another
_SWEEP_S = 5.0


@dataclass(frozen=True)
class Wiring:
    """The descriptors that the nursery hands to a new cell, and what it found out before."""

    control: int  # the nursery's own socket: hangs up when the daemon is gone
    report: int  # to the nursery: pids (by SCM_CREDENTIALS), warnings, an error
    channel: int
    log: int | None
    sandbox: SandboxReport


class SpawnError(Exception):
    """A step before the payload ran has failed; `reason` as in SpawnFailed."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def hung_up(fd: int) -> bool:
    """Say whether the other end of a socket is closed."""
    poll = select.poll()
    poll.register(fd, select.POLLRDHUP)
    return any(events & (select.POLLHUP | select.POLLRDHUP) for _, events in poll.poll(0))


def uses_pidns(spec: CellSpec, report: SandboxReport) -> bool:
    """Say whether this cell gets a PID namespace."""
    return spec.isolation == "auto" and report.isolation == "pidns"


def _uses_netns(spec: CellSpec, report: SandboxReport) -> bool:
    wanted = not spec.sandbox.network and spec.sandbox.mode != "off"
    return wanted and uses_pidns(spec, report) and report.network_off == "netns"


def _tell(report: int, kind: bytes, **fields: object) -> None:
    with contextlib.suppress(OSError):  # the nursery is gone: so are we, soon
        os.write(report, kind + json.dumps(fields).encode())


def _guarded(report: int, steps: Callable[[], int]) -> NoReturn:
    """Run the life of a forked process and end it, whatever happens, without unwinding further."""
    code = 1
    try:
        code = steps()
    except SpawnError as error:
        code = EXIT_CONFIGURATION
        _tell(report, b"E", reason=error.reason, message=str(error))
    except BaseException as error:  # noqa: BLE001 - nothing may return into the nursery's loop
        reason = "resources" if is_shortage(error) else "spawn"
        _tell(report, b"E", reason=reason, message=f"{type(error).__name__}: {error}")
    finally:
        os._exit(code)


def start(spec: CellSpec, wiring: Wiring) -> NoReturn:
    """Be the process in between: fork the guard and end, so that the daemon inherits it."""

    def steps() -> int:
        _enter_group(spec.cgroup)
        if uses_pidns(spec, wiring.sandbox):
            netns = _uses_netns(spec, wiring.sandbox)
            namespaces.enter(userns=wiring.sandbox.userns, netns=netns)
        if os.fork() == 0:
            _guarded(wiring.report, lambda: _guard(spec, wiring))
        return 0

    _guarded(wiring.report, steps)


def _enter_group(cgroup: str) -> None:
    """Enter the control group of this cell, and with it all that it will ever start."""
    if cgroup:
        try:
            Path(cgroup, "cgroup.procs").write_text("0")
        except OSError as error:
            message = f"cannot enter the control group {cgroup}: {error.strerror}"
            raise SpawnError("spawn", message) from error


class _Ended(Exception):  # noqa: N818 - no error: the daemon is gone, or asked for the end
    pass


def _end(signum: int, _frame: object) -> None:
    raise _Ended(signum)


def _guard(spec: CellSpec, wiring: Wiring) -> int:
    """Be the guard: wait for the payload, end what it left, exit as it did."""
    os.setsid()
    pidns = uses_pidns(spec, wiring.sandbox)
    signal.signal(signal.SIGTERM, _end)
    os.write(wiring.report, b"G")
    if not os.read(wiring.report, 1):  # until the daemon is the parent
        return 1
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL if pidns else signal.SIGTERM)
    if hung_up(wiring.control):
        return 1
    os.close(wiring.control)
    if pidns:
        namespaces.furnish()
        if spec.sandbox.mode != "off":
            namespaces.close_off(sandbox.view(spec))
        if _uses_netns(spec, wiring.sandbox):
            namespaces.raise_loopback()
    else:
        kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
    try:
        child = os.fork()
        if child == 0:
            _guarded(_REPORT_FD, lambda: _payload(spec, wiring))
        _drop_descriptors()
        code = _await(child)
    except _Ended as ended:
        code = 128 + int(ended.args[0])
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if not pidns:
        _sweep()
    return code


def _drop_descriptors() -> None:
    """Hold nothing open that somebody waits to see closed."""
    _close_from(0, keep=())


def _close_from(first: int, keep: tuple[int, ...]) -> None:
    for entry in list(Path("/proc/self/fd").iterdir()):
        fd = int(entry.name)
        if fd >= first and fd not in keep:
            with contextlib.suppress(OSError):  # the listing's own
                os.close(fd)


def _await(child: int) -> int:
    """Reap until the payload has ended; its exit code, or 128 + its signal."""
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def descendants(root: int) -> list[int]:
    """List every process beneath `root`, from /proc."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):  # gone meanwhile
                stat = (entry / "stat").read_text(errors="replace")
                parent = int(stat.rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    found: list[int] = []
    todo = [root]
    while todo:
        below = children.pop(todo.pop(), [])
        found += below
        todo += below
    return found


def _sweep() -> None:
    """End every descendant; stopped first, so that none forks while the others are being ended."""
    deadline = time.monotonic() + _SWEEP_S
    while time.monotonic() < deadline:
        for signum in (signal.SIGSTOP, signal.SIGKILL):
            for pid in descendants(os.getpid()):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signum)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.001)


def _payload(spec: CellSpec, wiring: Wiring) -> int:
    """Be the payload: take one's place, put the walls up, and run."""
    guard = os.getppid()
    _place_descriptors(wiring)
    os.setsid()
    os.write(_REPORT_FD, b"P")
    pidns = uses_pidns(spec, wiring.sandbox)
    if not pidns:
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != guard:
            return 1
    _reset_signals(foreign=spec.kind == "command")
    os.umask(spec.umask)
    os.environ.clear()
    os.environ.update(spec.env)
    if spec.kind != "executor":
        os.environ["CLEW_FD"] = str(CHANNEL_FD)
    _enter_folder(spec.cwd)
    program = _program(spec)
    privileges.no_new_privs()
    spare = privileges.EXECUTOR_SPARE if spec.kind == "executor" else 0
    privileges.limit(spec.limits, processes=pidns and wiring.sandbox.userns, spare=spare)
    try:
        netns = _uses_netns(spec, wiring.sandbox)
        warnings = sandbox.confine(spec, wiring.sandbox, pidns=pidns, netns=netns)
    except (sandbox.SandboxError, OSError) as error:
        raise SpawnError("sandbox", str(error)) from error
    _tell(_REPORT_FD, b"W", warnings=warnings)
    return _run(spec, program)


def _place_descriptors(wiring: Wiring) -> None:
    """Leave stdin, stdout, stderr, the channel and, until the start, the report; all else shut."""
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    log = null if wiring.log is None else wiring.log
    wanted = (null, log, log, wiring.channel, wiring.report)
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _HIGH_FD) for fd in wanted]
    for target, fd in enumerate(high):
        os.dup2(fd, target, inheritable=target != _REPORT_FD)
    _close_from(_REPORT_FD + 1, keep=())


def _reset_signals(*, foreign: bool) -> None:
    """Nothing ignored, handled or blocked, as programs expect; Python itself ignores SIGPIPE."""
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGCHLD):
        signal.signal(signum, signal.SIG_DFL)
    if foreign:
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def _enter_folder(cwd: str) -> None:
    try:
        os.chdir(cwd)
    except OSError as error:
        raise SpawnError("spawn", f"cannot enter {cwd}: {error.strerror}") from error


def _program(spec: CellSpec) -> str:
    """Find a foreign command's program, before anything is out of sight."""
    if spec.kind != "command":
        return ""
    if not spec.argv:
        raise SpawnError("exec", "the command is empty")
    found = interpreter.program(spec.argv[0], spec.cwd, spec.env.get("PATH", os.defpath))
    if found is None:
        raise SpawnError("exec", f"{spec.argv[0]}: not found, or not executable")
    return found


def _run(spec: CellSpec, program: str) -> int:
    """Run the payload proper; its exit code."""
    if spec.kind == "command":
        try:
            os.execve(program, spec.argv, os.environ)  # noqa: S606 - starting it is the job
        except OSError as error:
            raise SpawnError("exec", f"{program}: {error.strerror}") from error
    kernel.prctl(kernel.PR_SET_DUMPABLE, 0)  # nobody of the same user reads its memory
    os.close(_REPORT_FD)
    try:
        return _builtin(spec)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # noqa: BLE001 - a crash: to the log, and exit code 1
        traceback.print_exc()
        return 1
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()


def _builtin(spec: CellSpec) -> int:
    """Call the entry of the executor or of a built-in agent."""
    if spec.kind == "executor":
        from . import executor

        return executor.main(spec, socket.socket(fileno=CHANNEL_FD))
    from . import agent

    return int(agent.main(spec.agent, CHANNEL_FD, spec))
