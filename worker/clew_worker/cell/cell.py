"""A cell: a guard process and the payload that it starts, ended as one.

With a PID namespace the guard is its init, and the kernel ends the whole tree with it; without
one it is a subreaper that ends what is left. Both are forked by the nursery and then wait for
their order: the spec, and the control group to enter.
"""

import contextlib
import fcntl
import json
import os
import resource
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

from setproctitle import setproctitle

from clew_shared.exit_codes import ExitCode
from clew_shared.text.plain import plain
from clew_shared.wire.nursery import (
    CHANNEL_FD,
    PACKET_BYTES_MAX,
    CellSpec,
    SandboxReport,
    read_spawn,
)
from clew_shared.wire.shortage import is_shortage
from clew_worker import sandbox
from clew_worker.sandbox import interpreter, kernel, namespaces, privileges
from clew_worker.sandbox.processes import descendants

_REPORT_FD = CHANNEL_FD + 1
_GO_FD = CHANNEL_FD + 2
_PATH_BYTES_MAX = 4096
_HIGH_FD = _GO_FD + 1  # above every fixed number, so that moving one never overwrites another
_CLOSED_MIN = 64  # descriptors below this are closed even where the limit was lowered further
_SWEEP_S = 5.0


@dataclass(frozen=True)
class Wiring:
    """The descriptors that the nursery passes to a new cell, and what the sandbox can do here."""

    control: int  # the nursery's own socket: hangs up when the daemon is gone
    report: int  # to the nursery: pids (by SCM_CREDENTIALS), warnings, an error; from it: the order
    go_pipe: int  # from the nursery to the guard: "!" and the path of the control group
    pidns: bool
    sandbox: SandboxReport


class CellStartError(Exception):
    """A step before the payload runs has failed; `reason` as in SpawnFailed."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def hung_up(fd: int) -> bool:
    """Return whether the other end of a socket is closed."""
    poll = select.poll()
    poll.register(fd, select.POLLRDHUP)
    return any(events & (select.POLLHUP | select.POLLRDHUP) for _, events in poll.poll(0))


def uses_pidns(spec: CellSpec, report: SandboxReport) -> bool:
    """Return whether this cell gets a PID namespace."""
    return spec.isolation == "auto" and report.isolation == "pidns"


def _uses_netns(spec: CellSpec, wiring: Wiring) -> bool:
    wanted = not spec.sandbox.network and spec.sandbox.mode != "off"
    return wanted and wiring.pidns and wiring.sandbox.network_off == "netns"


def _described(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return plain(error)
    return f"{type(error).__name__}: {error}"


def _report(report: int, kind: bytes, **fields: object) -> None:
    with contextlib.suppress(OSError):  # the nursery has ended, and this process ends soon, too
        os.write(report, kind + json.dumps(fields).encode())


def _guarded(report: int, steps: Callable[[], int]) -> NoReturn:
    """Run a forked process to its end and exit, whatever happens, without returning to the caller's stack."""
    code = 1
    try:
        code = steps()
    except CellStartError as error:
        code = ExitCode.CONFIGURATION
        _report(report, b"E", reason=error.reason, message=str(error))
    except BaseException as error:  # noqa: BLE001 - nothing may return to the nursery's loop
        reason = "resources" if is_shortage(error) else "spawn"
        _report(report, b"E", reason=reason, message=_described(error))
    finally:
        os._exit(code)


def fork(wiring: Wiring) -> int:
    """Fork the guard of a new cell, as a child of the nursery's parent, the daemon; return its pid. Raises OSError."""
    ids = os.geteuid(), os.getegid()
    if wiring.pidns:
        guard = namespaces.fork_apart(userns=wiring.sandbox.userns, parent=True)
    else:
        guard = kernel.fork(kernel.CLONE_PARENT)
    if guard == 0:
        _guarded(wiring.report, lambda: _guard(wiring, *ids))
    return guard


def _enter_group(cgroup: str) -> None:
    """Enter the control group of this cell, with all processes that it starts later."""
    if cgroup:
        try:
            Path(cgroup, "cgroup.procs").write_text("0")
        except OSError as error:
            message = f"cannot enter the control group {cgroup}: {error.strerror}"
            raise CellStartError("spawn", message) from error


class _TerminatedError(Exception):
    pass


def _end(signum: int, _frame: object) -> None:
    raise _TerminatedError(signum)


def _guard(wiring: Wiring, uid: int, gid: int) -> int:
    """Be the guard: wait for the payload, end what it left behind, exit with its code."""
    _close_all_but(wiring.control, wiring.report, wiring.go_pipe)
    setproctitle("clew: guard")
    os.setsid()
    if wiring.pidns and wiring.sandbox.userns:
        namespaces.remain(uid, gid)
    if not wiring.pidns:
        kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
    signal.signal(signal.SIGTERM, _end)
    go, release = os.pipe2(os.O_CLOEXEC)
    try:
        child = os.fork()
        if child == 0:
            os.close(release)
            _guarded(wiring.report, lambda: _begin(wiring, go))
        kernel.prctl(kernel.PR_SET_DUMPABLE, 0)  # the guard is outside the payload's sandbox
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL if wiring.pidns else signal.SIGTERM)
        if hung_up(wiring.control) or not _wait_for_go(wiring.go_pipe, child):
            return 1
        os.write(release, b"!")
        _close_all_but()  # others wait for these to be closed
        code = _await(child)
    except _TerminatedError as ended:
        code = 128 + int(ended.args[0])
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if not wiring.pidns:
        _sweep()
    return code


