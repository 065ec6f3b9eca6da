"""Which paths a cell may use, and which stay hidden from it whatever else is allowed; what a foreign command needs.

Paths in, Landlock grants out; it reads folders, `#!` lines and ELF program headers, but restricts nothing.
"""

import contextlib
import os
import shutil
import stat
import struct
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import clew_shared
from clew_shared.wire.nursery import CellSpec
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
    needs = package if spec.kind == "cli" else folders
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
    """Return what in `folder` not all users may read: root's cells, which could, must get no grant for it."""
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
        started += (*helpers(spec.argv[0]), own_python())
    path = spec.env.get("PATH", os.defpath)
    return [one for name in started for one in chain(name, spec.cwd, path)]


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


# ---- the programs of a command (to execute), and its folders (to read)

_DEPTH_MAX = 5  # scripts whose interpreter is a script, as the kernel allows
_PT_INTERP = 3
_HEAD_BYTES = 4096
_NPM_MACHINE = {"x86_64": "x64", "aarch64": "arm64"}.get(os.uname().machine, "x64")


def program(name: str, cwd: str, path: str) -> str | None:
    """Return the path of a command's program as execvp would find it; None if there is none."""
    if "/" in name:
        full = os.path.join(cwd, name)  # noqa: PTH118 - an absolute name stays as it is
        return full if os.access(full, os.X_OK) else None
    return shutil.which(name, path=path)


def obstacle(name: str, cwd: str, path: str) -> str:
    """Return why a program cannot be started, "" where nothing speaks against it."""
    found = chain(name, cwd, path)
    if not found:
        return f"{name}: not found, or not executable"
    for one in found:
        if not os.access(one, os.X_OK):
            what = "is not executable" if os.path.lexists(one) else "does not exist"
            return f"{found[0]} needs {one}, which {what}"
        _, wanted = _script(_head(one))
        if wanted and not shutil.which(wanted, path=path):
            return f"{one} needs {wanted}, which is not on the PATH of the daemon"
    return ""


def own_python() -> str:
    """Return the file of the running Python: no link, and not that of a virtual environment."""
    base = getattr(sys, "_base_executable", "") or sys.executable
    return os.path.realpath(base)


def native(name: str) -> str:
    """Return the program that an npm package's script starts, or `name` where it is no such script.

    A package with programs for several machines has a package for each, `NAME-linux-x64`: beside it, or in its own
    node_modules where it was installed with `npm install -g`. Started directly, the program needs no Node, and no
    other program may be executed.
    """
    real = os.path.realpath(name)
    if is_elf(real):
        return real
    found_in = _npm_package(Path(real))
    if found_in is None:
        return name
    program, own = Path(name).stem, found_in / "node_modules"
    found = [
        path
        for place in (own / found_in.parent.name, own, found_in.parent)
        for stem in (found_in.name, program)
        for folder in sorted(place.glob(f"{stem}-linux-{_NPM_MACHINE}*"))
        for path in sorted(folder.rglob(program))
        if is_elf(path) and os.access(path, os.X_OK)
    ]
    return str(found[0]) if found else name


def helpers(name: str) -> list[str]:
    """Return the programs beside a program for its own use, NAME-ANYTHING, such as Codex's `codex-code-mode-host`."""
    real = Path(os.path.realpath(name))
    if _npm_package(real) is None:
        return []
    return [str(path) for path in sorted(real.parent.glob(f"{real.name}-*")) if is_elf(path)]


def is_elf(path: str | Path) -> bool:
    """Return whether a file is a program of the system's own kind."""
    return _head(path).startswith(b"\x7fELF")


def _head(path: str | Path) -> bytes:
    with contextlib.suppress(OSError), Path(path).open("rb") as file:
        return file.read(_HEAD_BYTES)
    return b""


def _elf_loader(head: bytes) -> str | None:
    """Return the loader (PT_INTERP) of a 64-bit little-endian ELF file."""
    if head[:6] != b"\x7fELF\x02\x01":
        return None
    # not all of the table is in the head, or it is no table
    with contextlib.suppress(struct.error, ValueError, OverflowError):
        table, size, count = struct.unpack_from("<Q14xHH", head, 32)
        for at in range(table, table + size * count, size):
            kind, _, offset, _, _, length = struct.unpack_from("<IIQQQQ", head, at)
            if kind == _PT_INTERP:
                return head[offset : offset + length].rstrip(b"\0").decode(errors="replace")
    return None


def _script(head: bytes) -> tuple[str, str]:
    """Return the interpreter in a `#!` line, and with env the program that env would start; "" where there is none."""
    line = head.split(b"\n", 1)[0]
    words = line[2:].decode(errors="replace").split() if line.startswith(b"#!") else []
    if not words or Path(words[0]).name != "env":
        return (words[0] if words else ""), ""
    named = (word for word in words[1:] if not word.startswith("-") and "=" not in word)
    return words[0], next(named, "")


def chain(name: str, cwd: str, path: str) -> list[str]:
    """Return every file that must be executable for the command to start, including the loader."""
    start = program(name, cwd, path)
    todo = [start] if start else []
    found: list[str] = []
    for _ in range(_DEPTH_MAX):
        found += todo
        heads, todo = [_head(one) for one in todo], []
        for head in heads:
            interpreter, wanted = _script(head)
            target = shutil.which(wanted, path=path) if wanted else None
            todo += [one for one in (interpreter, target, _elf_loader(head)) if one]
    return found


def _python_prefixes(executable: str) -> list[str]:
    """Return the prefix of a Python and, for a virtual environment, that of its base Python; [] for other programs."""
    if not Path(executable).name.startswith("python"):
        return []
    prefix = Path(executable).parent.parent
    config, found = prefix / "pyvenv.cfg", list[Path]()
    if config.is_file():
        lines = (line.partition("=") for line in config.read_text(errors="replace").splitlines())
        homes = (value.strip() for key, _, value in lines if key.strip() == "home")
        found = [prefix, *(Path(home).parent for home in homes)]
    elif any(prefix.glob("lib/python3*")):
        found = [prefix]
    return [str(folder) for folder in found if str(folder) != "/"]


def _npm_package(path: Path) -> Path | None:
    found = next((p for p in path.parents if (p / "package.json").is_file()), None)
    return found if found is not None and "node_modules" in found.parts else None


def package(argv: Sequence[str], cwd: str, path: str) -> list[str]:
    """Return the files that a program consists of, with the npm package that it is in, and no more of their folders."""
    found: list[str] = []
    for one in chain(argv[0], cwd, path):
        real = os.path.realpath(one)
        inside = _npm_package(Path(real))
        found += [one, real, *([str(inside)] if inside else []), *_python_prefixes(real)]
    return found


def folders(argv: Sequence[str], cwd: str, path: str) -> list[str]:
    """Return the folders of the paths in a command, and the prefixes of a Python that it starts."""
    found: list[str] = []
    for name in chain(argv[0], cwd, path) if argv else ():
        for one in (name, os.path.realpath(name)):
            found += [str(Path(one).parent), *_python_prefixes(one)]
    for word in argv[1:]:
        full = Path(cwd, word)
        if "/" in word and os.path.exists(full):  # noqa: PTH110 - of a script that is too long for a path, too
            found.append(str(full if full.is_dir() else full.parent))
    return found
