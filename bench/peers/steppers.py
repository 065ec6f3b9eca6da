"""Programs that do durable steps as the bench asks them to: started, heard, killed, started again, gone.

Knows how each peer is started and which files it keeps; not what is measured (`durable`).
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import psutil
from bench.home import Home, command_agent, wait_for
from bench.peers.install import MissingError, venv

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HERE = Path(__file__).parent
WAIT_S = 120.0
TIMES = 500  # how often an agent tries what fails each time
CONFIG = """
[daemon]
max_workers = 64
settle_s = 0.02
[limits]
max_actions = 1000000
[restart]
max_restarts = 1000
"""


class Wire:
    """One workflow's connection, as the bench has it."""

    def __init__(self, connected: socket.socket) -> None:
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connected.settimeout(WAIT_S)
        self._socket, self._file = connected, connected.makefile("r")
        self.workflow = self.hear("workflow")["workflow"]
        self.said: list[dict[str, Any]] = []  # what was not asked for

    def ask(self, steps: int, *, tell: bool = False) -> None:
        self._socket.sendall((json.dumps({"steps": steps, "tell": tell}) + "\n").encode())

    def hear(self, key: str) -> dict[str, Any]:
        """Wait for the next message that has this key; what comes before it is kept in `said`."""
        while line := self._file.readline():
            message: dict[str, Any] = json.loads(line)
            if key in message:
                return message
            self.said.append(message)
        raise ConnectionError(f"a program ended before it said {key!r}")

    def rest(self) -> list[dict[str, Any]]:
        """What was said before the program ended; waits for its end."""
        said = []
        try:
            while line := self._file.readline():
                said.append(json.loads(line))
        except (OSError, ValueError):  # it was cut off in a word
            return said
        return said

    def close(self) -> None:
        self._file.close()
        self._socket.close()


class Program(Protocol):
    """What does the steps: started and killed as often as one likes."""

    workflows: int
    folder: Path

    def start(self, port: int) -> None: ...
    def kill(self) -> None: ...
    def processes(self) -> list[psutil.Process]: ...
    def database(self) -> list[Path]: ...
    def effects(self) -> list[Path]: ...
    def log(self) -> str: ...


class Script:
    """A peer's program, in the peer's own environment."""

    def __init__(
        self, folder: Path, workflows: int, python: Path, script: str, *options: str
    ) -> None:
        self.folder, self.workflows = folder, workflows
        self._command = [str(python), str(HERE / script), str(folder)]
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, port: int) -> None:
        command = [*self._command, str(port), str(self.workflows), *self._options]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command, cwd=self.folder, stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )

    def kill(self) -> None:
        if self._process:
            self._process.kill()
            self._process.wait(WAIT_S)

    def processes(self) -> list[psutil.Process]:
        assert self._process
        return _tree(self._process.pid)

    def database(self) -> list[Path]:
        return list(self.folder.glob("*.sqlite*"))

    def effects(self) -> list[Path]:
        return list(self.folder.glob("*.effects"))

    def log(self) -> str:
        path = self.folder / "log"
        return path.read_text(errors="replace") if path.exists() else ""


