"""What all supervisors have in common here: started with children, asked for its own processes, ended.

A peer is a small class: how it is installed, which files tell it to keep these children up, and its command line.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
from bench.peers import processes

if TYPE_CHECKING:
    from bench.peers.said import Said

CHILD = Path(__file__).parent / "child.py"
OUTPUT_BYTES_MAX = 256 << 20
STOP_S = 20.0


@dataclass(frozen=True, slots=True)
class Child:
    """A program to keep up."""

    name: str
    kind: str
    pipe: Path

    @property
    def argv(self) -> list[str]:
        return [sys.executable, "-I", "-B", str(CHILD), self.name, str(self.pipe), self.kind]


class Peer:
    """One supervisor in a folder of its own; `start` and `stop` may be called again and again."""

    name = ""
    key = ""
    setting = ""  # what keeps a child up, and the defaults that its restart depends on
    watcher = ""  # what it calls the process between it and each child, if there is one
    bare = True  # whether it runs the tiny child, too
    version = ""

    def __init__(self, folder: Path, said: Said) -> None:
        self.folder = folder
        self.said = said
        self.process: subprocess.Popen[bytes] | None = None

    def install(self) -> str:
        """Have it in its environment; gives its version; raises MissingError."""
        raise NotImplementedError

    def begin(self, children: list[Child]) -> None:
        """Write what it is told and start it; children need not be up yet."""
        raise NotImplementedError

    def top(self) -> psutil.Process:
        """The process that a user would call the supervisor."""
        assert self.process is not None
        return psutil.Process(self.process.pid)

    def own(self) -> list[psutil.Process]:
        """All its processes, without the children and what is beneath them."""
        found = processes.tree(self.top().pid)
        theirs = {one.pid for child in found if self._is_child(child) for one in tree_of(child)}
        return [one for one in found if one.pid not in theirs]

    def pids(self, names: list[str]) -> list[int]:
        """The processes of children that said that they are up, by the pids that the bench sees."""
        return [self.said.last[name].pid for name in names]

    def stop(self) -> None:
        """End it as its users do, and what is left of it by force."""
        if self.process is None:
            return
        left = processes.tree(self.process.pid)
        if self.process.poll() is None:
            self.ask_to_end()
            self._wait()
        processes.end(one for one in left if processes.alive(one))
        self.process.poll()
        self.process = None

    def ask_to_end(self) -> None:
        assert self.process is not None
        self.process.terminate()

    def launch(self, *command: str, stdout: int | None = None, **env: str) -> None:
        """Start its command line in its folder, away from this terminal, with bounded output."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "output").open("ab") as output:
            self.process = subprocess.Popen(
                command,
                cwd=self.folder,
                env=environment() | env,
                stdin=subprocess.PIPE,
                stdout=output if stdout is None else stdout,
                stderr=output,
                start_new_session=True,
            )
        limit = (OUTPUT_BYTES_MAX, OUTPUT_BYTES_MAX)
        resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, limit)

    def fresh(self, name: str) -> Path:
        """Name a folder in its folder that is not there yet, whatever an earlier start left."""
        self.folder.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(self.folder / name, ignore_errors=True)
        return self.folder / name

    def tail(self) -> str:
        """What it said last, for an error."""
        output = self.folder / "output"
        return output.read_text(errors="replace")[-600:] if output.exists() else ""

    def _is_child(self, process: psutil.Process) -> bool:
        return str(CHILD) in processes.command(process)

    def _wait(self) -> None:
        assert self.process is not None
        try:
            self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(STOP_S)


def tree_of(process: psutil.Process) -> list[psutil.Process]:
    return processes.tree(process.pid)


def environment() -> dict[str, str]:
    """What a peer inherits: nothing that steers clew, a service manager, or the peer itself."""
    steering = ("CLEW_", "NOTIFY_", "PM2_", "pm_", "PYTHON")
    return {name: value for name, value in os.environ.items() if not name.startswith(steering)}


def wait_for_file(path: Path, timeout_s: float = 30.0) -> None:
    """Wait until a file is there that a peer makes when it is up."""
    until = time.monotonic() + timeout_s
    while not path.exists():
        if time.monotonic() > until:
            raise TimeoutError(f"{path.name} does not appear")
        time.sleep(0.02)
