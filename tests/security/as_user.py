"""Run a command as an ordinary user by number: `python as_user.py UID COMMAND …`, started by root.

Where this Python or clew lies in folders of root's alone, they are made passable in a mount namespace of the
command's. UID 0 stays root, for a command that becomes another user itself.
"""

import ctypes
import os
import stat
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[2]
CLONE_NEWNS, MS_BIND, MS_REC, MS_SLAVE = 1 << 17, 1 << 12, 1 << 14, 1 << 19
PLACES = sorted({Path(os.path.realpath(one)) for one in (sys.prefix, sys.base_prefix, SOURCE)})


def reason_to_skip():
    """Say why nothing can be run as an ordinary user here, "" where it can."""
    if os.geteuid() != 0:
        return "needs root, to become an ordinary user"
    samples = [
        SOURCE / "worker/clew_worker/__init__.py",
        Path(__file__),
        *Path(sys.prefix).rglob("apsw/*.py*"),
    ]
    closed_files = [path for path in samples if not path.stat().st_mode & stat.S_IROTH]
    return f"others may not read {closed_files[0]}" if closed_files else ""


def passable(folder):
    return bool(folder.stat().st_mode & stat.S_IXOTH)


def closed(path):
    """The uppermost folder above `path` that others cannot pass."""
    return next((folder for folder in reversed(path.parents) if not passable(folder)), None)


def needed(place):
    """What must be reached of a folder: itself, or what is in it where it is closed itself."""
    return [place] if passable(place) else sorted(place.iterdir())


def call(name, *args):
    """Make a system call; its module in clew would take ten times as long to import as this program runs."""
    args = [one.encode() if isinstance(one, str) else one for one in args]
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*args):
        raise OSError(ctypes.get_errno(), f"{name}{args}")


def open_up(paths):
    """Bind what is needed into empty folders in the place of those that are closed."""
    call("unshare", CLONE_NEWNS)
    call("mount", "none", "/", "", MS_SLAVE | MS_REC, None)
    held = {path: os.open(path, os.O_PATH) for path in paths}
    kinds = {path: path.is_dir() for path in paths}
    for folder in {closed(path) for path in paths}:
        call("mount", "none", str(folder), "tmpfs", 0, "mode=755")
    for path, fd in held.items():
        (path if kinds[path] else path.parent).mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.touch()
        call("mount", f"/proc/self/fd/{fd}", str(path), "", MS_BIND | MS_REC, None)
        os.close(fd)


def main(uid, command):
    paths = {path for place in PLACES for path in needed(place)}
    if command[0].startswith("/"):
        paths.add(Path(command[0]).resolve())
    if shut := sorted(path for path in paths if closed(path)):
        open_up(shut)
    os.umask(0o022)
    if uid:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    os.execv(command[0], command)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
