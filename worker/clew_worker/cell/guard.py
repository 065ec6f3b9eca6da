"""A cell: a guard process and the payload that it starts, ended as one.

With a PID namespace the guard is its init, and the kernel ends the whole tree with it; without one it is a subreaper
that ends what is left. The payload enters the sandbox, and becomes executor, agent or command.
"""

import contextlib
import errno
import fcntl
import json
import os
import resource
import select
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

from setproctitle import setproctitle

from clew_shared.exit_codes import ExitCode
from clew_shared.text.plain import plain
from clew_shared.wire.nursery import CHANNEL_FD, CellSpec, is_shortage
from clew_worker import sandbox
from clew_worker.bridge.starter import open_gateway, with_program
from clew_worker.sandbox import grants, kernel, namespaces
from clew_worker.sandbox.kernel import end_descendants

_SWEEP_S = 5.0
_REPORT_FD, _GO_FD, _PEER_FD = range(CHANNEL_FD + 1, CHANNEL_FD + 4)
_HIGH_FD = _PEER_FD + 1  # above every fixed number, so that moving one never overwrites another
_CLOSED_MIN = 64  # descriptors below this are closed even where the limit was lowered further
# the errors of a file that is no program, however often it is tried
_NOT_PROGRAMS = (errno.EACCES, errno.EPERM, errno.ENOENT, errno.ENOEXEC, errno.ELIBBAD)
_NAMED_IN = {"command": "command", "cli": "program"}  # the key that names what is started


@dataclass(frozen=True)
class Wiring:
    """What the nursery passes to a new cell: descriptors, and what it is to be and can be confined with."""

    control: int  # the nursery's own socket: hangs up when the daemon is gone
    report: int  # to the nursery: warnings, with the pid (by SCM_CREDENTIALS), or an error
    given: tuple[int, ...]  # the cell's channel, log and peer, as `Spawn` brings them
    box: sandbox.Box


class CellStartError(Exception):
    """A step before the payload runs has failed; `reason` as in SpawnFailed."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def hung_up(fd: int) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLRDHUP)
    return any(events & (select.POLLHUP | select.POLLRDHUP) for _, events in poll.poll(0))


def _send_report(report: int, **fields: object) -> None:
    with contextlib.suppress(OSError):  # the nursery has ended, and this process ends soon, too
        os.write(report, json.dumps(fields).encode())


def _run_to_end(report: int, steps: Callable[[], int]) -> NoReturn:
    """Run a forked process to its end and exit, whatever happens, without returning to the caller's stack."""
    code = 1
    try:
        code = steps()
    except CellStartError as error:
        code = ExitCode.CONFIGURATION
        _send_report(report, reason=error.reason, message=str(error))
    except BaseException as error:  # noqa: BLE001 - nothing may return to the nursery's loop
        reason = "resources" if is_shortage(error) else "spawn"
        told = isinstance(error, OSError) and error.strerror
        message = plain(error) if told else f"{type(error).__name__}: {error}"
        _send_report(report, reason=reason, message=message)
    finally:
        os._exit(code)


def _close_all_but(*kept: int) -> None:
    first = 0 if not kept else CHANNEL_FD
    for fd in (*sorted(kept), max(resource.getrlimit(resource.RLIMIT_NOFILE)[0], _CLOSED_MIN)):
        os.closerange(first, fd)
        first = fd + 1


# -- the guard -------------------------------------------------------------------------------------


def fork(wiring: Wiring) -> int:
    """Fork the guard of a new cell, as a child of the nursery's parent, the daemon; return its pid. Raises OSError."""
    ids, box = (os.geteuid(), os.getegid()), wiring.box
    if box.pidns:
        guard = namespaces.fork_apart(userns=box.report.userns, parent=True)
    else:
        guard = kernel.fork(kernel.CLONE_PARENT)
    if guard == 0:
        _run_to_end(wiring.report, lambda: _guard(wiring, *ids))
    return guard


def _end(signum: int, _frame: object) -> None:
    sys.exit(128 + signum)


