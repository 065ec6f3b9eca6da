"""Attacks on the kernel's doors: what no work needs, and what only root may do to the machine.

None of them does harm where it is not refused: each asks for something impossible, or for what is so already.
"""

import ctypes
import fcntl
import os
import socket
from functools import partial

from attack import attack, first_of, syscall

SECCOMP = "seccomp"
ROOTS = "seccomp, no capability"


def text(value):
    return ctypes.c_char_p(value.encode())


def zeros(size=256):
    return ctypes.create_string_buffer(size)


NAME = socket.gethostname()
CALLS = [
    ("io_uring", "Bypass the system call filter (io_uring)", SECCOMP, 425, 425, 4, zeros()),
    ("load_a_kernel_program", "Load a program into the kernel (bpf)", SECCOMP, 321, 280, 0, zeros(), 72),
    ("hold_the_kernel_up", "Pause the kernel in the middle of a copy (userfaultfd)", SECCOMP, 323, 282, 1),
    # KEYCTL_GET_KEYRING_ID of the session
    ("read_the_keyring", "Look into the keyrings that were inherited (keyctl)", SECCOMP, 250, 219, 0, -3, 0),
    ("add_to_the_keyring", "Put a key into the inherited session's keyring (add_key)", SECCOMP,
     248, 217, text("user"), text("attacked"), text("x"), 1, -3),
    ("read_the_kernels_log", "Read the kernel's log (syslog), which contains addresses", SECCOMP,
     103, 116, 10, None, 0),
    ("load_a_module", "Load a kernel module", ROOTS, 313, 273, -1, text(""), 0),
    ("another_kernel", "Load another kernel (kexec)", ROOTS, 246, 104, 0, 0, None, 4),
    ("restart_the_machine", "Restart the machine (only asks whether Ctrl-Alt-Del might)", ROOTS,
     169, 142, 0xFEE1DEAD, 672274793, 0, None),
    ("rename_the_machine", "Set the host's name", ROOTS, 170, 161, text(NAME), len(NAME)),
    # the monotonic clock, which cannot be set: without the filter the answer would be EINVAL
    ("set_the_clock", "Set the clock, for all leases and time limits", ROOTS, 227, 112, 1, zeros()),
    ("swap_on", "Add swap space", ROOTS, 167, 224, text("/nowhere"), 0),
]  # fmt: skip
"""Attacks that are one system call: what it does, by what it is refused, its numbers here, its arguments."""


def _one_call(name, does, by, *call):
    def run(_):
        return syscall(*call)

    run.__name__, run.__doc__ = name, does
    attack("the kernel", thinks=by, acts=by, control=False)(run)


for _call in CALLS:
    _one_call(*_call)


@attack("the kernel", thinks=SECCOMP, acts=SECCOMP, control=False)
def watch_others_by_counters(_):
    """Watch other processes by performance counters (perf_event_open)."""
    attributes = zeros(128)
    attributes[4] = 128
    return syscall(298, 241, attributes, 0, -1, -1, 0)


@attack("the kernel", thinks=ROOTS, acts=ROOTS, control=False)
def mount_something(t):
    """Mount a file system, by the old call and by the new ones."""
    calls = (
        (165, 40, text("none"), text(t["workspace"]), text("tmpfs"), 0, None),
        (430, 430, text("tmpfs"), 0),
        (428, 428, -100, text(t["workspace"]), 1),
        (442, 442, -1, text("/"), 0, zeros(32), 32),
    )
    return first_of(partial(syscall, *call) for call in calls)


@attack("the kernel", thinks=ROOTS, acts=ROOTS, control=False)
def unmount_something(_):
    """Unmount what covers the folders of others."""
    folders = ("/tmp", "/run", "/home", "/proc", "/dev/shm")
    return first_of(partial(syscall, 166, 39, text(folder), 2) for folder in folders)


@attack("the kernel", thinks=ROOTS, acts=ROOTS, control=False)
def another_root(t):
    """Change the root mount (pivot_root)."""
    return syscall(155, 41, text(t["workspace"]), text(t["workspace"]))


@attack("the kernel", thinks="Landlock", acts="Landlock", control=False)
def read_the_kernels_memory(_):
    """Read the machine's memory (/dev/mem, /proc/kcore)."""
    paths = ("/dev/mem", "/dev/kmem", "/dev/port", "/proc/kcore")
    return first_of(lambda path=path: os.read(os.open(path, os.O_RDONLY), 1) for path in paths)


@attack("the kernel", thinks="seccomp", acts="seccomp", control=False)
def type_into_a_terminal(_):
    """Simulate typing into a terminal (TIOCSTI)."""
    return fcntl.ioctl(1, 0x5412, b"x")


@attack("the kernel", thinks="Landlock, own session", acts="Landlock, own session", control=False)
def open_the_terminal(_):
    """Open the terminal that the daemon was started from."""
    paths = ("/dev/tty", "/dev/console", "/dev/ptmx", "/dev/pts/0")
    return first_of(partial(os.open, path, os.O_RDWR | os.O_NOCTTY) for path in paths)
