"""Attacks on files: clew's own, other goals', the user's, and ways out of the workspace."""

import ctypes
import os
import stat
import struct
from functools import partial
from pathlib import Path

from attack import attack, attacks, first_of, syscall

LANDLOCK = "Landlock"
BOTH = "Landlock, mount namespace"
READ_ONLY = "Landlock, read-only mounts"
OWN, OTHER, USER, OUT = (
    "clew's own files", "other goals", "the user's files", "ways out of the workspace",
)  # fmt: skip


def overwrite(path):
    with open(path, "r+b") as file:
        file.write(b"attacked")
    return path


def append(path):
    with open(path, "a") as file:
        file.write("\n# attacked\n")


def create(folder):
    path = f"{folder}/attacked-{os.getpid()}"
    Path(path).write_text("attacked")
    return path


def plant_a_service(t):
    folder = f"{t['home']}/.config/systemd/user"
    os.makedirs(folder, exist_ok=True)
    return create(folder)


attacks(
    OWN, BOTH,
    ("read_the_ledger", "Read the ledger", lambda t: Path(t["ledger"]).read_bytes()[:16]),
    ("read_the_config", "Read config.toml", lambda t: Path(t["config"]).read_text()[:20]),
    ("read_the_inbox", "List the inbox", lambda t: os.listdir(t["inbox"])),
    ("forge_a_report", "Write a report into the outbox", lambda t: create(t["outbox"])),
    ("read_another_goals_file", "Read another goal's file as it was accepted",
     lambda t: Path(t["other_goal_file"]).read_text()),
)  # fmt: skip
attacks(
    OWN, BOTH,
    ("write_the_ledger", "Overwrite the head of the ledger", lambda t: overwrite(t["ledger"])),
    ("write_the_ledgers_log", "Overwrite the ledger's write-ahead log",
     lambda t: overwrite(t["ledger"] + "-wal")),
    ("empty_the_ledger", "Truncate the ledger to nothing", lambda t: os.truncate(t["ledger"], 0)),
    ("write_the_config", 'Append to config.toml, to set `mode = "off"`', lambda t: append(t["config"])),
    ("drop_a_goal", "Drop a goal file into the inbox",
     lambda t: Path(t["inbox"], "attacked.md").write_text("# attacked\n")),
    control=False,
)  # fmt: skip
attacks(
    OWN, "mount namespace",
    ("see_that_the_ledger_is_there", "Ask for the size of the ledger, which Landlock allows",
     lambda t: os.stat(t["ledger"]).st_size),
    where="pidns",
)  # fmt: skip
attacks(
    OTHER, BOTH,
    ("read_another_workspace", "Read a file in another goal's workspace",
     lambda t: Path(t["other_workspace"], "secret").read_text()),
    ("write_another_workspace", "Make a file in another goal's workspace",
     lambda t: create(t["other_workspace"])),
    ("read_another_home", "Read in another goal's private HOME", lambda t: os.listdir(t["other_private"])),
    ("list_the_workspaces", "List the folder of all workspaces",
     lambda t: os.listdir(os.path.dirname(t["other_workspace"]))),
)  # fmt: skip
attacks(
    USER, BOTH,
    ("read_an_ssh_key", "Read ~/.ssh/id_ed25519",
     lambda t: Path(t["home"], ".ssh", "id_ed25519").read_text()),
    ("let_somebody_in_by_ssh", "Append to ~/.ssh/authorized_keys",
     lambda t: append(f"{t['home']}/.ssh/authorized_keys")),
    ("plant_a_login_script", "Append to ~/.bashrc", lambda t: append(f"{t['home']}/.bashrc")),
    ("plant_a_service", "Make a unit in ~/.config/systemd/user", plant_a_service),
    ("write_in_the_shared_tmp", "Make a file in the machine's own /tmp, where other programs look",
     lambda t: create(t["shared_tmp"])),
)  # fmt: skip
outside = partial(attack, USER, thinks="seccomp", acts="read-only mounts", acts_where="pidns")


@outside()
def change_modes_outside(t):
    """Make a file of the user readable for everybody."""
    return os.chmod(f"{t['home']}/.ssh/id_ed25519", 0o644)


@outside()
def change_times_outside(t):
    """Set the times of a file of the user."""
    return os.utime(f"{t['home']}/.bashrc", (1, 1))


@attack(USER, thinks=LANDLOCK, acts=LANDLOCK, where="root")
def read_the_passwords(_):
    """As root: read /etc/shadow."""
    return len(Path("/etc/shadow").read_bytes())


@attack(USER, thinks=LANDLOCK, acts=LANDLOCK, where="root")
def read_private_files_of_the_system(t):
    """As root: read files in /etc that only root may read (host keys, credentials)."""
    for folder, _folders, names in os.walk("/etc"):
        for name in names:
            path = f"{folder}/{name}"
            info = os.lstat(path)
            if stat.S_ISREG(info.st_mode) and not info.st_mode & 0o004:
                try:
                    return path, len(Path(path).read_bytes())
                except PermissionError:
                    continue
    raise PermissionError(13, "none of them")


# -- ways out of the workspace


@attack(OUT, thinks=BOTH, acts=BOTH)
def by_dots(t):
    """Use `..` as often as needed."""
    os.chdir(t["workspace"])
    return Path("../" * 40 + t["home"][1:], ".ssh", "id_ed25519").read_text()


