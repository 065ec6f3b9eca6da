"""What a process gives up irrevocably before it runs anything: privileges, limits, core dumps."""

import contextlib
import resource

from clew_shared.wire.nursery import CellLimits
from clew_worker.sandbox import kernel

# The capabilities that root's tools and package managers need to act on files and drop rights;
# without SYS_PTRACE and the others of the daemon, its /proc entries cannot be read. DAC_READ_SEARCH
# is not among them: it opens files by handle, past every path, and OVERRIDE reads all the same.
_CHOWN, _DAC_OVERRIDE, _, _FOWNER, _FSETID, _KILL = range(6)
_SETGID, _SETUID, _BIND_SERVICE, _CHROOT = 6, 7, 10, 18
THINKING = (_DAC_OVERRIDE,)
ACTING = (
    *(_CHOWN, _DAC_OVERRIDE, _FOWNER, _FSETID, _KILL),
    *(_SETGID, _SETUID, _BIND_SERVICE, _CHROOT),
)
_CAPABILITIES_MAX = 64
EXECUTOR_SPARE = 1024
"""How many more descriptors an executor may have than the commands that it starts.

Descriptors that were sent and not received count for the user as a whole, and a process at its own limit can send
no more. A command that hoards them reaches its own limit first, and the executor can still start the next one.
"""


def no_new_privs() -> None:
    """Prevent programs started from here on from gaining rights by setuid or file capabilities."""
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)


def keep_capabilities(kept: tuple[int, ...]) -> None:
    """Drop every capability but `kept`, also for programs that root starts later."""
    for number in range(_CAPABILITIES_MAX):
        if number not in kept:
            with contextlib.suppress(OSError):  # unknown to this kernel, or not held
                kernel.prctl(kernel.PR_CAPBSET_DROP, number)
    with contextlib.suppress(OSError):
        kernel.prctl(kernel.PR_CAP_AMBIENT, kernel.PR_CAP_AMBIENT_CLEAR_ALL)
    # root in a container has fewer than root outside, and asking for more is refused
    kernel.set_capabilities(sum(1 << number for number in kept) & kernel.capabilities())


def limit(limits: CellLimits, *, processes: bool, spare: int = 0) -> None:
    """Set the resource limits; `processes` only where they are counted for this cell alone.

    `spare` is the number of additional descriptors of an executor, whose commands get the plain limit.
    """
    _lower(resource.RLIMIT_CORE, 0)
    limit_descriptors(limits.open_files + spare)
    if processes:
        _lower(resource.RLIMIT_NPROC, limits.processes)
    if limits.file_size_mb is not None:
        _lower(resource.RLIMIT_FSIZE, limits.file_size_mb * 1024 * 1024)


def limit_descriptors(count: int) -> None:
    """Allow at most `count` open files."""
    _lower(resource.RLIMIT_NOFILE, count)


def _lower(what: int, value: int) -> None:
    _, hard = resource.getrlimit(what)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(what, (value, value))
