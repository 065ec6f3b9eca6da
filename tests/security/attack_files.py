"""Attacks on files: clew's own, other goals', the user's, and ways out of the workspace."""

import ctypes
import os
import stat
import struct
from pathlib import Path

from attack import attack, syscall

LANDLOCK = "Landlock"
BOTH = "Landlock, mount namespace"


def mine(t):
    """A folder that this role may write, or the workspace all the same."""
    return t["workspace"]


def overwrite(path):
    with open(path, "r+b") as file:
        file.write(b"attacked")
    return path


def create(folder):
    path = f"{folder}/attacked-{os.getpid()}"
    Path(path).write_text("attacked")
    return path


# -- clew's own folders


@attack("clew's own files", thinks=BOTH, acts=BOTH)
def read_the_ledger(t):
    """Read the ledger."""
    return Path(t["ledger"]).read_bytes()[:16]


@attack("clew's own files", thinks=BOTH, acts=BOTH, control=False)
def write_the_ledger(t):
    """Overwrite the head of the ledger."""
    return overwrite(t["ledger"])


@attack("clew's own files", thinks=BOTH, acts=BOTH, control=False)
def write_the_ledgers_log(t):
    """Overwrite the ledger's write-ahead log."""
    return overwrite(t["ledger"] + "-wal")


@attack("clew's own files", thinks=BOTH, acts=BOTH, control=False)
def empty_the_ledger(t):
    """Truncate the ledger to nothing."""
    return os.truncate(t["ledger"], 0)


@attack("clew's own files", thinks=BOTH, acts=BOTH)
def read_the_config(t):
    """Read config.toml."""
    return Path(t["config"]).read_text()[:20]


@attack("clew's own files", thinks=BOTH, acts=BOTH, control=False)
def write_the_config(t):
    """Append to config.toml, to set `mode = "off"`."""
    with open(t["config"], "a") as file:
        file.write("\n# attacked\n")


@attack("clew's own files", thinks=BOTH, acts=BOTH, control=False)
def drop_a_goal(t):
    """Drop a goal file into the inbox."""
    Path(t["inbox"], "attacked.md").write_text("# attacked\n")


@attack("clew's own files", thinks=BOTH, acts=BOTH)
def read_the_inbox(t):
    """List the inbox."""
    return os.listdir(t["inbox"])


@attack("clew's own files", thinks=BOTH, acts=BOTH)
def forge_a_report(t):
    """Write a report into the outbox."""
    return create(t["outbox"])


@attack("clew's own files", thinks=BOTH, acts=BOTH)
def read_another_goals_file(t):
    """Read another goal's file as it was accepted."""
    return Path(t["other_goal_file"]).read_text()


@attack("clew's own files", thinks="mount namespace", acts="mount namespace", where="pidns")
def see_that_the_ledger_is_there(t):
    """Ask for the size of the ledger, which Landlock allows."""
    return os.stat(t["ledger"]).st_size


# -- other goals


@attack("other goals", thinks=BOTH, acts=BOTH)
def read_another_workspace(t):
    """Read a file in another goal's workspace."""
    return Path(t["other_workspace"], "secret").read_text()


@attack("other goals", thinks=BOTH, acts=BOTH)
def write_another_workspace(t):
    """Make a file in another goal's workspace."""
    return create(t["other_workspace"])


@attack("other goals", thinks=BOTH, acts=BOTH)
def read_another_home(t):
    """Read in another goal's private HOME."""
    return os.listdir(t["other_private"])


@attack("other goals", thinks=BOTH, acts=BOTH)
def list_the_workspaces(t):
    """List the folder of all workspaces."""
    return os.listdir(os.path.dirname(t["other_workspace"]))


# -- the user's files


@attack("the user's files", thinks=BOTH, acts=BOTH)
def read_an_ssh_key(t):
    """Read ~/.ssh/id_ed25519."""
    return Path(t["home"], ".ssh", "id_ed25519").read_text()


