"""The numbers of the system calls that cells are denied, for each supported machine.

Numbers only; `seccomp` decides which cell is denied which call, and with which error.
Source: arch/x86/entry/syscalls/syscall_64.tbl, include/uapi/asm-generic/unistd.h.
"""

from dataclasses import dataclass

# the same number on every machine: calls since Linux 5.1
_PIDFD_GETFD, _PROCESS_MADVISE, _MEMFD_SECRET = 438, 440, 447
_MARKING = (452, 463, 466)  # fchmodat2, setxattrat, removexattrat
_MOUNTS = (*range(428, 434), 442, 467)  # open_tree to fspick, mount_setattr, open_tree_attr
_QUOTACTL_FD = 443
IO_URING = (425, 426, 427)  # setup, enter, register
CLONE3 = 435


@dataclass(frozen=True)
class Calls:
    """System calls of one machine, in groups that are refused together."""

    audit_arch: int
    socket: int
    socketpair: int
    ioctl: int
    clone: int
    unshare: int
    execution: tuple[int, ...]  # execve, execveat
    memory_files: tuple[int, ...]  # memfd_create, memfd_secret
    marking: tuple[int, ...]  # chmod, chown, utime, setxattr, removexattr in all their forms
    administration: tuple[int, ...]  # mounts, modules, kexec, clocks, names, swap, quotas, logs
    kernel_doors: tuple[int, ...]  # keyrings, bpf, perf, userfaultfd: large and unneeded
    tracing: tuple[int, ...]  # ptrace and reading or changing another process's memory
    prying: tuple[int, ...]  # comparing and taking descriptors of another process
    ipc: tuple[int, ...]  # System V and POSIX queues, shared memory, semaphores
    of_a_process: tuple[int, ...]  # act on the process of their first argument; 0 is the caller
    of_a_class: tuple[
        int, ...
    ]  # first argument: process, group or user; second: which; 0 the caller's


_X86_64 = Calls(
    audit_arch=0xC000_003E,
    socket=41,
    socketpair=53,
    ioctl=16,
    clone=56,
    unshare=272,
    execution=(59, 322),
    memory_files=(319, _MEMFD_SECRET),
    marking=(
        *(90, 91, 268, 92, 93, 94, 260),  # chmod, fchmod, fchmodat; chown, fchown, lchown, fchownat
        *(132, 235, 261, 280),  # utime, utimes, futimesat, utimensat
        *(188, 189, 190, 197, 198, 199, *_MARKING),  # set- and removexattr
    ),
    administration=(
        *(165, 166, 155, 308, *_MOUNTS),  # mount, umount2, pivot_root, setns
        *(175, 313, 176, 246, 320),  # init_module, finit_module, delete_module, kexec (2)
        *(164, 227, 169, 170, 171),  # settimeofday, clock_settime, reboot, set the host's names
        *(167, 168, 163, 179, _QUOTACTL_FD),  # swapon, swapoff, acct, quotactl
        *(172, 173, 103, 153, 300, 304),  # iopl, ioperm, syslog, vhangup, fanotify, open_by_handle
    ),
    kernel_doors=(248, 249, 250, 321, 298, 323),  # add_key, request_key, keyctl, bpf, perf, uffd
    tracing=(101, 310, 311, _PROCESS_MADVISE),
    prying=(312, _PIDFD_GETFD),
    ipc=(*range(29, 32), *range(64, 72), 220, 240, 241),
    of_a_process=(
        302,
        203,
        142,
        144,
        314,
    ),  # prlimit64, sched_setaffinity, -param, -scheduler, -attr
    of_a_class=(141, 251),  # setpriority, ioprio_set
)
_AARCH64 = Calls(
    audit_arch=0xC000_00B7,
    socket=198,
    socketpair=199,
    ioctl=29,
    clone=220,
    unshare=97,
    execution=(221, 281),
    memory_files=(279, _MEMFD_SECRET),
    marking=(52, 53, 54, 55, 88, 5, 6, 7, 14, 15, 16, *_MARKING),
    administration=(
        *(40, 39, 41, 268, *_MOUNTS),
        *(105, 273, 106, 104, 294),
        *(170, 112, 142, 161, 162),
        *(224, 225, 89, 60, _QUOTACTL_FD),
        *(116, 58, 262, 265),
    ),
    kernel_doors=(217, 218, 219, 280, 241, 282),
    tracing=(117, 270, 271, _PROCESS_MADVISE),
    prying=(272, _PIDFD_GETFD),
    ipc=(*range(180, 198),),
    of_a_process=(261, 122, 118, 119, 274),
    of_a_class=(140, 30),
)
MACHINES = {"x86_64": _X86_64, "aarch64": _AARCH64}
