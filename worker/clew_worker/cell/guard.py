"""A cell: a guard process and the payload that it starts, ended as one.

With a PID namespace the guard is its init, and the kernel ends the whole tree with it; without
one it is a subreaper that ends what is left.
"""

import contextlib
import os
import signal

from setproctitle import setproctitle

from clew_worker.cell import payload
from clew_worker.cell.wiring import Wiring, close_all_but, enter_group, hung_up, run_to_end
from clew_worker.sandbox import kernel, namespaces
from clew_worker.sandbox.kernel import end_descendants

_SWEEP_S = 5.0


def fork(wiring: Wiring) -> int:
    """Fork the guard of a new cell, as a child of the nursery's parent, the daemon; return its pid. Raises OSError."""
    ids = os.geteuid(), os.getegid()
    if wiring.pidns:
        guard = namespaces.fork_apart(userns=wiring.sandbox.userns, parent=True)
    else:
        guard = kernel.fork(kernel.CLONE_PARENT)
    if guard == 0:
        run_to_end(wiring.report, lambda: _guard(wiring, *ids))
    return guard


class _TerminatedError(Exception):
    pass


def _end(signum: int, _frame: object) -> None:
    raise _TerminatedError(signum)


def _guard(wiring: Wiring, uid: int, gid: int) -> int:
    """Be the guard: wait for the payload, end what it left behind, exit with its code."""
    close_all_but(wiring.control, wiring.report, *wiring.given)
    setproctitle("clew: guard")
    os.setsid()
    if wiring.pidns and wiring.sandbox.userns:
        namespaces.remain(uid, gid)
    if not wiring.pidns:
        kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
    signal.signal(signal.SIGTERM, _end)
    enter_group(wiring.spec.cgroup)
    go, release = os.pipe2(os.O_CLOEXEC)
    try:
        child = os.fork()
        if child == 0:
            os.close(release)
            run_to_end(wiring.report, lambda: payload.begin(wiring, go))
        kernel.prctl(kernel.PR_SET_DUMPABLE, 0)  # the guard is outside the payload's sandbox
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL if wiring.pidns else signal.SIGTERM)
        if hung_up(wiring.control):
            return 1
        with contextlib.suppress(BrokenPipeError):  # it has ended, and reported why
            os.write(release, b"!")
        close_all_but()  # others wait for these to be closed
        code = _await(child)
    except _TerminatedError as ended:
        code = 128 + int(ended.args[0])
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if not wiring.pidns:
        end_descendants(_SWEEP_S)
    return code


def _await(child: int) -> int:
    """Reap until the payload has ended; return its exit code, or 128 + its signal."""
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code
