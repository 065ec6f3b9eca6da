"""Which paths a cell may use, and which stay hidden from it whatever else is allowed.

Paths in, Landlock grants out; it reads folders but restricts nothing.
"""

import os
import stat
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import clew_shared
from clew_shared.wire.nursery import CellSpec
from clew_worker.sandbox import interpreter
from clew_worker.sandbox.landlock import DEVICE, READ, WRITE, Grant, Right

SYSTEM = (
    *("/usr", "/lib", "/lib32", "/lib64", "/libx32", "/bin", "/sbin", "/etc", "/opt"),
    *("/nix", "/gnu", "/snap", "/proc", "/sys", "/var/lib/ca-certificates"),
    "/run/current-system",  # a link: where NixOS and Guix have their programs
)
SETTINGS = "/etc"
_FOR_ALL = stat.S_IROTH | stat.S_IXOTH
_LINKED_FILES = ("/etc/resolv.conf", "/etc/localtime")  # may lead to /run
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
PRIVATE_SHM = "/dev/shm"  # noqa: S108 - only where the cell has a /dev/shm of its own


class TooManyPathsError(Exception):
    """A granted folder around a hidden one has more entries than can be granted one by one."""


_ENTRIES_MAX = 50_000


def is_within(path: str, folder: str) -> bool:
    """Return whether `path` is `folder` or lies in it; both absolute and resolved."""
    return folder in (path, "/") or path.startswith(folder + "/")


def beside(path: str, hidden: Iterable[str]) -> Iterator[str]:
    """Yield `path`, or where hidden folders lie in it, everything in it beside them."""
    if any(is_within(path, secret) for secret in hidden):
        return
    inside = [secret for secret in hidden if is_within(secret, path)]
    if not inside:
        yield path
        return
    try:
        entries = [entry.path for entry in os.scandir(path) if not entry.is_symlink()]
    except OSError:
        return
    if len(entries) > _ENTRIES_MAX:
        raise TooManyPathsError(
            f"{path} contains a folder that is hidden from workers ({inside[0]}) and more than "
            f"{_ENTRIES_MAX} others; name narrower paths in [sandbox] read, or move one of them"
        )
    for entry in entries:
        yield from beside(entry, inside)


def python_folders() -> list[str]:
    """Return the folders of the running Python, and clew's source roots, which Python lists in an editable install."""
    roots = (Path(__file__).parents[2], Path(clew_shared.__file__).parents[1])
    return [sys.prefix, sys.base_prefix, *map(str, roots)]


def visible(spec: CellSpec) -> list[str]:
    """Return all paths that the cell may read, without regard to hidden ones; links are not resolved."""
    box = spec.sandbox
    path = spec.env.get("PATH", os.defpath)
    needs = interpreter.package if spec.kind == "cli" else interpreter.folders
    command = needs(spec.argv, spec.cwd, path)
    git = (spec.git,) if spec.git else ()
    return [*SYSTEM, *_LINKED_FILES, *python_folders(), *command, *git, *box.read]


def writable(spec: CellSpec) -> tuple[str, ...]:
    """Return which of its own folders the cell may write: all, of a coding agent's CLI the private ones, or none."""
    if spec.kind == "cli":
        return spec.sandbox.private
    return own_folders(spec) if may_write(spec) else ()


def may_write(spec: CellSpec) -> bool:
    """Return whether this cell acts (an executor, an own-tools command) or only thinks."""
    return spec.kind == "executor" or (spec.kind == "command" and spec.sandbox.own_tools)


def private_to_root(folder: str) -> list[str]:
    """Return the files and folders in `folder` that are not readable by all users: host keys, passwords.

    Root may read them whatever their mode is, so its cells must get no grant for them.
    """
    found: list[str] = []
    todo = [folder]
    while todo:
        try:
            with os.scandir(todo.pop()) as entries:
                here = [(e, e.stat(follow_symlinks=False)) for e in entries if not e.is_symlink()]
        except OSError:
            continue
        for entry, info in here:
            needed = _FOR_ALL if stat.S_ISDIR(info.st_mode) else stat.S_IROTH
            if info.st_mode & needed != needed:
                found.append(entry.path)
            elif stat.S_ISDIR(info.st_mode):
                todo.append(entry.path)
    return found


def own_folders(spec: CellSpec) -> tuple[str, ...]:
    """Return the folders that are the cell's own, even where they lie in a hidden one."""
    box = spec.sandbox
    store = (box.store,) if box.store and spec.kind == "executor" else ()
    return (box.workspace, *box.private, *store)


def _programs(spec: CellSpec) -> list[str]:
    """Return the files that a cell which does not act may execute."""
    if spec.kind not in ("command", "cli"):
        return []
    started = spec.argv[:1]
    if spec.kind == "cli":
        started += (*interpreter.helpers(spec.argv[0]), interpreter.own_python())
    path = spec.env.get("PATH", os.defpath)
    return [one for name in started for one in interpreter.chain(name, spec.cwd, path)]


def grants(spec: CellSpec, *, private_shm: bool) -> list[Grant]:
    """Return what the cell may do, as docs/security.md ("Mechanisms") promises."""
    acts = may_write(spec)
    hidden = sorted({os.path.realpath(path) for path in spec.sandbox.hide})
    found: list[Grant] = [(device, DEVICE) for device in _DEVICES]
    if os.geteuid() == 0:
        if not any(is_within(secret, SETTINGS) for secret in hidden):
            found.append((SETTINGS, Right.READ_DIR))  # as any user may list it
        hidden += private_to_root(SETTINGS)

    def grant(path: str, rights: Right, hidden: list[str] = hidden) -> None:
        found.extend((one, rights) for one in beside(os.path.realpath(path), hidden))

    read, write = (one | Right.EXECUTE if acts else one for one in (READ, WRITE))
    for path in visible(spec):
        grant(path, read)
    written = {os.path.realpath(path) for path in writable(spec)}
    for path in map(os.path.realpath, own_folders(spec)):
        others = [secret for secret in hidden if not is_within(path, secret)]
        grant(path, write if path in written else READ, others)
    if not acts:
        return [*found, *((one, Right.EXECUTE | Right.READ_FILE) for one in _programs(spec))]
    for path in spec.sandbox.write:
        grant(path, write)
    return [*found, (PRIVATE_SHM, WRITE)] if private_shm else found
