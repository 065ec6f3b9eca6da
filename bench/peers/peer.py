"""One supervisor under test: a row of the table in `roster`, and how it is started, looked at and stopped."""

import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from bench import processes
from bench.home import wait_for
from bench.peers.ready import ReadyPipe

CHILD = Path(__file__).parent / "child.py"
OUTPUT_BYTES_MAX = 256 << 20
STOP_S = 20.0
STEERING = ("CLEW_", "NOTIFY_", "PM2_", "pm_", "PYTHON")
"""Beginnings of variables that steer clew, a service manager or a peer: no peer inherits them."""


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """A program to keep up."""

    name: str
    kind: str
    pipe: Path

    @property
    def argv(self) -> list[str]:
        return [sys.executable, "-I", "-B", str(CHILD), self.name, str(self.pipe), self.kind]


@dataclass(frozen=True)
class Row:
    """What differs between supervisors.

    `install` returns the folder of their programs and the version; `configure` writes the files for these children.
    In `command` and `env`, `{bin}` is the folder of programs and `{folder}` the supervisor's own.
    """

    key: str
    setting: str  # what keeps a child up, and the defaults that its restart depends on
    install: Callable[[], tuple[Path, str]]
    configure: Callable[[Path, list[ChildSpec]], None] = lambda *_: None
    command: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    up: str = ""  # the file that appears when it is up
    stop: signal.Signals = signal.SIGTERM
    watcher: str = ""  # its name for the process between it and each child, if there is one
    name: str = ""
    bare: bool = True  # whether it runs the tiny child, too


class Peer:
    """A supervisor in a folder of its own; `begin` and `stop` may be called again and again."""

    def __init__(self, row: Row, folder: Path, pipe: ReadyPipe) -> None:
        self.row, self.key, self.name = row, row.key, row.name or row.key
        self.folder, self.pipe = folder, pipe
        self.bin, self.version = row.install()
        self.process: subprocess.Popen[bytes] | None = None

    def begin(self, children: list[ChildSpec]) -> None:
        """Configure and start it; children need not be up yet."""
        self.folder.mkdir(parents=True, exist_ok=True)
        up = self.folder / self.row.up
        if self.row.up:
            up.unlink(missing_ok=True)
        self.row.configure(self.folder, children)
        places = {"bin": self.bin, "folder": self.folder, "path": os.environ["PATH"]}
        env = {name: value.format(**places) for name, value in self.row.env.items()}
        self.launch(*(word.format(**places) for word in self.row.command), **env)
        wait_for(up.exists, 30)

    def top(self) -> psutil.Process:
        """Return the process that a user would call the supervisor."""
        assert self.process is not None
        return psutil.Process(self.process.pid)

    def own(self) -> list[psutil.Process]:
        """Return all its processes, without the children and their descendants."""
        found = processes.tree(self.top().pid)
        children = [one for one in found if self._is_child(one)]
        theirs = {one.pid for child in children for one in processes.tree(child.pid)}
        return [one for one in found if one.pid not in theirs]

    def pids(self, names: list[str]) -> list[int]:
        """Return the pids of children that reported, as the bench sees them."""
        return [self.pipe.last[name].pid for name in names]

    def stop(self) -> None:
        """Stop it as its users do, and end what is left of it by force."""
        if self.process is None:
            return
        left = processes.tree(self.process.pid)
        if self.process.poll() is None:
            self.ask_to_end()
            try:
                self.process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(STOP_S)
        processes.end(one for one in left if processes.alive(one))
        self.process = None

    def ask_to_end(self) -> None:
        assert self.process is not None
        self.process.send_signal(self.row.stop)

    def launch(self, *command: str, stdout: int | None = None, **env: str) -> None:
        """Start a command line in its folder, away from this terminal, with bounded output."""
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(STEERING)}
        with (self.folder / "output").open("ab") as output:
            self.process = subprocess.Popen(
                command,
                cwd=self.folder,
                env=inherited | env,
                stdin=subprocess.PIPE,
                stdout=output if stdout is None else stdout,
                stderr=output,
                start_new_session=True,
            )
        limit = (OUTPUT_BYTES_MAX, OUTPUT_BYTES_MAX)
        resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, limit)

    def tail(self) -> str:
        """Return its last output, for an error."""
        output = self.folder / "output"
        return output.read_text(errors="replace")[-600:] if output.exists() else ""

    def _is_child(self, process: psutil.Process) -> bool:
        return str(CHILD) in processes.command(process)


def fresh(folder: Path) -> Path:
    """Return an empty folder, whatever an earlier start left in it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