class Clew:
    """A daemon on a home of its own, with a goal for each workflow and an agent with its own tools."""

    def __init__(
        self, folder: Path, workflows: int, config: str = CONFIG, script: str = "steps_clew.py"
    ) -> None:
        self.folder, self.workflows = folder, workflows
        self._config, self._script = config, script
        self._home: Home | None = None

    def start(self, port: int) -> None:
        agent = command_agent("steps", HERE / self._script, str(port), str(TIMES))
        if self._home is None:
            self._home = Home(self.folder, self._config + agent)
            for index in range(self.workflows):
                self._home.drop(
                    f"work-{index}.md", f"---\nagent: steps\n---\n# Work {index}\nsteps\n"
                )
        with self._home.log.open("a") as log:
            self._home.daemon = subprocess.Popen(
                self._home.command("run"), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def kill(self) -> None:
        """SIGKILL, and wait until its workers have gone with it."""
        if self._home and self._home.daemon and self._home.daemon.poll() is None:
            left = self.processes()
            self._home.stop(signal.SIGKILL)
            wait_for(lambda: not any(alive(process) for process in left), every_s=0.002)

    def processes(self) -> list[psutil.Process]:
        assert self._home
        assert self._home.daemon
        return _tree(self._home.daemon.pid)

    def agents(self) -> list[psutil.Process]:
        """Those that do the steps, not the processes around them."""
        return [p for p in self.processes() if self._script in " ".join(_command(p))]

    def asked(self, *arguments: str) -> Any:
        """What the command line says of this home."""
        assert self._home
        command = self._home.command(*arguments, "--json")
        return json.loads(
            subprocess.run(command, check=True, capture_output=True, timeout=60).stdout
        )

    def database(self) -> list[Path]:
        return list((self.folder / "state").glob("ledger.db*"))

    def effects(self) -> list[Path]:
        return list(self.folder.glob("workspaces/*/*.effects"))

    def log(self) -> str:
        return self._home.log.read_text(errors="replace") if self._home else ""


@dataclass(frozen=True, slots=True)
class Kind:
    """A peer in one of its ways to do a step."""

    peer: str
    name: str
    make: Callable[[Path, int], Program]


class Running:
    """A program and the connections of its workflows."""

    def __init__(self, kind: Kind, program: Program) -> None:
        self.kind, self.program = kind, program
        self.wires: list[Wire] = []
        self._server = socket.create_server(("127.0.0.1", 0), backlog=128)

    def start(self) -> float:
        """Start the program; gives the moment of its launch."""
        launched = time.monotonic()
        self.program.start(self._server.getsockname()[1])
        return launched

    def connect(self) -> None:
        """Wait until every workflow can begin its next step."""
        self.wires = [self.accept() for _ in range(self.program.workflows)]

    def accept(self) -> Wire:
        """Wait for one workflow's connection."""
        if wire := self.accept_within(WAIT_S):
            return wire
        end = self.program.log()[-2000:]
        raise TimeoutError(f"{self.kind.name} does not begin:\n{end}")

    def accept_within(self, patience_s: float) -> Wire | None:
        """One workflow's connection; None where none comes, or the program has ended."""
        until = time.monotonic() + patience_s
        while self.program.processes():
            self._server.settimeout(min(1.0, max(0.01, until - time.monotonic())))
            with suppress(TimeoutError):
                return Wire(self._server.accept()[0])
            if time.monotonic() > until:
                break
        return None

    def steps(self, count: int) -> list[float]:
        """Do so many steps in each workflow; how long each took, in seconds."""
        try:
            for wire in self.wires:
                wire.ask(count)
            return [took for wire in self.wires for took in wire.hear("took_s")["took_s"]]
        except OSError as error:
            end = self.program.log()[-2000:]
            raise RuntimeError(f"{self.kind.name} did not do its steps: {error}\n{end}") from None

    def kill(self) -> None:
        """SIGKILL, and wait until all of it has gone."""
        self.program.kill()
        for wire in self.wires:
            wire.close()
        self.wires = []

    def end(self) -> None:
        self.kill()
        self._server.close()

    def size_mb(self) -> float:
        """What it keeps on the disk."""
        return sum(path.stat().st_size for path in self.program.database()) / 1e6


PACKAGES = {"dbos": ("dbos",), "langgraph": ("langgraph", "langgraph-checkpoint-sqlite")}
GRAPH = "steps_langgraph.py"
WAYS = {
    "dbos": ("dbos", "DBOS", "steps_dbos.py"),
    "dbos-wal": ("dbos", "DBOS, its file set to WAL by hand", "steps_dbos.py", "--wal"),
    "dbos-two": ("dbos", "DBOS, the decision a step of its own", "steps_dbos.py", "--decide"),
    "langgraph": ("langgraph", "LangGraph, growing list", GRAPH),
    "langgraph-delta": ("langgraph", "LangGraph, DeltaChannel", GRAPH, "--state", "delta"),
    "langgraph-constant": ("langgraph", "LangGraph, no list", GRAPH, "--state", "constant"),
    "langgraph-two": (
        *("langgraph", "LangGraph, no list, the decision a node of its own", GRAPH),
        *("--state", "constant", "--decide"),
    ),
}
NAMES = {"clew": "clew", **{way: name for way, (_, name, *_) in WAYS.items()}}


def kinds(peers: list[str]) -> tuple[dict[str, Kind], dict[str, str]]:
    """What can be measured here, by a short name for each way, and why the rest cannot."""
    found: dict[str, Kind] = {}
    missing: dict[str, str] = {}
    if "clew" in peers:
        found["clew"] = Kind("clew", "clew", Clew)
    pythons: dict[str, Path] = {}
    for peer, packages in PACKAGES.items():
        if peer in peers:
            try:
                pythons[peer] = venv(peer, *packages) / "python"
            except MissingError as error:
                missing[peer] = str(error)
    for way, (peer, name, script, *how) in WAYS.items():
        if peer in pythons:
            found[way] = _script(peer, name, pythons[peer], script, *how)
    return found, missing


def _script(peer: str, name: str, python: Path, script: str, *options: str) -> Kind:
    return Kind(
        peer, name, lambda folder, workflows: Script(folder, workflows, python, script, *options)
    )


@contextmanager
def running(*wanted: tuple[Kind, int]) -> Iterator[list[Running]]:
    """Programs with so many workflows each, on folders of their own; started, and ended on every path."""
    with ExitStack() as stack:
        everyone = []
        for kind, workflows in wanted:
            folder = stack.enter_context(folder_on_disk())
            one = Running(kind, kind.make(folder, workflows))
            stack.callback(one.end)
            one.start()
            everyone.append(one)
        for one in everyone:
            one.connect()
        yield everyone


@contextmanager
def folder_on_disk() -> Iterator[Path]:
    """A folder under BENCH_DIR (/var/tmp: a disk, not memory), removed afterwards."""
    where = os.environ.get("BENCH_DIR", "/var/tmp")
    folder = Path(tempfile.mkdtemp(prefix="clew-bench-", dir=where))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _tree(pid: int) -> list[psutil.Process]:
    try:
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)] if alive(process) else []
    except psutil.NoSuchProcess:
        return []


def alive(process: psutil.Process) -> bool:
    """Is it there, and no zombie?"""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []
