"""The surroundings that the main job is done in: each one named, each one a context manager that gives `Ways`.

A new one is a line in `PLAIN` where a shell's words before the command line make it, else a function below.
What cannot be made on this machine is skipped with the reason.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import as_user
import pytest
from main_job import Ways

UID = 54_321
"""An ordinary user that nothing else on the machine is."""


@dataclass(frozen=True)
class Environment:
    """Surroundings by name; `sample` marks those that are tried in every run of the tests."""

    name: str
    make: Callable[[Path], AbstractContextManager[Ways]]
    sample: bool = False


ALL: list[Environment] = []


def environment(name: str, *, sample: bool = False) -> Callable:
    """Add a function that makes surroundings in a folder to the matrix."""

    def added(make: Callable[[Path], Iterator[Ways]]) -> Callable:
        ALL.append(Environment(name, contextmanager(make), sample))
        return make

    return added


# -- what stands before a command line


def sh(words: str) -> tuple[str, ...]:
    """A shell that does something and then becomes the command."""
    return ("/bin/sh", "-c", f'{words}\nexec "$@"', "sh")


def env(*words: str) -> tuple[str, ...]:
    """The command with variables set (`A=b`) and removed (`-u A`)."""
    return ("/usr/bin/env", *words)


def user() -> tuple[str, ...]:
    """The command as an ordinary user; only root can become one."""
    if reason := as_user.reason_to_skip():
        pytest.skip(reason)
    return (sys.executable, as_user.__file__, str(UID))


def tried(*words: str) -> tuple[str, ...]:
    """Words before a command line, where they work on this machine."""
    if not shutil.which(words[0]):
        pytest.skip(f"there is no {words[0]} here")
    done = subprocess.run([*words, "/bin/true"], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"{' '.join(words)} does not work here: {done.stderr.strip()}")
    return words


@contextmanager
def mounted(*words: str) -> Iterator[None]:
    """Something mounted while it lasts; only root can."""
    if os.geteuid() != 0:
        pytest.skip("only root mounts")
    done = subprocess.run(["mount", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"may not mount here: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", words[-1]], check=True)


# -- what daemon and commands have alike

STREAMS = {"stdin": "exec <&-", "stdout": "exec >&-", "stderr": "exec 2>&-"}

PLAIN: list[tuple[str, tuple[str, ...]]] = [
    ("nothing but the ordinary", ()),
    ("an empty environment", env("-i")),
    ("an empty PATH", sh("PATH=; export PATH")),
    ("no HOME", env("-u", "HOME")),
    ("a HOME that is not there", env("HOME=/nowhere/at/all")),
    ("a HOME that is a file", env("HOME=/etc/passwd")),
    ("a relative HOME", env("HOME=home")),
    ("a TMPDIR that is not there", env("TMPDIR=/nowhere/at/all")),
    ("a locale of 7 bits", env("LC_ALL=C", "LANG=C", "PYTHONUTF8=0", "PYTHONCOERCECLOCALE=0")),
    ("a locale that is none", env("LC_ALL=xx_YY.nonsense", "LANG=nonsense")),
    ("a time zone that is none", env("TZ=Nowhere/Nothing")),
    ("umask 077", sh("umask 077")),
    ("umask 777", sh("umask 777")),
    ("64 descriptors", sh("ulimit -n 64")),
    ("8 GB of addresses", sh("ulimit -v 8000000")),
    ("files of at most 16 MB", sh("ulimit -f 32768")),
    ("a working directory that is gone", sh('cd "$(mktemp -d)" && rmdir "$PWD"')),
    (
        "a working directory that is renamed",
        sh("d=$(mktemp -d); mkdir $d/a; cd $d/a; mv $d/a $d/b; rm -r $d"),
    ),
    ("no stdin", sh("exec <&-")),
    ("nohup", ("/usr/bin/nohup",)),
    ("signals ignored", sh("trap '' HUP INT QUIT TERM PIPE CHLD USR1 USR2")),
]


def _plain(name: str, words: tuple[str, ...]) -> None:
    @environment(name)
    def alike(base: Path) -> Iterator[Ways]:
        yield Ways(daemon=words, client=words)


for _name, _words in PLAIN:
    _plain(_name, _words)


# -- streams of the daemon

for _mask in range(1, 8):
    _closed = [name for bit, name in enumerate(STREAMS) if _mask >> bit & 1]

    @environment(f"a daemon without {' and '.join(_closed)}")
    def streams(base: Path, closed: tuple[str, ...] = tuple(_closed)) -> Iterator[Ways]:
        yield Ways(daemon=sh("\n".join(STREAMS[name] for name in closed)))


@environment("a daemon whose output goes to a full disk")
def full_output(base: Path) -> Iterator[Ways]:
    yield Ways(daemon=sh("exec >/dev/full 2>&1"))


@environment("a daemon whose output nobody reads")
def unread_output(base: Path) -> Iterator[Ways]:
    pipe = base / "pipe"
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        yield Ways(daemon=sh(f"exec >'{pipe}' 2>&1"))
    finally:
        os.close(reading)


@environment("a daemon whose reader has gone")
def broken_pipe(base: Path) -> Iterator[Ways]:
    pipe = base / "pipe"
    os.mkfifo(pipe)
    yield Ways(daemon=sh(f"exec 3<>'{pipe}' >'{pipe}' 2>&1 3>&-"))


# -- the folders of XDG: what daemon and client may see differently

RUNTIME = {
    "the same runtime folder": ("RUN", "RUN"),
    "no runtime folder": (None, None),
    "no runtime folder for the client": ("RUN", None),
    "no runtime folder for the daemon": (None, "RUN"),
    "another runtime folder for the client": ("RUN", "ANOTHER"),
    "a runtime folder that is not there": ("ABSENT", "ABSENT"),
    "a runtime folder that is relative": ("relative", "relative"),
    "an empty runtime folder's name": ("", ""),
}

for _name, _seen in RUNTIME.items():

    @environment(_name)
    def runtime(base: Path, seen: tuple = _seen) -> Iterator[Ways]:
        for name in ("RUN", "ANOTHER"):
            (base / name).mkdir(mode=0o700)
        words = [
            env(
                *("-u", "XDG_CONFIG_HOME", "-u", "XDG_DATA_HOME", "-u", "XDG_STATE_HOME"),
                *(("-u", "XDG_RUNTIME_DIR") if one is None else ()),
                f"HOME={base / 'user'}",
                *(() if one is None else (f"XDG_RUNTIME_DIR={runtime_folder(base, one)}",)),
            )
            for one in seen
        ]
        yield Ways(*words, xdg=base / "user")


def runtime_folder(base: Path, name: str) -> str:
    return str(base / name) if name.isupper() else name


# -- users


@environment("an ordinary user")
def ordinary(base: Path) -> Iterator[Ways]:
    yield Ways(user(), user(), owner=UID)


@environment("root's commands on a user's daemon")
def root_client(base: Path) -> Iterator[Ways]:
    yield Ways(daemon=user(), owner=UID)


@environment("no user namespaces")
def no_user_namespaces(base: Path) -> Iterator[Ways]:
    # the limit of a user namespace is its own: the machine's is left alone
    off = "echo 0 > /proc/sys/user/max_user_namespaces; exec setpriv --bounding-set=-all"
    yield Ways(daemon=tried("unshare", "-r", "/bin/sh", "-c", f'{off} "$@"', "sh"))


# -- namespaces


@environment("a user namespace of root's")
def user_namespace(base: Path) -> Iterator[Ways]:
    words = tried("unshare", "-r")
    yield Ways(words, words)


@environment("a PID namespace of the daemon's")
def pid_namespace(base: Path) -> Iterator[Ways]:
    yield Ways(daemon=tried("unshare", "-pf", "--kill-child"))


@environment("a PID namespace with its own /proc")
def pid_namespace_proc(base: Path) -> Iterator[Ways]:
    yield Ways(daemon=tried("unshare", "-pf", "--kill-child", "--mount-proc"))


@environment("no network")
def no_network(base: Path) -> Iterator[Ways]:
    words = tried("unshare", "-n")
    yield Ways(daemon=words)


@environment("a /proc that hides the processes of others from an ordinary user")
def hidepid(base: Path) -> Iterator[Ways]:
    words = (*_in_mounts("mount -t proc -o hidepid=2 proc /proc"), *user())
    yield Ways(words, words, owner=UID)


@environment("a read-only machine but for the home and the workspace")
def read_only_machine(base: Path) -> Iterator[Ways]:
    words = _in_mounts(f"mount --bind '{base}' '{base}' && mount -o remount,bind,ro /")
    yield Ways(words, words)


@environment("a TMPDIR that is full")
def full_tmpdir(base: Path) -> Iterator[Ways]:
    folder = base / "full"
    folder.mkdir()
    with mounted("-t", "tmpfs", "-o", "size=64k", "none", str(folder)):
        with contextlib.suppress(OSError):
            (folder / "full").write_bytes(bytes(1_000_000))
        words = env(f"TMPDIR={folder}")
        yield Ways(words, words)


def _in_mounts(words: str) -> tuple[str, ...]:
    """A mount namespace of the command's own, with something done in it first."""
    if os.geteuid() != 0:
        pytest.skip("only root mounts")
    tried("unshare", "-m")
    done = subprocess.run(
        ["unshare", "-m", "/bin/sh", "-c", f"({words}) && true"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"may not mount here: {done.stderr.strip()}")
    return ("unshare", "-m", *sh(words))


# -- where the home lies

NAMES = {
    "a path with spaces": "a folder of mine",
    "a path with quotes and a dollar": 'it\'s "$HOME" `x`',
    "a path with a line break": "line\nbreak",
    "a path that is not ASCII": "Zoë 測試 🧵",
    "a path with per cent and braces": "100%s{}%h",
    "a path that begins with a dash": "-n",
    "a path too long for a socket": "/".join("long" * 12 for _ in range(4)),
}

for _name, _folder in NAMES.items():

    @environment(_name)
    def named(base: Path, folder: str = _folder) -> Iterator[Ways]:
        yield Ways(folder=folder)


@environment(
    "everything odd at once: streams, environment and a path too long for a socket", sample=True
)
def odd(base: Path) -> Iterator[Ways]:
    words = env("-i", "LANG=C", "TZ=:/dev/null", "HOME=/dev/null", "TMPDIR=/proc", "PATH=")
    closed = sh("\n".join(STREAMS.values()))
    yield Ways((*words, *closed), words, folder=NAMES["a path too long for a socket"])


@environment("a home by a link")
def linked(base: Path) -> Iterator[Ways]:
    (base / "link").symlink_to(base / "home")
    yield Ways(home=str(base / "link"))


@environment("a home by a relative path")
def relative(base: Path) -> Iterator[Ways]:
    yield Ways(sh(f"cd '{base}'"), sh(f"cd '{base}'"), home="./home/../home")


@environment("a home that is a bind mount")
def bound(base: Path) -> Iterator[Ways]:
    for name in ("real", "bound"):
        (base / name).mkdir()
    with mounted("--bind", str(base / "real"), str(base / "bound")):
        yield Ways(folder="real", home=str(base / "bound" / "home"))


@environment("all of it on a tmpfs")
def on_tmpfs(base: Path) -> Iterator[Ways]:
    (base / "tmpfs").mkdir()
    with mounted("-t", "tmpfs", "none", str(base / "tmpfs")):
        yield Ways(folder="tmpfs")


PIECES = ("inbox", "outbox", "state", "run", "workspaces")

for _piece in PIECES:

    @environment(f"{_piece} on a tmpfs of its own")
    def piece(base: Path, name: str = _piece) -> Iterator[Ways]:
        folder = base / "home" / name
        folder.mkdir(parents=True, mode=0o700)
        with mounted("-t", "tmpfs", "-o", "mode=700", "none", str(folder)):
            yield Ways()

    @environment(f"{_piece} behind a link")
    def linked_piece(base: Path, name: str = _piece) -> Iterator[Ways]:
        (base / "home").mkdir()
        (base / "elsewhere").mkdir(mode=0o700)
        (base / "home" / name).symlink_to(base / "elsewhere")
        yield Ways()


@environment("a workspace on a tmpfs of its own")
def workspace_on_tmpfs(base: Path) -> Iterator[Ways]:
    (base / "ws").mkdir()
    with mounted("-t", "tmpfs", "none", str(base / "ws")):
        yield Ways()


# -- where clew itself lies


@environment("a clone in a folder of the user's alone, under a path with spaces")
def private_clone(base: Path) -> Iterator[Ways]:
    clone = base / "a private place" / "clone"
    root = Path(__file__).parents[2]
    for name in ("daemon", "shared", "worker"):
        shutil.copytree(root / name, clone / name, ignore=shutil.ignore_patterns("__pycache__"))
    clone.parent.chmod(0o700)
    paths = ":".join(str(clone / name) for name in ("daemon", "shared", "worker"))
    words = env(f"PYTHONPATH={paths}")
    yield Ways(words, words)