def _wait_for_go(go_pipe: int, child: int) -> bool:
    """Wait for the order and enter the control group; return False where none comes, or the payload has ended."""
    ended = os.pidfd_open(child)
    poll = select.poll()
    poll.register(go_pipe, select.POLLIN)
    poll.register(ended, select.POLLIN)
    ready = {fd for fd, _ in poll.poll()}
    os.close(ended)
    if ended in ready:
        return False
    order = os.read(go_pipe, _PATH_BYTES_MAX)
    _enter_group(os.fsdecode(order[1:]))
    return bool(order)


def _close_all_but(*kept: int) -> None:
    """Close every descriptor but these."""
    first = 0 if not kept else CHANNEL_FD
    for fd in (*sorted(kept), max(resource.getrlimit(resource.RLIMIT_NOFILE)[0], _CLOSED_MIN)):
        os.closerange(first, fd)
        first = fd + 1


def _await(child: int) -> int:
    """Reap until the payload has ended; return its exit code, or 128 + its signal."""
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


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


def _begin(wiring: Wiring, go: int) -> NoReturn:
    """Move the descriptors to their fixed numbers, and be the payload, which reports by those numbers."""
    guard = os.getppid()
    _place_descriptors(wiring, go)
    _guarded(_REPORT_FD, lambda: _payload(wiring, guard))


def _payload(wiring: Wiring, guard: int) -> int:
    """Be the payload: wait for the order, enter the sandbox, and run."""
    _reset_signals()
    os.setsid()
    os.write(_REPORT_FD, b"P")
    if not wiring.pidns:
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != guard:
            return 1
    spec = _ordered()
    if spec is None:
        return 1
    if spec.title:
        setproctitle(spec.title)
    _enter_group(spec.cgroup)
    if wiring.pidns:
        _furnish(spec, wiring)
    if spec.kind == "command":
        signal.signal(
            signal.SIGPIPE, signal.SIG_DFL
        )  # as programs expect; Python itself ignores it
    os.umask(spec.umask)
    os.environ.clear()
    os.environ.update(spec.env)
    if spec.kind != "executor":
        os.environ["CLEW_FD"] = str(CHANNEL_FD)
    _enter_folder(spec)
    program = _program(spec)
    privileges.no_new_privs()
    spare = privileges.EXECUTOR_SPARE if spec.kind == "executor" else 0
    privileges.limit(spec.limits, processes=wiring.pidns and wiring.sandbox.userns, spare=spare)
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
    _report(_REPORT_FD, b"W", warnings=warnings)
    return _run(spec, program, rules)


def _ordered() -> CellSpec | None:
    """Wait for the order and take its descriptors; None where the nursery has ended."""
    with socket.socket(fileno=os.dup(_REPORT_FD)) as report:
        data, fds, _, _ = socket.recv_fds(report, PACKET_BYTES_MAX, 2)
    if not fds:
        return None
    channel, *log = fds
    os.dup2(channel, CHANNEL_FD)
    for target in (1, 2) if log else ():
        os.dup2(log[0], target)
    for fd in fds:
        os.close(fd)
    return read_spawn(data).spec


def _furnish(spec: CellSpec, wiring: Wiring) -> None:
    """Enter mounts of its own, and an empty network where none is allowed."""
    netns = _uses_netns(spec, wiring)
    namespaces.leave_mounts(netns=netns)
    namespaces.furnish()
    if spec.sandbox.mode != "off":
        namespaces.close_off(sandbox.view(spec))
    if netns:
        namespaces.raise_loopback()


def _place_descriptors(wiring: Wiring, go: int) -> None:
    """Leave stdin, stdout, stderr, a place for the channel and, until the start, report and go; all else shut."""
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    wanted = (null, null, null, null, wiring.report, go)
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _HIGH_FD) for fd in wanted]
    for target, fd in enumerate(high):
        os.dup2(fd, target, inheritable=target < _REPORT_FD)
    _close_all_but(*range(CHANNEL_FD, _GO_FD + 1))


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
    """Return the path of a foreign command's program, "" for other cells; found before anything is hidden."""
    if spec.kind != "command":
        return ""
    if not spec.argv:
        raise CellStartError("exec", "the command is empty")
    found = interpreter.program(spec.argv[0], spec.cwd, spec.env.get("PATH", os.defpath))
    if found is None:
        raise CellStartError("exec", f"{spec.argv[0]}: not found, or not executable")
    return found


def _run(spec: CellSpec, program: str, rules: int) -> int:
    """Run the payload proper; return its exit code. `rules`: as `sandbox.commands_rules`."""
    if spec.kind == "command":
        try:
            os.execve(program, spec.argv, os.environ)  # noqa: S606 - starting it is the job
        except OSError as error:
            raise CellStartError("exec", f"{program}: {error.strerror}") from error
    kernel.prctl(kernel.PR_SET_DUMPABLE, 0)  # no process of the same user reads its memory
    os.close(_REPORT_FD)
    try:
        return _builtin(spec, rules)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # noqa: BLE001 - a crash: to the log, and exit code 1
        traceback.print_exc()
        return 1
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()


def _builtin(spec: CellSpec, rules: int) -> int:
    """Call the entry of the executor or of a built-in agent."""
    if spec.kind == "executor":
        from clew_worker.executor import server

        return server.main(spec, socket.socket(fileno=CHANNEL_FD), rules)
    from clew_worker.agent.main import main

    return main(spec.agent, CHANNEL_FD)