@attack("the user's files", thinks=BOTH, acts=BOTH)
def let_somebody_in_by_ssh(t):
    """Append to ~/.ssh/authorized_keys."""
    with open(f"{t['home']}/.ssh/authorized_keys", "a") as file:
        file.write("attacked")


@attack("the user's files", thinks=BOTH, acts=BOTH)
def plant_a_login_script(t):
    """Append to ~/.bashrc."""
    with open(f"{t['home']}/.bashrc", "a") as file:
        file.write("attacked")


@attack("the user's files", thinks=BOTH, acts=BOTH)
def plant_a_service(t):
    """Make a unit in ~/.config/systemd/user."""
    folder = f"{t['home']}/.config/systemd/user"
    os.makedirs(folder, exist_ok=True)
    return create(folder)


@attack("the user's files", thinks=BOTH, acts=BOTH)
def write_in_the_shared_tmp(t):
    """Make a file in the machine's own /tmp, where other programs look."""
    return create(t["shared_tmp"])


@attack("the user's files", thinks="seccomp", acts="read-only mounts", acts_where="pidns")
def change_modes_outside(t):
    """Make a file of the user readable for everybody."""
    return os.chmod(f"{t['home']}/.ssh/id_ed25519", 0o644)


@attack("the user's files", thinks="seccomp", acts="read-only mounts", acts_where="pidns")
def change_times_outside(t):
    """Set the times of a file of the user."""
    return os.utime(f"{t['home']}/.bashrc", (1, 1))


@attack("the user's files", thinks=LANDLOCK, acts=LANDLOCK, where="root")
def read_the_passwords(_):
    """As root: read /etc/shadow."""
    return len(Path("/etc/shadow").read_bytes())


@attack("the user's files", thinks=LANDLOCK, acts=LANDLOCK, where="root")
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


@attack("ways out of the workspace", thinks=BOTH, acts=BOTH)
def by_dots(t):
    """Use `..` as often as needed."""
    os.chdir(t["workspace"])
    return Path("../" * 40 + t["home"][1:], ".ssh", "id_ed25519").read_text()


@attack("ways out of the workspace", thinks=BOTH, acts=BOTH)
def by_a_symbolic_link(t):
    """A link in the workspace that leads to a key."""
    return Path(t["workspace"], "link-to-key").read_text()


@attack("ways out of the workspace", thinks=BOTH, acts=BOTH)
def by_a_hard_link(t):
    """A hard link in the workspace to a key outside."""
    path = f"{mine(t)}/hard-{os.getpid()}"
    os.link(f"{t['home']}/.ssh/id_ed25519", path)
    return Path(path).read_text()


@attack("ways out of the workspace", thinks=BOTH, acts=BOTH)
def by_renaming_into_it(t):
    """Move a folder of the user into the workspace."""
    os.rename(f"{t['home']}/movable", f"{mine(t)}/movable-{os.getpid()}")


@attack("ways out of the workspace", thinks=BOTH, acts=BOTH)
def by_exchanging(t):
    """Exchange a folder of the workspace with one outside (renameat2)."""
    own = f"{mine(t)}/exchanged-{os.getpid()}"
    os.mkdir(own)
    other = ctypes.c_char_p(f"{t['home']}/exchangeable".encode())
    return syscall(316, 276, -100, ctypes.c_char_p(own.encode()), -100, other, 2)


@attack(
    "ways out of the workspace", thinks="Landlock, PID namespace", acts="Landlock, PID namespace"
)
def by_proc_root(t):
    """Through /proc/PID/root, /proc/PID/cwd of every process."""
    last = OSError(2, "none")
    for pid in (t["daemon"], t["nursery"], t["victim"], os.getppid(), 1, "self"):
        for door in ("root" + t["home"], "cwd/../../../../../../../.." + t["home"]):
            try:
                return Path(f"/proc/{pid}/{door}/.ssh/id_ed25519").read_text()
            except OSError as error:
                last = error
    raise last


