"""Attacks on processes: signals, tracing, limits and priorities of others; programs; staying behind."""

import contextlib
import ctypes
import fcntl
import os
import resource
import shutil
import signal
import struct
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

from attack import attack, attacks, first_of, is_own, parents, syscall

LANDLOCK = "Landlock, PID namespace"
TRACE = "Landlock, seccomp, PID namespace"
HIDDEN = "PID namespace, else seccomp"
GUARD = "the guard, PID namespace"
PTRACE_SEIZE, PTRACE_ATTACH = 0x4206, 16


def others(t):
    """Processes outside: the daemon, its nursery, a program of the user, the guard of this cell."""
    return (t["daemon"], t["nursery"], t["victim"])


def any_of(t, deed):
    """Try it on each; what was got from the first on which it worked."""
    return first_of(lambda pid=pid: (pid, deed(pid)) for pid in others(t))


# -- signals and tracing


attacks(
    "other processes", LANDLOCK,
    ("signal_others", "Send the daemon, the nursery and the user's programs a signal",
     lambda t: any_of(t, lambda pid: os.kill(pid, 0))),
    ("signal_by_a_descriptor", "Signal by a pidfd",
     lambda t: any_of(t, lambda pid: signal.pidfd_send_signal(os.pidfd_open(pid), 0))),
    ("offer_others_to_the_oom_killer", "Have another process killed first when memory is short (oom_score_adj)",
     lambda t: any_of(t, lambda pid: Path(f"/proc/{pid}/oom_score_adj").write_text("1000"))),
)  # fmt: skip


@attack("other processes", thinks=LANDLOCK, acts=LANDLOCK, control=False)
def kill_whoever_started_this(t):
    """SIGKILL the guard of the worker's own cell."""
    guard = t["guard"]
    os.kill(guard, signal.SIGKILL)
    time.sleep(0.2)
    os.kill(guard, 0)
    if guard == 1:
        raise PermissionError(1, "an init is not killed from within")


@attack("other processes", thinks=LANDLOCK, acts=LANDLOCK)
def signal_by_a_pipe(t):
    """Let the kernel send the signal, by making the victim the owner of a pipe that becomes readable."""
    read, write = os.pipe()
    fcntl.fcntl(read, fcntl.F_SETOWN, t["victim"])
    fcntl.fcntl(read, 10, signal.SIGUSR1)  # F_SETSIG
    fcntl.fcntl(read, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    os.write(write, b"x")
    until = time.monotonic() + (5 if t["control"] else 0.3)
    while time.monotonic() < until:
        if Path(t["victim_heard"]).exists() if t["control"] else False:
            return "heard"
        time.sleep(0.02)
    raise PermissionError(1, "not heard; see from outside")


@attack("other processes", thinks=TRACE, acts=LANDLOCK)
def trace_others(t):
    """Attach to the daemon, the nursery, a program of the user (ptrace)."""
    number = (101, 117)
    return any_of(t, lambda pid: syscall(*number, PTRACE_SEIZE, pid, 0, 0))


@attack("other processes", thinks=TRACE, acts="Landlock domains, not dumpable")
def trace_whoever_judges_the_outcome(t):
    """Attach to the worker's own parents (the executor, its starter, the guard) to forge outcomes."""
    above = [pid for pid in parents(os.getpid()) if not is_own(pid, t) and pid != 1]
    return first_of(partial(syscall, 101, 117, PTRACE_SEIZE, pid, 0, 0) for pid in above)


@attack("other processes", thinks=TRACE, acts=LANDLOCK)
def read_memory_of_others(t):
    """Read another process's memory (process_vm_readv)."""
    return any_of(t, lambda pid: _vm(310, 270, t, pid))


@attack("other processes", thinks=TRACE, acts=LANDLOCK, control=False)
def write_memory_of_others(t):
    """Write another process's memory (process_vm_writev)."""
    return any_of(t, lambda pid: _vm(311, 271, t, pid))


def _vm(x86, arm, t, pid):
    """Eight bytes at the address of the victim's own buffer; a wrong address would be EFAULT."""
    here = ctypes.create_string_buffer(b"attacked", 8)
    local = struct.pack("QQ", ctypes.addressof(here), 8)
    remote = struct.pack("QQ", t["victim_address"], 8)
    vectors = [ctypes.create_string_buffer(one, 16) for one in (local, remote)]
    return syscall(x86, arm, pid, vectors[0], 1, vectors[1], 1, 0)


attacks(
    "other processes", "seccomp, PID namespace",
    ("take_a_descriptor", "Take an open file of another process (pidfd_getfd)",
     lambda t: any_of(t, lambda pid: syscall(438, 438, os.pidfd_open(pid), 1, 0))),
    ("compare_descriptors", "Find out what others have open (kcmp)",
     lambda t: any_of(t, lambda pid: syscall(312, 272, os.getpid(), pid, 0, 1, 1))),
)  # fmt: skip


@attack("other processes", thinks="seccomp", acts="seccomp", control=False)
def enter_anothers_namespaces(t):
    """Enter the namespaces of the daemon or of init (setns)."""
    kinds, pids = ("mnt", "user", "pid", "net"), (*others(t), 1, "self")
    doors = [f"/proc/{pid}/ns/{kind}" for pid in pids for kind in kinds]
    return first_of(lambda at=at: syscall(308, 268, os.open(at, os.O_RDONLY), 0) for at in doors)


# -- limits and priorities of others: no signal, no trace, and yet deadly


@attack("other processes", thinks=HIDDEN, acts=HIDDEN)
def limit_others(t):
    """Lower a limit of another process (prlimit), by which it can be killed."""
    limit = (7, 7) if t["control"] else (0, 0)
    pids = (t["victim"],) if t["control"] else others(t)
    return first_of(partial(resource.prlimit, pid, resource.RLIMIT_CORE, limit) for pid in pids)


def of_others(deed):
    """Give an attack that does something to any process outside but the daemon."""
    return lambda t: any_of({**t, "daemon": t["victim"]}, deed)


attacks(
    "other processes", HIDDEN,
    ("slow_others_down", "Give another process the lowest priority (setpriority)",
     of_others(lambda pid: os.setpriority(os.PRIO_PROCESS, pid, 19))),
    ("slow_the_disk_of_others", "Give another process the lowest disk priority (ioprio_set)",
     of_others(lambda pid: syscall(251, 30, 1, pid, 3 << 13))),
    ("move_others", "Confine another process to one CPU (sched_setaffinity)",
     of_others(lambda pid: os.sched_setaffinity(pid, {0}))),
    ("reschedule_others", "Let another process run only when no other does (SCHED_IDLE)",
     of_others(lambda pid: os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0)))),
)  # fmt: skip