def _guard(wiring: Wiring, uid: int, gid: int) -> int:
    """Be the guard: wait for the payload, end what it left behind, exit with its code."""
    pidns, cgroup = wiring.box.pidns, wiring.box.spec.cgroup
    _close_all_but(wiring.control, wiring.report, *wiring.given)
    setproctitle("clew: guard")
    os.setsid()
    if pidns and wiring.box.report.userns:
        namespaces.remain(uid, gid)
    if not pidns:
        kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
    signal.signal(signal.SIGTERM, _end)
    if cgroup:  # with all processes that it starts later
        try:
            Path(cgroup, "cgroup.procs").write_text("0")
        except OSError as error:
            message = f"cannot enter the control group {cgroup}: {error.strerror}"
            raise CellStartError("spawn", message) from error
    go, release = os.pipe2(os.O_CLOEXEC)
    try:
        child = os.fork()
        if child == 0:
            os.close(release)
            _run_to_end(wiring.report, lambda: _begin(wiring, go))
        kernel.prctl(kernel.PR_SET_DUMPABLE, 0)  # the guard is outside the payload's sandbox
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL if pidns else signal.SIGTERM)
        if hung_up(wiring.control):
            return 1
        with contextlib.suppress(BrokenPipeError):  # it has ended, and reported why
            os.write(release, b"!")
        _close_all_but()  # others wait for these to be closed
        while (ended := os.waitpid(-1, 0))[0] != child:
            pass  # of others that have lost their parent
        code = os.waitstatus_to_exitcode(ended[1])
        code = code if code >= 0 else 128 - code
    except SystemExit as error:  # SIGTERM
        code = int(error.code or 0)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if not pidns:
        end_descendants(_SWEEP_S)
    return code


# -- the payload -----------------------------------------------------------------------------------


def _begin(wiring: Wiring, go: int) -> NoReturn:
    """Move stdin, stdout, stderr, channel, report, go and a bridge's peer to fixed numbers; shut all else."""
    guard = os.getppid()
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    channel, log, peer = (*wiring.given, null, null)[:3]
    wanted = (null, log, log, channel, wiring.report, go, peer)
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _HIGH_FD) for fd in wanted]
    for target, fd in enumerate(high):
        os.dup2(fd, target, inheritable=target < _REPORT_FD)
    _close_all_but(*range(CHANNEL_FD, _PEER_FD + (len(wiring.given) > 2)))
    _run_to_end(_REPORT_FD, lambda: _payload(wiring.box, guard))