@attack(
    "ways out of the workspace",
    thinks="seccomp, no capability",
    acts="seccomp, no capability",
    where="root",
)
def by_a_file_handle(t):
    """As root: open the ledger by its handle, past every path (open_by_handle_at)."""
    handle = ctypes.create_string_buffer(bytes.fromhex(t["ledger_handle"]), 256)
    at = os.open(t["workspace"], os.O_RDONLY)
    fd = syscall(304, 265, at, handle, os.O_RDONLY)
    return os.read(fd, 16)


@attack("ways out of the workspace", thinks=LANDLOCK, acts=LANDLOCK, where="user")
def by_a_nameless_file(t):
    """Make a nameless file outside (O_TMPFILE) and give it a name there."""
    fd = os.open(f"{t['home']}/.config", os.O_TMPFILE | os.O_RDWR, 0o600)
    names = (f"/proc/self/fd/{fd}", f"{t['home']}/.config/attacked-{os.getpid()}")
    old, new = (ctypes.c_char_p(name.encode()) for name in names)
    return syscall(265, 37, -100, old, -100, new, 0x400)  # linkat, following the link


@attack("ways out of the workspace", thinks="Landlock, seccomp", acts="seccomp", control=False)
def by_a_bind_mount(t):
    """Mount the user's home over a folder of the workspace."""
    for name in ("mount-a", "mount-b"):
        if os.path.isdir(f"{t['workspace']}/{name}"):
            break
    raw = (t["home"].encode(), f"{t['workspace']}/{name}".encode())
    syscall(165, 40, *map(ctypes.c_char_p, raw), 0, 4096, 0)
    return os.listdir(raw[1])


@attack("ways out of the workspace", thinks="Landlock, seccomp", acts="seccomp", control=False)
def by_a_user_namespace(t):
    """Become root in a user namespace, to mount there."""
    syscall(272, 97, 0x1002_0000)
    return "unshared"


@attack("ways out of the workspace", thinks="seccomp", acts="seccomp", control=False)
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


@attack(
    "ways out of the workspace",
    thinks="no capability",
    acts="no capability",
    where="user",
    control=False,
)
def by_chroot(t):
    """Change the root folder to one outside."""
    os.chroot(t["home"])


@attack("ways out of the workspace", thinks=LANDLOCK, acts="Landlock, no capability", control=False)
def by_making_a_device(t):
    """Make a device node of the disk (mknod)."""
    os.mknod(f"{mine(t)}/disk-{os.getpid()}", stat.S_IFBLK | 0o600, os.makedev(254, 0))


@attack("ways out of the workspace", thinks=LANDLOCK, acts=LANDLOCK, control=False)
def by_the_raw_disk(t):
    """Read the disk's own device."""
    return os.read(os.open(t["disk"], os.O_RDONLY), 16)


@attack(
    "ways out of the workspace",
    thinks="Landlock, read-only mounts",
    acts="Landlock, read-only mounts",
    control=False,
)
def by_the_kernels_settings(_):
    """Write core_pattern, to have a program started by the kernel."""
    Path("/proc/sys/kernel/core_pattern").write_text("|/attacked")


@attack(
    "ways out of the workspace",
    thinks="Landlock, read-only mounts",
    acts="Landlock, read-only mounts",
    control=False,
)
def by_the_control_groups(_):
    """Create a control group, or leave the current one."""
    last = OSError(2, "no control groups")
    for base in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/pids"):
        try:
            os.mkdir(f"{base}/attacked")
            return base
        except OSError as error:
            last = error
        try:
            Path(f"{base}/cgroup.procs").write_text(str(os.getpid()))
            return base
        except OSError as error:
            last = error
    raise last


@attack(
    "ways out of the workspace",
    thinks="Landlock, read-only mounts",
    acts="Landlock, read-only mounts",
    control=False,
)
def by_preloading(_):
    """Write /etc/ld.so.preload."""
    Path("/etc/ld.so.preload").write_text("attacked")


@attack("ways out of the workspace", thinks=BOTH, acts=BOTH)
def by_shared_memory(t):
    """Read a file of another program in /dev/shm."""
    return Path(t["shm_file"]).read_text()
