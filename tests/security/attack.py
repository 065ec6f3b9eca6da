"""The attacker's frame: a register of attacks, and running them one by one from inside a cell.

An attack is a small function that does what a hostile worker would. It returns what it got, or lets the
error out that stopped it. It is run in a process of its own, so that one that crashes or hangs spoils no
other. This program uses nothing of clew and nothing that is not in Python's library: it is copied to where
its victim's sandbox lets it be read. What must not have happened is looked at from outside, by the test.

`refused` says for each role by what; None: that role may do it, and the docs say so.
"""

import contextlib
import ctypes
import errno
import json
import os
import platform
import select
import signal
import sys
import time
from dataclasses import dataclass

ATTACK_TIMEOUT_S = 20.0
libc = ctypes.CDLL(None, use_errno=True)
X86 = platform.machine() == "x86_64"


@dataclass(frozen=True)
class Attack:
    """One attack, and by what it is refused to an agent, an executor's command, an agent with own tools."""

    name: str
    does: str
    group: str
    run: object
    agent: str | None
    executor: str | None
    own_tools: str | None
    control: bool  # it succeeds without a sandbox, and does no harm then
    where: (
        str  # "", or the only circumstances in which it means something: root, user, pidns, offline
    )
    acts_where: str  # the same, for those who act

    def refused(self, role):
        return {"builtin": self.agent}.get(role, getattr(self, role, self.agent))


ATTACKS = {}


def attack(group, *, thinks, acts, own_tools=None, control=True, where="", acts_where=""):
    """Register a function; its docstring says in one line what it does."""

    def register(function):
        ATTACKS[function.__name__] = Attack(
            name=function.__name__,
            does=function.__doc__.strip().rstrip("."),
            group=group,
            run=function,
            agent=thinks,
            executor=acts,
            own_tools=own_tools or acts,
            control=control,
            where=where,
            acts_where=acts_where,
        )
        return function

    return register


def attacks(group, by, *rows, **how):
    """Register attacks of one expression each: a name, what it does, and a function of the targets."""
    for name, does, function in rows:
        function.__name__, function.__doc__ = name, does
        attack(group, thinks=by, acts=by, **how)(function)


def first_of(deeds):
    """Do each until one works; what that got, or the last error."""
    last = PermissionError(errno.EPERM, "there is nothing to try")
    for deed in deeds:
        try:
            return deed()
        except OSError as error:
            last = error
    raise last


def syscall(x86, arm, *args):
    """Make a system call by its number here; OSError."""
    number = x86 if X86 else arm
    if number is None:
        raise OSError(errno.ENOSYS, "not on this machine")
    ctypes.set_errno(0)
    plain = [ctypes.c_long(one) if isinstance(one, int) else one for one in args]
    result = libc.syscall(ctypes.c_long(number), *plain)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def _outcome(one, targets):
    try:
        got = one.run(targets)
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, f"error {error}")
    except Exception as error:  # noqa: BLE001 - the test reads it
        return f"broken: {type(error).__name__}: {error}"
    return f"succeeded: {got!r:.200}"


def perform(one, targets):
    """Run one attack in a process of its own; what became of it."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(read)
            with contextlib.suppress(OSError):
                os.setsid()
            os.write(write, _outcome(one, targets).encode())
        finally:
            os._exit(0)
    os.close(write)
    said, until = b"", time.monotonic() + ATTACK_TIMEOUT_S
    while select.select([read], [], [], max(until - time.monotonic(), 0))[0]:
        chunk = os.read(read, 4096)
        said += chunk
        if not chunk or said:
            break
    os.close(read)
    with contextlib.suppress(OSError):
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return said.decode() or f"ended: {os.waitstatus_to_exitcode(status)}"


def fits(one, role, targets):
    """Whether an attack means something for this role, here."""
    if targets["control"]:
        return one.control and one.where in ("", *targets["where"])
    acts = role in ("executor", "own_tools")
    wheres = {one.where, one.acts_where if acts else ""}
    return one.refused(role) is not None and wheres <= {"", *targets["where"]}


def status(pid, number):
    """Give a field of /proc/PID/stat after the name, counted from 0; "" where there is none."""
    with contextlib.suppress(OSError, IndexError), open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[number]
    return ""


def parents(pid):
    """Name those above a process, nearest first."""
    found = []
    while (above := int(status(pid, 1) or 0)) > 0:
        found.append(above)
        pid = above
    return found


def is_own(pid, targets):
    """Whether a process is the attacker's: of its runner, or with the attacker's folder on its command line."""
    if targets["own"] in (pid, *parents(pid)):
        return True
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return b"hostile" in file.read()
    except OSError:
        return False


def place(targets):
    """Add to the targets who this is, and who guards it."""
    above = parents(os.getpid())
    known = [pid for pid in above if pid != targets["daemon"]]
    before = above.index(targets["daemon"]) if targets["daemon"] in above else len(known)
    guard = above[before - 1] if before else 1
    return {**targets, "own": os.getpid(), "guard": guard}


def perform_all(role, targets):
    """Run every attack that fits, in the order in which they were registered; what became of each."""
    targets = place(targets)
    return {
        name: perform(one, targets) for name, one in ATTACKS.items() if fits(one, role, targets)
    }


def load():
    """Import what registers attacks."""
    import attack_files  # noqa: F401
    import attack_kernel  # noqa: F401
    import attack_keys  # noqa: F401
    import attack_processes  # noqa: F401
    import attack_sockets  # noqa: F401


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    sys.modules["attack"] = sys.modules["__main__"]
    load()
    with open(sys.argv[2]) as targets_file:
        targets = json.load(targets_file)
    found = perform_all(sys.argv[1], targets)
    with open(sys.argv[3], "w") as out:
        json.dump(found, out)