def _payload(box: sandbox.Box, guard: int) -> int:
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGCHLD):
        signal.signal(signum, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    os.setsid()
    if not box.pidns:
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != guard:
            return 1
    if box.spec.kind == "cli":
        box = replace(box, spec=with_program(box.spec))
    if box.spec.title:
        setproctitle(box.spec.title)
    box = _furnish(box)
    _set_up(box.spec)
    program = _program(box.spec)
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    spare = kernel.EXECUTOR_SPARE if box.spec.kind == "executor" else 0
    kernel.limit(box.spec.limits, processes=box.pidns and box.report.userns, spare=spare)
    listener = None
    if box.spec.kind == "cli":
        spec, listener = open_gateway(box.spec, unix=box.unix)
        box = replace(box, spec=spec)
    try:
        rules = box.commands_rules()
        warnings = box.confine()
    except (sandbox.SandboxError, OSError) as error:
        raise CellStartError("sandbox", str(error)) from error
    # the sandbox goes by the path: it must be around the folder that the cell is in
    with contextlib.suppress(PermissionError):  # a folder above it is closed to a confined root
        _require_identity(box.spec, box.spec.cwd)
    if not os.read(_GO_FD, 1):  # the guard has ended, and could not end this process
        return 1
    os.close(_GO_FD)
    _send_report(_REPORT_FD, warnings=warnings)
    if box.spec.kind == "command":
        _become(box.spec, program)
    return _run(box, rules, listener)


def _furnish(box: sandbox.Box) -> sandbox.Box:
    """Enter mounts of its own, and an empty network if it may have none; return the box for what stands there."""
    spec = box.spec
    if not box.pidns:
        if spec.overlay:
            raise CellStartError("sandbox", "no overlay: it needs a mount namespace")
        return box
    namespaces.furnish(netns=box.netns)
    if spec.overlay:
        _require_identity(spec, spec.cwd)
        try:
            namespaces.overlay(spec.cwd, *spec.overlay, userns=box.report.userns)
        except OSError as error:
            full = is_shortage(error) or error.errno in (errno.ENOSPC, errno.EDQUOT)
            what = f"no {'room for an ' if full else ''}overlay: {error.strerror}"
            raise CellStartError("resources" if full else "sandbox", what) from error
        box = replace(box, spec=spec.model_copy(update={"stands_on": None}))
    if spec.sandbox.mode != "off":
        box.close_off()
    if box.netns:
        namespaces.raise_loopback()
    return box


def _set_up(spec: CellSpec) -> None:
    """Take the umask, the environment and the folder of the cell; fail where another folder has taken its place."""
    if spec.kind == "command":  # as programs expect; Python itself ignores it
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    os.umask(spec.umask)
    os.environ.clear()
    os.environ.update(spec.env)
    if spec.kind in ("agent", "command"):
        os.environ["CLEW_FD"] = str(CHANNEL_FD)
    try:
        os.chdir(spec.cwd)
    except OSError as error:
        raise CellStartError("spawn", f"cannot enter {spec.cwd}: {error.strerror}") from error
    _require_identity(spec, ".")


def _require_identity(spec: CellSpec, path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        found = os.stat(path, follow_symlinks=False)  # noqa: PTH116 - as elsewhere here
        if spec.stands_on in (None, (found.st_dev, found.st_ino)):
            return
    if spec.stands_on:
        raise CellStartError("workspace", f"{spec.cwd} was replaced by another folder")


def _program(spec: CellSpec) -> str:
    """Return the program that a command's or a CLI's cell starts, "" for others; looked for before all is hidden."""
    if spec.kind not in _NAMED_IN:
        return ""
    if not spec.argv:
        raise CellStartError("exec", "the command is empty")
    where = spec.argv[0], spec.cwd, spec.env.get("PATH", os.defpath)
    if why := grants.obstacle(*where):
        raise _not_started(spec, why)
    return grants.program(*where) or ""


def _not_started(spec: CellSpec, why: str) -> CellStartError:
    key = _NAMED_IN[spec.kind]
    return CellStartError("exec", f"{why}; correct `{key}` of the agent, or what it names")


def _become(spec: CellSpec, program: str) -> NoReturn:
    try:
        os.execve(program, spec.argv, os.environ)  # noqa: S606 - starting it is the job
    except OSError as error:
        if error.errno not in _NOT_PROGRAMS:
            raise
        hint = " (a script begins with a line such as #!/bin/sh)" * (error.errno == errno.ENOEXEC)
        raise _not_started(spec, f"{program}: {error.strerror}{hint}") from error


def _run(box: sandbox.Box, rules: int, listener: socket.socket | None) -> int:
    """Run what is no command, with the ruleset of its commands or the socket of its relay; return its exit code."""
    kernel.prctl(kernel.PR_SET_DUMPABLE, 0)  # no process of the same user reads its memory
    os.close(_REPORT_FD)
    try:
        return _builtin(box, rules, listener)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # noqa: BLE001 - a crash: to the log, and exit code 1
        traceback.print_exc()
        return 1
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()


def _builtin(box: sandbox.Box, rules: int, listener: socket.socket | None) -> int:
    """Call the entry of the executor, of a CLI's starter, or of a built-in agent."""
    spec = box.spec
    if spec.kind == "executor":
        from clew_worker.executor import server

        return server.main(spec, socket.socket(fileno=CHANNEL_FD), rules)
    if listener is not None:
        from clew_worker.bridge import starter

        return starter.main(spec, socket.socket(fileno=CHANNEL_FD), listener, alone=box.pidns)
    if spec.agent == "cli":
        from clew_worker.bridge.life import run_bridge

        return run_bridge(CHANNEL_FD, _PEER_FD)
    from clew_worker.agent.runbook import main

    return main(spec.agent, CHANNEL_FD)
