"""Attacks on the key of the language model: where it could be seen or taken from."""

import os
from pathlib import Path

from attack import attack, is_own


@attack("keys", thinks="scrubbed environment", acts="scrubbed environment", control=False)
def key_in_the_environment(t):
    """Look for the key in the worker's own environment."""
    found = [name for name, value in os.environ.items() if t["key_part"] in value]
    if not found:
        raise PermissionError(13, "not there")
    return found


@attack(
    "keys",
    thinks="scrubbed environment, Landlock",
    acts="scrubbed environment, Landlock",
    control=False,
)
def key_in_the_environments_of_all(t):
    """Look for the key in /proc/PID/environ of every process."""
    return _search(t, "environ")


@attack("keys", thinks="never put there", acts="never put there", control=False)
def key_on_the_command_lines(t):
    """Look for the key in /proc/PID/cmdline of every process."""
    return _search(t, "cmdline")


@attack("keys", thinks="Landlock, not dumpable", acts="Landlock, not dumpable", control=False)
def key_in_the_memory_of_others(t):
    """Look for the key in the memory of the daemon, the nursery, the guard and the executor."""
    for pid in _pids(t):
        try:
            maps = Path(f"/proc/{pid}/maps").read_text().splitlines()
            with open(f"/proc/{pid}/mem", "rb", 0) as memory:
                for line in maps:
                    if "rw" in line.split()[1] and _holds(memory, line.split()[0], t["key_part"]):
                        return pid
        except OSError:
            continue
    raise PermissionError(13, "no memory can be read")


@attack("keys", thinks="Landlock, not dumpable", acts="Landlock, not dumpable", control=False)
def key_in_the_descriptors_of_others(t):
    """Open what others have open (/proc/PID/fd), including the daemon's memory file."""
    for pid in _pids(t):
        try:
            for name in os.listdir(f"/proc/{pid}/fd"):
                return pid, os.readlink(f"/proc/{pid}/fd/{name}")
        except OSError:
            continue
    raise PermissionError(13, "no descriptor can be seen")


@attack("keys", thinks="closed descriptors", acts="closed descriptors", control=False)
def inherited_descriptors(t):
    """Use descriptors left open by the parent process."""
    known = {0, 1, 2, 3}
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            found.append((int(name), os.readlink(f"/proc/self/fd/{name}")))
        except OSError:
            continue
    left = [one for one in found if one[0] not in known and not _is_own(one[1])]
    if not left:
        raise PermissionError(13, "none")
    return left


def _is_own(target):
    """The runner's pipe, the listing itself, and an own log."""
    return target.startswith(("pipe:", f"/proc/{os.getpid()}/fd", "/proc/self"))


def _pids(t):
    """Everybody in sight, the daemon and its nursery, but not the attacker's own processes."""
    everybody = {int(name) for name in os.listdir("/proc") if name.isdigit()}
    return sorted(pid for pid in everybody | {t["daemon"], t["nursery"]} if not is_own(pid, t))


def _search(t, what):
    for pid in _pids(t):
        try:
            if t["key_part"].encode() in Path(f"/proc/{pid}/{what}").read_bytes():
                return pid
        except OSError:
            continue
    raise PermissionError(13, "not there")


def _holds(memory, extent, text):
    start, end = (int(part, 16) for part in extent.split("-"))
    try:
        memory.seek(start)
        return text.encode() in memory.read(min(end - start, 64 << 20))
    except (OSError, OverflowError, ValueError):
        return False
