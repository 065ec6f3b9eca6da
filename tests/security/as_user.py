"""Run a command as an ordinary user by number: `python as_user.py UID COMMAND …`, started by root.

Where this Python lies in folders of root's alone, they are made passable in a mount namespace of the command's.
"""

import os
import stat
import sys
from pathlib import Path

import clew_worker
from clew_worker.sandbox import kernel


def closed(path):
    """The uppermost folder above `path` that others cannot pass."""
    for folder in reversed(Path(path).parents):
        if not folder.stat().st_mode & stat.S_IXOTH:
            return folder
    return None


def open_up(paths):
    """Bind what is needed into empty folders in the place of those that are closed."""
    kernel.unshare(kernel.CLONE_NEWNS)
    kernel.mount("none", "/", "", kernel.MS_SLAVE | kernel.MS_REC)
    needed = {path: closed(path) for path in paths}
    held = {path: os.open(path, os.O_PATH) for path, folder in needed.items() if folder}
    for folder in {one for one in needed.values() if one}:
        kernel.mount("none", str(folder), "tmpfs", 0, "mode=755")
    for path, fd in held.items():
        Path(path).mkdir(parents=True, exist_ok=True)
        kernel.mount(f"/proc/self/fd/{fd}", path, "", kernel.MS_BIND | kernel.MS_REC)
        os.close(fd)


uid, command = int(sys.argv[1]), sys.argv[2:]
source = Path(clew_worker.__file__).parents[2]
needed = {os.path.realpath(one) for one in (sys.prefix, sys.base_prefix, source)}
open_up(sorted(one for one in needed if closed(one)))
os.umask(0o022)
os.setgroups([])
os.setresgid(uid, uid, uid)
os.setresuid(uid, uid, uid)
os.execv(command[0], command)