@attack(OUT, thinks=BOTH, acts=BOTH)
def by_a_hard_link(t):
    """A hard link in the workspace to a key outside."""
    path = f"{t['workspace']}/hard-{os.getpid()}"
    os.link(f"{t['home']}/.ssh/id_ed25519", path)
    return Path(path).read_text()


@attack(OUT, thinks=BOTH, acts=BOTH)
def by_exchanging(t):
    """Exchange a folder of the workspace with one outside (renameat2)."""
    own = f"{t['workspace']}/exchanged-{os.getpid()}"
    os.mkdir(own)
    other = ctypes.c_char_p(f"{t['home']}/exchangeable".encode())
    return syscall(316, 276, -100, ctypes.c_char_p(own.encode()), -100, other, 2)


attacks(
    OUT, BOTH,
    ("by_a_symbolic_link", "A link in the workspace that leads to a key",
     lambda t: Path(t["workspace"], "link-to-key").read_text()),
    ("by_renaming_into_it", "Move a folder of the user into the workspace",
     lambda t: os.rename(f"{t['home']}/movable", f"{t['workspace']}/movable-{os.getpid()}")),
    ("by_shared_memory", "Read a file of another program in /dev/shm",
     lambda t: Path(t["shm_file"]).read_text()),
)  # fmt: skip


@attack(OUT, thinks="Landlock, PID namespace", acts="Landlock, PID namespace")
def by_proc_root(t):
    """Through /proc/PID/root, /proc/PID/cwd of every process."""
    pids = (t["daemon"], t["nursery"], t["victim"], os.getppid(), 1, "self")
    doors = ("root" + t["home"], "cwd/../../../../../../../.." + t["home"])
    keys = [Path(f"/proc/{pid}/{door}/.ssh/id_ed25519") for pid in pids for door in doors]
    return first_of(key.read_text for key in keys)


@attack(OUT, thinks="seccomp, no capability", acts="seccomp, no capability", where="root")
def by_a_file_handle(t):
    """As root: open the ledger by its handle, past every path (open_by_handle_at)."""
    handle = ctypes.create_string_buffer(bytes.fromhex(t["ledger_handle"]), 256)
    at = os.open(t["workspace"], os.O_RDONLY)
    fd = syscall(304, 265, at, handle, os.O_RDONLY)
    return os.read(fd, 16)


@attack(OUT, thinks=LANDLOCK, acts=LANDLOCK, where="user")
def by_a_nameless_file(t):
    """Make a nameless file outside (O_TMPFILE) and give it a name there."""
    fd = os.open(f"{t['home']}/.config", os.O_TMPFILE | os.O_RDWR, 0o600)
    names = (f"/proc/self/fd/{fd}", f"{t['home']}/.config/attacked-{os.getpid()}")
    old, new = (ctypes.c_char_p(name.encode()) for name in names)
    return syscall(265, 37, -100, old, -100, new, 0x400)  # linkat, following the link


@attack(OUT, thinks="seccomp", acts="seccomp", control=False)
def by_cloning_a_namespace(_):
    """Fork into a user namespace (clone, clone3)."""
    try:
        pid = syscall(56, 220, 0x1000_0000 | 17, 0, 0, 0, 0)
    except OSError:
        arguments = struct.pack("11Q", 0x1000_0000, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0)
        pid = syscall(435, 435, ctypes.create_string_buffer(arguments, len(arguments)), 88)
    if pid == 0:
        os._exit(0)
    return pid


@attack(OUT, thinks=LANDLOCK, acts="Landlock, no capability", control=False)
def by_making_a_device(t):
    """Make a device node of the disk (mknod)."""
    os.mknod(f"{t['workspace']}/disk-{os.getpid()}", stat.S_IFBLK | 0o600, os.makedev(254, 0))


@attack(OUT, thinks=READ_ONLY, acts=READ_ONLY, control=False)
def by_the_control_groups(_):
    """Create a control group, or leave the current one."""
    bases = [Path("/sys/fs/cgroup", name) for name in ("", "unified", "pids")]
    leave = [partial((base / "cgroup.procs").write_text, str(os.getpid())) for base in bases]
    return first_of([*((base / "attacked").mkdir for base in bases), *leave])


@attack(OUT, thinks="Landlock, seccomp", acts="seccomp", control=False)
def by_a_bind_mount(t):
    """Mount the user's home over a folder of the workspace."""
    raw = (t["home"].encode(), f"{t['workspace']}/mount-a".encode())
    syscall(165, 40, *map(ctypes.c_char_p, raw), 0, 4096, 0)
    return os.listdir(raw[1])


@attack(OUT, thinks="Landlock, seccomp", acts="seccomp", control=False)
def by_a_user_namespace(_):
    """Become root in a user namespace, to mount there."""
    return syscall(272, 97, 0x1002_0000)


attacks(
    OUT, READ_ONLY,
    ("by_the_kernels_settings", "Write core_pattern, to have a program started by the kernel",
     lambda _: Path("/proc/sys/kernel/core_pattern").write_text("|/attacked")),
    ("by_preloading", "Write /etc/ld.so.preload",
     lambda _: Path("/etc/ld.so.preload").write_text("attacked")),
    control=False,
)  # fmt: skip
attacks(
    OUT, LANDLOCK,
    ("by_the_raw_disk", "Read the disk's own device", lambda t: os.read(os.open(t["disk"], os.O_RDONLY), 16)),
    control=False,
)  # fmt: skip
attacks(
    OUT, "no capability",
    ("by_chroot", "Change the root folder to one outside", lambda t: os.chroot(t["home"])),
    where="user",
    control=False,
)  # fmt: skip