@attack("other processes", thinks=HIDDEN, acts=HIDDEN, control=False)  # of who runs the tests
def slow_everything_down(t):
    """Give all processes of the user a lower priority at once (PRIO_USER)."""
    if t["isolation"] == "pidns":
        raise PermissionError(
            1, "reaches the cell itself only; the victim is looked at from outside"
        )
    return os.setpriority(os.PRIO_USER, 0, 19)


# -- programs


@attack("programs", thinks="Landlock, seccomp", acts=None)
def start_a_program(_):
    """Start a program."""
    return subprocess.run(["/bin/true"], check=True).returncode


@attack("programs", thinks="seccomp", acts=None)
def start_a_program_from_memory(_):
    """Start a program that is not a file (memfd_create)."""
    fd = os.memfd_create("attack")
    os.write(fd, Path("/bin/true").read_bytes())
    if os.fork() == 0:
        os.execve(fd, ["true"], {})
    return os.wait()[1] and "ended badly"


@attack("programs", thinks="Landlock", acts=None)
def start_a_program_of_ones_own(t):
    """Write a program into the workspace and start it."""
    path = f"{t['workspace']}/program-{os.getpid()}"
    shutil.copy("/bin/true", path)
    Path(path).chmod(0o755)
    return subprocess.run([path], check=True).returncode


@attack("programs", thinks="Landlock", acts="no_new_privs", control=False, where="user")
def become_root(t):
    """Start a setuid-root program in the workspace."""
    done = subprocess.run([f"{t['workspace']}/setuid-id", "-u"], capture_output=True, check=True)
    if done.stdout.strip() != b"0":
        raise PermissionError(1, f"still user {done.stdout!r}")
    return "root"


@attack("programs", thinks="Landlock", acts="no_new_privs", control=False, where="user")
def become_root_by_the_systems_programs(_):
    """Ask the system's own setuid programs (su)."""
    program = shutil.which("su") or "/bin/su"
    done = subprocess.run(
        [program, "-c", "id -u"], stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    if done.stdout.strip() != b"0":
        raise PermissionError(1, "refused")
    return "root"


# -- staying behind; last, and looked for from outside


def _survivor(t, how):
    """What stays: it sleeps, with a word on its command line by which it is found."""
    return [sys.executable, "-I", "-c", "import time; time.sleep(600)", t["marker"], how]


@attack("staying behind", thinks=GUARD, acts=GUARD, control=False)
def fork_twice(t):
    """Leave a process behind: forked twice, in its own session, ignoring signals."""
    if os.fork():
        return "left" if t["control"] else _see_outside()
    os.setsid()
    if os.fork():
        os._exit(0)
    for signum in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(signum, signal.SIG_IGN)
    for fd in range(3):
        os.close(fd)
    with contextlib.suppress(OSError):
        os.execv(sys.executable, _survivor(t, "twice"))
    time.sleep(600)  # an agent cannot exec: it stays as it is
    os._exit(0)


@attack("staying behind", thinks=GUARD, acts=GUARD, control=False)
def fork_all_the_time(t):
    """Leave a process behind that keeps forking, so that its pid always changes."""
    if os.fork():
        return "left" if t["control"] else _see_outside()
    os.setsid()
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if os.fork():
            os._exit(0)
        time.sleep(0.002)
    os._exit(0)


@attack("staying behind", thinks="Landlock", acts="mount namespace, else seccomp", control=False)
def ask_the_service_manager(t):
    """Have the user's service manager start a program (systemd-run)."""
    done = subprocess.run(
        ["systemd-run", "--user", "--collect", *_survivor(t, "systemd")],
        env={"XDG_RUNTIME_DIR": f"/run/user/{os.getuid()}", "PATH": os.defpath},
        capture_output=True,
        check=False,
    )
    if done.returncode:
        raise PermissionError(1, done.stderr[:80])
    return "started"


@attack("staying behind", thinks="Landlock", acts="Landlock, mount namespace", control=False)
def ask_for_later(t):
    """Have a program started later (at, crontab)."""
    spools = ("/var/spool/cron/crontabs", "/var/spool/cron/atjobs", "/etc/cron.d")
    line = f"* * * * * true {t['marker']}\n"
    return first_of(partial(Path(spool, "attacked").write_text, line) for spool in spools)


def _see_outside():
    raise PermissionError(1, "left; the test looks for it after the epoch")
